//! The two requests of a follower, list and watch.

use super::trouble::Trouble;
use http::Request;
use mctunnel_core::target::Label;
use std::fmt::Write as _;

/// How many objects a page of a list may have: what bounds the memory a list takes while it is read.
const PAGE: u32 = 500;

/// Lists a page.
pub(super) fn list(
    group: &str,
    resource: &str,
    namespace: Option<&Label>,
    next: Option<&str>,
) -> Result<Request<Vec<u8>>, Trouble> {
    let mut uri = format!("{}?limit={PAGE}", collection(group, resource, namespace));
    if let Some(next) = next {
        let _ = write!(uri, "&continue={}", escaped(next));
    }
    get(&uri)
}

/// Watches from a version.
pub(super) fn watch(
    group: &str,
    resource: &str,
    namespace: Option<&Label>,
    version: &str,
    seconds: u32,
) -> Result<Request<Vec<u8>>, Trouble> {
    let collection = collection(group, resource, namespace);
    let version = escaped(version);
    get(&format!("{collection}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}"))
}

fn collection(group: &str, resource: &str, namespace: Option<&Label>) -> String {
    match namespace {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{resource}"),
        None => format!("{group}/{resource}"),
    }
}

fn get(uri: &str) -> Result<Request<Vec<u8>>, Trouble> {
    Request::get(uri).body(Vec::new()).map_err(|error| Trouble::Failed(error.to_string()))
}

/// Text of the server's own, made safe for a query.
fn escaped(text: &str) -> String {
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
    }
}
