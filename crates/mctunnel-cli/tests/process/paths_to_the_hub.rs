//! How an agent gets to its hub: the name that the hub's certificate has to have, and the proxy between them.

use crate::rig::{PATIENCE, Rig, Target, agent_command, echo, exchange};
use std::process::Stdio;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};

#[tokio::test]
async fn a_hub_without_the_name_that_the_agent_wants_gets_no_tunnel() {
    let rig = Rig::start_with("127.0.0.1:0", "127.0.0.1:0", &["--hub-name", "hub.test"]).await;
    let target = Target::start(echo).await;
    let (join, allow) = (rig.add("c1").await, format!("--allow=tcp://{}", target.address));

    let mut command = agent_command(&join, &[&allow, "--hub-server-name", "other.test"]);
    command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut agent = command.spawn().expect("the binary starts");
    let mut lines = BufReader::new(agent.stderr.take().expect("it is piped")).lines();
    let told = timeout(PATIENCE, async {
        loop {
            let line = lines.next_line().await.expect("text").expect("it goes on trying");
            if line.contains("No tunnel to the hub") {
                return line;
            }
        }
    });
    let told = told.await.expect("it says why there is no tunnel");
    assert!(told.contains("certificate") && told.contains("other.test"), "{told}");
    assert_eq!(rig.metric("mctunnel_tunnels").await.unwrap_or_default(), 0.0);
    agent.kill().await.expect("it ran");

    let _agent = rig.agent_with(&join, &[&allow, "--hub-server-name", "hub.test"]).await;
    exchange(&rig.connect, "c1", &target.address, b"by its further name").await.expect("served");
}

/// A proxy that knows one name, and leads to `hub`. It tells what it was asked for.
async fn proxy(listener: TcpListener, hub: String, asked: mpsc::Sender<String>) {
    let mut tunnels = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        let (hub, asked) = (hub.clone(), asked.clone());
        tunnels.spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(client.read_u8().await.expect("a whole head"));
            }
            let head = String::from_utf8(head).expect("text");
            asked.send(head.lines().next().unwrap_or_default().to_owned()).await.expect("the test listens");
            let mut hub = TcpStream::connect(hub).await.expect("the hub is there");
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.expect("answered");
            let _ = copy_bidirectional(&mut client, &mut hub).await;
        });
    }
}

#[tokio::test]
async fn a_tunnel_comes_up_through_the_proxy_that_the_environment_names() {
    let rig = Rig::start().await;
    let target = Target::start(echo).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, mut asked) = mpsc::channel(16);
    let mut proxies = JoinSet::new();
    proxies.spawn(proxy(listener, rig.tunnel.clone(), tell));

    // A name that nobody can look up: only the proxy knows where it leads.
    let port = rig.tunnel.rsplit(':').next().expect("a port");
    let hub = format!("hub.test:{port}");
    let allow = format!("--allow=tcp://{}", target.address);
    let mut command = agent_command(&rig.add("c1").await, &[&allow, "--hub", &hub]);
    command.env("HTTPS_PROXY", format!("http://{address}")).env_remove("NO_PROXY").env_remove("no_proxy");
    let _agent = rig.agent_from(command).await;
    exchange(&rig.connect, "c1", &target.address, b"through the proxy").await.expect("served");
    assert_eq!(asked.try_recv().expect("it came through the proxy"), format!("CONNECT {hub} HTTP/1.1"));
}
