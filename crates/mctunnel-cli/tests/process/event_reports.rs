//! Kubernetes events, followed by an agent that is killed again and again: the hub has each that is asked for once and in order, and no
//! other.

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

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// A kube-apiserver in whose namespace `default` so many events have happened.
struct FakeKube {
    address: String,
    happened: watch::Sender<u64>,
    _server: JoinSet<()>,
}

impl FakeKube {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it has one").to_string();
        let happened = watch::Sender::new(0);
        let mut server = JoinSet::new();
        let served = happened.clone();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.expect("accept");
                let happened = served.subscribe();
                connections.spawn(async move { drop(answer(socket, happened).await) });
            }
        });
        Self { address, happened, _server: server }
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

/// An event and its version. One of four is asked for: the others have the type or the reason alone, or neither.
fn event(version: u64) -> Value {
    let (kind, reason) = match version % 4 {
        0 => ("Warning", "BackOff"),
        1 => ("Warning", "Unhealthy"),
        2 => ("Normal", "BackOff"),
        // Each is what the other filter asks for.
        _ => ("BackOff", "Warning"),
    };
    json!({
        "metadata": {"name": format!("e{version}"), "namespace": "default", "resourceVersion": version.to_string()},
        "type": kind, "reason": reason, "note": format!("what happened, {version}"),
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"namespace": "default", "kind": "Pod", "name": "web-0"},
    })
}

async fn answer(socket: TcpStream, mut happened: watch::Receiver<u64>) -> std::io::Result<()> {
    let mut socket = BufReader::new(socket);
    let mut first = String::new();
    socket.read_line(&mut first).await?;
    let mut line = String::new();
    while socket.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let path = first.split(' ').nth(1).expect("a path");
    let (place, query) = path.split_once('?').unwrap_or((path, ""));
    if place == EVENTS && query.contains("watch=1") {
        let from = query.split("resourceVersion=").nth(1).and_then(|rest| rest.split('&').next());
        return stream(&mut socket, from.and_then(|from| from.parse().ok()).expect("a version"), happened).await;
    }
    let (status, body) = match place {
        EVENTS => {
            let last = *happened.borrow_and_update();
            let items: Vec<Value> = (1..=last).map(event).collect();
            (200, json!({"metadata": {"resourceVersion": last.to_string()}, "items": items}))
        }
        _ => (403, json!({"kind": "Status", "status": "Failure", "message": "not for you", "code": 403})),
    };
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    socket.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes()).await
}

/// What happens behind a version.
async fn stream(
    socket: &mut BufReader<TcpStream>,
    mut from: u64,
    mut happened: watch::Receiver<u64>,
) -> std::io::Result<()> {
    socket.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
    loop {
        let last = *happened.borrow_and_update();
        let change = |version| json!({"type": "ADDED", "object": event(version)}).to_string() + "\n";
        let text: String = (from + 1..=last).map(change).collect();
        from = last.max(from);
        if !text.is_empty() {
            socket.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await?;
        }
        tokio::select! {
            changed = happened.changed() => changed.map_err(std::io::Error::other)?,
            gone = socket.read_u8() => return gone.map(drop),
        }
    }
}

async fn start_agent(rig: &Rig, join: &Path, kubeconfig: &Path) -> Process {
    let spool = rig.dir.path().join("spool");
    let [spool, kubeconfig] = [spool.as_path(), kubeconfig].map(|path| path.to_str().expect("UTF-8"));
    let filters = ["--report-events", "default", "--report-event-type", "Warning", "--report-event-reason", "BackOff"];
    rig.agent_with(join, &[&["--spool", spool, "--kubeconfig", kubeconfig][..], &filters].concat()).await
}

#[tokio::test]
async fn events_that_are_asked_for_survive_kill_9_of_the_agent_once_and_in_order() {
    const EACH: u64 = 400;
    const KILLS: u64 = 5;
    let kube = FakeKube::start().await;
    let mut rig = Rig::start().await;
    let join = rig.add("c1").await;
    let kubeconfig = rig.dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, kube.kubeconfig().to_string()).expect("written");
    let mut agent = start_agent(&rig, &join, &kubeconfig).await;
    let arrived = async |least: u64| {
        until("events to arrive", async || {
            let stored = rig.metric("mctunnel_reports_stored_total{cluster=\"c1\",kind=\"events\"}").await;
            stored.filter(|stored| *stored >= least as f64)
        })
        .await
    };
    for kill in 1..=KILLS {
        kube.happened.send_replace(kill * EACH);
        arrived((kill - 1) * EACH / 4 + 1).await;
        agent.child.kill().await.expect("kill -9");
        agent = start_agent(&rig, &join, &kubeconfig).await;
    }
    let all = arrived(KILLS * EACH / 4).await;
    assert!((all - (KILLS * EACH / 4) as f64).abs() < 0.5, "{all} events");
    for process in [&mut agent, &mut rig.hub] {
        process.signal("TERM").await;
        assert!(process.wait().await.success());
    }
    let store = Store::open(&rig.dir.path().join("reports"), Retention::default()).expect("the store opens");
    let query = Query { limit: usize::MAX, ..Query::new(Kind::parse("events").expect("a kind")) };
    let records = store.read(&query).expect("it can be read");
    let read = |body: &[u8]| -> Value { serde_json::from_slice(body).expect("JSON") };
    let stored = records.iter().map(|found| (&*found.record.source, read(&found.record.body)));
    let expected = (1..=KILLS * EACH / 4).map(|number| ("default/Pod/web-0", event(number * 4)));
    assert!(stored.eq(expected), "the events are not as they happened");
}
