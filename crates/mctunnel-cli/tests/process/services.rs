//! Services of the hub through the tunnel, with the file that says for whom, as an operator would use it.

use crate::rig::{Process, Rig, Target, echo, text, until};
use std::path::Path;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

fn offer(file: &Path, address: &str, clusters: &str) {
    let text = format!("services:\n  hub-echo:\n    address: tcp://{address}\n    clusters: [{clusters}]\n");
    std::fs::write(file, text).expect("written");
}

fn exposed(agent: &Process) -> String {
    text(&agent.ready["exposed"], "hub-echo")
}

/// One short exchange through what an agent exposes.
async fn exchange(address: &str) -> Result<(), String> {
    let mut socket = TcpStream::connect(address).await.map_err(|e| e.to_string())?;
    socket.write_all(b"hello hub").await.map_err(|e| e.to_string())?;
    socket.shutdown().await.map_err(|e| e.to_string())?;
    let mut back = Vec::new();
    socket.read_to_end(&mut back).await.map_err(|e| e.to_string())?;
    if back == b"hello hub" { Ok(()) } else { Err(format!("{} bytes", back.len())) }
}

#[tokio::test]
async fn a_cluster_reaches_a_service_of_the_hub_as_long_as_the_file_says_so() {
    let target = Target::start(echo).await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("services.yaml");
    offer(&file, &target.address, "c1");
    let (services, audit) = (file.to_str().expect("UTF-8"), dir.path().join("audit.log"));
    let flags = ["--services", services, "--audit-log", audit.to_str().expect("UTF-8")];
    let rig = Rig::start_with("127.0.0.1:0", "127.0.0.1:0", &flags).await;
    let flag = ["--expose", "hub-echo=127.0.0.1:0"];
    let one = rig.agent_with(&rig.add("c1").await, &flag).await;
    let two = rig.agent_with(&rig.add("c2").await, &flag).await;
    let (one, two) = (exposed(&one), exposed(&two));

    exchange(&one).await.expect("it is for c1");
    let refused = exchange(&two).await.expect_err("it is not for c2");
    assert!(refused.contains("reset"), "{refused}");
    let counted = r#"mctunnel_streams_refused_total{cluster="c2",code="MCT-SERVICE-NOT-ALLOWED"}"#;
    assert_eq!(rig.metric(counted).await, Some(1.0));

    // A stream that lives is cut when the file no longer has its cluster; the other cluster gets in.
    let mut open = TcpStream::connect(&one).await.expect("a connection");
    open.write_all(b"x").await.expect("written");
    open.read_u8().await.expect("echoed");
    offer(&file, &target.address, "c2");
    open.read_u8().await.expect_err("cut");
    until("the new file to count", async || exchange(&two).await.ok()).await;
    exchange(&one).await.expect_err("no longer for c1");

    // A file with a mistake changes nothing; one that is gone offers nothing.
    std::fs::write(&file, "services:\n  hub-echo:\n    adress: tcp://127.0.0.1:1\n").expect("written");
    for _ in 0..20 {
        exchange(&two).await.expect("the last good one stays");
        // tidy: sleep because the file is looked at every half second
        tokio::time::sleep(std::time::Duration::from_millis(75)).await;
    }
    std::fs::remove_file(&file).expect("removed");
    until("the file's end to count", async || exchange(&two).await.err()).await;

    until("the records of the audit log", async || {
        let recorded = std::fs::read_to_string(&audit).ok()?;
        let lines = |what: &str| recorded.lines().filter(|line| line.contains(what)).count();
        let streams = lines(r#""gateway":"hub-service""#);
        let refused = lines(r#""user":"cluster:c2""#).min(lines("the service is not for this cluster"));
        (streams >= 5 && refused >= 1).then_some(())
    })
    .await;
}
