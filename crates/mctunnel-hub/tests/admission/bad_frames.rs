//! What is no frame, or comes at the wrong time, ends that tunnel with a reason and nothing else.

use crate::{
    fake_agent::{Caller, FakeAgent, Shown},
    stage::Stage,
};
use bytes::{Bytes, BytesMut};
use mctunnel_core::Happening;
use mctunnel_mux::{CloseCode, Frame, Hello, Open, ResetCode};

fn encoded(frames: &[Frame]) -> Bytes {
    let mut bytes = BytesMut::new();
    frames.iter().for_each(|frame| frame.encode(&mut bytes));
    bytes.freeze()
}

fn open(id: u64) -> Frame {
    Frame::Open(id.into(), 1024, Open::default())
}

/// The hub says CLOSE with that reason, and ends the call with the same words.
async fn is_closed(agent: &mut FakeAgent, code: CloseCode, why: &str) {
    let mut last = agent.next().await;
    while matches!(last, Some(Frame::Refused { .. })) {
        last = agent.next().await;
    }
    let Some(Frame::Close { code: told, message }) = last else { panic!("no CLOSE but {last:?} ({why})") };
    assert_eq!((told, message.as_str()), (code, why));
    assert_eq!(agent.next().await, None, "nothing comes behind CLOSE");
    let trailers = agent.trailers().await;
    assert_eq!(trailers["grpc-status"], "14");
    assert_eq!(trailers["grpc-message"], why);
}

#[tokio::test]
async fn t22_what_comes_instead_of_hello_ends_the_tunnel_with_a_reason() {
    let mut stage = Stage::new().await;
    stage.honest_agent("c2").await;
    let early = "a frame came before the greeting was complete";
    let huge = "a message is larger than any frame may be";
    let old = Hello { versions: vec![0, 2], ..Hello::default() };
    let many = vec![0; 5 * 1000];
    for (bytes, code, why) in [
        (Bytes::from_static(b"\0\0\0\0\x04\xff\xff\xff\xff"), CloseCode::Protocol, "a message ends inside a number"),
        (Bytes::from_static(b"\x01\0\0\0\x01a"), CloseCode::Protocol, "a message is compressed, which was not agreed"),
        (Bytes::from_static(b"\0\xff\xff\xff\xff"), CloseCode::Protocol, huge),
        (
            Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n"),
            CloseCode::Protocol,
            "a message is compressed, which was not agreed",
        ),
        (Bytes::from(many), CloseCode::Protocol, "a frame is of an unknown kind"),
        (encoded(&[open(1)]), CloseCode::Protocol, early),
        (encoded(&[Frame::Ping(1)]), CloseCode::Protocol, early),
        (encoded(&[Frame::Welcome(mctunnel_mux::Welcome::default())]), CloseCode::Protocol, early),
        (encoded(&[Frame::Hello(old)]), CloseCode::Version, "this hub speaks protocol version 1 only"),
    ] {
        let mut agent = Caller::new(&stage, Shown::honest(&stage.join_bundle("c1"))).await.tunnel().await;
        agent.send_raw(bytes);
        is_closed(&mut agent, code, why).await;
        agent.hang_up().await;
        let (code, reason) = stage.seen.refusal().await;
        assert_eq!(code, "MCT-ADMIT-HELLO");
        assert!(reason.contains(why), "{reason}");
    }
    assert_eq!(stage.registered(), ["c2"]);
    stage.exchange("c2").await.unwrap();
}

#[tokio::test]
async fn t22_a_broken_rule_ends_the_tunnel_with_a_reason() {
    let mut stage = Stage::new().await;
    stage.honest_agent("c2").await;
    let data = |id: u64, payload: &'static [u8]| Frame::Data { stream: id.into(), fin: false, payload: payload.into() };
    let never = "a frame names a stream that was never opened";
    for (frames, code, why) in [
        (vec![data(9, b"x")], CloseCode::Protocol, "bytes came for a stream that is not open"),
        (vec![data(2, b"x")], CloseCode::Protocol, "bytes came for a stream that is not open"),
        (vec![open(2)], CloseCode::Protocol, "the peer opened a stream with an id of ours"),
        (vec![open(3), open(3)], CloseCode::Protocol, "the peer used a stream id twice"),
        (vec![open(3), open(1)], CloseCode::Protocol, "the peer used a stream id twice"),
        (vec![Frame::Window { stream: 1.into(), credit: 1 }], CloseCode::Protocol, never),
        (vec![Frame::Window { stream: 1.into(), credit: 0 }], CloseCode::FlowControl, "a window grants nothing"),
        (
            vec![Frame::Open(1.into(), u64::MAX, Open::default())],
            CloseCode::FlowControl,
            "a window was granted beyond all bounds",
        ),
        (vec![Frame::Reset { stream: 4.into(), code: ResetCode::Cancelled }], CloseCode::Protocol, never),
        (
            vec![Frame::Joined { stream: 2.into(), window: 1 }],
            CloseCode::Protocol,
            "an answer came to a stream that waits for none",
        ),
        (vec![Frame::Hello(Hello::default())], CloseCode::Protocol, "a greeting came twice"),
    ] {
        let (mut agent, _) = FakeAgent::register(&stage, Shown::honest(&stage.join_bundle("c1")), "one").await;
        agent.send_raw(encoded(&frames));
        is_closed(&mut agent, code, why).await;
        agent.hang_up().await;
        let down = |h: &Happening| matches!(h, Happening::TunnelDown { reason, .. } if reason.contains(why));
        stage.seen.wait(why, down).await;
    }
    stage.exchange("c2").await.unwrap();
}

#[tokio::test]
async fn a_peer_that_ignores_the_goodbye_is_let_go_all_the_same() {
    let stage = Stage::new().await;
    let (mut agent, _) = FakeAgent::register(&stage, Shown::honest(&stage.join_bundle("c1")), "one").await;
    agent.send(&open(2));
    // It neither hangs up nor ends its direction.
    stage.seen.wait("the end of the tunnel", |h| matches!(h, Happening::TunnelDown { .. })).await;
    assert_eq!(stage.registered(), [""; 0]);
    drop(agent);
}
