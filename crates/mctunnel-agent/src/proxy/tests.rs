//! Proxy settings as tables, and the exchange with a proxy that the tests script.

use super::*;
use crate::{dial::SystemResolver, hub_address::ConnectError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

fn hub(text: &str) -> HubAddress {
    HubAddress::parse(text).expect("an address")
}

#[test]
fn proxies_are_parsed_and_their_passwords_do_not_print() {
    for (text, endpoint, authorization) in [
        ("http://proxy:3128", "proxy:3128", None),
        ("HTTP://proxy/", "proxy:80", None),
        ("proxy:8080", "proxy:8080", None),
        ("http://[::1]:1", "[::1]:1", None),
        ("http://aladdin:open%20sesame@proxy:1", "proxy:1", Some("Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ==")),
        ("http://user@proxy:1", "proxy:1", Some("Basic dXNlcjo=")),
        ("http://u:a%40b@proxy:1", "proxy:1", Some("Basic dTphQGI=")),
    ] {
        let settings = ProxySettings::parse(Some(text), None).expect(text);
        let proxy = settings.proxy_for(&hub("hub")).expect(text);
        assert_eq!(proxy.endpoint().to_string(), endpoint);
        assert_eq!(proxy.authorization.as_ref().map(Secret::expose), authorization);
        let shown = format!("{settings:?}");
        assert!(!shown.contains("YWxh") && !shown.contains("sesame"), "{shown}");
    }
    for none in [None, Some(""), Some("  ")] {
        assert!(ProxySettings::parse(none, None).expect("no proxy").proxy_for(&hub("hub")).is_none());
    }
}

#[test]
fn unusable_proxies_are_refused_without_showing_them() {
    for (text, error) in [
        ("https://u:canary@proxy", InvalidProxy::HttpsProxy),
        ("socks5://u:canary@proxy", InvalidProxy::UnknownScheme),
        ("http://u:canary%zz@proxy", InvalidProxy::BadUserinfo),
        ("http://u:canary%4@proxy", InvalidProxy::BadUserinfo),
        ("http://u%3au:canary@proxy", InvalidProxy::BadUserinfo),
        ("http://", InvalidProxy::BadEndpoint(InvalidTarget::BadHost)),
        ("http://u:canary@proxy:0", InvalidProxy::BadEndpoint(InvalidTarget::BadPort)),
        ("http://proxy/path", InvalidProxy::BadEndpoint(InvalidTarget::BadHost)),
        ("http://proxy\r\nx:1", InvalidProxy::BadEndpoint(InvalidTarget::BadHost)),
    ] {
        let refused = ProxySettings::parse(Some(text), None).expect_err(text);
        assert_eq!(refused, error, "{text}");
        assert!(!refused.to_string().contains("canary"));
    }
}

#[test]
fn no_proxy_lists_what_is_reached_directly() {
    for (list, host, direct) in [
        ("", "hub", false),
        ("*", "hub", true),
        ("hub.example", "hub.example", true),
        ("HUB.Example", "hub.example", true),
        ("example", "hub.example", true),
        ("xample", "hub.example", false),
        (".example", "hub.example", true),
        (".example", "example", false),
        ("*.example", "a.b.example", true),
        ("hub.example:8443", "hub.example", true),
        ("hub.example:443", "hub.example", false),
        ("hub.example:443", "hub.example:443", true),
        ("10.0.0.0/8", "10.1.2.3", true),
        ("10.0.0.0/8", "11.1.2.3", false),
        ("10.1.2.3", "10.1.2.3", true),
        ("10.1.2.3:8443", "10.1.2.3", true),
        ("10.1.2.3:1", "10.1.2.3", false),
        ("fd00::/8", "[fd00::1]", true),
        ("fd00::1", "[fd00::1]", true),
        ("[fd00::1]:8443", "[fd00::1]", true),
        ("a, ,%%, hub.example", "hub.example", true),
        ("a b\thub.example", "hub.example", true),
        ("", "localhost", true),
        ("", "127.0.0.9", true),
        ("", "[::1]", true),
    ] {
        let settings = ProxySettings::parse(Some("http://proxy:1"), Some(list)).expect("settings");
        assert_eq!(settings.proxy_for(&hub(host)).is_none(), direct, "NO_PROXY={list:?} hub {host}");
    }
}

/// Lets a scripted proxy answer in pieces; gives what came of it and what the proxy read.
async fn through(userinfo: &str, pieces: &'static [&'static str]) -> (Result<TcpStream, ConnectError>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let scripted = async {
        let (mut socket, _) = listener.accept().await.expect("accepted");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(socket.read_u8().await.expect("a whole request"));
        }
        for piece in pieces {
            // The other side may have had enough.
            let _ = socket.write_all(piece.as_bytes()).await;
            tokio::task::yield_now().await;
        }
        let _ = socket.shutdown().await;
        String::from_utf8(request).expect("text")
    };
    let settings = ProxySettings::parse(Some(&format!("http://{userinfo}{address}")), None).expect("settings");
    let to = hub("hub.example:443");
    let proxy = settings.proxy_for(&to).expect("a proxy");
    tokio::join!(connect_through(proxy, &to, &SystemResolver), scripted)
}

#[tokio::test]
async fn the_head_is_taken_and_the_hubs_first_bytes_are_left() {
    let whole: &[&str] = &["HTTP/1.1 200 OK\r\nVia: x\r\n\r\nfirst bytes"];
    let split: &[&str] = &["HTTP/1.0 2", "00 OK\r\n", "Via: x\r\n\r", "\nfirst ", "bytes"];
    for pieces in [whole, split] {
        let (socket, request) = through("u:p@", pieces).await;
        let mut rest = String::new();
        socket.expect("connected").read_to_string(&mut rest).await.expect("read");
        assert_eq!(rest, "first bytes");
        assert_eq!(
            request,
            "CONNECT hub.example:443 HTTP/1.1\r\nHost: hub.example:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n"
        );
    }
}

#[tokio::test]
async fn other_answers_are_errors_with_the_status_line() {
    let (result, request) = through("", &["HTTP/1.1 407 Proxy Authentication\u{e9} Required\r\n\r\n"]).await;
    let text = result.expect_err("refused").to_string();
    assert!(text.ends_with("HTTP/1.1 407 Proxy Authentication?? Required"), "{text}");
    assert!(!request.contains("Proxy-Authorization"));
    let (result, _) = through("", &["HTTP/1.1 503 Down\r\n\r\n"]).await;
    let error = result.expect_err("refused");
    assert!(error.to_string().ends_with("HTTP/1.1 503 Down"), "{error}");
    assert_eq!(error.code().code, "MCT-AGENT-PROXY-REFUSED");
    for pieces in [&["HTTP/1.1 200 OK\r\n"] as &[&str], &["SSH-2.0-x\r\n\r\n"], &[""]] {
        let error = through("", pieces).await.0.expect_err("broken");
        assert_eq!(error.code().code, "MCT-AGENT-PROXY-BROKEN", "{error}");
    }
}

#[tokio::test]
async fn an_endless_head_is_cut_off() {
    const LINE: &str = "x: 0123456789012345678901234567890123456789012345678901234567890\r\n";
    static ENDLESS: [&str; 300] = [LINE; 300];
    let error = through("", &ENDLESS).await.0.expect_err("too long");
    assert!(error.to_string().contains("longer than 16384 bytes"), "{error}");
}
