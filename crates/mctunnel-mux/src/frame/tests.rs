//! Byte snapshots of every frame: the wire is a contract, so a change here is a new protocol version.

use super::*;
use alloc::{format, vec};

fn all() -> Vec<(Frame, &'static str)> {
    let stream = StreamId(300);
    vec![
        (
            Frame::Data { stream, fin: true, payload: Bytes::from_static(b"hi") },
            "00 0000000b 0a09 08ac02 1001 1a026869",
        ),
        (Frame::Window { stream, credit: 1 << 20 }, "00 00000009 1207 08ac02 10808040"),
        (
            Frame::Open(
                stream,
                5,
                Open {
                    priority: Priority::Bulk,
                    headers: vec![Header::text("a", "b"), Header::text("c", "")],
                    user: None,
                },
            ),
            "00 00000016 1a14 08ac02 1005 1802 2206 0a0161 120162 2203 0a0163",
        ),
        (
            Frame::Open(
                stream,
                5,
                Open {
                    user: Some(Arc::new(OpenUser::new(User {
                        name: "u".into(),
                        groups: vec!["g".into(), "".into()],
                        uid: "i".into(),
                        extra: vec![("k".into(), vec!["v".into(), String::new()])],
                    }))),
                    ..Open::default()
                },
            ),
            "00 0000001e 1a1c 08ac02 1005 2a15 0a0175 120167 1200 1a0169 2208 0a016b 120176 1200",
        ),
        (Frame::Joined { stream, window: 7 }, "00 00000007 2205 08ac02 1007"),
        (
            Frame::Refused { stream, code: RefuseCode::TargetTimeout, message: "no".into() },
            "00 0000000b 2a09 08ac02 1004 1a026e6f",
        ),
        (Frame::Reset { stream, code: ResetCode::Broken }, "00 00000007 3205 08ac02 1002"),
        (Frame::Ping(1), "00 00000004 3a02 0801"),
        (Frame::Pong(0), "00 00000002 4200"),
        (
            Frame::Hello(Hello {
                versions: vec![1, 2],
                instance: "i".into(),
                software: "s".into(),
                capabilities: vec!["x".into()],
                early_window: 9,
            }),
            "00 00000011 4a0f 0a020102 120169 1a0173 220178 2809",
        ),
        (
            Frame::Welcome(Welcome {
                version: 1,
                tunnel: "t".into(),
                generation: 3,
                software: "s".into(),
                capabilities: vec!["x".into()],
                early_window: 9,
            }),
            "00 00000011 520f 0801 120174 1803 220173 2a0178 3009",
        ),
        (
            Frame::Drain(Drain { reason: DrainReason::Replaced, message: "m".into(), reconnect_after_ms: 1000 }),
            "00 0000000a 5a08 0802 12016d 18e807",
        ),
        (Frame::Close { code: CloseCode::Budget, message: "m".into() }, "00 00000007 6205 0804 12016d"),
    ]
}

#[test]
fn every_frame_has_its_bytes() {
    for (frame, hex) in all() {
        let mut out = BytesMut::new();
        frame.encode(&mut out);
        let got: String = out.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(got, hex.replace(' ', ""), "{frame:?}");
    }
}

#[test]
fn every_frame_is_read_back() {
    for (frame, _) in all() {
        let mut out = BytesMut::new();
        frame.encode(&mut out);
        assert_eq!(Frame::decode(out.freeze().slice(5..)), Ok(frame));
    }
}

#[test]
fn a_data_head_and_its_payload_are_the_same_bytes_as_the_whole() {
    for (len, fin) in [(0, true), (1, false), (127, true), (128, false), (20_000, true), (MAX_PAYLOAD, false)] {
        let payload = Bytes::from(vec![7; len]);
        let stream = StreamId(u64::MAX);
        let mut whole = BytesMut::new();
        Frame::Data { stream, fin, payload: payload.clone() }.encode(&mut whole);
        let mut parts = BytesMut::new();
        encode_data_head(&mut parts, stream, fin, len);
        parts.extend_from_slice(&payload);
        assert_eq!(whole, parts, "{len} bytes");
    }
}

#[test]
fn fields_of_a_later_version_are_skipped() {
    // PING with nonce 1, an unknown varint 99, a fixed64, a fixed32 and bytes beside it.
    let body = [0x3a, 0x19, 8, 1, 0x98, 6, 5, 0xa1, 6, 1, 2, 3, 4, 5, 6, 7, 8, 0xad, 6, 1, 2, 3, 4, 0xb2, 6, 1, 0];
    assert_eq!(Frame::decode(Bytes::copy_from_slice(&body)), Ok(Frame::Ping(1)));
}

#[test]
fn what_is_not_a_frame_is_refused_with_a_reason() {
    let long = vec![b'x'; 2000];
    let mut long_text = BytesMut::new();
    Sink::message(&mut long_text, 12, |m| m.bytes(2, &long));
    let mut big = BytesMut::new();
    Frame::Data { stream: StreamId(2), fin: false, payload: vec![0; 65_537].into() }.encode(&mut big);
    let cases: [(&[u8], &str); 11] = [
        (&[], "unknown kind"),
        (&[0x6a, 0], "unknown kind"),
        (&[0x3a, 0, 0x42, 0], "two frames"),
        (&[0x0a, 5, 8], "longer than its message"),
        (&[0x0a, 1, 8], "inside a number"),
        (&[0x80; 11], "ten bytes"),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "64 bits"),
        (&[0x0b], "wire type"),
        (&[0x0a, 0], "stream 0"),
        (&long_text, "1024"),
        (&big[5..], "65536"),
    ];
    for (bytes, reason) in cases {
        let error = Frame::decode(Bytes::copy_from_slice(bytes)).unwrap_err();
        assert!(format!("{error}").contains(reason), "{error} should say {reason}");
    }
}
