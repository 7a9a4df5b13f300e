//! Many agents at once.

use crate::rig::{Rig, connect, start_hub, text, until};
use mctunnel::{
    agent::Agent,
    identity::{ClusterFiles, HUB_SERVER_NAME, HubAuthority, JoinBundle},
};
use std::time::Duration;
use tokio::{task::JoinSet, time::Instant};

const AGENTS: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t48_a_thousand_agents_are_back_within_ten_seconds_of_a_killed_hub() {
    let mut rig = Rig::start().await;
    let authority = HubAuthority::open_or_create(rig.dir.path(), &[]).expect("the hub's own");
    let files = ClusterFiles::new(rig.dir.path());
    let mut agents = JoinSet::new();
    for i in 0..AGENTS {
        let cluster = format!("c{i}").parse().expect("a name");
        let issued = authority.issue_agent(&cluster, Duration::from_secs(3600)).expect("issued");
        files.add(&cluster, &issued.serial, false).expect("added");
        let bundle = JoinBundle {
            version: JoinBundle::VERSION,
            cluster,
            hub: rig.tunnel.clone(),
            hub_server_name: HUB_SERVER_NAME.to_owned(),
            ca_pem: authority.ca_pem().to_owned(),
            certificate_pem: issued.certificate_pem,
            key_pem: issued.key_pem,
        };
        let agent = Agent::builder(&bundle).build().expect("an agent");
        agents.spawn(async move { agent.run().await });
    }
    all_connected(&rig.admin).await;
    for round in 0..2 {
        rig.hub.child.kill().await.expect("kill -9");
        let ready = format!("again-{round}.ready");
        let killed = Instant::now();
        rig.hub = start_hub(rig.dir.path(), &ready, &rig.tunnel, &rig.connect, &[]).await;
        rig.admin = text(&rig.hub.ready, "admin");
        all_connected(&rig.admin).await;
        assert!(killed.elapsed() <= Duration::from_secs(10), "all back after {:?}", killed.elapsed());
        all_answer(&rig.connect).await;
    }
}

/// How many are asked at the same time.
const ASKED: usize = 50;

/// No stale route: every cluster answers for itself, by its own agent's refusal.
async fn all_answer(proxy: &str) {
    for first in (0..AGENTS).step_by(ASKED) {
        let mut asked = JoinSet::new();
        for i in first..AGENTS.min(first + ASKED) {
            let proxy = proxy.to_owned();
            asked.spawn(async move {
                let line = connect(&proxy, &format!("c{i}"), "10.1.2.3:80").await.expect_err("nothing is allowed");
                assert!(line.starts_with("HTTP/1.1 403 "), "c{i}: {line}");
            });
        }
        while let Some(answered) = asked.join_next().await {
            answered.expect("it answers for itself");
        }
    }
}

async fn all_connected(admin: &str) {
    #[expect(clippy::cast_precision_loss, reason = "a thousand")]
    let all = AGENTS as f64;
    until("all agents", async || (crate::rig::metric(admin, "mctunnel_tunnels").await == Some(all)).then_some(()))
        .await;
}
