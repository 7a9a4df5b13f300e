//! How soon a frozen process at the other end of a tunnel is noticed.

use crate::rig::{Rig, Target, admin_page, echo, exchange, text, until};
use std::time::Duration;
use tokio::time::Instant;

/// What is promised: 12 s from the last sign of life; and a margin for a machine that has other things to do.
const FOUND: Duration = Duration::from_secs(12).saturating_add(Duration::from_secs(6));

#[tokio::test]
async fn t44_a_frozen_agent_is_given_up_within_twelve_seconds() {
    let rig = Rig::start().await;
    let target = Target::start(echo).await;
    let agent = rig.agent(&rig.add("c1").await, &[&target.address]).await;
    exchange(&rig.connect, "c1", &target.address, b"before").await.expect("served");
    let frozen = Instant::now();
    agent.signal("STOP").await;
    until("the hub to give it up", async || (rig.metric("mctunnel_tunnels").await == Some(0.0)).then_some(())).await;
    let found = frozen.elapsed();
    assert!(found <= FOUND, "{found:?}");
    let line = rig.open("c1", &target.address).await.expect_err("nobody is there");
    assert!(line.starts_with("HTTP/1.1 503 ") && line.contains("MCT-OPEN-NO-TUNNEL"), "{line}");
    agent.signal("CONT").await;
    until("the agent to come back", async || exchange(&rig.connect, "c1", &target.address, b"back").await.ok()).await;
}

#[tokio::test]
async fn a_frozen_hub_is_given_up_within_twelve_seconds() {
    let rig = Rig::start().await;
    let target = Target::start(echo).await;
    let agent = rig.agent(&rig.add("c1").await, &[&target.address]).await;
    let admin = text(&agent.ready, "admin");
    let answers = async |status: &str| {
        admin_page(&admin, "/readyz").await.filter(|page| page.starts_with(&format!("HTTP/1.1 {status} "))).map(drop)
    };
    assert!(answers("200").await.is_some(), "it is ready while the hub lives");
    let frozen = Instant::now();
    rig.hub.signal("STOP").await;
    until("the agent to give the hub up", async || answers("503").await).await;
    let found = frozen.elapsed();
    assert!(found <= FOUND, "{found:?}");
    rig.hub.signal("CONT").await;
    until("the tunnel to be back", async || exchange(&rig.connect, "c1", &target.address, b"back").await.ok()).await;
    until("the agent to be ready again", async || answers("200").await).await;
}
