//! Reaching the hub through an HTTP proxy: `HTTPS_PROXY` and `NO_PROXY`, given as text. The environment is read by the CLI, not here.

mod handshake;
mod no_proxy;
#[cfg(test)]
mod tests;

pub use handshake::connect_through;

use crate::hub_address::{HubAddress, parse_endpoint};
use base64::{Engine, engine::general_purpose::STANDARD};
use mctunnel_core::{Endpoint, ErrorCode, Host, InvalidTarget, Secret};
use no_proxy::NoProxy;

/// Which proxy to use, and for which hubs not to.
#[derive(Debug, Clone, Default)]
pub struct ProxySettings {
    proxy: Option<Proxy>,
    except: NoProxy,
}

impl ProxySettings {
    /// Reads the values of `HTTPS_PROXY` and `NO_PROXY`; empty text is the same as none.
    ///
    /// `NO_PROXY` is a list separated by commas or spaces: `*`, a name (also matches the names below it), `.suffix` or `*.suffix`
    /// (only the names below it), an address, a CIDR range; names and addresses may have `:port`. Entries that make no sense are
    /// skipped, because the variable is shared with other programs. `localhost` and loopback addresses never go through a proxy.
    pub fn parse(https_proxy: Option<&str>, no_proxy: Option<&str>) -> Result<Self, InvalidProxy> {
        let proxy = match https_proxy.map(str::trim) {
            None | Some("") => None,
            Some(text) => Some(Proxy::parse(text)?),
        };
        Ok(Self { proxy, except: NoProxy::parse(no_proxy.unwrap_or_default()) })
    }

    /// The proxy through which to reach the hub, if any.
    #[must_use]
    pub fn proxy_for(&self, hub: &HubAddress) -> Option<&Proxy> {
        let local = match hub.host() {
            Host::Name(name) => &**name == "localhost",
            Host::Ip(ip) => ip.is_loopback(),
        };
        self.proxy.as_ref().filter(|_| !local && !self.except.matches(hub.host(), hub.port()))
    }
}

// === Proxy ===

/// An HTTP proxy that knows CONNECT.
#[derive(Debug, Clone)]
pub struct Proxy {
    endpoint: Endpoint,
    /// The value of `Proxy-Authorization`.
    authorization: Option<Secret>,
}

impl Proxy {
    /// Parses `http://[user:password@]host[:port]`; the scheme may be missing.
    fn parse(text: &str) -> Result<Self, InvalidProxy> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
                return Err(InvalidProxy::HttpsProxy);
            }
            Some(_) => return Err(InvalidProxy::UnknownScheme),
            None => text,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (userinfo, endpoint) = match rest.rsplit_once('@') {
            Some((userinfo, endpoint)) => (Some(userinfo), endpoint),
            None => (None, rest),
        };
        let authorization = userinfo.map(basic).transpose()?;
        Ok(Self { endpoint: parse_endpoint(endpoint, DEFAULT_PORT)?, authorization })
    }

    /// Host and port of the proxy, without its user and password.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// The port of an `http://` URL that has none.
const DEFAULT_PORT: u16 = 80;

/// The credentials as the proxy wants them.
fn basic(userinfo: &str) -> Result<Secret, InvalidProxy> {
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let mut credentials = percent_decoded(user)?;
    // In "user:password" the first colon ends the user.
    if credentials.contains(&b':') {
        return Err(InvalidProxy::BadUserinfo);
    }
    credentials.push(b':');
    credentials.extend(percent_decoded(password)?);
    Ok(Secret::new(format!("Basic {}", STANDARD.encode(credentials))))
}

fn percent_decoded(text: &str) -> Result<Vec<u8>, InvalidProxy> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit =
            || bytes.next().and_then(|byte| char::from(byte).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(InvalidProxy::BadUserinfo);
        };
        decoded.push(high * 16 + low);
    }
    Ok(decoded)
}

// === InvalidProxy ===

/// The value of `HTTPS_PROXY` cannot be used. The value itself is not shown: it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProxy {
    /// A proxy that is itself reached over TLS.
    #[error("HTTPS_PROXY names an https:// proxy, and connections to the proxy itself over TLS are not supported")]
    HttpsProxy,
    /// Neither `http` nor `https`.
    #[error("HTTPS_PROXY must begin with http://")]
    UnknownScheme,
    /// User and password are not percent-encoded.
    #[error("the user and password in HTTPS_PROXY are not percent-encoded")]
    BadUserinfo,
    /// Host and port make no sense.
    #[error("the host in HTTPS_PROXY cannot be read: {0}")]
    BadEndpoint(#[from] InvalidTarget),
}

impl InvalidProxy {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode {
            code: "MCT-AGENT-BAD-PROXY",
            remedy: "set HTTPS_PROXY to http://[user:password@]host:port; the tunnel is encrypted end to end inside it",
        }
    }
}
