//! Browsers cannot set fields of a WebSocket request, so Kubernetes takes a bearer token as one of the offered subprotocols. It must
//! not be logged, and must not be passed on as a subprotocol.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mctunnel_core::{Authorization, Unauthenticated};

/// What stands before the token, which is base64url without padding.
const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// A token that came as a subprotocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSocketBearer {
    /// As the value of an `Authorization` field, for [`Evidence::authorization`](mctunnel_core::Evidence::authorization).
    pub authorization: Authorization,
    /// The subprotocols without the token: what `Sec-WebSocket-Protocol` is to be from here on.
    pub protocols: String,
}

/// Takes the token out of the values of `Sec-WebSocket-Protocol`; `None` when there is none.
///
/// A second token, or one that cannot be read, is a conflict: it is not clear what is meant. So is a token without any other
/// subprotocol, because the server has to choose one. If the request has an `Authorization` field as well, that is two credentials,
/// and the caller answers 400.
#[expect(single_use_lifetimes, reason = "anonymous lifetimes in `impl Trait` are not stable")]
pub fn websocket_bearer<'a>(
    values: impl IntoIterator<Item = &'a str>,
) -> Result<Option<WebSocketBearer>, Unauthenticated> {
    let conflict = |what: &str| Unauthenticated::Conflict(what.to_owned());
    let mut token = None;
    let mut others = Vec::new();
    for protocol in values.into_iter().flat_map(|value| value.split(',')).map(str::trim) {
        let Some(encoded) = protocol.strip_prefix(PREFIX) else {
            others.push(protocol);
            continue;
        };
        let bytes = URL_SAFE_NO_PAD.decode(encoded).ok().filter(|bytes| !bytes.is_empty());
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.ok_or_else(|| conflict("the bearer token among the subprotocols cannot be read"))?;
        if token.replace(text).is_some() {
            return Err(conflict("two bearer tokens are among the subprotocols"));
        }
    }
    let Some(token) = token else { return Ok(None) };
    others.retain(|protocol| !protocol.is_empty());
    if others.is_empty() {
        return Err(conflict("a bearer token among the subprotocols needs another subprotocol beside it"));
    }
    let authorization = Authorization::new(format!("Bearer {token}"));
    Ok(Some(WebSocketBearer { authorization, protocols: others.join(", ") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `canary` in base64url.
    const TOKEN: &str = "base64url.bearer.authorization.k8s.io.Y2FuYXJ5";

    #[test]
    fn the_token_is_taken_and_the_rest_is_left() {
        for values in [
            vec![format!("v5.channel.k8s.io, {TOKEN}, v4.channel.k8s.io")],
            vec![format!("{TOKEN},v5.channel.k8s.io"), "v4.channel.k8s.io".to_owned()],
        ] {
            let found = websocket_bearer(values.iter().map(String::as_str)).unwrap().unwrap();
            assert_eq!(found.authorization.expose(), "Bearer canary");
            assert_eq!(found.protocols, "v5.channel.k8s.io, v4.channel.k8s.io");
            assert!(!format!("{found:?}").contains("canary"), "t36: it never prints");
        }
        for none in ["", "v5.channel.k8s.io", "bearer.authorization.k8s.io.Y2FuYXJ5"] {
            assert_eq!(websocket_bearer([none]), Ok(None), "{none}");
        }
    }

    #[test]
    fn what_is_not_clear_is_a_conflict() {
        let prefix = PREFIX;
        for bad in [
            format!("{TOKEN}, {TOKEN}, v5"),
            TOKEN.to_owned(),
            format!("{TOKEN}, "),
            format!("{prefix}, v5"),
            format!("{prefix}Y2FuYXJ5==, v5"),
            format!("{prefix}++++, v5"),
            format!("{prefix}_w, v5"),
        ] {
            let error = websocket_bearer([bad.as_str()]).unwrap_err();
            assert!(matches!(error, Unauthenticated::Conflict(_)), "{bad}");
            assert!(!error.to_string().contains("Y2FuYXJ5"), "t36: {error}");
        }
    }
}
