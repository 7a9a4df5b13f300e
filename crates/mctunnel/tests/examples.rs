//! The examples do what they say: each is compiled into this test and run to its end.
#![expect(clippy::duplicate_mod, reason = "each example is a program of its own and brings what it needs")]

#[expect(dead_code, reason = "`main` is for `cargo run --example`")]
#[path = "../examples/embedded_axum.rs"]
mod embedded_axum;
#[expect(dead_code, reason = "`main` is for `cargo run --example`")]
#[path = "../examples/graphql.rs"]
mod graphql;
#[expect(dead_code, reason = "`main` is for `cargo run --example`")]
#[path = "../examples/line_protocol.rs"]
mod line_protocol;

#[tokio::test]
async fn the_line_protocol_runs() {
    line_protocol::run().await.unwrap();
}

#[tokio::test]
async fn graphql_is_routed_by_field() {
    graphql::run().await.unwrap();
}

#[tokio::test]
async fn an_axum_application_forwards() {
    embedded_axum::run().await.unwrap();
}
