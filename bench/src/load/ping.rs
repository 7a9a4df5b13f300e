//! 64-byte round trips: in a closed loop to see the best the path can do, in an open loop to see what other traffic
//! does to it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::tcp::{OwnedReadHalf, OwnedWriteHalf},
    task::JoinSet,
    time::{Instant, interval, timeout},
};

use crate::{latency::Latency, order::Order, route::Route};

const MESSAGE: usize = 64;
const STAMP: usize = 8;
/// How long the last answers may take.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn closed_loop(route: &Route, streams: usize, phase: Duration) -> Result<Value> {
    let mut tasks = JoinSet::new();
    for _ in 0..streams {
        let mut stream = route.start(Order::Echo).await?;
        tasks.spawn(async move {
            let mut samples = Vec::new();
            let mut message = [7; MESSAGE];
            let started = Instant::now();
            while started.elapsed() < phase {
                let sent = Instant::now();
                stream.write_all(&message).await?;
                stream.read_exact(&mut message).await?;
                samples.push(sent.elapsed());
            }
            anyhow::Ok(samples)
        });
    }
    let mut samples = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        samples.extend(ended??);
    }
    Ok(json!({ "mode": "echo", "streams": streams, "ping": Latency::of(samples)?.to_json() }))
}

/// Pings at a fixed rate, on a thread of its own so that other load of this process does not delay it.
pub(crate) async fn open_loop(route: &Route, rate: u32, phase: Duration) -> Result<Vec<Duration>> {
    let route = route.clone();
    let pinger = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(paced(&route, rate, phase))
    });
    pinger.await?
}

async fn paced(route: &Route, rate: u32, phase: Duration) -> Result<Vec<Duration>> {
    let period = Duration::from_secs(1).checked_div(rate).context("--rate is 0")?;
    let count = phase.as_nanos() / period.as_nanos().max(1);
    let (reader, writer) = route.start(Order::Echo).await?.into_split();
    let clock = Instant::now();
    let (sent, samples) =
        tokio::join!(send(writer, clock, period, count), timeout(phase + PATIENCE, receive(reader, clock, count)));
    // The writing half stays open until every answer is here.
    let _writer = sent?;
    samples.context("the pinger got no answer")?
}

async fn send(mut writer: OwnedWriteHalf, clock: Instant, period: Duration, count: u128) -> Result<OwnedWriteHalf> {
    let mut ticks = interval(period);
    let mut message = [0; MESSAGE];
    for _ in 0..count {
        ticks.tick().await;
        let stamp = u64::try_from(clock.elapsed().as_nanos())?.to_be_bytes();
        message.iter_mut().zip(stamp).for_each(|(byte, stamp)| *byte = stamp);
        writer.write_all(&message).await?;
    }
    Ok(writer)
}

async fn receive(mut reader: OwnedReadHalf, clock: Instant, count: u128) -> Result<Vec<Duration>> {
    let mut samples = Vec::new();
    let mut message = [0; MESSAGE];
    for _ in 0..count {
        reader.read_exact(&mut message).await?;
        let stamp: [u8; STAMP] = *message.first_chunk().context("the stamp is missing")?;
        samples.push(clock.elapsed().saturating_sub(Duration::from_nanos(u64::from_be_bytes(stamp))));
    }
    Ok(samples)
}
