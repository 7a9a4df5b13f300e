//! The examples do what they say: each is compiled into this test and run to its end.

#[expect(dead_code, reason = "`main` is for `cargo run --example`")]
#[path = "../examples/line_protocol.rs"]
mod line_protocol;

#[tokio::test]
async fn the_line_protocol_runs() {
    line_protocol::run().await.unwrap();
}
