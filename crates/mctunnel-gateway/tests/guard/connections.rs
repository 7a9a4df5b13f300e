//! Connections with more than one request, slow ones, and large bodies.

use crate::rig::{Rig, Seen, codes};
use tokio::net::{TcpListener, TcpStream};

const ONE: &str = "GET /c/1 HTTP/1.1\r\nHost: h\r\n\r\n";
const TWO: &str = "POST /d/2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
const BAD: &str = "GET /c/../d HTTP/1.1\r\nHost: h\r\n\r\n";

fn requests(lines: &[&str]) -> Vec<Seen> {
    lines.iter().map(|line| Seen::Request((*line).to_owned())).collect()
}

#[tokio::test]
async fn t07_requests_of_a_kept_alive_connection_are_each_seen() {
    let mut rig = Rig::plain();
    for (request, target) in [(ONE, "/c/1"), (TWO, "/d/2"), (ONE, "/c/1")] {
        rig.send(request).await;
        let answer = rig.until(&format!("\r\n\r\n{target}")).await;
        assert_eq!(codes(&answer), [200]);
    }
    assert_eq!(rig.seen(), requests(&["GET /c/1 b\"\"", "POST /d/2 b\"abc\"", "GET /c/1 b\"\""]));
}

#[tokio::test]
async fn t07_answers_to_pipelined_requests_come_in_order() {
    let mut rig = Rig::plain();
    rig.send([ONE, TWO, BAD, ONE].concat()).await;
    let answers = rig.rest().await;
    assert_eq!(codes(&answers), [200, 200, 400], "{answers}");
    let order = ["/c/1", "/d/2", "MCT-HTTP-BAD-TARGET"].map(|text| answers.find(text).expect("answered"));
    assert!(order.is_sorted(), "{answers}");
    assert_eq!(rig.seen(), requests(&["GET /c/1 b\"\"", "POST /d/2 b\"abc\""]));
}

#[tokio::test]
async fn a_refused_client_gets_its_answer_from_a_server_that_takes_its_time() {
    let mut rig = Rig::plain();
    rig.send(BAD).await;
    let answer = rig.rest().await;
    assert_eq!(codes(&answer), [400], "{answer}");
    assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    rig.served().await;
}

#[tokio::test]
async fn a_client_that_is_not_done_sending_is_told_why_it_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (server, _) = accepted.expect("accepted");
    let mut rig = Rig::over(Box::new(client.expect("connected")), server, false);
    let body = "x".repeat(100_000);
    rig.send(format!("POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\nX-Remote-User: a\r\n\r\n{body}")).await;
    let answer = rig.rest().await;
    assert_eq!(codes(&answer), [400], "{answer}");
    assert!(answer.contains("MCT-HTTP-RESERVED-HEADER"), "{answer}");
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it() {
    let mut rig = Rig::plain();
    rig.send("PUT /c HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n").await;
    assert_eq!(rig.until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(rig.seen(), []);
    rig.send("abc").await;
    assert_eq!(codes(&rig.until("\r\n\r\n/c").await), [200]);
    assert_eq!(rig.seen(), requests(&["PUT /c b\"abc\""]));
}

#[tokio::test]
async fn large_bodies_pass_whole() {
    let body = "0123456789".repeat(100_000);
    let mut rig = Rig::plain();
    rig.send(format!("POST /c/1 HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}{ONE}", body.len())).await;
    let mut chunked =
        "POST /c/2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    for chunk in body.as_bytes().chunks(7777) {
        chunked += &format!("{:x}\r\n{}\r\n", chunk.len(), str::from_utf8(chunk).expect("digits"));
    }
    rig.send(chunked + "0\r\n\r\n").await;
    assert_eq!(codes(&rig.rest().await), [200, 200, 200]);
    assert_eq!(rig.seen(), requests(&["POST /c/1 1000000 bytes", "GET /c/1 b\"\"", "POST /c/2 1000000 bytes"]));
}

#[tokio::test]
async fn t15_a_body_that_breaks_ends_the_connection() {
    let mut rig = Rig::plain();
    rig.send(
        "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;a=\"b\"\r\nc\r\n0\r\n\r\n",
    )
    .await;
    rig.send(ONE).await;
    rig.rest().await;
    rig.served().await;
    assert_eq!(rig.seen(), [Seen::BrokenBody("POST /c".to_owned())]);
}

#[tokio::test]
async fn a_client_that_leaves_in_a_head_is_not_seen() {
    let mut rig = Rig::plain();
    rig.send("GET /c HTTP/1.1\r\nHost: h\r\n").await;
    rig.end().await;
    assert_eq!(rig.rest().await, "");
    rig.served().await;
    assert_eq!(rig.seen(), []);
}
