//! The rules for header fields that HTTP/1.1 and HTTP/2 have in common.

use super::{BadHead, GuardConfig};

/// Headers that carry an identity; only who has verified one may send them.
const IDENTITY: [(&str, &str); 2] =
    [("impersonate-", "a name beginning with Impersonate-"), ("x-remote-", "a name beginning with X-Remote-")];
/// Headers that route a stream.
const ROUTING: &str = "x-mctunnel-";

/// Refuses the names of headers that clients may not send. `name` may be in any case.
pub(super) fn check_name(name: &str, config: &GuardConfig) -> Result<(), BadHead> {
    if name.contains('_') {
        // Servers that know headers as environment variables cannot tell '_' from '-'.
        return Err(BadHead::ReservedHeader("a name with '_'"));
    }
    for (prefix, what) in IDENTITY {
        if starts_with(name, prefix) && !config.is_forwarded(name) {
            return Err(BadHead::ReservedHeader(what));
        }
    }
    if starts_with(name, ROUTING) && !config.routing_headers.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
        return Err(BadHead::ReservedHeader("a name beginning with x-mctunnel-"));
    }
    Ok(())
}

/// Refuses names that have a meaning only in front of a body, or none that a client could give them.
pub(super) fn check_trailer_name(name: &str) -> Result<(), BadHead> {
    const IN_FRONT_ONLY: [&str; 16] = [
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-forwarded-for",
    ];
    if starts_with(name, ROUTING) || IN_FRONT_ONLY.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        return Err(BadHead::ReservedHeader("a trailer that may stand in the head only"));
    }
    check_name(name, &GuardConfig::default())
}

/// Whether a host is a name or an address with or without a port, and nothing else.
pub(super) fn is_host(host: &[u8]) -> bool {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    !host.is_empty() && host.len() <= 300 && host.iter().all(plain)
}

/// Whether the method is one of those served.
pub(super) fn is_method(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS")
}

/// Parses a length in its one spelling.
pub(super) fn parse_length(value: &[u8]) -> Result<u64, BadHead> {
    let text = str::from_utf8(value).unwrap_or_default();
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    match text.parse() {
        // More than a signed number holds is nobody's body, and another reader's overflow.
        Ok(length) if plain && i64::try_from(length).is_ok() => Ok(length),
        _ => Err(BadHead::Length("Content-Length is not a decimal number")),
    }
}

/// Counts what may identify the client.
#[derive(Debug, Default)]
pub(super) struct Credentials(usize);

impl Credentials {
    pub(super) fn handle(&mut self, name: &str) -> Result<(), BadHead> {
        if name.eq_ignore_ascii_case("authorization") || name.eq_ignore_ascii_case("proxy-authorization") {
            self.0 += 1;
        }
        if self.0 > 1 { Err(BadHead::TwoCredentials) } else { Ok(()) }
    }
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        let (longest, longer) = ("h".repeat(300), "h".repeat(301));
        for good in ["h", "h:80", "H.example", "a-b.c_d", "10.0.0.1:1", "[::1]:80", &longest] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in ["", " ", "a b", "a/b", "u@h", "a,b", "h\t", "\u{e9}", "a?b", "a#b", "a%62", &longer] {
            assert!(!is_host(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn t15_a_length_has_one_spelling() {
        for good in [0, 1, 9, 10, 4096, i64::MAX.unsigned_abs()] {
            assert_eq!(parse_length(good.to_string().as_bytes()), Ok(good));
        }
        let (too_long, overflow) = ((1_u64 << 63).to_string(), "9".repeat(30));
        for bad in ["", "00", "03", "+3", "-0", "3 ", " 3", "3,3", "0x3", "3a", "1e3", &too_long, &overflow] {
            assert!(matches!(parse_length(bad.as_bytes()), Err(BadHead::Length(_))), "{bad:?}");
        }
        assert!(parse_length(&[b'3', 0xff]).is_err());
    }

    #[test]
    fn t31_a_request_has_one_credential_whatever_its_header() {
        for (names, is_good) in [
            (&["accept", "cookie", "cookie"][..], true),
            (&["authorization", "accept"], true),
            (&["Proxy-Authorization"], true),
            (&["authorization", "Authorization"], false),
            (&["proxy-authorization", "accept", "authorization"], false),
            (&["proxy-authorization", "Proxy-Authorization"], false),
        ] {
            let mut credentials = Credentials::default();
            let outcome = names.iter().try_for_each(|name| credentials.handle(name));
            assert_eq!(outcome, if is_good { Ok(()) } else { Err(BadHead::TwoCredentials) }, "{names:?}");
        }
    }

    #[test]
    fn t01_names_of_ours_come_in_where_the_configuration_says_so() {
        let open = GuardConfig {
            routing_headers: vec!["x-mctunnel-cluster".to_owned(), "x-mctunnel-other".to_owned()],
            forwarded_headers: vec!["x-remote-user".to_owned(), "impersonate-user".to_owned()],
            ..GuardConfig::default()
        };
        for (name, when_closed, when_open) in [
            ("accept", true, true),
            ("impersonated", true, true),
            ("X-Remote", true, true),
            ("x-mctunnel", true, true),
            ("x-mctunnel-cluster", false, true),
            ("X-MCTunnel-Other", false, true),
            ("x-mctunnel-target", false, false),
            ("X-Remote-User", false, true),
            ("x-remote-group", false, false),
            ("Impersonate-User", false, false),
            ("impersonate-extra-a", false, false),
            ("x_remote_user", false, false),
            ("a_b", false, false),
        ] {
            for (config, is_good) in [(&GuardConfig::default(), when_closed), (&open, when_open)] {
                assert_eq!(check_name(name, config).is_ok(), is_good, "{name}");
                let trailer = check_trailer_name(name);
                assert_eq!(trailer.is_ok(), when_closed, "{name} as a trailer, where no configuration counts");
            }
        }
        for name in ["Authorization", "host", "Content-Length", "COOKIE", "te", "x-forwarded-for"] {
            assert!(check_name(name, &open).is_ok() && check_trailer_name(name).is_err(), "{name}");
        }
    }
}
