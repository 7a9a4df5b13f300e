//! One POST, and the next try when it did not work.

use crate::{AuditError, WebhookConfig};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use std::{fmt, sync::Arc, time::Duration};

/// Before the second try; doubled for each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Where and how to send.
pub(super) struct Delivery {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    uri: Uri,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    pub(super) batch_bytes: usize,
}

impl Delivery {
    pub(super) fn new(config: WebhookConfig) -> Result<Self, AuditError> {
        let wrong = |reason: &str| AuditError::Webhook(reason.to_owned());
        let uri: Uri = config.url.parse().map_err(|_| wrong("its address is not a URL"))?;
        let mut tls = match (uri.scheme_str(), config.tls) {
            (Some("https"), Some(tls)) => Arc::unwrap_or_clone(tls),
            (Some("https"), None) => return Err(wrong("no CA was given for https")),
            (Some("http"), _) => trusting_nobody().map_err(|error| AuditError::Webhook(error.to_string()))?,
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
        Ok(Self { client, uri, authorization, timeout: config.timeout, batch_bytes: config.batch_bytes })
    }

    /// Sends until it was taken.
    pub(super) async fn deliver(&self, body: Bytes) {
        let mut tries: u32 = 0;
        loop {
            let Err(reason) = self.post(body.clone()).await else {
                if tries > 0 {
                    tracing::info!(tries, "The audit webhook takes records again.");
                }
                return;
            };
            if tries == 0 {
                tracing::warn!(reason, "The audit webhook did not take records; they are sent again until it does.");
            }
            let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(tries)).min(LONGEST_PAUSE);
            tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>() / 2.0)).await;
            tries = tries.saturating_add(1);
        }
    }

    async fn post(&self, body: Bytes) -> Result<(), String> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        if let Some(authorization) = &self.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        let answer = tokio::time::timeout(self.timeout, self.client.request(request)).await;
        let answer = answer.map_err(|_| "no answer in time".to_owned())?.map_err(|error| chain(&error))?;
        // A redirect is not followed: whoever may answer here may not choose who else gets the records.
        if answer.status().is_success() { Ok(()) } else { Err(format!("status {}", answer.status().as_u16())) }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("host", &self.uri.host()).finish_non_exhaustive()
    }
}

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
