//! What streams that nobody reads do to the others: the same pinger and downloads without and with them, in turn, so
//! that a drift of the machine meets both alike.

use std::{io, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet, time::sleep};

use super::{
    bulk::Background,
    mixed::{Phase, SETTLE, under_load},
};
use crate::{latency::Latency, order::Order, route::Route, sink::BULK_BUFFER};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) bulk: usize,
    pub(crate) stalled: usize,
    pub(crate) rate: u32,
    pub(crate) phase: Duration,
    pub(crate) pairs: usize,
}

pub(crate) async fn run(route: &Route, plan: Plan) -> Result<Value> {
    let background = Background::start(route, plan.bulk).await?;
    let (mut free, mut stalled) = (Tally::default(), Tally::default());
    for _ in 0..plan.pairs {
        sleep(SETTLE).await;
        free.add(under_load(route, &background, plan.rate, plan.phase).await?);
        let blocked = Blocked::start(route, plan).await?;
        sleep(SETTLE).await;
        stalled.add(under_load(route, &background, plan.rate, plan.phase).await?);
        drop(blocked);
    }
    background.stop().await?;
    Ok(json!({
        "mode": "stall",
        "bulk": plan.bulk,
        "stalled": plan.stalled,
        "without": free.finish()?,
        "with": stalled.finish()?,
    }))
}

#[derive(Default)]
struct Tally {
    bytes: u64,
    seconds: f64,
    pings: Vec<Duration>,
}

impl Tally {
    fn add(&mut self, phase: Phase) {
        self.bytes += phase.bytes.iter().sum::<u64>();
        self.seconds += phase.seconds;
        self.pings.extend(phase.pings);
    }

    fn finish(self) -> Result<Value> {
        let rate = self.bytes as f64 / self.seconds / 1e6;
        Ok(json!({ "mb_per_s": rate, "ping": Latency::of(self.pings)?.to_json() }))
    }
}

/// Streams that stopped for want of a reader at one end; closed when dropped.
struct Blocked {
    _unread: Vec<TcpStream>,
    _unheard: JoinSet<io::Result<()>>,
}

impl Blocked {
    async fn start(route: &Route, plan: Plan) -> Result<Self> {
        let deaf = u64::try_from((SETTLE * 2 + plan.phase).as_millis()).context("--seconds")?;
        let (mut unread, mut unheard) = (Vec::new(), JoinSet::new());
        for _ in 0..plan.stalled {
            unread.push(route.start(Order::ENDLESS).await?);
            unheard.spawn(push(route.start(Order::Deaf(deaf)).await?));
        }
        Ok(Self { _unread: unread, _unheard: unheard })
    }
}

async fn push(mut stream: TcpStream) -> io::Result<()> {
    let buffer = vec![0; BULK_BUFFER];
    loop {
        stream.write_all(&buffer).await?;
    }
}
