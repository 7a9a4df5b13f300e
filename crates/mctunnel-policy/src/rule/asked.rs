//! What a request asks for, in the form rules are compared with. What cannot be put into that form is denied, whatever the rules say.

use mctunnel_core::{Access, Action, KubeRequest, ResourceRequest, Target, Verb, bad_target};
use std::borrow::Cow;

/// A request, as rules see it.
#[derive(Debug)]
pub(crate) enum What<'a> {
    /// About objects of a kube-apiserver.
    Resource(&'a ResourceRequest),
    /// Any other request to a kube-apiserver.
    Path { verb: Verb, path: &'a str },
    /// An HTTP request to a service or an endpoint. The path as it was sent, and decoded.
    Http { target: &'a Target, method: &'a str, path: &'a str, decoded: Cow<'a, str> },
    /// Plain bytes.
    Bytes(&'a Target),
}

impl<'a> What<'a> {
    /// Takes a request apart; the error says why no rule can allow it.
    pub(crate) fn of(access: &Access<'a>) -> Result<Self, &'static str> {
        let target = &access.destination.target;
        match (access.action, target) {
            (Action::Kube(request), _) if request.verb() == Verb::Unknown => Err(NO_VERB),
            (Action::Kube(KubeRequest::Resource(request)), Target::KubeApi) => Ok(Self::Resource(request)),
            (Action::Kube(KubeRequest::NonResource { path, verb }), Target::KubeApi) => {
                if is_plain(path) {
                    Ok(Self::Path { verb: *verb, path })
                } else {
                    Err(AMBIGUOUS)
                }
            }
            (Action::Http { method, path }, Target::Service(_) | Target::Endpoint(_)) => {
                Ok(Self::Http { target, method, path, decoded: decoded(path).ok_or(AMBIGUOUS)? })
            }
            (Action::Bytes, _) => Ok(Self::Bytes(target)),
            (Action::Kube(_), Target::Service(_) | Target::Endpoint(_)) | (Action::Http { .. }, Target::KubeApi) => {
                Err(MISFIT)
            }
        }
    }
}

const NO_VERB: &str = "the method has no meaning here";
const AMBIGUOUS: &str = "the path can be read in two ways";
const MISFIT: &str = "the request does not fit its target";

/// The path of an HTTP request with its percent codes decoded; `None` if two readers could take it for two different ones.
fn decoded(path: &str) -> Option<Cow<'_, str>> {
    let (path, query) = bad_target::split(path).ok()?;
    if !query.is_empty() {
        return None;
    }
    if !path.contains('%') {
        return Some(Cow::Borrowed(path));
    }
    let text = String::from_utf8(bad_target::decode(path)?).ok()?;
    is_plain(&text).then_some(Cow::Owned(text))
}

/// Whether a decoded path has one reading.
fn is_plain(path: &str) -> bool {
    let is_dots = |segment| matches!(segment, "." | "..");
    path.starts_with('/') && !path.contains("//") && !path.contains('\\') && !path.split('/').any(is_dots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_two_readings_is_none() {
        for bad in [
            "",
            "a",
            "//",
            "/a//b",
            "/.",
            "/a/..",
            "/a/../b",
            "/a/./b",
            "/%2e%2e/a",
            "/a%2fb",
            "/a%5cb",
            "/a\\b",
            "/%zz",
            "/%ff",
            "/a?b=c",
            "/a#b",
            "/a;b",
            "/a b",
            "/%252e",
            "/a%00",
        ] {
            assert_eq!(decoded(bad), None, "{bad:?}");
        }
        // What was decoded before it came here is looked at again.
        for bad in ["", "a", "/a//b", "/.", "/a/./b", "/..", "/a/../b", "/a\\b"] {
            assert!(!is_plain(bad), "{bad:?}");
        }
        for (path, plain) in [("/", "/"), ("/a/b", "/a/b"), ("/a/", "/a/"), ("/%61dmin", "/admin"), ("/a%20b", "/a b")]
        {
            assert_eq!(decoded(path).as_deref(), Some(plain), "{path}");
        }
    }
}
