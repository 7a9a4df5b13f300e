//! Upgrades become plain bytes; those that fail end the connection.

use crate::{
    held::Names,
    rig::{CUT, Rig, Target, get},
};
use mctunnel_policy::Policy;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

const UPGRADE: &str = "GET /cluster-a/exec HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

#[tokio::test]
async fn bytes_right_behind_the_answer_are_kept_and_each_side_ends_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", listener.local_addr().unwrap()).await;
    let mut client = rig.client().await;
    client.send(UPGRADE).await;
    let (mut target, _) = listener.accept().await.unwrap();
    let mut head = vec![0; 4096];
    let read = target.read(&mut head).await.unwrap();
    let head = String::from_utf8_lossy(&head[..read]).to_ascii_lowercase();
    assert!(head.contains("connection: upgrade") && head.contains("sec-websocket-key: dghl"), "{head}");
    target
        .write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-A: b\r\n\r\nearly",
        )
        .await
        .unwrap();
    let answer = client.until("\r\n\r\n").await.to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 101") && answer.contains("x-a: b") && answer.contains("upgrade: websocket"));
    client.until("early").await;
    client.send("question").await;
    let mut question = [0; 8];
    target.read_exact(&mut question).await.unwrap();
    assert_eq!(&question, b"question");
    target.write_all(b"last words").await.unwrap();
    target.shutdown().await.unwrap();
    assert_eq!(client.rest().await, "last words");
}

#[tokio::test]
async fn t13_an_upgrade_that_fails_ends_the_connection() {
    let rig = Rig::start().await;
    for status in ["200 OK", "302 Found", "403 Forbidden"] {
        let target =
            Target::start(move |_| format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno").into_bytes()).await;
        let bundle = rig.bundle(&format!("c{}", &status[..3]));
        let _agent = rig.run(&bundle, target.address).await;
        let mut client = rig.client().await;
        let cluster = bundle.cluster.to_string();
        let asked = UPGRADE.replace("cluster-a", &cluster);
        client.send(format!("{asked}GET /{cluster}/second HTTP/1.1\r\nHost: hub\r\n\r\n")).await;
        let answers = client.rest().await;
        assert!(answers.starts_with(&format!("HTTP/1.1 {}", &status[..3])), "{answers}");
        assert_eq!(answers.matches("HTTP/1.1").count(), 1, "{answers}");
        assert_eq!(target.seen.lock().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn t13_an_upgrade_whose_answer_breaks_off_ends_the_connection() {
    let rig = Rig::start().await;
    for (number, answer) in
        ["HTTP/1.1 10", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: webso", ""].into_iter().enumerate()
    {
        let target = Target::start(move |_| [answer.as_bytes(), CUT].concat()).await;
        let cluster = format!("c{number}");
        let _agent = rig.agent(&cluster, target.address).await;
        let mut client = rig.client().await;
        let asked = UPGRADE.replace("cluster-a", &cluster);
        client.send(format!("{asked}GET /{cluster}/second HTTP/1.1\r\nHost: hub\r\n\r\n")).await;
        let answers = timeout(LIMIT, client.rest()).await.expect("the gateway hangs up");
        assert!(answers.starts_with("HTTP/1.1 502"), "{answer}: {answers}");
        assert_eq!(answers.matches("HTTP/1.1").count(), 1, "{answer}: {answers}");
        assert_eq!(target.seen.lock().len(), 1, "{answer}");
    }
}

/// Alice may get pods and all that belongs to them, and nothing else.
pub(crate) fn only_get_pods() -> Policy {
    let rule = "{clusters: ['*'], namespaces: ['*'], apiGroups: [''], resources: [pods, 'pods/*'], names: ['*'], verbs: [get]}";
    let binding = "{name: b, role: r, users: [alice], providers: ['*']}";
    Policy::parse(&format!("{{version: 1, roles: {{r: {{rules: [{rule}]}}}}, bindings: [{binding}], deny: []}}"))
        .unwrap()
}

pub(crate) const POD: &str = "/cluster-a/api/v1/namespaces/default/pods/p";

#[tokio::test]
async fn t10_an_upgrade_into_a_pod_is_not_reading_it() {
    let rig =
        Rig::start_with(|adapter| adapter.authenticate(Arc::new(Names)).authorize(Arc::new(only_get_pods()))).await;
    let target = Target::named("pod").await;
    let _agent = rig.speaking_agent("cluster-a", target.address).await;
    let alice = "Host: hub\r\nAuthorization: Bearer alice\r\n";
    assert!(rig.once(&get(POD).replace("Host: hub\r\n", alice)).await.ends_with("pod"), "alice may read it");
    for method in ["GET", "POST"] {
        // Nobody here knows what `console` is.
        for way in ["exec?command=sh&stdin=true", "attach", "portforward?ports=80", "console"] {
            for upgrade in ["websocket", "SPDY/3.1"] {
                let head =
                    format!("{method} {POD}/{way} HTTP/1.1\r\n{alice}Connection: Upgrade\r\nUpgrade: {upgrade}\r\n");
                let websocket = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
                let answer = rig.once(&format!("{head}{websocket}")).await;
                let refused = answer.starts_with("HTTP/1.1 403") && answer.contains("MCT-HTTP-DENIED");
                // A WebSocket is asked for with GET.
                let malformed = method == "POST" && upgrade == "websocket" && answer.starts_with("HTTP/1.1 400");
                assert!(refused || malformed, "{method} {way} {upgrade}: {answer}");
            }
        }
    }
    assert_eq!(target.seen.lock().len(), 1, "one of them reached the target");
}

#[tokio::test]
async fn t13_an_upgrade_that_nobody_asked_for_is_refused() {
    let rig = Rig::start().await;
    let target = Target::start(|_| {
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec()
    })
    .await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let answer = rig.once("GET /cluster-a/x HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    for upgrade in ["h2c", "TLS/1.0", "websocket, h2c"] {
        let request =
            format!("GET /cluster-a/x HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n");
        let answer = rig.once(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{upgrade}: {answer}");
    }
    assert_eq!(target.seen.lock().len(), 1);
}
