//! How many records of 500 bytes a second go from sources through the spool's disk, a pipe and the receiver onto the store's disk, in one
//! process. Not through a tunnel: what is measured is what reports cost by themselves. `-- RECORDS` says how many.
#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program to run by hand")]

use mctunnel_core::ClusterName;
use mctunnel_report::{Connect, Kind, LaneConfig, Receiver, Record, Retention, Spool, Store, send};
use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

const SOURCES: u64 = 4;
/// Records that a source hands over at once.
const AT_ONCE: u64 = 200;

/// A way to the hub that counts bytes, both ways.
struct Way {
    receiver: Receiver,
    serving: parking_lot::Mutex<JoinSet<()>>,
    bytes: Arc<AtomicU64>,
}

struct Counted {
    inner: DuplexStream,
    bytes: Arc<AtomicU64>,
}

impl Counted {
    fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, out);
        self.count(out.filled().len() - before);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = &polled {
            self.count(*count);
        }
        polled
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl Connect for Way {
    type Stream = Counted;

    async fn connect(&self) -> Result<Counted, String> {
        let (ours, theirs) = tokio::io::duplex(256 << 10);
        let receiver = self.receiver.clone();
        self.serving.lock().spawn(async move {
            let cluster = ClusterName::parse("c1").expect("a name");
            let _ = receiver.serve(&cluster, theirs).await;
        });
        Ok(Counted { inner: ours, bytes: Arc::clone(&self.bytes) })
    }
}

/// 500 bytes as a program would log them: the same words again and again, and numbers that are never the same.
fn body(source: u64, ordinal: u64) -> String {
    let id = (ordinal ^ (source << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut text = format!(
        "{{\"level\":\"info\",\"source\":{source},\"ordinal\":{ordinal},\"trace\":\"{id:016x}{:016x}\",\"message\":\"request served\",\"path\":\"/api/v1/things/{}\",\"took_ms\":{},\"user_agent\":\"client/1.{}\",\"padding\":\"",
        id.rotate_left(17),
        id % 10_007,
        id % 313,
        id % 17,
    );
    while text.len() < 498 {
        let left = 498 - text.len();
        let more = format!("{:x} lorem ipsum ", id.rotate_left(u32::try_from(left % 64).unwrap_or(0)));
        text.extend(more.chars().take(left.min(20)));
    }
    text.push_str("\"}");
    text
}

async fn report(spool: Spool, kind: Kind, source: u64, count: u64) {
    let name: Arc<str> = format!("source-{source}").into();
    let mut ordinal = 0;
    while ordinal < count {
        let records = (ordinal..ordinal + AT_ONCE.min(count - ordinal))
            .map(|ordinal| Record::new(0, Arc::clone(&name), body(source, ordinal)).expect("small enough"));
        let records: Vec<_> = records.collect();
        ordinal += records.len() as u64;
        spool.append(&kind, records).await.expect("it is taken");
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let total: u64 = std::env::args().nth(1).map_or(400_000, |text| text.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a directory");
    let kind = Kind::parse("logs").expect("a kind");
    let store = Store::open(&dir.path().join("store"), Retention::default()).expect("a store");
    let config = LaneConfig { limit: 4 << 30, ..LaneConfig::default() };
    let spool = Spool::open(&dir.path().join("spool"), config, BTreeMap::new()).expect("a spool");
    let bytes = Arc::new(AtomicU64::new(0));
    let receiver = Receiver::new(store.clone(), CancellationToken::new());
    let way = Arc::new(Way { receiver, serving: parking_lot::Mutex::default(), bytes: Arc::clone(&bytes) });
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    tasks.spawn(send(spool.clone(), way, CancellationToken::new()));
    for source in 0..SOURCES {
        tasks.spawn(report(spool.clone(), kind.clone(), source, total / SOURCES));
    }
    for _ in 0..SOURCES {
        tasks.join_next().await;
    }
    let spooled = began.elapsed();
    let mut changes = store.changes();
    while store.lanes().first().is_none_or(|lane| lane.stored < total / SOURCES * SOURCES) {
        changes.changed().await.expect("the store is open");
    }
    let took = began.elapsed().as_secs_f64();
    let on_disk: u64 = std::fs::read_dir(dir.path().join("store/logs"))
        .expect("the store")
        .filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()))
        .sum();
    let wire = bytes.load(Ordering::Relaxed);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: ?");
    println!(
        "{total} records of 500 bytes: {:.0}/s to the hub's disk ({:.2} s; in the spool after {:.2} s)",
        total as f64 / took,
        took,
        spooled.as_secs_f64()
    );
    println!(
        "{} bytes plain, {wire} on the wire, {on_disk} in the store: wire / store {:.3}",
        total * 500,
        wire as f64 / on_disk as f64
    );
    println!("{resident}");
}
