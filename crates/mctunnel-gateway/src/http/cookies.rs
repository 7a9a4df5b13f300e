//! Cookies of targets. All services of all clusters have the gateway's one origin, so a browser would send what one of them sets to all
//! the others: each keeps its cookies below its own paths.

use super::own_paths::OwnPaths;
use http::{HeaderMap, HeaderValue, header};

/// Confines the cookies that a target sets to its own paths.
///
/// `Path` gets the prefix under which the client sees the target, `Domain` goes. A cookie without a path has the directory of its
/// request, which is below the prefix already, or of this one target alone; where that is the root, it gets the prefix. One whose name
/// begins with `__Host-` is for the whole origin or for nobody, so it is not passed on.
pub(super) fn confine(fields: &mut HeaderMap, own: &OwnPaths) {
    let confined: Vec<HeaderValue> =
        fields.get_all(header::SET_COOKIE).iter().filter_map(|cookie| confined(cookie.as_bytes(), own)).collect();
    fields.remove(header::SET_COOKIE);
    for cookie in confined {
        fields.append(header::SET_COOKIE, cookie);
    }
}

fn confined(cookie: &[u8], OwnPaths { prefix, asked_at_root }: &OwnPaths) -> Option<HeaderValue> {
    let mut parts = cookie.split(|byte| *byte == b';');
    let pair = parts.next().unwrap_or_default();
    if begins_with(pair.trim_ascii(), b"__host-") {
        return None;
    }
    let mut confined = pair.to_vec();
    let mut has_path = false;
    for attribute in parts {
        let mut halves = attribute.splitn(2, |byte| *byte == b'=');
        let name = halves.next().unwrap_or_default().trim_ascii();
        let value = halves.next().unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"domain") {
            continue;
        }
        confined.push(b';');
        let is_path = name.eq_ignore_ascii_case(b"path");
        if is_path {
            // The last one counts, and is taken for none unless it begins like this.
            has_path = value.starts_with(b"/");
        }
        if is_path && has_path {
            confined.extend_from_slice(b" Path=");
            confined.extend_from_slice(prefix.as_bytes());
            confined.extend_from_slice(value);
        } else {
            confined.extend_from_slice(attribute);
        }
    }
    if *asked_at_root && !has_path {
        confined.extend_from_slice(b"; Path=");
        confined.extend_from_slice(prefix.as_bytes());
        confined.push(b'/');
    }
    HeaderValue::from_bytes(&confined).ok()
}

fn begins_with(text: &[u8], beginning: &[u8]) -> bool {
    text.get(..beginning.len()).is_some_and(|part| part.eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(prefix: &str) -> OwnPaths {
        OwnPaths { prefix: prefix.to_owned(), asked_at_root: false }
    }

    #[test]
    fn cookies_stay_below_their_service() {
        for (set, passed) in [
            ("a=b", "a=b"),
            ("a=b; Path=/", "a=b; Path=/c/s/"),
            ("a=b; Path=/app; Secure", "a=b; Path=/c/s/app; Secure"),
            ("a=b;path=/ ;HttpOnly", "a=b; Path=/c/s/;HttpOnly"),
            ("a=b; PATH = /x; SameSite=Lax", "a=b; Path=/c/s/x; SameSite=Lax"),
            ("a=b; Path=/; Path=/y", "a=b; Path=/c/s/; Path=/c/s/y"),
            ("a=b; Path=/../other", "a=b; Path=/c/s/../other"),
            ("a=b; Path=/x=y", "a=b; Path=/c/s/x=y"),
            ("a=b; Path=/x; Max-Age=3; Comment=/y", "a=b; Path=/c/s/x; Max-Age=3; Comment=/y"),
            ("a=b; Comment=/y; Path=x", "a=b; Comment=/y; Path=x"),
            // Taken for none by browsers: the path of the request counts.
            ("a=b; Path=relative", "a=b; Path=relative"),
            ("a=b; Path=\"/\"", "a=b; Path=\"/\""),
            ("a=b; Path", "a=b; Path"),
            ("a=b; Domain=example.com; Max-Age=3", "a=b; Max-Age=3"),
            ("a=b;\tdOmAiN\t=.hub; domain", "a=b"),
            ("__Secure-a=b; Secure; Path=/", "__Secure-a=b; Secure; Path=/c/s/"),
            ("Path=/; x", "Path=/; x"),
            ("", ""),
        ] {
            assert_eq!(confined(set.as_bytes(), &below("/c/s")).unwrap(), passed, "{set}");
        }
        for set in ["__Host-a=b; Secure; Path=/", "  __HOST-a=b; Path=/; Secure", "__host-a", "__Host-Http-a=b; Path=/"]
        {
            assert_eq!(confined(set.as_bytes(), &below("/c/s")), None, "{set}");
        }
    }

    #[test]
    fn t34_a_cookie_that_is_set_at_a_cluster_itself_does_not_get_the_root_for_its_path() {
        let cluster = OwnPaths { asked_at_root: true, ..below("/c") };
        for (set, passed) in [
            ("a=b", "a=b; Path=/c/"),
            ("a=b; Secure", "a=b; Secure; Path=/c/"),
            ("a=b; Path=/", "a=b; Path=/c/"),
            ("a=b; Path=/x; Path", "a=b; Path=/c/x; Path; Path=/c/"),
            ("a=b; Path=x; Path=/x", "a=b; Path=x; Path=/c/x"),
            ("a=b; Path=/x; Secure", "a=b; Path=/c/x; Secure"),
            ("a=b; Comment=/y", "a=b; Comment=/y; Path=/c/"),
        ] {
            assert_eq!(confined(set.as_bytes(), &cluster).unwrap(), passed, "{set}");
        }
    }

    #[test]
    fn other_cookies_of_the_answer_stay_in_order() {
        let mut fields = HeaderMap::new();
        for cookie in ["a=1; Path=/", "__Host-b=2; Path=/", "c=\u{e9}; Path=/"] {
            fields.append(header::SET_COOKIE, HeaderValue::from_bytes(cookie.as_bytes()).unwrap());
        }
        confine(&mut fields, &below("/c"));
        let left: Vec<_> = fields.get_all(header::SET_COOKIE).iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(left, [&b"a=1; Path=/c/"[..], "c=\u{e9}; Path=/c/".as_bytes()]);
    }
}
