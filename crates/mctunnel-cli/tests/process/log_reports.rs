//! Logs of a container, followed by an agent that is killed again and again: the hub has each line once, in order and to the byte. And
//! the status that comes with them.

use crate::rig::{Process, Rig, until};
use mctunnel::report::{Kind, Query, Retention, Store};
use serde_json::{Value, json};
use std::path::Path;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// Lines of a log, each with its time in milliseconds of the first hour of 2026.
type Log = Vec<(u64, String)>;

/// A kube-apiserver with one pod that writes, and which says no more of its nodes than that it does not.
struct FakeKube {
    address: String,
    log: watch::Sender<Log>,
    _server: JoinSet<()>,
}

impl FakeKube {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it has one").to_string();
        let log = watch::Sender::new(Log::new());
        let mut server = JoinSet::new();
        let served = log.clone();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.expect("accept");
                let log = served.subscribe();
                connections.spawn(async move { drop(answer(socket, log).await) });
            }
        });
        Self { address, log, _server: server }
    }

    fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "u", "user": {"token": "agent-token"}}],
        })
    }
}

async fn answer(socket: TcpStream, log: watch::Receiver<Log>) -> std::io::Result<()> {
    let mut socket = BufReader::new(socket);
    let mut first = String::new();
    socket.read_line(&mut first).await?;
    let mut line = String::new();
    while socket.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let path = first.split(' ').nth(1).expect("a path");
    if path.contains("/log?") {
        return stream_log(&mut socket, path, log).await;
    }
    if path.contains("watch=1") {
        socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
        // Nothing happens until the client goes.
        return socket.read_u8().await.map(drop);
    }
    let (status, body) = match path.split('?').next().expect("a path") {
        "/api/v1/nodes" => (403, json!({"kind": "Status", "status": "Failure", "message": "not for you", "code": 403})),
        "/api/v1/namespaces/default/pods" => (200, json!({"metadata": {"resourceVersion": "1"}, "items": [pod()]})),
        "/version" => (200, json!({"major": "1", "minor": "33", "gitVersion": "v1.33.1"})),
        "/api" => (200, json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        "/apis" => (200, json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})),
        _ => (200, json!({"metadata": {"resourceVersion": "1"}, "items": []})),
    };
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    socket.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes()).await
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "web-0", "namespace": "default", "uid": "u-1", "resourceVersion": "1"},
        "status": {"containerStatuses": [{"name": "app", "restartCount": 0, "state": {"running": {}}}]},
    })
}

/// What the server has from the second on that is asked for, and what comes.
async fn stream_log(
    socket: &mut BufReader<TcpStream>,
    path: &str,
    mut log: watch::Receiver<Log>,
) -> std::io::Result<()> {
    assert!(path.contains("container=app") && path.contains("follow=true") && path.contains("timestamps=true"));
    let since = path.split("sinceTime=2026-01-01T00%3A").nth(1).map_or(0, |rest| {
        let number = |range| rest.get(range).and_then(|digits: &str| digits.parse::<u64>().ok()).expect("a number");
        (number(0..2) * 60 + number(5..7)) * 1_000
    });
    socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
    let mut next = 0;
    loop {
        let all: Log = log.borrow_and_update().iter().skip(next).cloned().collect();
        next += all.len();
        let stamp = |time: u64| {
            format!("2026-01-01T00:{:02}:{:02}.{:03}000000Z", time / 60_000, time / 1_000 % 60, time % 1_000)
        };
        let from_then = all.iter().filter(|(time, _)| *time >= since);
        let text: String = from_then.map(|(time, line)| format!("{} {line}\n", stamp(*time))).collect();
        if !text.is_empty() {
            socket.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await?;
        }
        tokio::select! {
            changed = log.changed() => changed.map_err(std::io::Error::other)?,
            gone = socket.read_u8() => return gone.map(drop),
        }
    }
}

async fn start_agent(rig: &Rig, join: &Path, kubeconfig: &Path) -> Process {
    let spool = rig.dir.path().join("spool");
    let [spool, kubeconfig] = [spool.as_path(), kubeconfig].map(|path| path.to_str().expect("UTF-8"));
    rig.agent_with(join, &["--spool", spool, "--kubeconfig", kubeconfig, "--report-logs", "default"]).await
}

fn stored(dir: &Path, kind: &str) -> Vec<(String, Value)> {
    let store = Store::open(dir, Retention::default()).expect("the store opens");
    let query = Query { limit: usize::MAX, ..Query::new(Kind::parse(kind).expect("a kind")) };
    let records = store.read(&query).expect("it can be read");
    let body = |bytes: &[u8]| serde_json::from_slice(bytes).expect("JSON");
    records.iter().map(|found| (found.record.source.to_string(), body(&found.record.body))).collect()
}

#[tokio::test]
async fn lines_of_a_log_survive_kill_9_of_the_agent_once_and_in_order() {
    const EACH: u64 = 500;
    const KILLS: u64 = 6;
    let kube = FakeKube::start().await;
    let mut rig = Rig::start().await;
    let join = rig.add("c1").await;
    let kubeconfig = rig.dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, kube.kubeconfig().to_string()).expect("written");
    let mut agent = start_agent(&rig, &join, &kubeconfig).await;
    let arrived = async |least: u64| {
        until("lines to arrive", async || {
            let stored = rig.metric("mctunnel_reports_stored_total{cluster=\"c1\",kind=\"logs\"}").await;
            stored.filter(|stored| *stored >= least as f64)
        })
        .await
    };
    // Three lines at each moment, so that a cut between lines of one moment is likely.
    let line = |number: u64| (number / 3 * 7, format!(" line {number} é\t"));
    for kill in 0..KILLS {
        kube.log.send_modify(|log| log.extend((kill * EACH..(kill + 1) * EACH).map(line)));
        arrived(kill * EACH + 1).await;
        agent.child.kill().await.expect("kill -9");
        agent = start_agent(&rig, &join, &kubeconfig).await;
    }
    let all = arrived(KILLS * EACH).await;
    assert!((all - (KILLS * EACH) as f64).abs() < 0.5, "{all} lines");
    for process in [&mut agent, &mut rig.hub] {
        process.signal("TERM").await;
        assert!(process.wait().await.success());
    }
    let dir = rig.dir.path().join("reports");
    let expected = (0..KILLS * EACH).map(|number| {
        let body = json!({"uid": "u-1", "restart": 0, "line": line(number).1});
        ("default/web-0/app".to_owned(), body)
    });
    assert!(stored(&dir, "logs").into_iter().eq(expected), "the lines are not as they were written");
    let (source, status) = stored(&dir, "status").pop().expect("a status");
    assert_eq!((source.as_str(), &status["kubernetes_version"]), ("agent", &json!("v1.33.1")));
    assert_eq!((&status["nodes"], &status["apis"]["served"]), (&json!({"denied": "not for you"}), &json!(["v1"])));
    assert!(status["allow_digest"].as_str().is_some_and(|digest| digest.starts_with("sha256:")), "{status}");
    assert!(status["certificate_expires"].as_str().is_some_and(|at| at.ends_with('Z')), "{status}");
}
