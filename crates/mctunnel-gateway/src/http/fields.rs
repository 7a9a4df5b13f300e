//! Header fields on their way through: what is for one connection only stays there, and no name of ours gets in from outside.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, CONNECTION, TE, TRANSFER_ENCODING, UPGRADE},
};

/// Takes off what is not for the target: fields of the connection, and everything that would pass for ours.
///
/// The guard has refused requests whose `Connection` names fields of the client's choice, so there is nothing else to take off.
pub(super) fn for_target(fields: &mut HeaderMap, upgrade: bool) {
    let trailers = fields.get(TE).is_some_and(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
    for name in HOP_BY_HOP {
        fields.remove(name);
    }
    if !upgrade {
        fields.remove(UPGRADE);
    }
    if trailers {
        fields.insert(TE, HeaderValue::from_static("trailers"));
    }
    fields.remove(header::HOST);
    take_off(fields, &["x-mctunnel-"]);
}

/// Takes off what says who somebody is. The guard refuses requests that have such a field, unless a front proxy may send it; what was
/// let in a moment ago, under other rules, goes no further either.
pub(super) fn without_identity(fields: &mut HeaderMap) {
    take_off(fields, &["x-remote-", "impersonate-"]);
}

fn take_off(fields: &mut HeaderMap, prefixes: &[&str]) {
    let is_one = |name: &HeaderName| prefixes.iter().any(|prefix| name.as_str().starts_with(prefix));
    let names: Vec<HeaderName> = fields.keys().filter(|name| is_one(name)).cloned().collect();
    for name in names {
        fields.remove(name);
    }
}

/// Takes off an answer what is not for the client.
pub(super) fn for_client(fields: &mut HeaderMap, upgraded: bool) {
    for name in HOP_BY_HOP {
        fields.remove(name);
    }
    if upgraded {
        fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    } else {
        fields.remove(UPGRADE);
    }
    let grants: Vec<HeaderName> = fields.keys().filter(|name| opens_to_other_origins(name)).cloned().collect();
    for name in grants {
        fields.remove(name);
    }
}

/// Every service of every cluster has the gateway's one origin, so no target can open it to pages of others.
fn opens_to_other_origins(name: &HeaderName) -> bool {
    name.as_str().starts_with("access-control-")
}

const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    TE,
    TRANSFER_ENCODING,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
];

/// Makes sure that the request has an id by which it can be found in every log on its way.
pub(super) fn ensure_request_id(fields: &mut HeaderMap) -> HeaderValue {
    if let Some(id) = fields.get(REQUEST_ID)
        && !id.is_empty()
        && id.len() <= LONGEST_REQUEST_ID
    {
        return id.clone();
    }
    let id = format!("{:032x}", rand::random::<u128>());
    let id = HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("0"));
    fields.insert(REQUEST_ID, id.clone());
    id
}

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_REQUEST_ID: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(&'static str, &'static str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn names(fields: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn t01_what_is_for_one_connection_or_would_pass_for_ours_does_not_reach_the_target() {
        let all = [
            ("accept", "x"),
            ("connection", "upgrade"),
            ("host", "hub"),
            ("http2-settings", "x"),
            ("impersonate-future", "x"),
            ("impersonate-user", "root"),
            ("keep-alive", "x"),
            ("proxy-authorization", "x"),
            ("proxy-connection", "x"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("x-mctunnel-cluster", "c"),
            ("x-other", "x"),
            ("x-remote-group", "system:masters"),
        ];
        let mut plain = fields(&all);
        for_target(&mut plain, false);
        without_identity(&mut plain);
        assert_eq!(names(&plain), ["accept", "te", "x-other"]);
        let mut upgraded = fields(&all);
        for_target(&mut upgraded, true);
        without_identity(&mut upgraded);
        assert_eq!(names(&upgraded), ["accept", "te", "upgrade", "x-other"]);
        // Of `TE` only this is for the target.
        let mut other = fields(&[("te", "gzip")]);
        for_target(&mut other, false);
        assert!(other.is_empty());
        for_target(&mut other, false);
        assert!(other.is_empty(), "and it is not asked for where the client did not");
    }

    #[test]
    fn what_is_for_one_connection_does_not_reach_the_client() {
        let all = [
            ("access-control-allow-credentials", "true"),
            ("access-control-allow-origin", "*"),
            ("connection", "x"),
            ("keep-alive", "x"),
            ("server", "x"),
            ("transfer-encoding", "x"),
            ("upgrade", "x"),
            ("x-access-control-", "x"),
        ];
        let mut plain = fields(&all);
        for_client(&mut plain, false);
        assert_eq!(names(&plain), ["server", "x-access-control-"]);
        let mut upgraded = fields(&all);
        for_client(&mut upgraded, true);
        assert_eq!(names(&upgraded), ["connection", "server", "upgrade", "x-access-control-"]);
        assert_eq!(upgraded[CONNECTION], "upgrade");
    }

    #[test]
    fn a_request_has_one_id_of_reasonable_length() {
        let longest = "x".repeat(LONGEST_REQUEST_ID);
        let mut own = HeaderMap::new();
        own.insert(REQUEST_ID, HeaderValue::from_str(&longest).unwrap());
        assert_eq!(ensure_request_id(&mut own), longest);
        for bad in [String::new(), format!("{longest}x")] {
            let mut other = HeaderMap::new();
            other.insert(REQUEST_ID, HeaderValue::from_str(&bad).unwrap());
            let id = ensure_request_id(&mut other);
            assert!(id.len() == 32 && other[REQUEST_ID] == id && other.len() == 1, "{id:?}");
        }
        assert_ne!(ensure_request_id(&mut HeaderMap::new()), ensure_request_id(&mut HeaderMap::new()));
    }
}
