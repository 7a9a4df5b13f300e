//! Somebody who is sent something by POST: one request, and whether it was taken. When to try again is for whoever sends.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use mctunnel_core::Secret;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use std::{fmt, sync::Arc, time::Duration};

/// Where to send, and how.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecipientConfig {
    /// `http://` or `https://`.
    pub url: String,
    /// What is sent.
    pub content_type: &'static str,
    /// The value of `authorization`, if the recipient wants one.
    pub authorization: Option<Secret>,
    /// Whom to trust; needed for `https://`.
    pub tls: Option<Arc<ClientConfig>>,
    /// How long the recipient may take. Default: 10 s.
    pub timeout: Duration,
}

impl RecipientConfig {
    /// With the defaults.
    #[must_use]
    pub fn new(url: impl Into<String>, content_type: &'static str) -> Self {
        Self { url: url.into(), content_type, authorization: None, tls: None, timeout: Duration::from_secs(10) }
    }
}

/// Somebody who is sent something. Redirects are not followed.
pub struct Recipient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    uri: Uri,
    content_type: &'static str,
    authorization: Option<HeaderValue>,
    timeout: Duration,
}

impl Recipient {
    /// Prepares to send; nothing is sent yet.
    pub fn new(config: RecipientConfig) -> Result<Self, InvalidRecipient> {
        let wrong = |reason: &str| InvalidRecipient(reason.to_owned());
        let uri: Uri = config.url.parse().map_err(|_| wrong("its address is not a URL"))?;
        let mut tls = match (uri.scheme_str(), config.tls) {
            (Some("https"), Some(tls)) => Arc::unwrap_or_clone(tls),
            (Some("https"), None) => return Err(wrong("no CA was given for https")),
            (Some("http"), _) => trusting_nobody().map_err(|error| InvalidRecipient(error.to_string()))?,
            _ => return Err(wrong("its address is neither http:// nor https://")),
        };
        let authorization = config.authorization.map(|secret| {
            let mut value = HeaderValue::from_str(secret.expose())
                .map_err(|_| wrong("the authorization cannot stand in a header"))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let authorization = authorization.transpose()?;
        tls.alpn_protocols.clear();
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, uri, content_type: config.content_type, authorization, timeout: config.timeout })
    }

    /// Sends once. `Ok` means that it was taken; an error says why not.
    pub async fn post(&self, body: Bytes) -> Result<(), NotSent> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if let Some(authorization) = &self.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        let answer = tokio::time::timeout(self.timeout, self.client.request(request)).await;
        let answer = answer.map_err(|_| NotSent::Failed("no answer in time".to_owned()))?;
        let answer = answer.map_err(|error| NotSent::Failed(chain(&error)))?;
        // A redirect is not followed: whoever may answer here may not choose who else gets the records.
        if answer.status().is_success() { Ok(()) } else { Err(NotSent::Refused(answer.status())) }
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipient").field("host", &self.uri.host()).finish_non_exhaustive()
    }
}

/// Why something was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// It did not get there, or no answer came back.
    #[error("{0}")]
    Failed(String),
    /// The answer was another than yes.
    #[error("status {}", .0.as_u16())]
    Refused(StatusCode),
}

impl NotSent {
    /// Whether it is for what was sent that it was refused: the same again would be refused again by the same receiver. Every other
    /// status is about who sends, where to, or how busy somebody is, and that can change.
    #[must_use]
    pub fn is_for_good(&self) -> bool {
        const ABOUT_THE_CONTENT: [StatusCode; 4] = [
            StatusCode::BAD_REQUEST,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            StatusCode::UNPROCESSABLE_ENTITY,
        ];
        match self {
            Self::Failed(_) => false,
            Self::Refused(status) => ABOUT_THE_CONTENT.contains(status),
        }
    }
}

/// Nothing can be sent there, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRecipient(pub String);

/// For plain connections, which the connector has no other form for.
fn trusting_nobody() -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_the_content_is_for_good() {
        let for_good = |status: &u16| NotSent::Refused(StatusCode::from_u16(*status).unwrap()).is_for_good();
        let all: Vec<u16> = (300..600).filter(for_good).collect();
        assert_eq!(all, [400, 413, 415, 422]);
        assert!(!NotSent::Failed("away".to_owned()).is_for_good());
    }
}
