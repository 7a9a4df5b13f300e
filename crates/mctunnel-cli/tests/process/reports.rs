//! Reports of real processes that are killed, and cut off, again and again: what a source was told to be taken is stored once, in order.
//!
//! `make report-soak` runs the same with a million records and 200 faults.

use crate::{
    rig::{BINARY, PATIENCE, Process, Rig, metric, start_hub, text, until},
    wire::Wire,
};
use mctunnel::report::{Kind, Query, Retention, Store};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::{Child, Command},
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

    /// Both are gone at one moment, and neither waits for the other.
    async fn kill_both(&mut self, limit: &str) {
        for process in [&mut self.agent, &mut self.rig.hub] {
            process.child.start_kill().expect("kill -9");
        }
        for process in [&mut self.agent, &mut self.rig.hub] {
            process.wait().await;
        }
        self.start_hub().await;
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
    // When so many records are taken: anywhere in the run, several at one moment too, but before its end, so that each meets something
    // under way.
    let mut moments: Vec<u64> = (0..faults).map(|_| next_random(&mut seed) % (each * SOURCES * 9 / 10)).collect();
    moments.sort_unstable();
    let mut sources = JoinSet::new();
    for source in 0..SOURCES {
        sources.spawn(report(scene.reports.clone(), source, each, Arc::clone(&posted), tell.clone()));
    }
    for moment in moments {
        while posted.load(Ordering::Relaxed) < moment {
            tokio::time::timeout(PATIENCE, told.changed()).await.expect("sources get on").expect("they tell");
        }
        match next_random(&mut seed) % 4 {
            0 => scene.kill_agent(LIMIT).await,
            1 => scene.kill_hub().await,
            2 => scene.kill_both(LIMIT).await,
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

#[tokio::test]
async fn what_was_dropped_is_counted_to_the_record_over_a_restart_of_the_agent() {
    const LIMIT: &str = "deploys=64KiB:drop-oldest";
    let mut scene = Scene::start(LIMIT).await;
    let mut state = 5;
    let mut bodies = (0..).map(|ordinal: u64| {
        let noise: String = (0..200).map(|_| format!("{:016x}", next_random(&mut state))).collect();
        format!("{{\"ordinal\":{ordinal},\"noise\":\"{noise}\"}}")
    });
    let mut post_some = async |reports: &str, count: usize| {
        for body in bodies.by_ref().take(count) {
            let posted = async || post(reports, "/v1/reports/deploys", &body).await.ok();
            assert_eq!(until("an answer", posted).await, 202);
        }
    };
    // The hub has these, and the segment that they are in is not full.
    post_some(&scene.reports, 30).await;
    until("the spool to know", async || (scene.of_agent("mctunnel_spool_records").await == 0).then_some(())).await;
    scene.rig.hub.child.kill().await.expect("kill -9");
    post_some(&scene.reports, 100).await;
    let dropped = scene.of_agent("mctunnel_spool_dropped_total").await;
    assert!(dropped > 50, "{dropped}");
    // Without a hub it is never ready; it takes reports all the same.
    scene.agent.child.kill().await.expect("kill -9");
    let mut alone = agent_alone(&scene, LIMIT);
    post_some(&scene.reports, 50).await;
    alone.kill().await.expect("kill -9");
    scene.start_hub().await;
    scene.agent = start_agent(&scene.rig, &scene.join, &scene.reports, LIMIT).await;
    scene.arrived(180).await;
    let missing = scene.of_hub("mctunnel_reports_missing_total").await;
    assert!(missing > dropped, "{missing} of {dropped}");
    assert_eq!(scene.of_agent("mctunnel_spool_dropped_total").await, missing);
}

/// An agent that is not waited for.
fn agent_alone(scene: &Scene, limit: &str) -> Child {
    let mut command = Command::new(BINARY);
    command.arg("agent").arg("--join").arg(&scene.join).args(["--admin-listen", "off", "--log-level", "error"]);
    command.arg("--spool").arg(scene.rig.dir.path().join("spool"));
    command.args(["--report-listen", &scene.reports, "--spool-limit", limit]).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the binary starts")
}

#[tokio::test]
async fn clients_that_post_more_than_is_taken_wait_with_it_and_not_in_the_agents_memory() {
    const LIMIT: &str = "deploys=1MiB";
    let mut scene = Scene::start(LIMIT).await;
    scene.rig.hub.child.kill().await.expect("kill -9");
    // 4 MiB that do not compress to less than half: far more than the kind may have on disk.
    let mut state = 9;
    let mut line = || -> String {
        let noise: String = (0..8_000).map(|_| format!("{:016x}", next_random(&mut state))).collect();
        format!("{{\"ordinal\":0,\"noise\":\"{noise}\"}}\n")
    };
    let body: Arc<str> = (0..32).map(|_| line()).collect::<String>().into();
    assert!(body.len() > 4_000_000 && body.len() < 4 << 20);
    let mut clients: Vec<JoinSet<u16>> = Vec::new();
    for client in 0..32 {
        let (reports, body) = (scene.reports.clone(), Arc::clone(&body));
        let path = format!("/v1/reports/deploys?source=client-{client}");
        let mut task = JoinSet::new();
        task.spawn(async move { post(&reports, &path, &body).await.expect("an answer") });
        clients.push(task);
    }
    let is_full = async || (scene.of_agent("mctunnel_spool_bytes").await > 500_000).then_some(());
    until("the kind to be full", is_full).await;
    // Each record takes more than its byte: there may not be so many. And one kind that waits makes no other wait.
    assert_eq!(post(&scene.reports, "/v1/reports/others", &"1\n".repeat(2_000_000)).await.expect("an answer"), 413);
    for _ in 0..20 {
        let body = "{\"ordinal\":1}\n".repeat(5_000);
        assert_eq!(post(&scene.reports, "/v1/reports/others", &body).await.expect("an answer"), 202);
    }
    let most = scene.agent.most_resident();
    assert!(most <= 64 << 10, "the agent had {most} KiB");
    assert!(clients.iter_mut().all(|client| client.try_join_next().is_none()), "nobody is told what is not so");
    // Of those who wait one is enough; the hub would be busy with the others for long.
    let mut last = clients.swap_remove(31);
    let mut first = clients.swap_remove(0);
    drop(clients);
    scene.start_hub().await;
    for client in [&mut first, &mut last] {
        let answered = tokio::time::timeout(PATIENCE, client.join_next()).await.expect("there is room in time");
        assert_eq!(answered.expect("it runs").expect("it is answered"), 202);
    }
}
