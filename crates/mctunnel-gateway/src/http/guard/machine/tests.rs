//! Tables of requests, and that it does not matter in which pieces they come.

use super::*;
use crate::http::BadTarget;
use crate::http::GuardConfig;
use proptest::prelude::*;
use std::sync::Arc;

fn guard() -> Guard {
    let routing_headers = vec!["x-mctunnel-cluster".to_owned(), "x-mctunnel-port".to_owned()];
    Guard::new(Arc::new(GuardConfig { routing_headers, ..GuardConfig::default() }))
}

/// What is passed on, and what becomes of the rest, if the bytes come in these pieces.
fn run(guard: &mut Guard, pieces: impl IntoIterator<Item: AsRef<[u8]>>) -> (Vec<u8>, Rest) {
    let (mut passed, mut kept) = (Vec::new(), Vec::new());
    for piece in pieces {
        kept.extend_from_slice(piece.as_ref());
        let handled = guard.handle(&kept);
        passed.extend(kept.drain(..handled.pass));
        if handled.rest != Rest::Keep {
            return (passed, handled.rest);
        }
    }
    (passed, Rest::Keep)
}

fn outcome(text: &str) -> (String, Rest) {
    let (passed, rest) = run(&mut guard(), [text.as_bytes()]);
    (String::from_utf8(passed).unwrap(), rest)
}

/// Whether a request with this first line and these headers is passed on, and if not, why.
fn judged(line: &str, headers: &str) -> Result<(), BadHead> {
    let text = format!("{line}\r\n{headers}\r\n");
    let (passed, rest) = outcome(&text);
    match rest {
        Rest::Refuse(reason) => {
            assert_eq!(passed, "", "nothing of a refused head is passed on");
            Err(reason)
        }
        rest @ (Rest::Keep | Rest::Break(_)) => {
            assert_eq!((passed, rest), (text, Rest::Keep));
            Ok(())
        }
    }
}

fn with_header(header: &str) -> Result<(), BadHead> {
    judged("GET /c HTTP/1.1", &format!("Host: h\r\n{header}\r\n"))
}

#[test]
fn t40_a_head_is_what_may_not_take_long() {
    let mut guard = guard();
    for (bytes, at_head) in [
        ("", true),
        ("POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n", false),
        ("a", false),
        ("b", true),
        ("POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        ("0\r\n\r\n", true),
        ("GET /c HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", false),
        ("GET /c HTTP/1.1\r\n\r\n", false),
    ] {
        assert_eq!(guard.handle(bytes.as_bytes()), Handled { pass: bytes.len(), rest: Rest::Keep }, "{bytes:?}");
        assert_eq!(guard.is_at_head(), at_head, "{bytes:?}");
    }
}

#[test]
fn t15_requests_as_clients_send_them_are_passed_on() {
    for header in [
        "Accept: */*",
        "Authorization: Bearer abc",
        "User-Agent: kubectl/v1.34 (\u{e9})",
        "X-Empty:",
        "X-Tab:\ta\tb\t",
        "Cookie: a=b; c=d",
        "Connection: close",
        "Connection: Keep-Alive",
        "Connection: TE, close\r\nTE: trailers",
        "Connection: keep-alive, HTTP2-Settings,",
        "Connection: upgrade",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: v5.channel.k8s.io",
        "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket",
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io",
        "Content-Length: 0",
        "Content-Length:   0  ",
        "Expect: 100-continue\r\nContent-Length: 3",
        "Transfer-Encoding: chunked",
        "X-MCTunnel-Cluster: c\r\nx-mctunnel-port: 80",
        "X-Forwarded-For: 10.0.0.1",
        "X-Remote: not one of them",
        "Impersonate: not one of them",
        "Accept: a\r\nAccept: b",
    ] {
        assert_eq!(with_header(header), Ok(()), "{header}");
    }
    for line in [
        "HEAD /c HTTP/1.1",
        "POST /c/api HTTP/1.1",
        "PUT /c/?a=b;c HTTP/1.1",
        "PATCH /c/%20~ HTTP/1.1",
        "DELETE /c/a:b HTTP/1.1",
        "OPTIONS /c HTTP/1.1",
        "GET /c HTTP/1.0",
        "POST /pkg.Service/Method HTTP/1.1",
    ] {
        assert_eq!(judged(line, "Host: h\r\n"), Ok(()), "{line}");
    }
    assert_eq!(judged("GET /c HTTP/1.0", ""), Ok(()));
    let spdy = "Host: h\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n";
    assert_eq!(judged("POST /c/exec HTTP/1.1", spdy), Ok(()), "kubectl sends a length of nothing");
    for host in ["hub", "hub:8080", "10.0.0.1:8080", "[::1]:8080", "HUB.example.com."] {
        assert_eq!(judged("GET /c HTTP/1.1", &format!("Host: {host}\r\n")), Ok(()), "{host}");
    }
}

#[test]
fn t15_request_lines_that_are_refused() {
    let host = "Host: h\r\n";
    for (line, reason) in [
        ("GET http://h/c HTTP/1.1", BadHead::Target(BadTarget::NotAPath)),
        ("GET http://user:pw@h/c HTTP/1.1", BadHead::Target(BadTarget::NotAPath)),
        ("GET h:80 HTTP/1.1", BadHead::Target(BadTarget::NotAPath)),
        ("GET * HTTP/1.1", BadHead::Target(BadTarget::NotAPath)),
        ("OPTIONS * HTTP/1.1", BadHead::Target(BadTarget::NotAPath)),
        ("GET c HTTP/1.1", BadHead::Target(BadTarget::NotAPath)),
        ("GET ?c HTTP/1.1", BadHead::Target(BadTarget::NotAPath)),
        ("GET /c#x HTTP/1.1", BadHead::Target(BadTarget::Fragment)),
        ("GET /c/../d HTTP/1.1", BadHead::Target(BadTarget::DotSegment)),
        ("GET /c/%2e%2e/d HTTP/1.1", BadHead::Target(BadTarget::EncodedSeparator)),
        ("GET /c%2fd HTTP/1.1", BadHead::Target(BadTarget::EncodedSeparator)),
        ("GET /c/%00 HTTP/1.1", BadHead::Target(BadTarget::EncodedSeparator)),
        ("GET /c/%zz HTTP/1.1", BadHead::Target(BadTarget::PercentCode)),
        ("GET /c\\d HTTP/1.1", BadHead::Target(BadTarget::Backslash)),
        ("GET //c HTTP/1.1", BadHead::Target(BadTarget::EmptySegment)),
        ("GET /c/\u{e9} HTTP/1.1", BadHead::Target(BadTarget::NotAscii)),
        ("CONNECT h:80 HTTP/1.1", BadHead::Method),
        ("CONNECT /c HTTP/1.1", BadHead::Method),
        ("TRACE /c HTTP/1.1", BadHead::Method),
        ("get /c HTTP/1.1", BadHead::Method),
        ("Get /c HTTP/1.1", BadHead::Method),
        ("GETT /c HTTP/1.1", BadHead::Method),
        ("PROPFIND /c HTTP/1.1", BadHead::Method),
    ] {
        assert_eq!(judged(line, host), Err(reason), "{line}");
    }
    for line in [
        "GET /c HTTP/2.0",
        "GET /c HTTP/1.2",
        "GET /c HTTP/1.10",
        "GET /c HTTP/0.9",
        "GET /c http/1.1",
        "GET /c",
        "GET  /c HTTP/1.1",
        "GET /c  HTTP/1.1",
        "GET /c HTTP/1.1 ",
        "GET /c\tHTTP/1.1",
        "GET\t/c HTTP/1.1",
        "GET /c\u{1} HTTP/1.1",
        "G@T /c HTTP/1.1",
        "PRI * HTTP/2.0",
        " GET /c HTTP/1.1",
        "\r\nGET /c HTTP/1.1",
        "\nGET /c HTTP/1.1",
        "\0GET /c HTTP/1.1",
        "\u{16}\u{3}\u{1}",
    ] {
        assert!(matches!(judged(line, host), Err(BadHead::Malformed(_))), "{line:?} {:?}", judged(line, host));
    }
}

#[test]
fn t15_line_ends_and_headers_that_are_refused() {
    for text in [
        "GET /c HTTP/1.1\nHost: h\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\r\n\n",
        "GET /c HTTP/1.1\r\nHost: h\r\nA: b\rC: d\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\r\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\r\nA: b\r\n\tc\r\n\r\n",
        "GET /c HTTP/1.1\r\n Host: h\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost : h\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost\r\n\r\n",
        "GET /c HTTP/1.1\r\n: h\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\r\nA\0: b\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\r\nA: b\0\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\r\nA: \u{1b}[31m\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\r\nA(: b\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\r\n\u{e9}: b\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\r\nA: b\u{7f}\r\n\r\n",
    ] {
        let (passed, rest) = outcome(text);
        assert!(matches!(rest, Rest::Refuse(BadHead::Malformed(_))), "{text:?} {rest:?}");
        assert_eq!(passed, "", "{text:?}");
    }
}

#[test]
fn t15_lengths_in_doubt_are_refused() {
    for header in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 3",
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        "Content-Length: 3\r\nContent-Length: 3",
        "Content-Length: 3\r\ncontent-length: 4",
        "Content-Length: 3, 3",
        "Content-Length: +3",
        "Content-Length: -3",
        "Content-Length: 03",
        "Content-Length: 0x3",
        "Content-Length: 3 4",
        "Content-Length: 3.0",
        "Content-Length:",
        "Content-Length: three",
        "Content-Length: 9223372036854775808",
        "Content-Length: 99999999999999999999999",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: Chunked",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding:",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
    ] {
        let refused = with_header(header);
        let is_expected = matches!(refused, Err(BadHead::Length(_) | BadHead::Malformed("a header's value")));
        assert!(is_expected, "{header} {refused:?}");
    }
    let old = judged("POST /c HTTP/1.0", "Host: h\r\nTransfer-Encoding: chunked\r\n");
    assert!(matches!(old, Err(BadHead::Length(_))), "{old:?}");
}

#[test]
fn t15_a_host_is_named_once() {
    for headers in [
        "",
        "Host:\r\n",
        "Host: h\r\nHost: h\r\n",
        "Host: h\r\nhOST: i\r\n",
        "Host: user@h\r\n",
        "Host: h/c\r\n",
        "Host: h, i\r\n",
        "Host: h i\r\n",
        "Host: h\u{e9}\r\n",
        "Host: http://h\r\n",
    ] {
        let refused = judged("GET /c HTTP/1.1", headers);
        assert!(matches!(refused, Err(BadHead::Host(_))), "{headers:?} {refused:?}");
    }
    assert!(matches!(judged("GET /c HTTP/1.0", "Host: h\r\nHost: h\r\n"), Err(BadHead::Host(_))));
}

#[test]
fn t01_identity_and_routing_headers_are_refused() {
    for name in [
        "Impersonate-User",
        "impersonate-user",
        "IMPERSONATE-USER",
        "iMpErSoNaTe-UsEr",
        "Impersonate-Group",
        "Impersonate-Uid",
        "Impersonate-Extra-Scopes",
        "Impersonate-Extra-acme.com%2Fproject",
        "Impersonate-Future",
        "Impersonate-",
        "Impersonate_User",
        "impersonate_group",
        "Impersonate-User_",
        "X-Remote-User",
        "x-remote-user",
        "X-REMOTE-GROUP",
        "X-Remote-Extra-Scopes",
        "X-Remote-Uid",
        "X-Remote-Future",
        "X_Remote_User",
        "X-Remote_User",
        "X-MCTunnel-Proto",
        "x-mctunnel-host",
        "X-MCTUNNEL-TARGET",
        "x-mctunnel-namespace",
        "x-mctunnel-service",
        "x-mctunnel-scheme",
        "x-mctunnel-identity",
        "x-mctunnel-cluster2",
        "x-mctunnel-",
        "x_mctunnel_cluster",
        "any_name",
        "_",
    ] {
        for header in [format!("{name}: admin"), format!("{name}:"), format!("{name}: a\r\n{name}: b")] {
            let refused = with_header(&header);
            assert!(matches!(refused, Err(BadHead::ReservedHeader(_))), "{header:?} {refused:?}");
        }
    }
}

#[test]
fn t02_connection_may_not_name_headers() {
    for header in [
        "Connection: Impersonate-User",
        "Connection: close, Authorization",
        "Connection: close\r\nConnection: authorization",
        "Connection: keep-alive, X-Foo",
        "Connection: x-mctunnel-cluster",
        "cOnnEction: hOst",
        "Connection: content-length",
        "Connection: close;x",
        "Connection: close Authorization",
        "Connection: \"close\"",
        "Connection: transfer-encoding",
    ] {
        let refused = with_header(header);
        assert!(matches!(refused, Err(BadHead::Connection(_))), "{header} {refused:?}");
    }
}

#[test]
fn t13_other_upgrades_are_refused() {
    for header in [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
        "Connection: upgrade\r\nUpgrade: TLS/1.0",
        "Connection: upgrade\r\nUpgrade: websocket, h2c",
        "Connection: upgrade\r\nUpgrade: websocket\r\nUpgrade: websocket",
        "Connection: upgrade\r\nUpgrade: SPDY/3",
        "Connection: upgrade\r\nUpgrade:",
        "Connection: upgrade\r\nUpgrade: websocket2",
        "Upgrade: websocket",
        "Connection: close\r\nUpgrade: SPDY/3.1",
        "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1",
        "Connection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked",
    ] {
        let refused = with_header(header);
        assert!(matches!(refused, Err(BadHead::Upgrade(_))), "{header} {refused:?}");
    }
    let websocket = "Host: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
    assert!(matches!(judged("POST /c HTTP/1.1", websocket), Err(BadHead::Upgrade(_))));
    assert!(matches!(judged("GET /c HTTP/1.0", websocket), Err(BadHead::Upgrade(_))));
}

#[test]
fn t31_two_credentials_are_refused() {
    for header in [
        "Authorization: Bearer a\r\nAuthorization: Bearer a",
        "Authorization: Bearer a\r\naUTHORIZATION: Basic b",
        "Authorization: Bearer a\r\nProxy-Authorization: Basic b",
    ] {
        assert_eq!(with_header(header), Err(BadHead::TwoCredentials), "{header}");
    }
}

#[test]
fn t15_heads_have_limits() {
    let config = GuardConfig { max_head_bytes: 100, max_headers: 3, ..GuardConfig::default() };
    let config = Arc::new(config);
    let head = |fill: usize| format!("GET /c HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "x".repeat(fill));
    let fits = 100 - head(0).len();
    for (text, expected) in [
        (head(fits), Rest::Keep),
        (head(fits + 1), Rest::Refuse(BadHead::TooLong { limit: 100 })),
        ("G".repeat(101), Rest::Refuse(BadHead::TooLong { limit: 100 })),
        ("G".repeat(100), Rest::Keep),
        ("GET /c HTTP/1.1\r\nHost: h\r\nA:\r\nB:\r\n\r\n".to_owned(), Rest::Keep),
        (
            "GET /c HTTP/1.1\r\nHost: h\r\nA:\r\nB:\r\nC:\r\n\r\n".to_owned(),
            Rest::Refuse(BadHead::TooManyHeaders { limit: 3 }),
        ),
    ] {
        assert_eq!(run(&mut Guard::new(Arc::clone(&config)), [text.as_bytes()]).1, expected, "{text:?}");
    }
    for reason in [BadHead::TooLong { limit: 1 }, BadHead::TooManyHeaders { limit: 1 }] {
        assert_eq!((reason.http_status(), reason.code().code), (431, "MCT-HTTP-LONG-HEAD"));
    }
    let many = Guard::new(Arc::new(GuardConfig { max_headers: usize::MAX, ..GuardConfig::default() }));
    let text = format!("GET /c HTTP/1.1\r\nHost: h\r\n{}\r\n", "A:\r\n".repeat(256));
    let refused = run(&mut { many }, [text.as_bytes()]).1;
    assert_eq!(refused, Rest::Refuse(BadHead::TooManyHeaders { limit: GuardConfig::MOST_HEADERS }));
}

const CHUNKED: &str = "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn t15_good_chunks_end_where_the_next_head_begins() {
    for body in [
        "0\r\n\r\n",
        "000\r\n\r\n",
        "3\r\nabc\r\n0\r\n\r\n",
        "0000000000000003\r\nabc\r\n0\r\n\r\n",
        "a\r\n0123456789\r\nA\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n",
        "3;a=b;c\r\nabc\r\n0;d\r\n\r\n",
        "1;\r\na\r\n0\r\n\r\n",
        "0\r\nGrpc-Status: 0\r\nx:\t\u{e9} \r\n\r\n",
    ] {
        let text = format!("{CHUNKED}{body}{NEXT}");
        assert_eq!(outcome(&text), (text.clone(), Rest::Keep), "{body:?}");
        let bad = format!("{CHUNKED}{body}X");
        let (passed, _) = outcome(&bad);
        assert_eq!(passed.len(), bad.len() - 1, "{body:?} the X begins a head");
    }
}

#[test]
fn t15_bad_chunks_break_the_connection_before_the_body_ends() {
    let long_name = format!("0\r\n{}: b\r\n\r\n", "x".repeat(65));
    let long_trailers = format!("0\r\na: {}\r\n\r\n", "x".repeat(16 * 1024));
    let long_extension = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(257));
    for body in [
        "\r\n",
        "\r\n0\r\n\r\n",
        "g\r\n",
        " 3\r\nabc\r\n0\r\n\r\n",
        "3 \r\nabc\r\n0\r\n\r\n",
        "3\t;a\r\nabc\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "-1\r\n\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3\rabc\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nab\r\n0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "3\r\nabc\r0\r\n\r\n",
        "10000000000000000\r\nabc\r\n0\r\n\r\n",
        "00000000000000003\r\nabc\r\n0\r\n\r\n",
        ";a\r\n0\r\n\r\n",
        "1;e=\"v\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n\"\r\na\r\n0\r\n\r\n",
        "1;e=\"v\"\r\na\r\n0\r\n\r\n",
        "1;e\nx\r\na\r\n0\r\n\r\n",
        "1;e f\r\na\r\n0\r\n\r\n",
        "1;\u{e9}\r\na\r\n0\r\n\r\n",
        "0\r\nX\r\n\r\n",
        "0\n\r\n",
        "0\r\n\n",
        "0\r\na: b\n\r\n",
        "0\r\na: b\rc: d\r\n\r\n",
        "0\r\na: b\r\n c\r\n\r\n",
        "0\r\na : b\r\n\r\n",
        "0\r\n: b\r\n\r\n",
        "0\r\na: \0\r\n\r\n",
        "0\r\nContent-Length: 3\r\n\r\n",
        "0\r\ntransfer-encoding: chunked\r\n\r\n",
        "0\r\nHost: i\r\n\r\n",
        "0\r\nAuthorization: Bearer b\r\n\r\n",
        "0\r\nImpersonate-User: admin\r\n\r\n",
        "0\r\na: b\r\nX-Remote-User: admin\r\n\r\n",
        "0\r\nx-mctunnel-cluster: d\r\n\r\n",
        "0\r\nany_name: d\r\n\r\n",
        &long_name,
        &long_trailers,
        &long_extension,
    ] {
        let (passed, rest) = outcome(&format!("{CHUNKED}{body}{NEXT}"));
        assert!(matches!(rest, Rest::Break(_)), "{body:?} {rest:?}");
        assert!(!passed.ends_with("\r\n\r\n") || passed == CHUNKED, "{body:?} {passed:?}");
    }
}

#[test]
fn t15_a_body_is_as_long_as_its_head_says() {
    let smuggled = "POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nGET GET /x HTTP/1.1\r\nHost: h\r\n\r\n";
    assert_eq!(outcome(smuggled), (smuggled.to_owned(), Rest::Keep));
    let short = "POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nGET GET /x HTTP/1.1\r\nHost: h\r\n\r\n";
    let (passed, rest) = outcome(short);
    assert!(passed.ends_with("\r\n\r\nGET"), "{passed}");
    assert!(matches!(rest, Rest::Refuse(BadHead::Malformed(_))), "{rest:?}");
}

#[test]
fn what_follows_an_upgrade_is_not_http() {
    let text =
        "GET /c HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\0\r\n\n\u{1}Impersonate";
    assert_eq!(outcome(text), (text.to_owned(), Rest::Keep));
}

/// Pieces of which requests, good and bad, are made.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        NEXT,
        CHUNKED,
        "POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n",
        "GET /c HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "GET /c HTTP/1.1\r\n",
        "Host: h\r\n",
        "Content-Length: 7\r\n",
        "Transfer-Encoding: chunked\r\n",
        "\r\n",
        "\n",
        "3\r\nabc\r\n",
        "7\r\n",
        "0\r\n",
        "0\r\n\r\n",
        "1;a=\"b\"\r\n",
        "a: b\r\n",
        "\r",
        "1234567",
        "x",
        " ",
        "\0",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn t15_it_does_not_matter_in_which_pieces_bytes_come(
        pieces in prop::collection::vec(piece(), 1..12),
        sizes in prop::collection::vec(1..40usize, 1..20),
    ) {
        let text = pieces.concat().into_bytes();
        let whole = run(&mut guard(), [&*text]);
        let single = run(&mut guard(), text.chunks(1));
        prop_assert_eq!(&single, &whole);
        let mut cut = Vec::new();
        let mut left = &*text;
        for size in sizes.iter().cycle() {
            if left.is_empty() {
                break;
            }
            let (one, more) = left.split_at((*size).min(left.len()));
            cut.push(one);
            left = more;
        }
        prop_assert_eq!(&run(&mut guard(), cut), &whole);
        prop_assert!(text.starts_with(&whole.0), "bytes are passed on as they came");
    }

    #[test]
    fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..200), behind in piece()) {
        let bytes = [behind.as_bytes(), &bytes].concat();
        prop_assert_eq!(run(&mut guard(), [&*bytes]), run(&mut guard(), bytes.chunks(1)));
    }
}
