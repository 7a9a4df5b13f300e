//! A wire between agent and hub that delays, chops, stalls and cuts, all from a seed.

use mctunnel_testkit::Rng;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};

/// How many connections are cut before one is left alone, so that a run ends.
const CUTS: u64 = 4;
/// A connection is cut after so many bytes in one direction, at the least and at the most.
const CUT_AFTER: (u64, u64) = (300_000, 6_000_000);

/// Passes TCP connections on, badly.
pub(crate) struct BadWire {
    pub(crate) address: String,
    cuts: Arc<AtomicU64>,
    _task: JoinSet<()>,
}

impl BadWire {
    pub(crate) async fn start(to: &str, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (to, cuts) = (to.to_owned(), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&cuts);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut passing = JoinSet::new();
            let mut connection = 0;
            while let Ok((near, _)) = listener.accept().await {
                connection += 1;
                let faults = Rng::new(seed.wrapping_mul(1_000_003) + connection);
                passing.spawn(pass(near, to.clone(), faults, Arc::clone(&count)));
            }
        });
        Self { address, cuts, _task: task }
    }

    /// Connections that were cut.
    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }
}

async fn pass(near: TcpStream, to: String, mut faults: Rng, cuts: Arc<AtomicU64>) {
    let Ok(far) = TcpStream::connect(to).await else { return };
    let will_be_cut = cuts.load(Ordering::SeqCst) < CUTS;
    let limit = |faults: &mut Rng| if will_be_cut { faults.within(CUT_AFTER.0, CUT_AFTER.1) } else { u64::MAX };
    let (up, down) = (limit(&mut faults), limit(&mut faults));
    let with_reset = faults.percent(50);
    let (up_faults, down_faults) = (faults.fork(), faults.fork());
    let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
    let ended = tokio::select! {
        ended = carry(near_read, far_write, up, up_faults) => ended,
        ended = carry(far_read, near_write, down, down_faults) => ended,
    };
    let (read, write) = ended;
    // A reset, or an end that looks as if somebody had hung up: TLS tells it from a clean one.
    if with_reset {
        let _ = read.as_ref().set_zero_linger();
        let _ = write.as_ref().set_zero_linger();
    }
    if will_be_cut {
        cuts.fetch_add(1, Ordering::SeqCst);
    }
}

/// Carries bytes in odd pieces until the end or the limit; gives the two halves back, so that the caller decides how they end.
async fn carry(
    mut read: OwnedReadHalf,
    mut write: OwnedWriteHalf,
    mut left: u64,
    mut faults: Rng,
) -> (OwnedReadHalf, OwnedWriteHalf) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let size = match faults.within(0, 9) {
            0 => faults.within(1, 40),
            1 | 2 => faults.within(40, 1500),
            _ => faults.within(1500, 64 * 1024),
        };
        let size = usize::try_from(size.min(left)).expect("at most the buffer");
        let Ok(count @ 1..) = read.read(&mut buffer[..size]).await else { return (read, write) };
        let pause = match faults.within(0, 399) {
            0 => faults.within(50, 150),
            1..=20 => faults.within(1, 4),
            _ => 0,
        };
        if pause > 0 {
            // tidy: sleep because delay and stall are the faults
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        if write.write_all(&buffer[..count]).await.is_err() {
            return (read, write);
        }
        left -= u64::try_from(count).expect("small");
        if left == 0 {
            return (read, write);
        }
    }
}
