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
    let ours: Vec<HeaderName> = fields.keys().filter(|name| is_ours(name)).cloned().collect();
    for name in ours {
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

fn is_ours(name: &HeaderName) -> bool {
    name.as_str().starts_with("x-mctunnel-")
}

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
