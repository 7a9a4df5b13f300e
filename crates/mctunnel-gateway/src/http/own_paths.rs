//! The paths of the gateway's one origin that are a target's own: below them browsers keep its cookies, and its service workers act.
//! It is *not* about where a request goes.

use super::service::Routed;
use http::{HeaderMap, HeaderName, HeaderValue};
use mctunnel_core::{Target, bad_target::decode};

/// What the client sees in front of a target's own paths.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwnPaths {
    /// Not empty, and without a slash at its end.
    pub(super) prefix: String,
    /// Whether the request may have been for `/CLUSTER`. What a browser would take for its directory is the root of all clusters.
    pub(super) asked_at_root: bool,
}

impl OwnPaths {
    /// Those of a request's target; `None` for what clients see at the root, where all paths are its own.
    pub(super) fn of(routed: &Routed) -> Option<Self> {
        if routed.prefix.is_empty() {
            return None;
        }
        let path = routed.path.path();
        // What a kube-apiserver proxies is somebody else's, and it passes on what that one says.
        let proxied = if routed.destination.target == Target::KubeApi { proxied(path) } else { None };
        let prefix = [&*routed.prefix, proxied.unwrap_or_default()].concat();
        Some(Self { prefix, asked_at_root: routed.destination.target == Target::KubeApi && path == "/" })
    }

    /// Has the browser take the answer for a service worker of these paths, wherever its script is: by itself it would take the
    /// script's directory, which for `/CLUSTER` is everything.
    pub(super) fn confine_worker(&self, fields: &mut HeaderMap) {
        if let Ok(scope) = HeaderValue::from_str(&[&*self.prefix, "/"].concat()) {
            fields.insert(HeaderName::from_static("service-worker-allowed"), scope);
        }
    }
}

/// Whether a browser asks for the script of a service worker. No page can leave that out, or say it of anything else.
pub(super) fn is_for_a_worker(fields: &HeaderMap) -> bool {
    fields.contains_key("service-worker")
}

/// The beginning of a path that leads through the kube-apiserver's own proxy, as it was sent: that far everything is one target's.
fn proxied(path: &str) -> Option<&str> {
    let segments: Vec<&str> = path.splitn(LONGEST + 1, '/').collect();
    let words = PROXIES.iter().find(|words| begins_like(&segments, words))?;
    let length: usize = segments.iter().take(words.len()).map(|segment| segment.len() + 1).sum();
    path.get(..length.checked_sub(1)?)
}

fn begins_like(segments: &[&str], words: &[Option<&str>]) -> bool {
    let is = |(word, segment): (&Option<&str>, &&str)| {
        word.is_none_or(|word| decode(segment).is_some_and(|plain| plain == word.as_bytes()))
    };
    words.len() <= segments.len() && words.iter().zip(segments).all(is)
}

/// The paths of Kubernetes' own proxies, segment by segment; `None` is any name.
const PROXIES: [&[Option<&str>]; 3] = [
    &[Some(""), Some("api"), Some("v1"), Some("namespaces"), None, Some("services"), None, Some("proxy")],
    &[Some(""), Some("api"), Some("v1"), Some("namespaces"), None, Some("pods"), None, Some("proxy")],
    &[Some(""), Some("api"), Some("v1"), Some("nodes"), None, Some("proxy")],
];
/// How many segments the longest of them has.
const LONGEST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::upgrade::Asked;
    use mctunnel_core::{Identity, Protocol};

    fn own(prefix: &str, sent: &str) -> Option<(String, bool)> {
        let routed = crate::http::route(&format!("/c1{sent}")).unwrap();
        let routed = Routed {
            destination: routed.destination,
            protocol: Protocol::http(),
            path: routed.forward.parse().unwrap(),
            prefix: prefix.to_owned(),
            asked: Asked::Nothing,
            identity: Identity::Anonymous,
        };
        OwnPaths::of(&routed).map(|own| (own.prefix, own.asked_at_root))
    }

    #[test]
    fn t34_what_a_kube_apiserver_proxies_has_paths_of_its_own() {
        for (sent, below) in [
            ("", ""),
            ("/", ""),
            ("/version", ""),
            ("/api/v1/namespaces/a/services/b/proxy", "/api/v1/namespaces/a/services/b/proxy"),
            ("/api/v1/namespaces/a/services/b/proxy/", "/api/v1/namespaces/a/services/b/proxy"),
            (
                "/api/v1/namespaces/a/services/https:b:80/proxy/x/y?z=/",
                "/api/v1/namespaces/a/services/https:b:80/proxy",
            ),
            ("/api/v1/namespaces/a/pods/b:80/proxy/x", "/api/v1/namespaces/a/pods/b:80/proxy"),
            ("/api/v1/nodes/b/proxy/logs/", "/api/v1/nodes/b/proxy"),
            // As the kube-apiserver reads it, and as the browser compares it.
            ("/api/v1/namespaces/a/services/b%3A80/%70roxy/x", "/api/v1/namespaces/a/services/b%3A80/%70roxy"),
            // The kube-apiserver's own words.
            ("/api/v1/namespaces/a/services/b", ""),
            ("/api/v1/namespaces/a/services/b/proxyx/y", ""),
            ("/api/v1/namespaces/a/configmaps/b/proxy/y", ""),
            ("/api/v1/namespaces/a/pods/b/log", ""),
            ("/api/v2/nodes/b/proxy", ""),
            ("/apis/x/v1/nodes/b/proxy", ""),
        ] {
            let at_root = sent.len() < 2;
            assert_eq!(own("/c1", sent), Some((format!("/c1{below}"), at_root)), "{sent}");
        }
        let service = "/api/v1/namespaces/a/services/b/proxy-service";
        for rest in ["", "/", "/api/v1/nodes/b/proxy/x"] {
            let prefix = format!("/c1{service}");
            assert_eq!(own(&prefix, &format!("{service}{rest}")), Some((prefix.clone(), false)), "{rest}");
        }
        assert_eq!(own("", "/api/v1/nodes/b/proxy/x"), None, "at the root all is its own");
        assert_eq!(PROXIES.iter().map(|words| words.len()).max(), Some(LONGEST));
        assert!(!begins_like(&["%zz"], &[Some("api")]), "what cannot be read is no word");
    }

    #[test]
    fn t34_a_worker_has_the_paths_of_its_target() {
        let mut fields = HeaderMap::new();
        assert!(!is_for_a_worker(&fields));
        fields.insert("service-worker", HeaderValue::from_static("script"));
        assert!(is_for_a_worker(&fields));
        fields.insert("service-worker-allowed", HeaderValue::from_static("/"));
        OwnPaths { prefix: "/c1".to_owned(), asked_at_root: false }.confine_worker(&mut fields);
        let allowed: Vec<_> = fields.get_all("service-worker-allowed").iter().collect();
        assert_eq!(allowed, ["/c1/"]);
    }
}
