//! Each input of the corpus is one request to everybody, or none.

use crate::{
    corpus::{CORPUS, Fate, SMUGGLED},
    rig::{Rig, Seen, codes},
};

/// How the bytes are handed to the connection.
#[derive(Debug, Clone, Copy)]
enum Pace {
    AtOnce,
    ByteByByte,
}

async fn send(rig: &mut Rig, bytes: &[u8], pace: Pace) {
    match pace {
        Pace::AtOnce => rig.send(bytes).await,
        Pace::ByteByByte => {
            for byte in bytes {
                rig.send([*byte]).await;
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn check(input: &str, fate: Fate, pace: Pace) {
    let mut rig = Rig::patient();
    send(&mut rig, input.as_bytes(), pace).await;
    rig.end().await;
    let answers = rig.rest().await;
    rig.served().await;
    let (seen, codes) = (rig.seen(), codes(&answers));
    match fate {
        Fate::One(request) => {
            assert_eq!(seen, [Seen::Request(request.to_owned())], "{input:?} {answers}");
            assert_eq!(codes, [200], "{input:?} {answers}");
        }
        Fate::Refused(status) => {
            assert_eq!(seen, [], "{input:?} {answers}");
            assert_eq!(codes, [status], "{input:?} {answers}");
            assert!(answers.contains("MCT-HTTP-"), "{input:?} {answers}");
        }
        Fate::Broken => assert!(matches!(*seen, [Seen::BrokenBody(_)]), "{input:?} {seen:?} {answers}"),
    }
}

#[tokio::test]
async fn t15_each_input_is_one_request_or_none() {
    assert!(CORPUS.len() >= 50);
    for (input, fate) in CORPUS {
        let input = input.concat();
        check(&input, *fate, Pace::AtOnce).await;
        check(&input, *fate, Pace::ByteByByte).await;
    }
}

#[tokio::test]
async fn t15_nothing_behind_a_refused_or_broken_request_is_seen() {
    for (input, fate) in CORPUS {
        let input = input.concat();
        let takes_more = *fate == Fate::Broken && (input.ends_with("abc") || input.ends_with("abc\r\n"));
        if !takes_more && !matches!(fate, Fate::One(_)) {
            check(&format!("{input}{SMUGGLED}"), *fate, Pace::AtOnce).await;
        }
    }
}

#[tokio::test]
async fn t15_what_follows_a_good_request_is_another_one() {
    for (input, fate) in CORPUS {
        let input = input.concat();
        let Fate::One(request) = fate else { continue };
        let expected = [Seen::Request((*request).to_owned()), Seen::Request("GET /c/smuggled b\"\"".to_owned())];
        let closes = input.contains("close") || input.contains("HTTP/1.0");
        let mut rig = Rig::patient();
        rig.send(format!("{input}{SMUGGLED}")).await;
        rig.end().await;
        rig.rest().await;
        assert_eq!(rig.seen(), expected[..if closes { 1 } else { 2 }], "{input:?}");
    }
}

#[tokio::test]
async fn t08_other_spellings_of_a_target_are_answered_with_400() {
    for target in [
        "/C",
        "/c./api",
        "/c_d",
        "/c;a/api",
        "/c/..;/d",
        "//c",
        "/c//api",
        "/c/.",
        "/c/..",
        "/./c",
        "/../c",
        "/c/./api",
        "/c/%2e",
        "/c/%2E%2e/d",
        "/c/.%2e/d",
        "/c%2fapi",
        "/c%2Fapi",
        "/c%5capi",
        "/c%5Capi",
        "/c%00",
        "/c/a%00b",
        "/c/%",
        "/c/%4",
        "/c/%zz",
        "/c/%u002e",
        "/c\\api",
        "/\\c",
        "/c#",
        "/c/api#x",
        "/c?a#b",
        "/%63",
        "/c%61",
        "/c.d",
        "/-c",
        "/c-",
        "/c:80/api",
        "/c@d/api",
        "/user@c",
        "/\u{e9}",
        "/\u{ff43}/api",
        "/c/\u{e9}",
        "/c?\u{e9}",
        "/",
        "/?c",
        "*",
        "c",
        "c/api",
        "?c",
        "http://h/c",
        "https://h/c",
        "HTTP://h/c",
        "http://user:pw@h/c",
        "h:80",
        "/c/%252e%252e/d",
        "/c/%c0%ae%c0%ae/d",
        "/c/a%0d%0ab",
        "/c/{a}",
        "/c/a|b",
        "/c/\"a\"",
        "/c/%ff",
        "/c/api/v1/namespaces/D/services/s/proxy-service",
        "/c/api/v1/namespaces/d/services/s%3A80/proxy-service",
    ] {
        check(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"), Fate::Refused(400), Pace::AtOnce).await;
    }
}

#[tokio::test]
async fn t15_long_heads_are_answered_with_431() {
    let long = format!("GET /c HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "x".repeat(64 * 1024));
    let many = format!("GET /c HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(100));
    for input in [long.as_str(), &many, &long[..65_537]] {
        let mut rig = Rig::plain();
        rig.send(input).await;
        let answer = rig.rest().await;
        assert_eq!(codes(&answer), [431]);
        assert!(answer.contains("MCT-HTTP-LONG-HEAD"), "{answer}");
        assert_eq!(rig.seen(), []);
    }
    let fits = format!("GET /c HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "x".repeat(64 * 1024 - 40));
    check(&fits, Fate::One("GET /c b\"\""), Pace::AtOnce).await;
    let fits = format!("GET /c HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(99));
    check(&fits, Fate::One("GET /c b\"\""), Pace::AtOnce).await;
}
