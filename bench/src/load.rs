//! The client side: one process, one route, one kind of load, one JSON line.

mod bulk;
mod get;
mod mixed;
mod open;
mod ping;
mod stall;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, time::timeout};

use crate::{report, route::Route};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    route: Route,
    /// What to do
    #[arg(long, value_enum)]
    mode: Mode,
    /// Streams at once
    #[arg(long, default_value_t = 1)]
    streams: usize,
    /// Bytes of each stream in down and up
    #[arg(long, default_value_t = 1_000_000_000)]
    bytes: u64,
    /// How long each phase is measured in echo, open, get, turns, mixed and stall
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Pings per second in mixed, stall and paced, sent whether or not the last one was answered
    #[arg(long, default_value_t = 200)]
    rate: u32,
    /// Stalled streams of each kind in stall
    #[arg(long, default_value_t = 1)]
    stalled: usize,
    /// Pairs of phases in stall
    #[arg(long, default_value_t = 2)]
    pairs: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Downloads: throughput
    Down,
    /// Uploads: throughput
    Up,
    /// 64-byte ping-pong, each sent when the last one was answered
    Echo,
    /// Connect, exchange one byte, close
    Open,
    /// Small HTTP requests on kept-alive connections
    Get,
    /// The same, for one phase after each line on standard input
    Turns,
    /// A pinger alone, then beside bulk downloads
    Mixed,
    /// A pinger and bulk downloads, without and with streams that nobody reads
    Stall,
    /// A pinger at a fixed rate, from when the target can be reached until standard input closes
    Paced,
    /// Idle streams, kept until standard input closes
    Hold,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // One thread: a client that does little should not spend its time on waking its own threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if args.mode == Mode::Hold {
            return hold(&args.route, args.streams).await;
        }
        if args.mode == Mode::Turns {
            return get::in_turns(&args.route, args.streams, phase(args)?).await;
        }
        let outcome = timeout(DEADLINE, measure(args)).await.context("the load did not come to an end")??;
        report::line(&outcome.to_string())
    })
}

/// No measurement takes this long, unless something hangs.
const DEADLINE: Duration = Duration::from_secs(300);

async fn measure(args: &Args) -> Result<Value> {
    let route = &args.route;
    let phase = phase(args)?;
    match args.mode {
        Mode::Down => bulk::download(route, args.streams, args.bytes).await,
        Mode::Up => bulk::upload(route, args.streams, args.bytes).await,
        Mode::Echo => ping::closed_loop(route, args.streams, phase).await,
        Mode::Open => open::run(route, args.streams, phase).await,
        Mode::Get => get::closed_loop(route, args.streams, phase).await,
        Mode::Mixed => mixed::run(route, args.streams, args.rate, phase).await,
        Mode::Stall => {
            let (bulk, stalled, rate, pairs) = (args.streams, args.stalled, args.rate, args.pairs);
            stall::run(route, stall::Plan { bulk, stalled, rate, phase, pairs }).await
        }
        Mode::Paced => ping::until_told(route, args.rate).await,
        Mode::Hold | Mode::Turns => bail!("that is for whoever starts this program, who measures"),
    }
}

fn phase(args: &Args) -> Result<Duration> {
    Duration::try_from_secs_f64(args.seconds).context("--seconds")
}

async fn hold(route: &Route, count: usize) -> Result<()> {
    let mut streams = Vec::with_capacity(count);
    for index in 1..=count {
        let opened = timeout(DEADLINE, route.hold()).await.context("a stream was not opened")?;
        streams.push(opened.with_context(|| format!("stream {index} of {count}"))?);
    }
    report::line(&json!({ "mode": "hold", "held": streams.len() }).to_string())?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}
