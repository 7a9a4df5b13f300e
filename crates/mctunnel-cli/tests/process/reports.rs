//! Reports of real processes that are killed, and cut off, again and again: what a source was told to be taken is stored once, in order.
//!
//! `make report-soak` runs the same with a million records and 200 faults.

use crate::{
    rig::{PATIENCE, Process, Rig, metric, start_hub, text, until},
    wire::Wire,
};
use mctunnel::report::{Kind, Query, Retention, Store};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    task::JoinSet,
};

const SOURCES: u64 = 4;
/// Records of one request.
const CHUNK: u64 = 100;

/// How much is done: little as a rule, much when asked for.
fn measure(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// SplitMix64: a seed replays the order of faults.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 8
}

/// Posts records; gives the status.
async fn post(address: &str, path: &str, body: &str) -> std::io::Result<u16> {
    let mut socket = TcpStream::connect(address).await?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await?;
    socket.write_all(body.as_bytes()).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}

/// A source that counts its records, and asks again until it is told that they were taken.
async fn report(address: String, source: u64, count: u64, posted: Arc<AtomicU64>, tell: watch::Sender<()>) {
    let mut first = 0;
    while first < count {
        let chunk = CHUNK.min(count - first);
        let line =
            |ordinal| format!("{{\"ordinal\":{ordinal},\"text\":\"what happened in the cluster, once more\"}}\n");
        let body: String = (first..first + chunk).map(line).collect();
        let path = format!("/v1/reports/deploys?source=source-{source}&sequence={first}");
        match tokio::time::timeout(PATIENCE, post(&address, &path, &body)).await.expect("it answers or breaks") {
            Ok(202) => {
                first += chunk;
                posted.fetch_add(chunk, Ordering::Relaxed);
                tell.send_replace(());
            }
            Ok(status) => panic!("{status}"),
            // tidy: sleep because the agent is just being started again
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// A metric that counts.
#[expect(clippy::cast_possible_truncation, reason = "it is a count")]
fn count(value: f64) -> u64 {
    value as u64
}

struct Scene {
    rig: Rig,
    wire: Wire,
    join: PathBuf,
    agent: Process,
    /// Where the agent takes reports, after a restart too.
    reports: String,
    hubs: u64,
}

impl Scene {
    async fn start(limit: &str) -> Self {
        let rig = Rig::start().await;
        let wire = Wire::start(&rig.tunnel).await;
        let join = rig.add("c1").await;
        let bundle = std::fs::read_to_string(&join).expect("the bundle").replace(&rig.tunnel, &wire.address);
        std::fs::write(&join, bundle).expect("rewritten");
        let agent = start_agent(&rig, &join, "127.0.0.1:0", limit).await;
        let reports = text(&agent.ready, "reports");
        Self { rig, wire, join, agent, reports, hubs: 0 }
    }

    async fn kill_agent(&mut self, limit: &str) {
        self.agent.child.kill().await.expect("kill -9");
        self.agent = start_agent(&self.rig, &self.join, &self.reports, limit).await;
    }

    async fn kill_hub(&mut self) {
        self.rig.hub.child.kill().await.expect("kill -9");
        self.start_hub().await;
    }

    async fn start_hub(&mut self) {
        self.hubs += 1;
        let (dir, ready) = (self.rig.dir.path(), format!("hub-{}.ready", self.hubs));
        self.rig.hub = start_hub(dir, &ready, &self.rig.tunnel, &self.rig.connect, &[]).await;
        self.rig.admin = text(&self.rig.hub.ready, "admin");
    }

    async fn of_hub(&self, name: &str) -> u64 {
        let line = format!("{name}{{cluster=\"c1\",kind=\"deploys\"}}");
        self.rig.metric(&line).await.map_or(0, count)
    }

    async fn of_agent(&self, name: &str) -> u64 {
        let line = format!("{name}{{kind=\"deploys\"}}");
        metric(&text(&self.agent.ready, "admin"), &line).await.map_or(0, count)
    }

    /// Waits until so many records are stored or known to be missing.
    async fn arrived(&self, count: u64) {
        let mut best = 0;
        while best < count {
            // As long as more arrive, it is not stuck.
            best = until("more records to arrive", async || {
                let now = self.of_hub("mctunnel_reports_stored_total").await
                    + self.of_hub("mctunnel_reports_missing_total").await;
                (now > best).then_some(now)
            })
            .await;
        }
        assert_eq!(best, count);
    }

    /// Ends both in order and reads what was stored: source and ordinal of each record.
    async fn read(mut self) -> Vec<(String, u64)> {
        for process in [&mut self.agent, &mut self.rig.hub] {
            process.signal("TERM").await;
            assert!(process.wait().await.success());
        }
        stored(&self.rig.dir.path().join("reports"))
    }
}

async fn start_agent(rig: &Rig, join: &Path, listen: &str, limit: &str) -> Process {
    let spool = rig.dir.path().join("spool");
    let flags = ["--spool", spool.to_str().expect("UTF-8"), "--report-listen", listen, "--spool-limit", limit];
    rig.agent_with(join, &flags).await
}

fn stored(dir: &Path) -> Vec<(String, u64)> {
    let store = Store::open(dir, Retention::default()).expect("the store opens");
    let query = Query { limit: usize::MAX, ..Query::new(Kind::parse("deploys").expect("a kind")) };
    let records = store.read(&query).expect("it can be read");
    let ordinal = |body: &[u8]| {
        let value: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        value["ordinal"].as_u64().expect("a number")
    };
    records.iter().map(|found| (found.record.source.to_string(), ordinal(&found.record.body))).collect()
}

#[tokio::test]
async fn t41_records_survive_kill_9_of_both_sides_and_cuts_exactly_once_and_in_order() {
    const LIMIT: &str = "*=256MiB";
    let each = measure("REPORT_RECORDS", 20_000) / SOURCES;
    let faults = measure("REPORT_FAULTS", 12);
    let mut seed = measure("REPORT_SEED", 7);
    let mut scene = Scene::start(LIMIT).await;
    let posted = Arc::new(AtomicU64::new(0));
    let (tell, mut told) = watch::channel(());
    let mut sources = JoinSet::new();
    for source in 0..SOURCES {
        sources.spawn(report(scene.reports.clone(), source, each, Arc::clone(&posted), tell.clone()));
    }
    for fault in 1..=faults {
        // Spread over the whole run, so that each meets something under way.
        while posted.load(Ordering::Relaxed) < fault * each * SOURCES / (faults + 1) {
            tokio::time::timeout(PATIENCE, told.changed()).await.expect("sources get on").expect("they tell");
        }
        match next_random(&mut seed) % 3 {
            0 => scene.kill_agent(LIMIT).await,
            1 => scene.kill_hub().await,
            _ => scene.wire.cut(),
        }
    }
    while let Some(ended) = sources.join_next().await {
        ended.expect("no source gave up");
    }
    scene.arrived(each * SOURCES).await;
    assert_eq!(scene.of_hub("mctunnel_reports_missing_total").await, 0);
    let stored = scene.read().await;
    for source in 0..SOURCES {
        let name = format!("source-{source}");
        let ordinals = stored.iter().filter(|(of, _)| *of == name).map(|(_, ordinal)| *ordinal);
        assert!(ordinals.eq(0..each), "{name} is not stored as it was sent");
    }
    assert_eq!(stored.len() as u64, each * SOURCES);
}

#[tokio::test]
async fn what_is_reported_while_the_hub_is_away_waits_on_disk_and_not_in_memory() {
    const LIMIT: &str = "deploys=256MiB";
    let count = measure("REPORT_AWAY", 40_000);
    let mut scene = Scene::start(LIMIT).await;
    scene.rig.hub.child.kill().await.expect("kill -9");
    let (posted, (tell, _told)) = (Arc::new(AtomicU64::new(0)), watch::channel(()));
    report(scene.reports.clone(), 0, count, posted, tell).await;
    assert_eq!(scene.of_agent("mctunnel_spool_records").await, count);
    let resident = scene.agent.resident();
    assert!(resident <= 64 << 10, "the agent has {resident} KiB with {count} records waiting");
    scene.start_hub().await;
    scene.arrived(count).await;
    until("the spool to know", async || (scene.of_agent("mctunnel_spool_records").await == 0).then_some(())).await;
    assert!(scene.read().await.into_iter().map(|(_, ordinal)| ordinal).eq(0..count));
}

#[tokio::test]
async fn a_full_spool_drops_the_oldest_and_both_sides_count_the_same() {
    const LIMIT: &str = "deploys=64KiB:drop-oldest";
    let mut scene = Scene::start(LIMIT).await;
    scene.rig.hub.child.kill().await.expect("kill -9");
    // What does not compress fills the spool soon.
    let mut state = 3;
    for ordinal in 0..200_u64 {
        let noise: String = (0..200).map(|_| format!("{:016x}", next_random(&mut state))).collect();
        let body = format!("{{\"ordinal\":{ordinal},\"noise\":\"{noise}\"}}");
        assert_eq!(post(&scene.reports, "/v1/reports/deploys", &body).await.expect("an answer"), 202);
    }
    let dropped = scene.of_agent("mctunnel_spool_dropped_total").await;
    assert!(dropped > 100, "{dropped}");
    scene.start_hub().await;
    scene.arrived(200).await;
    assert_eq!(scene.of_hub("mctunnel_reports_missing_total").await, dropped);
    assert!(scene.read().await.into_iter().map(|(_, ordinal)| ordinal).eq(dropped..200));
}
