//! Upgrades: what follows one is not HTTP, unless it fails.

use crate::rig::{Rig, Seen, codes};

fn upgrade(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
}

#[tokio::test]
async fn an_upgraded_connection_carries_any_bytes() {
    let mut rig = Rig::plain();
    rig.send(upgrade("/c/exec")).await;
    let head = rig.until("\r\n\r\n").await;
    assert_eq!(codes(&head), [101], "{head}");
    let text = "\0\r\n\n\rGET * HTTP/1.1\r\n\r\nImpersonate_User";
    rig.send(text).await;
    rig.end().await;
    assert_eq!(rig.rest().await, text);
    assert_eq!(rig.seen(), [Seen::Request("GET /c/exec".to_owned())]);
}

#[tokio::test]
async fn bytes_right_behind_the_head_belong_to_the_upgraded_connection() {
    let mut rig = Rig::plain();
    rig.send(upgrade("/c/exec") + "GET /c/smuggled HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert_eq!(codes(&rig.until("\r\n\r\n").await), [101]);
    rig.end().await;
    assert_eq!(rig.rest().await, "GET /c/smuggled HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(rig.seen(), [Seen::Request("GET /c/exec".to_owned())]);
}

#[tokio::test]
async fn t13_nothing_behind_an_upgrade_that_failed_is_a_request() {
    let mut rig = Rig::plain();
    rig.send(upgrade("/c/forbidden") + "GET /c/smuggled HTTP/1.1\r\nImpersonate-User: a\r\n\r\n").await;
    let answers = rig.rest().await;
    assert_eq!(codes(&answers), [403], "{answers}");
    rig.served().await;
    assert_eq!(rig.seen(), [Seen::Request("GET /c/forbidden".to_owned())]);
}
