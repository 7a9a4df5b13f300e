//! Which stack should carry the frames: tonic, or the h2 crate with gRPC framing of our own? Both ends run in this
//! process, each on one thread, over loopback TCP with TLS 1.3; the wire is the same. TLS alone shows the floor.

mod grpc;
mod http2;
mod packet;
mod plain;
mod tls;

use std::{net::TcpListener, thread};

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use tokio::time::Instant;

use self::tls::Tls;
use crate::{process::cpu_seconds_of, report::line};

/// The allocator of the mctunnel binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The messages of the tunnel, as generated from the .proto.
#[expect(
    clippy::all,
    clippy::allow_attributes_without_reason,
    unnameable_types,
    unreachable_pub,
    unused_qualifications,
    reason = "generated code"
)]
mod wire {
    tonic::include_proto!("mctunnel.tunnel.v1");
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Bytes of payload in each run
    #[arg(long, default_value_t = 1_000_000_000)]
    bytes: u64,
    /// Rounds; the stacks take turns in each
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure these alone
    #[arg(long, value_enum)]
    stack: Vec<Stack>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stack {
    Tls,
    Tonic,
    H2,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let stacks = if args.stack.is_empty() { Stack::value_variants() } else { &args.stack };
    for payload in [64 << 10, 1 << 10] {
        for round in 1..=args.rounds {
            for stack in stacks {
                let outcome = measure(*stack, payload, args.bytes)?;
                line(&format!(
                    "round {round}: {payload:>5}-byte payloads, {:<5} {:6.0} MB/s, {:.2} CPU s/GB of both ends",
                    format!("{stack:?}"),
                    outcome.mb_per_s,
                    outcome.cpu_per_gb,
                ))?;
            }
        }
    }
    Ok(())
}

struct Outcome {
    mb_per_s: f64,
    cpu_per_gb: f64,
}

/// Sends `total` bytes in messages of `payload` bytes from a client to a server.
fn measure(stack: Stack, payload: usize, total: u64) -> Result<Outcome> {
    let tls = Tls::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let (started, cpu) = (Instant::now(), cpu_seconds_of("self")?);

    let server = tls.clone();
    let receiver = thread::spawn(move || -> Result<u64> {
        runtime()?.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            match stack {
                Stack::Tls => plain::receive(listener, &server).await,
                Stack::Tonic => grpc::receive(listener, &server).await,
                Stack::H2 => http2::receive(listener, &server).await,
            }
        })
    });
    runtime()?.block_on(async {
        match stack {
            Stack::Tls => plain::send(address, &tls, payload, total).await,
            Stack::Tonic => grpc::send(address, &tls, payload, total).await,
            Stack::H2 => http2::send(address, &tls, payload, total).await,
        }
    })?;
    let received = receiver.join().map_err(|_| anyhow!("the receiver panicked"))??;
    if received != rounded(payload, total) {
        bail!("{received} of {total} bytes arrived");
    }
    let gigabytes = received as f64 / 1e9;
    Ok(Outcome {
        mb_per_s: gigabytes * 1e3 / started.elapsed().as_secs_f64(),
        cpu_per_gb: (cpu_seconds_of("self")? - cpu) / gigabytes,
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// How many messages make up `total`.
fn messages(payload: usize, total: u64) -> u64 {
    total.div_ceil(payload as u64)
}

/// `total`, in whole messages.
fn rounded(payload: usize, total: u64) -> u64 {
    messages(payload, total) * payload as u64
}

/// HTTP/2 windows of both stacks: large enough never to be the limit.
const WINDOW: u32 = 8 << 20;
/// The largest DATA frame both stacks take.
const MAX_FRAME: u32 = (1 << 20) - 1;
