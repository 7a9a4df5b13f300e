//! A listener for a handful of clients: so many connections at once, further ones wait to be accepted, and an error of accepting is
//! waited out. For the admin pages, the control socket and the agent's endpoint for reports.

use std::{io, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    task::JoinSet,
};

/// After an accept error, such as no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener.
pub(crate) trait Accept: Sync {
    /// What it gives.
    type Socket;
    /// The next one.
    fn next(&self) -> impl Future<Output = io::Result<Self::Socket>> + Send;
}

impl Accept for TcpListener {
    type Socket = TcpStream;
    async fn next(&self) -> io::Result<TcpStream> {
        Ok(self.accept().await?.0)
    }
}

impl Accept for UnixListener {
    type Socket = UnixStream;
    async fn next(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

/// Serves each connection in a task of its own, until dropped; `what` is where they come to, for the log.
pub(crate) async fn serve_few<L: Accept, F: Future<Output = ()> + Send + 'static>(
    listener: &L,
    most: usize,
    what: &'static str,
    serve: impl Fn(L::Socket) -> F,
) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= most {
            connections.join_next().await;
            continue;
        }
        match listener.next().await {
            Ok(socket) => {
                connections.spawn(serve(socket));
            }
            Err(error) => {
                tracing::debug!(%error, "A connection to {what} could not be accepted.");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
