//! Our few hundred lines of protobuf against a whole implementation that knows nothing but `tunnel.proto`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

use bytes::{Bytes, BytesMut};
use mctunnel_mux::{
    CloseCode, Drain, DrainReason, Frame, Header, Hello, MAX_PAYLOAD, Open, OpenUser, Priority, RefuseCode, ResetCode,
    User, Welcome,
};
use proptest::{collection::vec, prelude::*};
use protox::{
    prost::Message,
    prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, Value},
};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, LazyLock},
};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    let files = protox::compile(["mctunnel/tunnel/v1/tunnel.proto"], [proto]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_we_write_prost_reads(frame in frames()) {
        let mut bytes = BytesMut::new();
        frame.encode(&mut bytes);
        let (prefix, body) = bytes.split_at(5);
        prop_assert_eq!(prefix[0], 0);
        prop_assert_eq!(usize::try_from(u32::from_be_bytes(prefix[1..].try_into().unwrap())).unwrap(), body.len());
        prop_assert_eq!(DynamicMessage::decode(descriptor("Frame"), body).unwrap(), message(&frame));
    }

    #[test]
    fn what_prost_writes_we_read(frame in frames()) {
        prop_assert_eq!(Frame::decode(message(&frame).encode_to_vec().into()), Ok(frame));
    }

    #[test]
    fn any_bytes_are_a_frame_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        survives(bytes.into())?;
    }

    #[test]
    fn a_spoilt_frame_is_a_frame_or_an_error(frame in frames(), spoil in vec((any::<usize>(), any::<u8>()), 1..4)) {
        let mut bytes = message(&frame).encode_to_vec();
        for (position, byte) in spoil {
            let len = bytes.len().max(1);
            if let Some(place) = bytes.get_mut(position % len) {
                *place = byte;
            }
        }
        survives(bytes.into())?;
    }
}

/// What was read can be written and read again.
fn survives(bytes: Bytes) -> Result<(), TestCaseError> {
    if let Ok(frame) = Frame::decode(bytes) {
        let mut again = BytesMut::new();
        frame.encode(&mut again);
        prop_assert_eq!(Frame::decode(again.freeze().slice(5..)), Ok(frame));
    }
    Ok(())
}

#[test]
fn every_field_of_the_contract_is_used() {
    let mut used = BTreeSet::new();
    for frame in full() {
        note_fields(&message(&frame), &mut used);
    }
    let all = POOL.all_messages().flat_map(|m| m.fields().map(|f| f.full_name().to_owned()).collect::<Vec<_>>());
    assert_eq!(used, all.collect());
}

fn note_fields(message: &DynamicMessage, used: &mut BTreeSet<String>) {
    for (field, value) in message.fields() {
        used.insert(field.full_name().to_owned());
        let inner = value.as_list().map_or_else(|| vec![value.clone()], <[Value]>::to_vec);
        inner.iter().filter_map(Value::as_message).for_each(|inner| note_fields(inner, used));
    }
}

#[test]
fn every_number_of_the_contract_has_its_name() {
    check_enum("Priority", |n| (Priority::from_wire(n).to_wire(), Priority::from_wire(n)), 0);
    check_enum("RefuseCode", |n| (RefuseCode::from_wire(n).to_wire(), RefuseCode::from_wire(n)), 1);
    check_enum("ResetCode", |n| (ResetCode::from_wire(n).to_wire(), ResetCode::from_wire(n)), 1);
    check_enum("DrainReason", |n| (DrainReason::from_wire(n).to_wire(), DrainReason::from_wire(n)), 1);
    check_enum("CloseCode", |n| (CloseCode::from_wire(n).to_wire(), CloseCode::from_wire(n)), 1);
    assert_eq!(POOL.all_enums().count(), 5);
}

fn check_enum<E: fmt::Debug>(name: &str, read: impl Fn(u64) -> (u64, E), first: u64) {
    let contract = POOL.get_enum_by_name(&format!("mctunnel.tunnel.v1.{name}")).unwrap();
    let mut last = first;
    for value in contract.values() {
        let number = u64::try_from(value.number()).unwrap();
        let (back, ours) = read(number);
        if number >= first {
            let ours = shout(&format!("{name}{ours:?}"));
            assert_eq!((back, ours.as_str()), (number, value.name()));
        }
        last = last.max(number);
    }
    assert_ne!(read(last + 1).0, last + 1, "{name} has no number that the contract does not have");
}

/// `OneWord` as `ONE_WORD`.
fn shout(name: &str) -> String {
    let mut shouted = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !shouted.is_empty() {
            shouted.push('_');
        }
        shouted.push(letter.to_ascii_uppercase());
    }
    shouted
}

#[test]
fn fields_a_later_version_may_add_are_ignored() {
    for frame in full() {
        let outer = message(&frame);
        let (field, inner) = outer.fields().next().unwrap();
        let mut inner = inner.as_message().unwrap().encode_to_vec();
        // Field 15 as a number, field 14 as bytes that are no text, field 13 as a fixed32.
        inner.extend_from_slice(&[0x78, 1, 0x72, 2, 0xff, 0xfe, 0x6d, 1, 2, 3, 4]);
        let mut bytes = vec![u8::try_from(field.number() << 3 | 2).unwrap()];
        let len = u32::try_from(inner.len()).unwrap();
        if len >= 128 {
            bytes.push(u8::try_from(len % 128).unwrap() | 0x80);
        }
        bytes.push(u8::try_from(if len >= 128 { len / 128 } else { len }).unwrap());
        bytes.extend_from_slice(&inner);
        assert_eq!(Frame::decode(bytes.into()), Ok(frame));
    }
}

#[test]
fn text_is_read_from_its_own_field_only() {
    // CLOSE with code 1 and a field 3 that a later version may add; no text of ours.
    let close = Frame::decode(Bytes::from_static(&[0x62, 5, 8, 1, 0x1a, 1, 0xff]));
    assert_eq!(close, Ok(Frame::Close { code: CloseCode::Done, message: String::new() }));
}

// === Frames as prost sees them ===

fn descriptor(name: &str) -> MessageDescriptor {
    POOL.get_message_by_name(&format!("mctunnel.tunnel.v1.{name}")).unwrap()
}

/// The frame, built from the names and types of the contract. A name or a type that it does not have is a panic.
fn message(frame: &Frame) -> DynamicMessage {
    let (kind, fields): (&str, Vec<(&str, Value)>) = match frame {
        Frame::Data { stream, fin, payload } => (
            "data",
            vec![
                ("stream", Value::U64(stream.get())),
                ("fin", Value::Bool(*fin)),
                ("payload", Value::Bytes(payload.clone())),
            ],
        ),
        Frame::Window { stream, credit } => {
            ("window", vec![("stream", Value::U64(stream.get())), ("credit", Value::U64(*credit))])
        }
        Frame::Open(stream, window, open) => ("open", open_fields(stream.get(), *window, open)),
        Frame::Joined { stream, window } => {
            ("joined", vec![("stream", Value::U64(stream.get())), ("window", Value::U64(*window))])
        }
        Frame::Refused { stream, code, message } => (
            "refused",
            vec![
                ("stream", Value::U64(stream.get())),
                ("code", number(code.to_wire())),
                ("message", Value::String(message.clone())),
            ],
        ),
        Frame::Reset { stream, code } => {
            ("reset", vec![("stream", Value::U64(stream.get())), ("code", number(code.to_wire()))])
        }
        Frame::Ping(nonce) => ("ping", vec![("nonce", Value::U64(*nonce))]),
        Frame::Pong(nonce) => ("pong", vec![("nonce", Value::U64(*nonce))]),
        Frame::Hello(hello) => ("hello", hello_fields(hello)),
        Frame::Welcome(welcome) => ("welcome", welcome_fields(welcome)),
        Frame::Drain(drain) => (
            "drain",
            vec![
                ("reason", number(drain.reason.to_wire())),
                ("message", Value::String(drain.message.clone())),
                ("reconnect_after_ms", Value::U64(drain.reconnect_after_ms)),
            ],
        ),
        Frame::Close { code, message } => {
            ("close", vec![("code", number(code.to_wire())), ("message", Value::String(message.clone()))])
        }
    };
    let outer = descriptor("Frame");
    let inner = outer.get_field_by_name(kind).unwrap().kind().as_message().unwrap().clone();
    let mut message = DynamicMessage::new(outer);
    message.set_field_by_name(kind, Value::Message(fill(&inner, fields)));
    message
}

/// Values that are the default are left out, as proto3 does.
fn fill(descriptor: &MessageDescriptor, fields: Vec<(&str, Value)>) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (name, value) in fields {
        let field = descriptor.get_field_by_name(name).unwrap_or_else(|| panic!("the contract has no {name}"));
        if !value.is_default_for_field(&field) {
            message.set_field(&field, value);
        }
    }
    message
}

fn open_fields(stream: u64, window: u64, open: &Open) -> Vec<(&'static str, Value)> {
    let headers = open.headers.iter().map(|header| {
        let fields = vec![("name", Value::String(header.name.clone())), ("value", Value::Bytes(header.value.clone()))];
        Value::Message(fill(&descriptor("Header"), fields))
    });
    let headers = Value::List(headers.collect());
    let mut fields = vec![
        ("stream", Value::U64(stream)),
        ("window", Value::U64(window)),
        ("priority", number(open.priority.to_wire())),
        ("headers", headers),
    ];
    fields.extend(open.user.as_ref().map(|user| ("user", user_message(user))));
    fields
}

fn user_message(user: &User) -> Value {
    let extra = user.extra.iter().map(|(key, values)| {
        Value::Message(fill(&descriptor("Extra"), vec![("key", Value::String(key.clone())), ("values", texts(values))]))
    });
    let extra = Value::List(extra.collect());
    let (name, uid) = (Value::String(user.name.to_string()), Value::String(user.uid.to_string()));
    let fields = vec![
        ("name", name),
        ("groups", texts(&user.groups.iter().map(ToString::to_string).collect::<Vec<_>>())),
        ("uid", uid),
        ("extra", extra),
    ];
    Value::Message(fill(&descriptor("User"), fields))
}

fn hello_fields(hello: &Hello) -> Vec<(&'static str, Value)> {
    vec![
        ("versions", Value::List(hello.versions.iter().map(|v| Value::U32(*v)).collect())),
        ("instance", Value::String(hello.instance.clone())),
        ("software", Value::String(hello.software.clone())),
        ("capabilities", texts(&hello.capabilities)),
        ("early_window", Value::U64(hello.early_window)),
    ]
}

fn welcome_fields(welcome: &Welcome) -> Vec<(&'static str, Value)> {
    vec![
        ("version", Value::U32(welcome.version)),
        ("tunnel", Value::String(welcome.tunnel.clone())),
        ("generation", Value::U64(welcome.generation)),
        ("software", Value::String(welcome.software.clone())),
        ("capabilities", texts(&welcome.capabilities)),
        ("early_window", Value::U64(welcome.early_window)),
    ]
}

fn texts(list: &[String]) -> Value {
    Value::List(list.iter().map(|text| Value::String(text.clone())).collect())
}

fn number(wire: u64) -> Value {
    Value::EnumNumber(i32::try_from(wire).unwrap())
}

// === Frames ===

/// One frame of each kind, with every field set.
fn full() -> Vec<Frame> {
    let stream = 7.into();
    let text = || "text".to_owned();
    vec![
        Frame::Data { stream, fin: true, payload: Bytes::from_static(b"bytes") },
        Frame::Window { stream, credit: 9 },
        Frame::Open(
            stream,
            9,
            Open { priority: Priority::Bulk, headers: vec![Header::text("name", "value")], user: Some(user()) },
        ),
        Frame::Joined { stream, window: 9 },
        Frame::Refused { stream, code: RefuseCode::Draining, message: text() },
        Frame::Reset { stream, code: ResetCode::Drained },
        Frame::Ping(9),
        Frame::Pong(9),
        Frame::Hello(Hello {
            versions: vec![1, 300],
            instance: text(),
            software: text(),
            capabilities: vec![text(), text()],
            early_window: 9,
        }),
        Frame::Welcome(Welcome {
            version: 1,
            tunnel: text(),
            generation: 9,
            software: text(),
            capabilities: vec![text()],
            early_window: 9,
        }),
        Frame::Drain(Drain { reason: DrainReason::Replaced, message: text(), reconnect_after_ms: 9 }),
        Frame::Close { code: CloseCode::Budget, message: text() },
    ]
}

fn user() -> Arc<OpenUser> {
    let extra = vec![("k".to_owned(), vec!["v".to_owned()])];
    Arc::new(OpenUser::new(User { name: "alice".into(), groups: vec!["dev".into()], uid: "u1".into(), extra }))
}

fn frames() -> impl Strategy<Value = Frame> {
    let stream = || prop_oneof![1_u64..300, 1..=u64::MAX].prop_map(Into::into);
    let wide = || prop_oneof![0_u64..300, any::<u64>()];
    let text = || "\\PC{0,40}";
    let text1 = || "\\PC{1,40}";
    let payload = prop_oneof![9 => 0_usize..400, 1 => Just(MAX_PAYLOAD)].prop_flat_map(|len| (any::<u8>(), Just(len)));
    let payload = payload.prop_map(|(byte, len)| Bytes::from(vec![byte; len]));
    let header = ("[a-z0-9-]{1,20}", vec(any::<u8>(), 0..40));
    let header = header.prop_map(|(name, value)| Header { name, value: value.into() });
    let user = (text1(), vec(text(), 0..4), text(), vec((text1(), vec(text(), 0..3)), 0..3));
    let user = user.prop_map(|(name, groups, uid, extra)| {
        let groups = groups.into_iter().map(Into::into).collect();
        Arc::new(OpenUser::new(User { name: name.into(), groups, uid: uid.into(), extra }))
    });
    let open = (0_u64..3, vec(header, 0..5), proptest::option::of(user));
    let open =
        open.prop_map(|(priority, headers, user)| Open { priority: Priority::from_wire(priority), headers, user });
    let close = |code| CloseCode::from_wire(code);
    prop_oneof![
        (stream(), any::<bool>(), payload).prop_map(|(stream, fin, payload)| Frame::Data { stream, fin, payload }),
        (stream(), wide()).prop_map(|(stream, credit)| Frame::Window { stream, credit }),
        (stream(), wide(), open).prop_map(|(stream, window, open)| Frame::Open(stream, window, open)),
        (stream(), wide()).prop_map(|(stream, window)| Frame::Joined { stream, window }),
        (stream(), 1_u64..9, text()).prop_map(|(stream, code, message)| Frame::Refused {
            stream,
            code: RefuseCode::from_wire(code),
            message
        }),
        (stream(), 1_u64..5).prop_map(|(stream, code)| Frame::Reset { stream, code: ResetCode::from_wire(code) }),
        wide().prop_map(Frame::Ping),
        wide().prop_map(Frame::Pong),
        (vec(any::<u32>(), 0..5), text(), text(), vec(text(), 0..4), wide()).prop_map(
            |(versions, instance, software, capabilities, early_window)| {
                Frame::Hello(Hello { versions, instance, software, capabilities, early_window })
            }
        ),
        (any::<u32>(), text(), wide(), text(), vec(text(), 0..4), wide()).prop_map(
            |(version, tunnel, generation, software, capabilities, early_window)| {
                Frame::Welcome(Welcome { version, tunnel, generation, software, capabilities, early_window })
            }
        ),
        (1_u64..3, text(), wide()).prop_map(|(reason, message, reconnect_after_ms)| {
            Frame::Drain(Drain { reason: DrainReason::from_wire(reason), message, reconnect_after_ms })
        }),
        (1_u64..7, text()).prop_map(move |(code, message)| Frame::Close { code: close(code), message }),
    ]
}
