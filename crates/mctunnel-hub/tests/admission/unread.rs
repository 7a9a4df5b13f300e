//! Agents whose cluster's record cannot be read for a while: who is in stays, nobody new comes, and what was taken back counts at once.

use crate::{
    fake_agent::{Caller, FakeAgent, Shown, tunnel_call},
    stage::{Stage, cluster},
};
use mctunnel_core::Happening;
use std::{fs, time::Duration};
use tokio::time::Instant;

fn is_unread(happening: &Happening) -> bool {
    matches!(happening, Happening::ClusterUnread { .. })
}

#[tokio::test]
async fn t40_a_record_that_cannot_be_read_cuts_no_tunnel_and_lets_nobody_in() {
    let mut stage = Stage::new().await;
    stage.honest_agent("c2").await;
    let bundle = stage.join_bundle("c1");
    let (mut agent, _) = FakeAgent::register(&stage, Shown::honest(&bundle), "one").await;

    // A directory cannot be read as a file, by root neither.
    let record = stage.dir.path().join("clusters/c1.json");
    let aside = stage.dir.path().join("aside");
    fs::rename(&record, &aside).unwrap();
    fs::create_dir(&record).unwrap();

    let begin = Instant::now();
    stage.seen.wait_for(1, is_unread).await;
    let (status, message) = Caller::new(&stage, Shown::honest(&bundle)).await.refusal(tunnel_call()).await;
    assert_eq!(status, "14", "it may come again: {message}");
    assert!(message.starts_with("MCT-ADMIT-UNREAD: "), "{message}");
    assert!(!message.contains("revoked") && !message.contains("c1.json"), "{message}");
    assert_eq!(stage.seen.refusal().await.0, "MCT-ADMIT-UNREAD");
    // Two more looks, of 4 s at most each, would have cut it.
    while begin.elapsed() < Duration::from_secs(12) {
        assert!(agent.is_alive().await);
        stage.exchange("c2").await.unwrap();
        // tidy: sleep because that nothing happens can only be waited for
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(stage.seen.count(is_unread), 2, "once for the tunnel, once for the one who came");
    assert_eq!(stage.seen.count(|h| matches!(h, Happening::TunnelDown { .. })), 0);

    fs::remove_dir(&record).unwrap();
    fs::rename(&aside, &record).unwrap();
    let begin = Instant::now();
    stage.clusters.revoke(&cluster("c1")).unwrap();
    let down = stage.seen.wait("the end", |h| matches!(h, Happening::TunnelDown { .. })).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(matches!(&down, Happening::TunnelDown { reason, .. } if reason.contains("revoked")), "{down:?}");
}
