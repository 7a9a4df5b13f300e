//! A peer that breaks the rules, one at a time: each ends the tunnel with the reason, and nothing else happens.
//! And the races of honest peers, which must not.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking, in its helpers too")]

use bytes::{Bytes, BytesMut};
use mctunnel_mux::{
    CloseCode, Config, Connection, Deframer, EndedBy, Event, Frame, Header, Hello, Moment, Open, OpenRefused, Read,
    RefuseCode, ResetCode, StreamError, StreamId, Welcome,
};
use std::time::Duration;

// === Rules, and what breaks them ===

#[test]
fn streams_have_one_life() {
    let cases: Vec<(&str, Vec<Frame>, &str)> = vec![
        ("bytes for an unknown id", vec![data(9, 1)], "bytes came for a stream that is not open"),
        ("credit for an unknown id", vec![window(9, 1)], "never opened"),
        ("credit for an id of ours", vec![window(20, 1)], "never opened"),
        ("a reset of an unknown id", vec![reset(9)], "never opened"),
        ("an answer to an unknown id", vec![joined(9, 1)], "waits for none"),
        ("a refusal of an unknown id", vec![refused(20)], "waits for none"),
        ("one id opened twice", vec![open(5), open(5)], "used a stream id twice"),
        ("an id below another", vec![open(7), open(5)], "used a stream id twice"),
        ("an id whose stream has ended", vec![open(5), reset(5), open(5)], "used a stream id twice"),
        ("an id of the other side", vec![open(6)], "an id of ours"),
        ("bytes before the answer", vec![data(OPENING, 1)], "was not joined"),
        ("an end before the answer", vec![fin(OPENING)], "was not joined"),
        ("bytes behind the end", vec![fin(THEIRS), data(THEIRS, 1)], "behind the end"),
        ("a second end", vec![fin(THEIRS), fin(THEIRS)], "behind the end"),
        ("bytes behind a reset", vec![reset(THEIRS), data(THEIRS, 1)], "behind the end"),
        ("a second answer", vec![joined(OURS, 1)], "waits for none"),
        ("a refusal behind the answer", vec![refused(OURS)], "waits for none"),
        ("an answer behind a refusal", vec![refused(OPENING), joined(OPENING, 1)], "waits for none"),
        ("a second refusal", vec![refused(OPENING), refused(OPENING)], "waits for none"),
        ("an answer behind a reset", vec![reset(OPENING), joined(OPENING, 1)], "waits for none"),
        ("an answer to what they opened", vec![joined(THEIRS, 1)], "waits for none"),
    ];
    for (name, frames, reason) in cases {
        Scene::hub().attack(name, &frames, CloseCode::Protocol, reason);
    }
}

#[test]
fn windows_are_kept() {
    let early = usize::try_from(Config::default().early_window).unwrap();
    let whole: Vec<Frame> = (0..4).map(|_| data(THEIRS, 64 * 1024)).collect();
    let cases: Vec<(&str, Vec<Frame>, &str)> = vec![
        ("no credit", vec![window(THEIRS, 0)], "grants nothing"),
        ("credit that overflows", vec![window(THEIRS, u64::MAX)], "beyond all bounds"),
        ("credit that sums up too high", vec![window(OURS, 1 << 40), window(OURS, 1 << 40)], "beyond all bounds"),
        ("a first window too high", vec![Frame::Open(id(5), (1 << 40) + 1, Open::default())], "beyond all bounds"),
        ("an answer with too much", vec![joined(OPENING, u64::MAX)], "beyond all bounds"),
        ("one byte above the early window", vec![open(5), data(5, early), data(5, 1)], "than were granted"),
        ("one byte above the window", [whole, vec![data(THEIRS, 1)]].concat(), "than were granted"),
    ];
    for (name, frames, reason) in cases {
        Scene::hub().attack(name, &frames, CloseCode::FlowControl, reason);
    }
}

#[test]
fn a_greeting_comes_once_and_first() {
    let hello = || Frame::Hello(Hello::default());
    let welcome = || Frame::Welcome(Welcome { version: 1, ..Welcome::default() });
    Scene::hub().attack("a second HELLO", &[hello()], CloseCode::Protocol, "came twice");
    Scene::hub().attack("a WELCOME to a hub", &[welcome()], CloseCode::Protocol, "came twice");
    Scene::agent().attack("a second WELCOME", &[welcome()], CloseCode::Protocol, "came twice");
    Scene::agent().attack("a HELLO to an agent", &[hello()], CloseCode::Protocol, "came twice");

    let early = "before the greeting was complete";
    let hub = || Scene::silent(Connection::hub(Config::default()));
    let agent = || Scene::silent(Connection::agent(Config::default(), Hello::default()));
    hub().attack("PING first", &[Frame::Ping(1)], CloseCode::Protocol, early);
    hub().attack("OPEN first", &[open(1)], CloseCode::Protocol, early);
    hub().attack("WELCOME to a hub", &[welcome()], CloseCode::Protocol, early);
    hub().attack("OPEN before WELCOME", &[hello(), open(1)], CloseCode::Protocol, early);
    hub().attack("HELLO twice before WELCOME", &[hello(), hello()], CloseCode::Protocol, early);
    agent().attack("HELLO to an agent", &[hello()], CloseCode::Protocol, early);
    agent().attack("DATA first", &[data(2, 1)], CloseCode::Protocol, early);

    let other = Frame::Hello(Hello { versions: vec![0, 2, 3], ..Hello::default() });
    hub().attack("no common version", &[other], CloseCode::Version, "version 1 only");
    let other = Frame::Welcome(Welcome { version: 2, ..Welcome::default() });
    agent().attack("a version we did not offer", &[other], CloseCode::Version, "version 1 only");
}

#[test]
fn pongs_answer_pings() {
    let frames = [Frame::Pong(0)];
    Scene::hub().attack("PONG without PING", &frames, CloseCode::Protocol, "answers no PING");
    let mut scene = Scene::hub();
    scene.connection.handle_timeout(scene.now).unwrap();
    scene.honest(&[Frame::Pong(0)]);
    scene.attack("PONG twice", &frames, CloseCode::Protocol, "answers no PING");
}

#[test]
fn floods_use_up_their_budgets() {
    let cases: [(&str, Frame, usize, &str); 2] = [
        ("pings", Frame::Ping(7), 1000, "too many pings"),
        ("empty frames", data(THEIRS, 0), 1000, "too many empty frames"),
    ];
    for (name, frame, allowed, reason) in cases {
        let mut scene = Scene::hub();
        scene.honest(&vec![frame.clone(); allowed]);
        scene.attack(name, &[frame], CloseCode::Budget, reason);
    }
    let mut config = Config::default();
    config.budgets.resets_per_second = 2;
    let mut scene = Scene::hub_with(config);
    scene.honest(&vec![reset(THEIRS); 20]);
    scene.attack("resets", &[reset(THEIRS)], CloseCode::Budget, "cut streams too often");

    let mut config = Config::default();
    config.budgets.late_windows_per_second = 2;
    let mut scene = Scene::hub_with(config);
    scene.honest(&vec![window(THEIRS, 1); 100]);
    scene.honest(&[reset(THEIRS)]);
    scene.honest(&vec![window(THEIRS, 1); 20]);
    scene.attack("credit for nobody", &[window(THEIRS, 1)], CloseCode::Budget, "streams that are gone");
}

#[test]
fn t22_small_payloads_do_not_keep_large_buffers_alive() {
    // The carrier hands over up to 128 KiB at once; the window counts the bytes of a stream, not the buffer they were cut from.
    for len in [1, 100, 2047, 2048, 5000, 16 * 1024 - 1] {
        let mut scene = Scene::hub();
        let mut bytes = BytesMut::with_capacity(128 * 1024);
        data(THEIRS, len).encode(&mut bytes);
        open(101).encode(&mut bytes);
        Frame::Open(id(103), 1000, Open { headers: vec![Header::text("a", "value")], ..Open::default() })
            .encode(&mut bytes);
        Frame::Reset { stream: id(OURS), code: ResetCode::Broken }.encode(&mut bytes);
        let buffer = bytes.freeze();
        let kept = buffer.clone();
        scene.connection.handle_input(scene.now, buffer).unwrap();
        assert!(kept.is_unique(), "{len} bytes that nobody reads keep a buffer of 128 KiB");
        let read = scene.connection.read(scene.now, id(THEIRS), usize::MAX);
        assert!(matches!(read, Ok(Read::Bytes(bytes)) if bytes.len() == len));
    }
}

#[test]
fn answers_that_are_not_read_have_a_bound() {
    let mut config = Config::default();
    config.budgets.pings_per_second = 10_000;
    let mut scene = Scene::hub_with(config);
    for _ in 0..4096 {
        scene.send(&[Frame::Ping(1)]).unwrap();
    }
    scene.attack("pings, unread", &[Frame::Ping(1)], CloseCode::Budget, "does not read the answers");

    // Streams that come and go leave a JOINED each, which nobody reads.
    let mut scene = Scene::hub();
    let ended = (0..150_000).find_map(|n| {
        let stream = 101 + 2 * n;
        scene.send(&[open(stream)]).err().or_else(|| {
            scene.connection.join(id(stream)).unwrap();
            let cut = scene.send(&[reset(stream)]).err();
            scene.connection.release(id(stream));
            scene.events();
            cut
        })
    });
    assert_eq!(
        ended.map(|error| (error.code, error.what)),
        Some((CloseCode::Budget, "the peer does not read the answers it provokes"))
    );
}

#[test]
fn a_peer_that_answers_no_ping_cannot_have_us_remember_without_end() {
    let mut config = Config::default();
    config.budgets.streams = 4;
    let mut scene = Scene::hub_with(config);
    let ended = (0..100_000).find_map(|n| {
        let ended = scene.send(&[open(101 + 2 * n)]).err();
        if ended.is_none() {
            scene.transmitted();
        }
        ended
    });
    assert_eq!(ended.map(|error| error.what), Some("streams end faster than the peer answers pings"));

    let mut scene = Scene::hub();
    let refused = (0..100_000).find_map(|_| match scene.connection.open(Open::default()) {
        Ok(stream) => {
            scene.connection.release(stream);
            scene.transmitted();
            None
        }
        Err(refused) => Some(refused),
    });
    assert_eq!(refused, Some(OpenRefused::TooManyStreams), "our own opens wait too");
}

#[test]
fn headers_have_a_budget() {
    let with = |headers| vec![Frame::Open(id(5), 0, Open { headers, ..Open::default() })];
    let many = with(vec![Header::text("a", ""); 65]);
    Scene::hub().attack("too many headers", &many, CloseCode::Budget, "too many headers");
    let large = with(vec![Header::text("a", &"x".repeat(16 * 1024))]);
    Scene::hub().attack("headers too large", &large, CloseCode::Budget, "too many headers");
    let name = with(vec![Header::text("Host", "x")]);
    Scene::hub().attack("a name in capitals", &name, CloseCode::Protocol, "a header name is not made of");
    let long = with(vec![Header::text(&"a".repeat(1025), "x")]);
    Scene::hub().attack("a long name", &long, CloseCode::Protocol, "longer than 1024 bytes");
}

#[test]
fn t22_headers_of_unanswered_opens_have_a_budget_together() {
    let mut config = Config::default();
    config.budgets.half_open_bytes = 4096;
    let mut scene = Scene::hub_with(config);
    let fat = |stream| {
        Frame::Open(id(stream), 0, Open { headers: vec![Header::text("a", &"x".repeat(1000))], ..Open::default() })
    };
    scene.honest(&[fat(101), fat(103), fat(105)]);
    assert_eq!(scene.transmitted(), []);
    scene.honest(&[fat(107)]);
    let refused = |frames: Vec<Frame>| matches!(&frames[..], [Frame::Refused { code: RefuseCode::TooManyStreams, .. }]);
    assert!(refused(scene.transmitted()), "it alone is refused");
    scene.connection.join(id(101)).unwrap();
    scene.connection.refuse(id(103), RefuseCode::NotAllowed, "no");
    scene.transmitted();
    scene.honest(&[fat(109), fat(111)]);
    assert_eq!(scene.transmitted(), [], "those that were answered make room");
    scene.honest(&[fat(113)]);
    assert!(refused(scene.transmitted()));
}

#[test]
fn what_is_no_frame_ends_the_tunnel() {
    let cases: [(&str, &[u8], &str); 8] = [
        ("64 MiB announced", &[0, 4, 0, 0, 0], "larger than any frame"),
        ("4 GiB announced", &[0, 0xff, 0xff, 0xff, 0xff], "larger than any frame"),
        ("a compressed message", &[1, 0, 0, 0, 0], "compressed"),
        ("no kind", &[0, 0, 0, 0, 0], "unknown kind"),
        ("a kind of a later version", &[0, 0, 0, 0, 2, 0x6a, 0], "unknown kind"),
        ("two kinds", &[0, 0, 0, 0, 4, 0x3a, 0, 0x42, 0], "two frames"),
        ("stream 0", &[0, 0, 0, 0, 2, 0x0a, 0], "stream 0"),
        ("garbage", b"GET / HTTP/1.1\r\nhost: hub\r\n\r\n", "compressed"),
    ];
    for (name, bytes, reason) in cases {
        for chunk in [1, bytes.len()] {
            let mut scene = Scene::hub();
            let mut chunks = bytes.chunks(chunk);
            let error = chunks.find_map(|c| scene.connection.handle_input(scene.now, Bytes::copy_from_slice(c)).err());
            scene.ended(name, error.expect(name), CloseCode::Protocol, reason);
        }
    }
    let mut scene = Scene::hub();
    scene.connection.join(id(OFFERED)).unwrap();
    scene.attack("a DATA frame too long", &[data(OFFERED, 65_537)], CloseCode::Protocol, "more than 65536 bytes");
}

#[test]
fn nothing_is_heard_behind_the_end() {
    let mut scene = Scene::hub();
    let (bad, after) = (data(9, 1), Frame::Drain(drain()));
    scene.attack("a broken rule", &[bad, after], CloseCode::Protocol, "not open");
    assert_eq!(scene.send(&[open(101), data(9, 1)]), Ok(()));
    assert_eq!(scene.events(), []);
    assert_eq!(scene.transmitted(), []);
    assert_eq!(scene.connection.open(Open::default()), Err(OpenRefused::Closed));
    assert_eq!(scene.connection.poll_timeout(), None);
}

// === Limits that refuse ===

#[test]
fn opens_above_a_limit_are_refused_and_the_tunnel_goes_on() {
    let mut config = Config::default();
    (config.budgets.streams, config.budgets.half_open) = (6, 3);
    let mut scene = Scene::hub_with(config);
    // Two streams of theirs are open already, one of them unanswered.
    let refusals = |scene: &mut Scene| {
        let mut refused = Vec::new();
        for frame in scene.transmitted() {
            if let Frame::Refused { stream, code: RefuseCode::TooManyStreams, message } = frame {
                refused.push((stream.get(), message));
            }
        }
        refused
    };
    scene.honest(&[open(11), open(13), open(15)]);
    assert_eq!(refusals(&mut scene), [(15, "the limit of 3 unanswered opens on this tunnel is reached".to_owned())]);
    [OFFERED, 11, 13].into_iter().for_each(|stream| scene.connection.join(id(stream)).unwrap());
    scene.honest(&[open(17), open(19)]);
    [17, 19].into_iter().for_each(|stream| scene.connection.join(id(stream)).unwrap());
    scene.honest(&[open(21), data(21, 100), fin(21), window(21, 5), reset(21)]);
    assert_eq!(refusals(&mut scene), [(21, "the limit of 6 open streams on this tunnel is reached".to_owned())]);
    scene.connection.release(id(17));
    scene.honest(&[open(23)]);
    assert_eq!(refusals(&mut scene), []);
    assert!(scene.connection.is_open());
}

// === Races of honest peers ===

#[test]
fn frames_that_crossed_our_end_are_no_error() {
    let under_way = [data(OURS, 100), window(OURS, 5), fin(OURS), reset(OURS)];
    type Act = fn(&mut Scene);
    let cases: Vec<(&str, Act, Vec<Frame>)> = vec![
        ("we cut a joined stream", |s| s.connection.reset(id(OURS), ResetCode::Broken), under_way.to_vec()),
        ("we let a joined stream go", |s| s.connection.release(id(OURS)), under_way.to_vec()),
        (
            "we cut an unanswered one",
            |s| s.connection.release(id(OPENING)),
            vec![joined(OPENING, 9), data(OPENING, 9), fin(OPENING)],
        ),
        ("a refusal crosses our cut", |s| s.connection.release(id(OPENING)), vec![refused(OPENING)]),
        (
            "a refusal crosses our cut, not let go",
            |s| s.connection.reset(id(OPENING), ResetCode::Timeout),
            vec![refused(OPENING)],
        ),
        (
            "bytes follow an open that we refused",
            |s| s.connection.refuse(id(OFFERED), RefuseCode::NotAllowed, "no"),
            vec![data(OFFERED, 100), window(OFFERED, 9), fin(OFFERED), reset(OFFERED)],
        ),
        ("credit and cut follow both ends", |s| s.end_both_ways(OURS), vec![window(OURS, 5), reset(OURS)]),
        ("a cut of what was cut", |s| s.honest(&[reset(THEIRS)]), vec![window(THEIRS, 5), reset(THEIRS)]),
    ];
    for (name, act, frames) in cases {
        let mut scene = Scene::hub();
        act(&mut scene);
        scene.events();
        assert_eq!(scene.send(&frames), Ok(()), "{name}");
        let told = scene.events();
        assert!(
            !told.iter().any(|e| matches!(e, Event::Joined(_) | Event::Refused { .. } | Event::Reset { .. })),
            "{name}: {told:?}"
        );
        assert!(scene.connection.is_open(), "{name}");
    }
}

#[test]
fn an_open_that_was_never_sent_is_known_as_such() {
    type End = fn(&mut Scene);
    let ends: [(&str, End); 3] = [
        ("the carrier is lost", |s| s.connection.handle_carrier_lost()),
        ("we close", |s| s.connection.close(CloseCode::Done, "bye")),
        ("the peer closes", |s| s.honest(&[Frame::Close { code: CloseCode::Done, message: String::new() }])),
    ];
    for (name, end) in ends {
        let mut scene = Scene::hub();
        let queued = [(); 2].map(|()| scene.connection.open(Open::default()).unwrap());
        // What is behind it in the queue changes nothing.
        scene.connection.release(queued[1]);
        end(&mut scene);
        // The carrier goes after that.
        scene.connection.handle_carrier_lost();
        assert!(queued.iter().all(|id| !scene.connection.was_asked(*id)), "{name}");
        for sent in [OURS, OPENING, THEIRS, OFFERED] {
            assert!(scene.connection.was_asked(id(sent)), "{name}: {sent}");
        }
    }
    let mut scene = Scene::hub();
    let last = scene.connection.open(Open::default()).unwrap();
    scene.transmitted();
    scene.connection.handle_carrier_lost();
    assert!(scene.connection.was_asked(last), "it was given to the carrier, and may have arrived");
}

#[test]
fn a_pong_is_the_fence_behind_which_the_peer_knows() {
    let mut scene = Scene::hub();
    scene.connection.release(id(OURS));
    scene.honest(&[data(OURS, 1)]);
    scene.connection.handle_timeout(scene.now).unwrap();
    assert_eq!(scene.transmitted(), [Frame::Reset { stream: id(OURS), code: ResetCode::Cancelled }, Frame::Ping(0)]);
    scene.honest(&[data(OURS, 1), Frame::Pong(0)]);
    scene.attack("bytes behind the fence", &[data(OURS, 1)], CloseCode::Protocol, "not open");
}

#[test]
fn a_cut_by_the_peer_waits_for_no_fence() {
    let mut scene = Scene::hub();
    scene.honest(&[reset(THEIRS)]);
    scene.connection.release(id(THEIRS));
    scene.attack("bytes behind their cut", &[data(THEIRS, 1)], CloseCode::Protocol, "not open");
}

#[test]
fn credit_may_come_before_the_answer() {
    // The far end reads what came behind OPEN before it has joined.
    let mut scene = Scene::hub();
    scene.honest(&[window(OPENING, 1000)]);
    scene.connection.write(id(OPENING), &mut vec![1; 2000].into()).unwrap();
    let early = Frame::Data { stream: id(OPENING), fin: false, payload: vec![1; 1100].into() };
    assert_eq!(scene.transmitted(), [early], "100 bytes of early window, and the credit");

    scene.honest(&[data(OFFERED, 20_000)]);
    while let Ok(Read::Bytes(_)) = scene.connection.read(scene.now, id(OFFERED), usize::MAX) {}
    assert_eq!(scene.transmitted(), [window(OFFERED, 20_000)]);
}

#[test]
fn an_agent_that_leaves_behind_its_hello_stays_gone() {
    for last in [Frame::Close { code: CloseCode::Done, message: "bye".into() }, data(9, 1)] {
        let mut scene = Scene::silent(Connection::hub(Config::default()));
        _ = scene.send(&[Frame::Hello(Hello::default()), last]);
        assert!(matches!(scene.connection.poll_event(), Some(Event::Hello(_))));
        scene.connection.welcome(scene.now, Welcome::default());
        assert!(scene.connection.is_closed() && !scene.connection.is_open());
        assert!(!scene.transmitted().iter().any(|frame| matches!(frame, Frame::Welcome(_))));
    }
}

// === Ends of our own making ===

#[test]
fn bytes_thrown_away_by_our_cut_are_no_clean_end() {
    let mut scene = Scene::hub();
    scene.honest(&[data(THEIRS, 100), fin(THEIRS)]);
    scene.connection.reset(id(THEIRS), ResetCode::Timeout);
    let cut = StreamError::Reset { code: ResetCode::Timeout, by: EndedBy::Local };
    assert_eq!(scene.connection.read(scene.now, id(THEIRS), 10), Err(cut));
}

#[test]
fn bytes_finished_by_the_peer_outlive_its_cut() {
    let mut scene = Scene::hub();
    scene.honest(&[data(THEIRS, 100), fin(THEIRS), reset(THEIRS)]);
    assert!(matches!(scene.connection.read(scene.now, id(THEIRS), 1000), Ok(Read::Bytes(bytes)) if bytes.len() == 100));
    assert_eq!(scene.connection.read(scene.now, id(THEIRS), 1000), Ok(Read::End));
}

#[test]
fn bytes_sent_before_a_cut_are_read_before_it_and_never_end_cleanly() {
    let mut scene = Scene::hub();
    scene.honest(&[data(OURS, 100), reset(OURS)]);
    assert!(matches!(scene.connection.read(scene.now, id(OURS), 1000), Ok(Read::Bytes(bytes)) if bytes.len() == 100));
    let cut = StreamError::Reset { code: ResetCode::Broken, by: EndedBy::Peer };
    assert_eq!(scene.connection.read(scene.now, id(OURS), 1000), Err(cut));
}

#[test]
fn a_cut_goes_out_behind_what_was_written() {
    let mut scene = Scene::hub();
    scene.connection.write(id(OURS), &mut "last words".into()).unwrap();
    scene.connection.cut(id(OURS), ResetCode::Broken);
    assert_eq!(scene.connection.write(id(OURS), &mut "more".into()), Err(StreamError::Finished));
    scene.connection.release(id(OURS));
    let words = Frame::Data { stream: id(OURS), fin: false, payload: "last words".into() };
    assert_eq!(scene.transmitted(), [words, reset(OURS)]);
    assert_eq!(scene.connection.read(scene.now, id(OURS), 1), Err(StreamError::Unknown), "nothing is left of it");
}

#[test]
fn a_cut_waits_for_credit_and_not_for_a_peer_that_cuts_first() {
    let mut scene = Scene::hub();
    scene.connection.write(id(OURS), &mut vec![1; 5000].into()).unwrap();
    scene.connection.cut(id(OURS), ResetCode::Broken);
    scene.connection.release(id(OURS));
    let sent = scene.transmitted();
    assert!(!sent.contains(&reset(OURS)), "the window was too small for all of it: {sent:?}");
    scene.honest(&[reset(OURS)]);
    assert_eq!(scene.transmitted(), []);
    assert_eq!(scene.connection.read(scene.now, id(OURS), 1), Err(StreamError::Unknown), "nothing is left of it");
}

#[test]
fn an_offer_let_go_without_an_answer_is_cut() {
    let mut scene = Scene::hub();
    scene.connection.finish(id(OFFERED)).unwrap();
    scene.connection.release(id(OFFERED));
    assert_eq!(scene.transmitted(), [Frame::Reset { stream: id(OFFERED), code: ResetCode::Cancelled }]);
}

#[test]
fn what_was_finished_before_the_answer_is_not_cut_by_letting_go() {
    let mut scene = Scene::hub();
    scene.connection.write(id(OPENING), &mut "last words".into()).unwrap();
    scene.connection.finish(id(OPENING)).unwrap();
    let words = Frame::Data { stream: id(OPENING), fin: true, payload: "last words".into() };
    scene.connection.release(id(OPENING));
    assert_eq!(scene.transmitted(), [words], "the far end may still be dialling");
    scene.honest(&[joined(OPENING, 9)]);
    assert_eq!(scene.transmitted(), [Frame::Reset { stream: id(OPENING), code: ResetCode::Cancelled }]);
}

#[test]
fn two_ends_that_let_go_at_once_do_not_wait_for_each_other() {
    // We finished more than the peer's window takes and let go; so did the peer.
    let mut scene = Scene::hub();
    scene.connection.write(id(OURS), &mut vec![1; 5000].into()).unwrap();
    scene.connection.finish(id(OURS)).unwrap();
    scene.connection.release(id(OURS));
    scene.transmitted();
    scene.honest(&[data(OURS, 65_536)]);
    assert_eq!(scene.transmitted(), [window(OURS, 65_536)], "what comes is taken, though nobody reads it");
}

#[test]
fn a_header_name_the_peer_would_not_take_is_refused_here() {
    let mut scene = Scene::hub();
    for name in ["", "Host", "x y", &"a".repeat(1025)] {
        let open = Open { headers: vec![Header::text(name, "v")], ..Open::default() };
        assert_eq!(scene.connection.open(open), Err(OpenRefused::BadHeaderName), "{name}");
    }
}

#[test]
fn memory_is_given_back_when_the_tunnel_ends() {
    let mut scene = Scene::hub();
    scene.connection.write(id(OURS), &mut vec![1; 5000].into()).unwrap();
    scene.connection.finish(id(OURS)).unwrap();
    scene.connection.release(id(OURS));
    scene.connection.handle_carrier_lost();
    scene.leaves_nothing("a lost carrier");
}

// === The scene ===

/// Opened by the peer and joined.
const THEIRS: u64 = 1;
/// Opened by the peer and not answered.
const OFFERED: u64 = 3;
/// Opened by us and joined.
const OURS: u64 = 2;
/// Opened by us and not answered.
const OPENING: u64 = 4;

/// A connection with a scripted peer. The innocent bystanders have the ids above (as a hub; one less or more as an agent).
struct Scene {
    connection: Connection,
    now: Moment,
}

impl Scene {
    fn hub() -> Self {
        Self::hub_with(Config::default())
    }

    fn hub_with(config: Config) -> Self {
        let mut scene = Self::silent(Connection::hub(config));
        scene.honest(&[Frame::Hello(Hello { early_window: 100, ..Hello::default() })]);
        scene.connection.welcome(scene.now, Welcome::default());
        for stream in [OURS, OPENING] {
            assert_eq!(scene.connection.open(Open::default()), Ok(id(stream)));
        }
        scene.honest(&[open(THEIRS), open(OFFERED), joined(OURS, 1000)]);
        scene.connection.join(id(THEIRS)).unwrap();
        scene.transmitted();
        scene
    }

    fn agent() -> Self {
        let mut scene = Self::silent(Connection::agent(Config::default(), Hello::default()));
        scene.honest(&[Frame::Welcome(Welcome { version: 1, early_window: 100, ..Welcome::default() })]);
        scene.connection.open(Open::default()).unwrap();
        scene.transmitted();
        scene
    }

    /// Nobody has said a word.
    fn silent(connection: Connection) -> Self {
        Self { connection, now: Moment::ZERO + Duration::from_secs(1) }
    }

    fn send(&mut self, frames: &[Frame]) -> Result<(), mctunnel_mux::ProtocolError> {
        let mut bytes = BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        self.connection.handle_input(self.now, bytes.freeze())
    }

    /// Frames no rule forbids. Their events are dropped, the answers read.
    fn honest(&mut self, frames: &[Frame]) {
        for frame in frames {
            assert_eq!(self.send(std::slice::from_ref(frame)), Ok(()), "{frame:?}");
            if matches!(frame, Frame::Ping(_)) {
                self.transmitted();
            }
        }
        if !matches!(frames, [.., Frame::Hello(_)]) {
            self.events();
        }
    }

    fn attack(&mut self, name: &str, frames: &[Frame], code: CloseCode, reason: &str) {
        let error = self.send(frames).expect_err(name);
        self.ended(name, error, code, reason);
    }

    /// The rule is named, the peer is told, every stream has an error, and nothing is left.
    fn ended(&mut self, name: &str, error: mctunnel_mux::ProtocolError, code: CloseCode, reason: &str) {
        assert_eq!(error.code, code, "{name}: {error}");
        assert!(error.what.contains(reason), "{name}: \"{error}\" does not say \"{reason}\"");
        assert!(self.connection.is_closed(), "{name}");
        assert_eq!(
            self.transmitted(),
            [Frame::Close { code, message: error.what.to_owned() }],
            "{name}: CLOSE and nothing else"
        );
        let open = self.connection.streams();
        let events = self.events();
        let ended = events.iter().filter(|e| matches!(e, Event::Reset { .. } | Event::Refused { .. })).count();
        assert!(ended >= open.min(1), "{name}: {open} streams, {events:?}");
        for stream in (1..=100).map(id) {
            let read = self.connection.read(self.now, stream, 0);
            let finished = read == Ok(Read::End) || matches!(read, Ok(Read::Bytes(_)));
            assert!(read.is_err() || finished, "{name}: stream {stream} is told {read:?}");
            assert!(
                self.connection.write(stream, &mut "x".into()).is_err(),
                "{name}: stream {stream} still takes bytes"
            );
        }
        self.leaves_nothing(name);
    }

    fn leaves_nothing(&mut self, name: &str) {
        (1..=100).for_each(|stream| self.connection.release(id(stream)));
        let left = (self.connection.streams(), self.connection.committed_memory());
        assert_eq!(left, (0, 0), "{name}: streams and memory that are left");
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.connection.poll_event()).collect()
    }

    fn transmitted(&mut self) -> Vec<Frame> {
        let mut deframer = Deframer::default();
        let mut frames = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit() {
            for part in [transmit.head, transmit.body] {
                deframer.push(part);
                while let Some(message) = deframer.next_message().unwrap() {
                    frames.push(Frame::decode(message).unwrap());
                }
            }
        }
        frames
    }

    fn end_both_ways(&mut self, stream: u64) {
        self.connection.finish(id(stream)).unwrap();
        self.transmitted();
        self.honest(&[fin(stream)]);
    }
}

fn id(stream: u64) -> StreamId {
    stream.into()
}

fn data(stream: u64, len: usize) -> Frame {
    Frame::Data { stream: id(stream), fin: false, payload: vec![0; len].into() }
}

fn fin(stream: u64) -> Frame {
    Frame::Data { stream: id(stream), fin: true, payload: Bytes::new() }
}

fn window(stream: u64, credit: u64) -> Frame {
    Frame::Window { stream: id(stream), credit }
}

fn open(stream: u64) -> Frame {
    Frame::Open(id(stream), 1000, Open::default())
}

fn joined(stream: u64, window: u64) -> Frame {
    Frame::Joined { stream: id(stream), window }
}

fn refused(stream: u64) -> Frame {
    Frame::Refused { stream: id(stream), code: RefuseCode::TargetRefused, message: "no".into() }
}

fn reset(stream: u64) -> Frame {
    Frame::Reset { stream: id(stream), code: ResetCode::Broken }
}

fn drain() -> mctunnel_mux::Drain {
    mctunnel_mux::Drain { reason: mctunnel_mux::DrainReason::Stopping, message: String::new(), reconnect_after_ms: 0 }
}
