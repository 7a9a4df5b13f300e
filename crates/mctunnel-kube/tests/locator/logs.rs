//! Logs of containers: each line once and in order, through cuts, restarts of the agent and of containers, and pods that go.

use crate::{
    fake_api::{FakeApi, Feed},
    setup::access,
};
use mctunnel_core::target::Label;
use mctunnel_kube::logs::{
    ContainerLog, LabelSelector, LogCounts, LogFollower, LogLimits, LogLine, LogSelection, TakeLogs,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

const PODS: &str = "pods";
const LIMITS: LogLimits = LogLimits { containers: 16, places: 64 };

/// A container as the status of its pod has it.
fn status(name: &str, restarts: u32, state: &str) -> Value {
    let last = if restarts > 0 { json!({"terminated": {}}) } else { json!({}) };
    json!({"name": name, "restartCount": restarts, "state": {state: {}}, "lastState": last})
}

fn pod(name: &str, version: u64, containers: &[Value]) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
        },
        "status": {"containerStatuses": containers},
    })
}

/// A line as the server sends it: the time is a number of milliseconds.
fn line(millis: u32, text: &str) -> String {
    format!("2026-01-01T00:00:{:02}.{:03}000000Z {text}", millis / 1_000, millis % 1_000)
}

fn lines(all: &[(u32, &str)]) -> String {
    all.iter().map(|(millis, text)| line(*millis, text) + "\n").collect()
}

/// Keeps what it takes; can be made to refuse and to wait.
#[derive(Clone)]
struct Taken(Arc<Kept>);

impl std::ops::Deref for Taken {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        &self.0
    }
}

struct Kept {
    /// `SOURCE#RESTART text`, with `\` behind a part of a line.
    lines: watch::Sender<Vec<String>>,
    places: Mutex<BTreeMap<ContainerLog, String>>,
    forgotten: watch::Sender<Vec<String>>,
    refusals: AtomicUsize,
    gate: Semaphore,
    /// Those that are just handing lines over.
    busy: Mutex<BTreeSet<ContainerLog>>,
}

impl Default for Taken {
    fn default() -> Self {
        Self(Arc::new(Kept {
            lines: watch::Sender::new(Vec::new()),
            places: Mutex::default(),
            forgotten: watch::Sender::new(Vec::new()),
            refusals: AtomicUsize::new(0),
            gate: Semaphore::new(1_000_000),
            busy: Mutex::default(),
        }))
    }
}

impl TakeLogs for Taken {
    fn taken_up_to(&self, container: &ContainerLog) -> Option<String> {
        self.places.lock().get(container).cloned()
    }

    async fn take(
        &self,
        container: &ContainerLog,
        restart: u32,
        lines: Vec<LogLine>,
        place: String,
    ) -> Result<(), String> {
        assert!(self.busy.lock().insert(container.clone()), "two at a time for one container");
        assert!(!lines.is_empty() && lines.iter().map(|line| line.bytes.len()).sum::<usize>() <= 64 << 10);
        self.gate.acquire().await.unwrap().forget();
        self.busy.lock().remove(container);
        if self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err("the disk is full".to_owned());
        }
        self.places.lock().insert(container.clone(), place);
        self.lines.send_modify(|all| {
            for LogLine { bytes, is_partial, .. } in &lines {
                let end = if *is_partial { "\\" } else { "" };
                all.push(format!("{container}#{restart} {}{end}", String::from_utf8_lossy(bytes)));
            }
        });
        Ok(())
    }

    fn kept(&self) -> Vec<ContainerLog> {
        self.places.lock().keys().cloned().collect()
    }

    fn places(&self) -> usize {
        self.places.lock().len()
    }

    fn forget(&self, container: &ContainerLog) {
        self.places.lock().remove(container);
        self.forgotten.send_modify(|all| all.push(container.to_string()));
    }
}

impl Kept {
    async fn wait_for(&self, expected: &[&str]) {
        let mut lines = self.lines.subscribe();
        let _ = timeout(Duration::from_secs(20), lines.wait_for(|all| all.len() >= expected.len())).await;
        assert_eq!(*self.lines.borrow(), expected);
    }

    async fn wait_until_forgotten(&self, source: &str) {
        let mut forgotten = self.forgotten.subscribe();
        let gone = timeout(Duration::from_secs(20), forgotten.wait_for(|all| all.iter().any(|one| one == source)));
        gone.await.expect("it is forgotten").unwrap();
    }
}

fn all_pods() -> LogSelection {
    LogSelection { namespace: None, labels: None }
}

struct Following {
    counts: Arc<LogCounts>,
    _tasks: JoinSet<()>,
}

async fn follow_with(api: &FakeApi, taken: &Taken, selections: Vec<LogSelection>, limits: LogLimits) -> Following {
    let follower = LogFollower::new(&access(api).await, selections, limits, taken.clone()).unwrap();
    let counts = follower.counts();
    let mut tasks = JoinSet::new();
    tasks.spawn(follower.follow());
    Following { counts, _tasks: tasks }
}

async fn follow(api: &FakeApi, taken: &Taken) -> Following {
    follow_with(api, taken, vec![all_pods()], LIMITS).await
}

/// Waits until what a watch has told is known: the log of a pod that comes behind it is asked for.
async fn is_known(api: &FakeApi, pods: &Feed) {
    pods.tell("ADDED", pod("zz-0", 99, &[status("app", 0, "running")])).await;
    api.asked("/zz-0/log?", 1).await;
}

#[tokio::test]
async fn every_container_of_a_chosen_pod_is_followed_and_no_byte_is_changed() {
    let api = FakeApi::start().await;
    let mut web = pod("web-0", 1, &[status("app", 0, "running")]);
    web["status"]["initContainerStatuses"] = json!([status("init", 0, "terminated")]);
    api.list(PODS, "10", &[web, pod("new-0", 2, &[status("app", 0, "waiting")])]);
    let init = api.log("web-0/init");
    let app = api.log("web-0/app");
    let taken = Taken::default();
    let labels = Some(LabelSelector::parse("app=web,tier in (a,b)").unwrap());
    let selection = LogSelection { namespace: Some(Label::parse("default").unwrap()), labels };
    let _following = follow_with(&api, &taken, vec![selection], LIMITS).await;
    init.write(lines(&[(1, "made")])).await;
    drop(init);
    taken.wait_for(&["default/web-0/init#0 made"]).await;
    app.write(lines(&[(5, "  up\t\r"), (6, "")])).await;
    app.write(line(7, "half")).await;
    app.write(" and half\n").await;
    let all =
        ["init#0 made", "app#0   up\t\r", "app#0 ", "app#0 half and half"].map(|text| format!("default/web-0/{text}"));
    taken.wait_for(&all.each_ref().map(String::as_str)).await;
    let pods = api.asked("/pods?", 2).await;
    let start = "/api/v1/namespaces/default/pods?";
    assert!(pods.iter().all(|uri| uri.starts_with(start)), "{pods:?}");
    assert!(pods.iter().all(|uri| uri.contains("labelSelector=app%3Dweb%2Ctier%20in%20%28a%2Cb%29")), "{pods:?}");
    let logs = api.asked("/log?", 2).await;
    let app = logs.iter().find(|uri| uri.contains("container=app")).unwrap();
    assert_eq!(app, "/api/v1/namespaces/default/pods/web-0/log?container=app&timestamps=true&follow=true");
    assert_eq!(logs.len(), 2, "a container that has not run has no log: {logs:?}");
}

#[tokio::test]
async fn a_log_that_breaks_off_goes_on_without_gap_or_duplicate() {
    let api = FakeApi::start().await;
    api.list(PODS, "10", &[pod("web-0", 1, &[status("app", 0, "running")])]);
    let first = api.log("web-0/app");
    let taken = Taken::default();
    let _following = follow(&api, &taken).await;
    first.write(lines(&[(5_100, "a"), (5_100, "b")])).await;
    taken.wait_for(&["default/web-0/app#0 a", "default/web-0/app#0 b"]).await;
    let again = api.log("web-0/app");
    // Half a line is not one.
    first.write(line(5_100, "c is cu")).await;
    first.cut().await;
    again.write(lines(&[(5_100, "a"), (5_100, "b"), (5_100, "c is cut"), (5_900, "d")])).await;
    let all = ["a", "b", "c is cut", "d"].map(|text| format!("default/web-0/app#0 {text}"));
    taken.wait_for(&all.each_ref().map(String::as_str)).await;
    let asked = api.asked("/log?", 2).await;
    assert!(!asked[0].contains("sinceTime") && asked[1].ends_with("&sinceTime=2026-01-01T00%3A00%3A04Z"), "{asked:?}");
}

#[tokio::test]
async fn after_a_restart_of_the_agent_it_goes_on_where_it_was_taken_up_to() {
    let api = FakeApi::start().await;
    let taken = Taken::default();
    let web = || pod("web-0", 1, &[status("app", 0, "running")]);
    api.list(PODS, "10", &[web()]);
    let log = api.log("web-0/app");
    let following = follow(&api, &taken).await;
    let many: Vec<(u32, String)> = (0..40).map(|number| (number * 100, number.to_string())).collect();
    let text = |range: std::ops::Range<usize>| -> String {
        many[range].iter().map(|(millis, text)| line(*millis, text) + "\n").collect()
    };
    let expected: Vec<String> = many.iter().map(|(_, text)| format!("default/web-0/app#0 {text}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    log.write(text(0..30)).await;
    taken.wait_for(&expected[..30]).await;
    drop(following);
    api.list(PODS, "20", &[web()]);
    // What the server has of the last seconds, of which a rotation has taken the beginning.
    api.whole_log("web-0/app", text(20..40)).await;
    let _following = follow(&api, &taken).await;
    taken.wait_for(&expected).await;
    assert!(api.asked("/log?", 2).await[1].contains("&sinceTime=2026-01-01T00%3A00%3A00Z"));
}

#[tokio::test]
async fn after_a_restart_of_the_container_the_rest_of_the_instance_before_comes_first() {
    let api = FakeApi::start().await;
    api.list(PODS, "10", &[pod("web-0", 1, &[status("app", 0, "running")])]);
    let pods = api.watch(PODS);
    let log = api.log("web-0/app");
    let taken = Taken::default();
    let _following = follow(&api, &taken).await;
    log.write(lines(&[(100, "a")])).await;
    taken.wait_for(&["default/web-0/app#0 a"]).await;
    api.whole_log("web-0/app/previous", lines(&[(100, "a"), (200, "b")]) + &line(300, "panic: ")).await;
    let next = api.log("web-0/app");
    pods.tell("MODIFIED", pod("web-0", 11, &[status("app", 1, "running")])).await;
    is_known(&api, &pods).await;
    drop(log);
    next.write(lines(&[(900, "again")])).await;
    let all = ["app#0 a", "app#0 b", "app#0 panic: \\", "app#1 again"].map(|text| format!("default/web-0/{text}"));
    taken.wait_for(&all.each_ref().map(String::as_str)).await;
    // It ends, and is not asked for again and again.
    next.write(lines(&[(950, "last")])).await;
    api.whole_log("web-0/app", lines(&[(900, "again"), (950, "last")])).await;
    pods.tell("MODIFIED", pod("web-0", 12, &[status("app", 1, "terminated")])).await;
    drop(next);
    taken.wait_for(&all.iter().map(String::as_str).chain(["default/web-0/app#1 last"]).collect::<Vec<_>>()).await;
    assert_eq!(taken.forgotten.borrow().len(), 0, "its pod is still there");
}

#[tokio::test]
async fn a_container_that_had_restarted_before_is_read_from_the_instance_before_on() {
    let api = FakeApi::start().await;
    api.list(
        PODS,
        "10",
        &[pod("a-0", 1, &[status("app", 3, "running")]), pod("b-0", 1, &[status("app", 1, "running")])],
    );
    api.whole_log("a-0/app/previous", lines(&[(1, "two")])).await;
    let taken = Taken::default();
    // Its log is gone.
    api.refuse_log("b-0/app/previous", 400);
    let (a, b) = (api.log("a-0/app"), api.log("b-0/app"));
    let _following = follow(&api, &taken).await;
    a.write(lines(&[(2, "three")])).await;
    taken.wait_for(&["default/a-0/app#2 two", "default/a-0/app#3 three"]).await;
    b.write(lines(&[(3, "one")])).await;
    taken.wait_for(&["default/a-0/app#2 two", "default/a-0/app#3 three", "default/b-0/app#1 one"]).await;
}

#[tokio::test]
async fn lines_that_could_not_be_taken_come_again() {
    let api = FakeApi::start().await;
    api.list(PODS, "10", &[pod("web-0", 1, &[status("app", 0, "running")])]);
    let taken = Taken::default();
    taken.refusals.store(1, Ordering::SeqCst);
    // It stays open: only that its lines were refused is a reason to ask again.
    let first = api.log("web-0/app");
    first.write(lines(&[(1, "a"), (2, "b")])).await;
    let again = api.log("web-0/app");
    let _following = follow(&api, &taken).await;
    again.write(lines(&[(1, "a"), (2, "b")])).await;
    taken.wait_for(&["default/web-0/app#0 a", "default/web-0/app#0 b"]).await;
    drop(first);
}

#[tokio::test]
async fn lines_that_came_together_are_taken_together() {
    const LINES: u32 = 1_000;
    let api = FakeApi::start().await;
    api.list(PODS, "10", &[pod("web-0", 1, &[status("app", 0, "running")])]);
    let log = api.log("web-0/app");
    let taken = Taken::default();
    let gate = taken.gate.acquire_many(1_000_000).await.unwrap();
    let _following = follow(&api, &taken).await;
    // Each in a piece of its own, as the kubelet sends them, behind one that is just being taken.
    for number in 0..LINES {
        log.write(lines(&[(number, "busy")])).await;
    }
    drop(gate);
    let mut all = taken.lines.subscribe();
    let came = timeout(Duration::from_secs(20), all.wait_for(|all| all.len() == 1_000)).await;
    assert!(came.is_ok(), "{} came", taken.lines.borrow().len());
    let times = 1_000_000 - taken.gate.available_permits();
    assert!(times <= 200, "{LINES} lines were taken in {times} times");
}

#[tokio::test]
async fn what_is_not_taken_holds_up_the_reading_and_long_lines_are_not_cut() {
    let api = FakeApi::start().await;
    api.list(PODS, "10", &[pod("web-0", 1, &[status("app", 0, "running")])]);
    let log = api.log("web-0/app");
    let taken = Taken::default();
    let gate = taken.gate.acquire_many(1_000_000).await.unwrap();
    let _following = follow(&api, &taken).await;
    let long = "x".repeat(300_000);
    log.write(lines(&[(1, &long), (2, "b")])).await;
    drop(gate);
    let mut all = taken.lines.subscribe();
    let _ = timeout(Duration::from_secs(20), all.wait_for(|all| all.iter().any(|one| one.ends_with(" b")))).await;
    let all = taken.lines.borrow();
    let (last, parts) = all.split_last().unwrap();
    let text = |part: &String| part.strip_prefix("default/web-0/app#0 ").unwrap().to_owned();
    let joined: String = parts.iter().map(|part| text(part).trim_end_matches('\\').to_owned()).collect();
    assert!(parts.len() == 10 && joined == long && text(last) == "b", "{} parts", parts.len());
}

#[tokio::test]
async fn at_the_limit_containers_wait_for_their_turn_and_are_counted() {
    let api = FakeApi::start().await;
    let pods = ["a-0", "b-0", "c-0"].map(|name| pod(name, 1, &[status("app", 0, "running")]));
    api.list(PODS, "10", &pods);
    let changes = api.watch(PODS);
    let first = api.log("a-0/app");
    let second = api.log("b-0/app");
    let taken = Taken::default();
    let following = follow_with(&api, &taken, vec![all_pods()], LogLimits { containers: 1, places: 64 }).await;
    first.write(lines(&[(1, "a")])).await;
    taken.wait_for(&["default/a-0/app#0 a"]).await;
    assert_eq!((following.counts.followed(), following.counts.waiting()), (1, 2));
    // It is asked for again until it is known that it is over.
    for _ in 0..8 {
        api.whole_log("a-0/app", lines(&[(1, "a"), (2, "end")])).await;
    }
    changes.tell("MODIFIED", pod("a-0", 11, &[status("app", 0, "terminated")])).await;
    drop(first);
    second.write(lines(&[(3, "b")])).await;
    taken.wait_for(&["default/a-0/app#0 a", "default/a-0/app#0 end", "default/b-0/app#0 b"]).await;
    assert_eq!((following.counts.followed(), following.counts.waiting()), (1, 1));
}

#[tokio::test]
async fn a_pod_that_several_selections_have_is_followed_once() {
    let api = FakeApi::start().await;
    let web = || pod("web-0", 1, &[status("app", 0, "running")]);
    api.list(PODS, "10", &[web()]);
    api.list(PODS, "10", &[web()]);
    let log = api.log("web-0/app");
    let taken = Taken::default();
    let narrow = LogSelection { namespace: Some(Label::parse("default").unwrap()), labels: None };
    let _following = follow_with(&api, &taken, vec![all_pods(), narrow], LIMITS).await;
    api.asked("watch=1", 2).await;
    log.write(lines(&[(1, "a")])).await;
    taken.wait_for(&["default/web-0/app#0 a"]).await;
    assert_eq!(api.asked("/log?", 1).await.len(), 1);
}

#[tokio::test]
async fn of_a_pod_that_goes_the_rest_is_read_and_its_place_forgotten() {
    let api = FakeApi::start().await;
    let web = || pod("web-0", 1, &[status("app", 0, "running")]);
    api.list(PODS, "10", &[web()]);
    let pods = api.watch(PODS);
    let log = api.log("web-0/app");
    let taken = Taken::default();
    let gone = |name: &str, uid: &str| ContainerLog {
        namespace: "default".into(),
        pod: name.into(),
        uid: uid.into(),
        container: "app".into(),
    };
    // One from before the start, and one of the same name.
    taken.places.lock().insert(gone("old-0", "uid-old-0"), String::new());
    taken.places.lock().insert(gone("web-0", "another"), String::new());
    let _following = follow(&api, &taken).await;
    taken.wait_until_forgotten("default/old-0/app").await;
    taken.wait_until_forgotten("default/web-0/app").await;
    log.write(lines(&[(1, "a")])).await;
    taken.wait_for(&["default/web-0/app#0 a"]).await;
    assert_eq!(taken.places.lock().len(), 1);
    pods.tell("DELETED", web()).await;
    is_known(&api, &pods).await;
    log.write(line(2, "last words")).await;
    drop(log);
    taken.wait_for(&["default/web-0/app#0 a", "default/web-0/app#0 last words\\"]).await;
    let mut forgotten = taken.forgotten.subscribe();
    timeout(Duration::from_secs(20), forgotten.wait_for(|all| all.len() == 3)).await.unwrap().unwrap();
    assert!(taken.places.lock().is_empty());
}
