//! Bulk transfers: fixed amounts for throughput, and endless downloads to be measured beside.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::{JoinSet, yield_now},
    time::Instant,
};

use crate::{order::Order, route::Route, sink::BULK_BUFFER};

pub(crate) async fn download(route: &Route, streams: usize, bytes: u64) -> Result<Value> {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..streams {
        let stream = route.start(Order::Download(bytes)).await?;
        tasks.spawn(take(stream, bytes));
    }
    finish("down", tasks, streams, bytes, started).await
}

pub(crate) async fn upload(route: &Route, streams: usize, bytes: u64) -> Result<Value> {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..streams {
        let stream = route.start(Order::Upload(bytes)).await?;
        tasks.spawn(give(stream, bytes));
    }
    finish("up", tasks, streams, bytes, started).await
}

async fn finish(
    mode: &str,
    mut tasks: JoinSet<Result<()>>,
    streams: usize,
    bytes: u64,
    started: Instant,
) -> Result<Value> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let total = bytes.saturating_mul(streams as u64);
    Ok(json!({
        "mode": mode,
        "streams": streams,
        "bytes": total,
        "seconds": seconds,
        "mb_per_s": total as f64 / seconds / 1e6,
    }))
}

async fn take(mut stream: TcpStream, bytes: u64) -> Result<()> {
    let mut buffer = vec![0; BULK_BUFFER];
    let mut left = bytes;
    while left > 0 {
        match stream.read(&mut buffer).await? {
            0 => bail!("the download ended {left} bytes early"),
            read => left = left.checked_sub(read as u64).context("the download is too long")?,
        }
    }
    if stream.read(&mut buffer).await? != 0 {
        bail!("the download is too long");
    }
    Ok(())
}

async fn give(mut stream: TcpStream, bytes: u64) -> Result<()> {
    let buffer = vec![0xa5; BULK_BUFFER];
    let mut left = bytes;
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        stream.write_all(buffer.get(..size).unwrap_or_default()).await?;
        left -= size as u64;
    }
    stream.read_u8().await.context("the upload was not acknowledged")?;
    Ok(())
}

// === Background ===

/// Endless downloads that run until this is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    counters: Vec<Arc<AtomicU64>>,
    tasks: JoinSet<io::Result<()>>,
}

impl Background {
    pub(crate) async fn start(route: &Route, streams: usize) -> Result<Self> {
        let mut background = Self { counters: Vec::new(), tasks: JoinSet::new() };
        for _ in 0..streams {
            let stream = route.start(Order::ENDLESS).await?;
            let counter = Arc::new(AtomicU64::new(0));
            background.counters.push(Arc::clone(&counter));
            background.tasks.spawn(count(stream, counter));
        }
        Ok(background)
    }

    /// Bytes of each stream so far.
    pub(crate) fn bytes(&self) -> Vec<u64> {
        self.counters.iter().map(|counter| counter.load(Ordering::Relaxed)).collect()
    }

    /// Ends the downloads; an error if one of them had ended before.
    pub(crate) async fn stop(mut self) -> Result<()> {
        if let Some(ended) = self.tasks.try_join_next() {
            ended??;
            bail!("an endless download ended");
        }
        self.tasks.shutdown().await;
        Ok(())
    }
}

async fn count(mut stream: TcpStream, counter: Arc<AtomicU64>) -> io::Result<()> {
    let mut buffer = vec![0; BULK_BUFFER];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            read => counter.fetch_add(read as u64, Ordering::Relaxed),
        };
        // Each stream in turn, as if each had a reader of its own.
        yield_now().await;
    }
}
