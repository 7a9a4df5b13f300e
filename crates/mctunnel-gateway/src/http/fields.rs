//! Header fields on their way through: what is for one connection only stays there, and no name of ours gets in from outside.

#[cfg(test)]
mod tests;

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
    let of_all: Vec<HeaderName> = fields.keys().filter(|name| acts_on_whole_origin(name)).cloned().collect();
    for name in of_all {
        fields.remove(name);
    }
}

/// Every service of every cluster has the gateway's one origin, so what acts on all of it is not for one of them to say.
fn acts_on_whole_origin(name: &HeaderName) -> bool {
    let name = name.as_str();
    WHOLE_ORIGIN.iter().any(|one| if one.ends_with('-') { name.starts_with(one) } else { name == *one })
}

/// Such fields, or how their names begin, with what a target could do by them to all others.
const WHOLE_ORIGIN: [&str; 18] = [
    "access-control-",             // let pages of other origins read answers
    "supports-loading-mode",       // let pages of other sites have it loaded ahead, with the user's cookies
    "service-worker-allowed",      // put a script of its own between the browser and all the others
    "clear-site-data",             // log users out everywhere, and delete what others keep in the browser
    "set-login",                   // say of the whole origin whether somebody is logged in
    "sec-session-",                // begin a session that the browser renews there before it asks others
    "secure-session-",             // the same, by its newer name
    "nel",                         // be told of requests to others that fail, or do not, with their paths
    "report-to",                   // say where reports about others go
    "reporting-endpoints",         // the same, by its newer name
    "alt-svc",                     // lead the browser's next connections to another port or host
    "strict-transport-security",   // decide for years how the host, and those below it, can be reached
    "public-key-pins",             // have browsers refuse the gateway's next certificate
    "public-key-pins-report-only", // be told of the gateway's certificates, from inside
    "expect-ct",                   // refuse the gateway's certificate where no public log has it
    "origin-agent-cluster",        // decide for pages of others in what kind of process they run
    "accept-ch",                   // have browsers tell more of themselves with each request to others
    "use-as-dictionary",           // give the words by which answers of others are unpacked
];

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
