//! A longer wire: passes TCP connections on and delivers every byte later by a fixed time, each way. It never makes anybody
//! wait for more than that time: any number of bytes may be on the way. Opening a connection to it takes no such time.

use std::{io, time::Duration};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{process::Process, report};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to pass connections on to
    #[arg(long)]
    to: String,
    /// How much later each byte arrives, in milliseconds
    #[arg(long)]
    delay: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        report::line(&listener.local_addr()?.to_string())?;
        let delay = Duration::from_millis(args.delay);
        let mut connections = JoinSet::new();
        loop {
            let (near, _) = listener.accept().await?;
            let to = args.to.clone();
            // How a connection ends is for its two ends to tell.
            connections.spawn(async move { drop(pass(near, &to, delay).await) });
        }
    })
}

/// A relay in a process of its own.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) process: Process,
    pub(crate) address: String,
}

impl Relay {
    pub(crate) fn start(to: &str, delay: Duration) -> Result<Self> {
        let args = ["relay", "--to", to, "--delay", &delay.as_millis().to_string()];
        let mut process = Process::start_self("relay", &args.map(str::to_owned))?;
        let address = process.line()?;
        Ok(Self { process, address })
    }
}

async fn pass(near: TcpStream, to: &str, delay: Duration) -> Result<()> {
    let far = TcpStream::connect(to).await.with_context(|| format!("connect to {to}"))?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
    tokio::try_join!(later(near_read, far_write, delay), later(far_read, near_write, delay))?;
    Ok(())
}

/// Copies until the end; each piece is written when it has been here for the delay.
async fn later(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, delay: Duration) -> io::Result<()> {
    let (arrived, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(ON_THE_WAY);
    let read = async move {
        loop {
            let mut piece = Vec::with_capacity(PIECE);
            if from.read_buf(&mut piece).await? == 0 || arrived.send((Instant::now() + delay, piece)).await.is_err() {
                return io::Result::Ok(());
            }
        }
    };
    let write = async move {
        while let Some((at, piece)) = due.recv().await {
            sleep_until(at).await;
            to.write_all(&piece).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write)?;
    Ok(())
}

const PIECE: usize = 64 << 10;
/// Pieces in one direction that have been read and are not due: more than a measurement has on its way.
const ON_THE_WAY: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    #[tokio::test(start_paused = true)]
    async fn bytes_arrive_in_order_and_none_before_its_time() {
        const DELAY: Duration = Duration::from_millis(25);
        let (mut client, near) = duplex(64);
        let (far, mut server) = duplex(64);
        let mut relay = JoinSet::new();
        relay.spawn(later(near, far, DELAY));
        for message in ["one", "and two"] {
            let sent = Instant::now();
            client.write_all(message.as_bytes()).await.unwrap();
            let mut got = vec![0; message.len()];
            server.read_exact(&mut got).await.unwrap();
            assert_eq!(got, message.as_bytes());
            assert_eq!(sent.elapsed(), DELAY);
        }
        client.shutdown().await.unwrap();
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        relay.join_next().await.unwrap().unwrap().unwrap();
    }
}
