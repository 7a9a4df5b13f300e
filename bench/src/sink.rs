//! The far end of every measurement. It does as little as it can, so that it is not what is measured.

use std::{
    io::{self, Read as _, Write as _},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{JoinSet, yield_now},
};

use crate::order::Order;

/// Read and write size of bulk streams, on both ends.
pub(crate) const BULK_BUFFER: usize = 256 << 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen; port 0 means any
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(&args.listen).await.with_context(|| format!("listen on {}", args.listen))?;
        crate::report::line(&listener.local_addr()?.to_string())?;
        accept(&listener).await
    })
}

async fn accept(listener: &TcpListener) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        // A client that goes away early is how most measurements end: not an error here.
        connections.spawn(async move { drop(serve(stream).await) });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = [0; Order::LEN];
    stream.read_exact(&mut head).await?;
    match Order::decode(head)? {
        Order::Download(bytes) => download(stream, bytes).await,
        Order::Upload(bytes) => upload(stream, bytes).await,
        Order::Echo => echo(stream).await,
        Order::Hold => {
            stream.write_all(b"!").await?;
            stream.read(&mut [0]).await.map(drop)
        }
        Order::Deaf(millis) => {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Ok(())
        }
    }
}

async fn download(mut stream: TcpStream, bytes: u64) -> io::Result<()> {
    let buffer = vec![0x5a; BULK_BUFFER];
    let mut left = bytes;
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let chunk = buffer.get(..size).unwrap_or_default();
        stream.write_all(chunk).await?;
        left -= size as u64;
        // Turns, not bursts: a task that never waits would keep its thread for many writes.
        yield_now().await;
    }
    stream.shutdown().await?;
    stream.read(&mut [0]).await.map(drop)
}

async fn upload(mut stream: TcpStream, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; BULK_BUFFER];
    let mut left = bytes;
    while left > 0 {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            read => left = left.saturating_sub(read as u64),
        }
    }
    stream.write_all(b"!").await
}

/// On a thread of its own: bulk streams beside it must not delay the answers at this end.
async fn echo(stream: TcpStream) -> io::Result<()> {
    let mut stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    let pong = move || -> io::Result<()> {
        let mut buffer = [0; 4 << 10];
        loop {
            let read = stream.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            stream.write_all(buffer.get(..read).unwrap_or_default())?;
        }
    };
    tokio::task::spawn_blocking(pong).await?
}
