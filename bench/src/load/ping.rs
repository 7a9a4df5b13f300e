//! 64-byte round trips: in a closed loop to see the best the path can do, in an open loop to see what other traffic
//! does to it.

use std::{io::Read as _, thread, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::oneshot,
    task::JoinSet,
    time::{Instant, interval, sleep, timeout},
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
    for _ in 0..count {
        ticks.tick().await;
        writer.write_all(&stamped(clock)?).await?;
    }
    Ok(writer)
}

async fn receive(mut reader: OwnedReadHalf, clock: Instant, count: u128) -> Result<Vec<Duration>> {
    let mut samples = Vec::new();
    let mut message = [0; MESSAGE];
    for _ in 0..count {
        reader.read_exact(&mut message).await?;
        samples.push(since_stamp(&message, clock)?);
    }
    Ok(samples)
}

/// A message that says when it was sent.
fn stamped(clock: Instant) -> Result<[u8; MESSAGE]> {
    let stamp = u64::try_from(clock.elapsed().as_nanos())?.to_be_bytes();
    let mut message = [0; MESSAGE];
    message.iter_mut().zip(stamp).for_each(|(byte, stamp)| *byte = stamp);
    Ok(message)
}

fn since_stamp(message: &[u8; MESSAGE], clock: Instant) -> Result<Duration> {
    let stamp: [u8; STAMP] = *message.first_chunk().context("the stamp is missing")?;
    Ok(clock.elapsed().saturating_sub(Duration::from_nanos(u64::from_be_bytes(stamp))))
}

// === Until told ===

/// How long the target may be out of reach at first.
const OUT_OF_REACH: Duration = Duration::from_secs(120);

/// Pings at a fixed rate, from when the target can be reached until standard input closes.
pub(crate) async fn until_told(route: &Route, rate: u32) -> Result<Value> {
    let period = Duration::from_secs(1).checked_div(rate).context("--rate is 0")?;
    let (reader, mut writer) = timeout(OUT_OF_REACH, reach(route)).await?.into_split();
    let clock = Instant::now();
    let sending = async {
        let (mut told, mut ticks, mut sent) = (stdin_closed(), interval(period), 0);
        loop {
            tokio::select! {
                biased;
                _ = &mut told => break,
                _ = ticks.tick() => {}
            }
            writer.write_all(&stamped(clock)?).await?;
            sent += 1;
        }
        // The far end closes when it has answered everything.
        writer.shutdown().await?;
        anyhow::Ok(sent)
    };
    let (sent, samples) = tokio::join!(sending, receive_all(reader, clock));
    let (sent, samples) = (sent?, samples?);
    if samples.len() != sent {
        bail!("{sent} pings were sent, {} were answered", samples.len());
    }
    Ok(json!({ "mode": "paced", "seconds": clock.elapsed().as_secs_f64(), "ping": Latency::of(samples)?.to_json() }))
}

async fn reach(route: &Route) -> TcpStream {
    loop {
        match route.start(Order::Echo).await {
            Ok(stream) => return stream,
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

/// On a thread that does not keep the process from ending.
fn stdin_closed() -> oneshot::Receiver<()> {
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        let _ = tell.send(());
    });
    told
}

async fn receive_all(mut reader: OwnedReadHalf, clock: Instant) -> Result<Vec<Duration>> {
    let mut samples = Vec::new();
    let mut message = [0; MESSAGE];
    while reader.read_exact(&mut message).await.is_ok() {
        samples.push(since_stamp(&message, clock)?);
    }
    Ok(samples)
}
