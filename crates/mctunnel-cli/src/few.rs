//! A listener for a handful of clients: so many connections at once, and an error of accepting is waited out. Further ones wait to be
//! accepted, at the control socket and the agent's endpoint for reports; at the admin pages they take the place of another.

use mctunnel_core::source_of;
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::IpAddr,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    task::{AbortHandle, JoinSet},
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
            Err(error) => wait_out(&error, what).await,
        }
    }
}

/// The same for connections that are over soon, as those of probes are: nobody waits. Where all places are taken, one of the source that
/// has most of them is ended, its oldest: whoever collects places loses its own, and a probe from elsewhere is answered meanwhile.
pub(crate) async fn serve_newest<F: Future<Output = ()> + Send + 'static>(
    listener: &TcpListener,
    most: usize,
    what: &'static str,
    serve: impl Fn(TcpStream) -> F,
) {
    let mut connections = JoinSet::new();
    // In the order in which they came.
    let mut held: VecDeque<(IpAddr, AbortHandle)> = VecDeque::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((socket, peer)) => {
                held.retain(|(_, connection)| !connection.is_finished());
                if held.len() >= most
                    && let Some((_, oldest)) =
                        to_end(held.iter().map(|(source, _)| *source)).and_then(|at| held.remove(at))
                {
                    oldest.abort();
                }
                // What is to end does so when its turn comes: it waits for nothing.
                while connections.len() >= most && connections.join_next().await.is_some() {}
                held.push_back((source_of(peer.ip()), connections.spawn(serve(socket))));
            }
            Err(error) => wait_out(&error, what).await,
        }
    }
}

/// Whose connection is ended: the first of those that have as many as anybody has.
fn to_end(mut sources: impl Iterator<Item = IpAddr> + Clone) -> Option<usize> {
    let mut counts = BTreeMap::new();
    for source in sources.clone() {
        *counts.entry(source).or_insert(0_usize) += 1;
    }
    let most = counts.values().max()?;
    sources.position(|source| counts.get(&source) == Some(most))
}

async fn wait_out(error: &io::Error, what: &'static str) {
    tracing::debug!(%error, "A connection to {what} could not be accepted.");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::timeout,
    };

    /// Nothing here waits for it to pass.
    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn t40_who_has_most_places_loses_the_oldest() {
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        for (sources, ended) in [
            (&[][..], None),
            (&[1], Some(0)),
            (&[1, 2, 3], Some(0)),
            (&[1, 2, 2], Some(1)),
            (&[1, 2, 3, 3, 2], Some(1)),
            (&[1, 1, 2, 2, 2], Some(2)),
        ] {
            assert_eq!(to_end(sources.iter().map(|last| address(*last))), ended, "{sources:?}");
        }
    }

    #[tokio::test]
    async fn t40_the_newest_is_served_though_all_places_are_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&open);
        let serve = move |mut socket: TcpStream| {
            let count = Count::of(&counted);
            async move {
                // A greeting, and then nothing for ever.
                let _ = socket.write_all(&[u8::try_from(count.now()).unwrap()]).await;
                std::future::pending::<()>().await;
            }
        };
        let clients = async {
            let mut held = VecDeque::new();
            for number in 1..=5_u8 {
                let mut client = TcpStream::connect(address).await.unwrap();
                let places = timeout(LIMIT, client.read_u8()).await.expect("it is served").unwrap();
                assert_eq!(places, number.min(3), "at once");
                held.push_back(client);
            }
            for _ in 0..2 {
                let mut oldest = held.pop_front().unwrap();
                assert_eq!(timeout(LIMIT, oldest.read(&mut [0])).await.expect("it is ended").unwrap(), 0);
            }
            assert_eq!(open.load(Ordering::SeqCst), 3);
        };
        tokio::select! {
            () = serve_newest(&listener, 3, "a test", serve) => unreachable!("it serves until dropped"),
            () = clients => {}
        }
    }

    /// One connection, as long as it is there.
    struct Count(Arc<AtomicUsize>);

    impl Count {
        fn of(counted: &Arc<AtomicUsize>) -> Self {
            counted.fetch_add(1, Ordering::SeqCst);
            Self(Arc::clone(counted))
        }

        fn now(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
