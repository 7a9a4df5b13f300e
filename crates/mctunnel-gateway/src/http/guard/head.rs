//! Judges a complete HTTP/1 head: whether it is one that every reader reads alike, and where its body ends.

use super::{
    BadHead, GuardConfig,
    fields::{Credentials, check_name, is_host, is_method, parse_length},
};
use mctunnel_core::bad_target;
use std::mem::MaybeUninit;

/// What follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes, or none.
    Length(u64),
    /// Chunks, up to an empty one and trailers.
    Chunked,
    /// Another protocol.
    Upgraded,
}

/// Checks a head that ends in an empty line and has no other line ends than CRLF.
pub(super) fn check(head: &[u8], config: &GuardConfig) -> Result<Body, BadHead> {
    let limit = config.max_headers.min(GuardConfig::MOST_HEADERS);
    let mut headers = [const { MaybeUninit::uninit() }; GuardConfig::MOST_HEADERS];
    let headers = headers.get_mut(..limit).unwrap_or_default();
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(head, headers) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(BadHead::Malformed("it is not complete")),
        Err(error) => return Err(malformed(error, limit)),
    }
    let method = request.method.unwrap_or_default();
    if !is_method(method) {
        return Err(BadHead::Method);
    }
    bad_target::split(request.path.unwrap_or_default())?;
    let mut fields = Fields::default();
    for header in request.headers.iter() {
        fields.handle(header.name, header.value.trim_ascii(), config)?;
    }
    fields.finish(method, request.version == Some(1))
}

fn malformed(error: httparse::Error, limit: usize) -> BadHead {
    use httparse::Error;
    BadHead::Malformed(match error {
        Error::TooManyHeaders => return BadHead::TooManyHeaders { limit },
        Error::HeaderName => "a header's name",
        Error::HeaderValue => "a header's value",
        Error::Version => "only HTTP/1.0 and HTTP/1.1 are served here",
        Error::NewLine => "a line end",
        Error::Token | Error::Status => "the request line",
    })
}

// === Fields ===

/// What the header fields seen so far say together.
#[derive(Debug, Default)]
struct Fields {
    credentials: Credentials,
    host: bool,
    length: Option<u64>,
    chunked: bool,
    connection_upgrade: bool,
    upgrade: Option<Protocol>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Websocket,
    Spdy,
}

impl Fields {
    fn handle(&mut self, name: &str, value: &[u8], config: &GuardConfig) -> Result<(), BadHead> {
        check_name(name, config)?;
        self.credentials.handle(name)?;
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("host") {
            if !is_host(value) {
                return Err(BadHead::Host("Host is not a name or address with or without a port"));
            }
            if std::mem::replace(&mut self.host, true) {
                return Err(BadHead::Host("there are two"));
            }
        } else if is("content-length") {
            if self.length.replace(parse_length(value)?).is_some() {
                return Err(BadHead::Length("there are two Content-Length"));
            }
        } else if is("transfer-encoding") {
            if value != b"chunked" || std::mem::replace(&mut self.chunked, true) {
                return Err(BadHead::Length("Transfer-Encoding is something else than 'chunked', once"));
            }
        } else if is("connection") {
            self.handle_connection(value)?;
        } else if is("upgrade") {
            let protocol = match value {
                value if value.eq_ignore_ascii_case(b"websocket") => Protocol::Websocket,
                value if value.eq_ignore_ascii_case(b"SPDY/3.1") => Protocol::Spdy,
                _ => return Err(BadHead::Upgrade("the protocol is neither websocket nor SPDY/3.1")),
            };
            if self.upgrade.replace(protocol).is_some() {
                return Err(BadHead::Upgrade("there are two Upgrade"));
            }
        }
        Ok(())
    }

    fn handle_connection(&mut self, value: &[u8]) -> Result<(), BadHead> {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let is = |other: &str| option.eq_ignore_ascii_case(other.as_bytes());
            if is("upgrade") {
                self.connection_upgrade = true;
            } else if !["close", "keep-alive", "te", "http2-settings", ""].into_iter().any(is) {
                return Err(BadHead::Connection("Connection lists another header"));
            }
        }
        Ok(())
    }

    fn finish(self, method: &str, is_http_11: bool) -> Result<Body, BadHead> {
        if is_http_11 && !self.host {
            return Err(BadHead::Host("there is no Host"));
        }
        if self.chunked && self.length.is_some() {
            return Err(BadHead::Length("there are both Content-Length and Transfer-Encoding"));
        }
        if self.chunked && !is_http_11 {
            return Err(BadHead::Length("HTTP/1.0 has no Transfer-Encoding"));
        }
        let length = self.length.unwrap_or(0);
        let Some(protocol) = self.upgrade else {
            return Ok(if self.chunked { Body::Chunked } else { Body::Length(length) });
        };
        let problem = if !is_http_11 {
            "HTTP/1.0 has no Upgrade"
        } else if !self.connection_upgrade {
            "Connection does not list upgrade"
        } else if self.chunked || length > 0 {
            "the request has a body"
        } else if protocol == Protocol::Websocket && method != "GET" {
            "a websocket begins with GET"
        } else {
            return Ok(Body::Upgraded);
        };
        Err(BadHead::Upgrade(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The judgement of a head with these lines behind its first.
    fn judged(first: &str, lines: &[&str]) -> Result<Body, BadHead> {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        check(format!("{first}\r\n{lines}\r\n").as_bytes(), &GuardConfig::default())
    }

    const GET: &str = "GET /c HTTP/1.1";
    const HOST: &str = "Host: h";

    #[test]
    fn t15_the_end_of_a_body_is_never_in_doubt() {
        for (first, lines, body) in [
            (GET, &[HOST][..], Body::Length(0)),
            ("GET /c HTTP/1.0", &[], Body::Length(0)),
            ("POST /c HTTP/1.1", &[HOST, "content-length: 3"], Body::Length(3)),
            ("POST /c HTTP/1.0", &["Content-Length:  3 "], Body::Length(3)),
            ("POST /c HTTP/1.1", &[HOST, "Transfer-Encoding: chunked"], Body::Chunked),
        ] {
            assert_eq!(judged(first, lines), Ok(body), "{first} {lines:?}");
        }
        for (first, lines) in [
            (GET, &[HOST, "Content-Length: 0", "Content-Length: 0"][..]),
            (GET, &[HOST, "Content-Length: 3", "Transfer-Encoding: chunked"]),
            (GET, &[HOST, "Content-Length: 0", "Transfer-Encoding: chunked"]),
            (GET, &[HOST, "Transfer-Encoding: Chunked"]),
            (GET, &[HOST, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"]),
            ("GET /c HTTP/1.0", &[HOST, "Transfer-Encoding: chunked"]),
        ] {
            assert!(matches!(judged(first, lines), Err(BadHead::Length(_))), "{first} {lines:?}");
        }
    }

    #[test]
    fn t37_no_target_is_let_through_that_is_then_refused_where_nobody_records_it() {
        for letter in (1..=0x7f).map(char::from) {
            for target in [format!("/c/a{letter}b"), format!("/c?a{letter}b")] {
                if judged(&format!("GET {target} HTTP/1.1"), &[HOST]).is_ok() {
                    assert!(target.parse::<http::Uri>().is_ok(), "{target:?}");
                }
            }
        }
    }

    #[test]
    fn t13_an_upgrade_is_asked_for_in_one_way() {
        const UPGRADE: &str = "Connection: Upgrade";
        const WEBSOCKET: &str = "Upgrade: WebSocket";
        for (first, lines) in [
            (GET, &[HOST, UPGRADE, WEBSOCKET][..]),
            (GET, &[HOST, WEBSOCKET, "Connection: keep-alive,upgrade"]),
            (GET, &[HOST, UPGRADE, WEBSOCKET, "Content-Length: 0"]),
            ("POST /c HTTP/1.1", &[HOST, UPGRADE, "Upgrade: spdy/3.1"]),
            (GET, &[HOST, UPGRADE, "Upgrade: SPDY/3.1"]),
        ] {
            assert_eq!(judged(first, lines), Ok(Body::Upgraded), "{first} {lines:?}");
        }
        for (first, lines, reason) in [
            ("GET /c HTTP/1.0", &[HOST, UPGRADE, WEBSOCKET][..], "HTTP/1.0 has no Upgrade"),
            (GET, &[HOST, WEBSOCKET], "Connection does not list upgrade"),
            (GET, &[HOST, WEBSOCKET, "Connection: keep-alive"], "Connection does not list upgrade"),
            (GET, &[HOST, UPGRADE, WEBSOCKET, "Content-Length: 1"], "the request has a body"),
            (GET, &[HOST, UPGRADE, WEBSOCKET, "Transfer-Encoding: chunked"], "the request has a body"),
            ("POST /c HTTP/1.1", &[HOST, UPGRADE, WEBSOCKET], "a websocket begins with GET"),
            (GET, &[HOST, UPGRADE, WEBSOCKET, WEBSOCKET], "there are two Upgrade"),
            (GET, &[HOST, UPGRADE, "Upgrade: h2c"], "the protocol is neither websocket nor SPDY/3.1"),
            (GET, &[HOST, UPGRADE, "Upgrade: websocket, h2c"], "the protocol is neither websocket nor SPDY/3.1"),
        ] {
            assert_eq!(judged(first, lines), Err(BadHead::Upgrade(reason)), "{first} {lines:?}");
        }
        // Without the protocol it is no upgrade.
        assert_eq!(judged(GET, &[HOST, UPGRADE]), Ok(Body::Length(0)));
    }

    #[test]
    fn t15_connection_names_no_header_of_the_clients_choice() {
        for good in ["", "close", "Keep-Alive", "te, close", "TE,upgrade, HTTP2-Settings", "close,,keep-alive"] {
            assert_eq!(judged(GET, &[HOST, &format!("Connection: {good}")]), Ok(Body::Length(0)), "{good}");
        }
        for bad in ["authorization", "close, x-a", "x-a, close", "close;te", "close te", "host"] {
            let refused = Err(BadHead::Connection("Connection lists another header"));
            assert_eq!(judged(GET, &[HOST, &format!("Connection: {bad}")]), refused, "{bad}");
        }
    }

    #[test]
    fn a_head_has_as_many_lines_as_the_configuration_says_and_never_more_than_the_most() {
        const MOST: usize = GuardConfig::MOST_HEADERS;
        for (max_headers, limit) in [(1, 1), (MOST - 1, MOST - 1), (MOST, MOST), (MOST + 1, MOST), (usize::MAX, MOST)] {
            let config = GuardConfig { max_headers, ..GuardConfig::default() };
            let head = |lines: usize| format!("{GET}\r\n{HOST}\r\n{}\r\n", "a: b\r\n".repeat(lines - 1));
            assert_eq!(check(head(limit).as_bytes(), &config), Ok(Body::Length(0)), "{max_headers}");
            assert_eq!(check(head(limit + 1).as_bytes(), &config), Err(BadHead::TooManyHeaders { limit }));
        }
    }
}
