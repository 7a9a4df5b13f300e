//! The two requests of a follower, list and watch.

use super::trouble::Trouble;
use http::Request;
use mctunnel_core::target::Label;
use std::fmt::Write as _;

/// How many objects a page of a list may have: what bounds the memory a list takes while it is read.
const PAGE: u32 = 500;

/// Lists a page.
pub(crate) fn list(
    group: &str,
    resource: &str,
    namespace: Option<&Label>,
    next: Option<&str>,
) -> Result<Request<Vec<u8>>, Trouble> {
    list_selected(group, resource, namespace, None, PAGE, next)
}

/// Lists a page of at most so many objects, of those with the labels alone.
pub(crate) fn list_selected(
    group: &str,
    resource: &str,
    namespace: Option<&Label>,
    labels: Option<&str>,
    limit: u32,
    next: Option<&str>,
) -> Result<Request<Vec<u8>>, Trouble> {
    let mut uri = format!("{}?limit={limit}", collection(group, resource, namespace));
    select(&mut uri, labels);
    if let Some(next) = next {
        let _ = write!(uri, "&continue={}", escaped(next));
    }
    get(&uri)
}

/// Watches from a version.
pub(crate) fn watch(
    group: &str,
    resource: &str,
    namespace: Option<&Label>,
    version: &str,
    seconds: u32,
) -> Result<Request<Vec<u8>>, Trouble> {
    watch_selected(group, resource, namespace, None, version, seconds)
}

/// Watches objects with the labels from a version.
pub(crate) fn watch_selected(
    group: &str,
    resource: &str,
    namespace: Option<&Label>,
    labels: Option<&str>,
    version: &str,
    seconds: u32,
) -> Result<Request<Vec<u8>>, Trouble> {
    let collection = collection(group, resource, namespace);
    let version = escaped(version);
    let mut uri =
        format!("{collection}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}");
    select(&mut uri, labels);
    get(&uri)
}

fn select(uri: &mut String, labels: Option<&str>) {
    if let Some(labels) = labels {
        let _ = write!(uri, "&labelSelector={}", escaped(labels));
    }
}

fn collection(group: &str, resource: &str, namespace: Option<&Label>) -> String {
    match namespace {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{resource}"),
        None => format!("{group}/{resource}"),
    }
}

pub(crate) fn get(uri: &str) -> Result<Request<Vec<u8>>, Trouble> {
    Request::get(uri).body(Vec::new()).map_err(|error| Trouble::Failed(error.to_string()))
}

/// Text made safe for a path or a query.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            safe.push(char::from(byte));
        } else {
            let _ = write!(safe, "%{byte:02X}");
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_the_collection_and_the_place_in_it() {
        let team = Label::parse("team-a").unwrap();
        let uri = |request: Result<Request<Vec<u8>>, Trouble>| request.ok().map(|request| request.uri().to_string());
        assert_eq!(uri(list("/api/v1", "services", None, None)).as_deref(), Some("/api/v1/services?limit=500"));
        assert_eq!(
            uri(list("/api/v1", "services", Some(&team), Some("a/b=&c"))).as_deref(),
            Some("/api/v1/namespaces/team-a/services?limit=500&continue=a%2Fb%3D%26c")
        );
        assert_eq!(
            uri(watch("/apis/g/v1", "things", None, "12", 60)).as_deref(),
            Some("/apis/g/v1/things?watch=1&allowWatchBookmarks=true&resourceVersion=12&timeoutSeconds=60")
        );
        assert_eq!(
            uri(list_selected("/api/v1", "pods", Some(&team), Some("app in (a,b)"), 10, None)).as_deref(),
            Some("/api/v1/namespaces/team-a/pods?limit=10&labelSelector=app%20in%20%28a%2Cb%29")
        );
    }
}
