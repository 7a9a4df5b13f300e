//! One batch, and the next try when it was not taken.

use crate::{
    AuditError, WebhookConfig,
    recipient::{InvalidRecipient, Recipient, RecipientConfig},
};
use bytes::Bytes;
use std::time::Duration;

/// Before the second try; doubled for each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Where and how to send.
#[derive(Debug)]
pub(super) struct Delivery {
    recipient: Recipient,
    pub(super) batch_bytes: usize,
}

impl Delivery {
    pub(super) fn new(config: WebhookConfig) -> Result<Self, AuditError> {
        let WebhookConfig { url, authorization, tls, timeout, batch_bytes, .. } = config;
        let config =
            RecipientConfig { authorization, tls, timeout, ..RecipientConfig::new(url, "application/x-ndjson") };
        let recipient = Recipient::new(config).map_err(|InvalidRecipient(reason)| AuditError::Webhook(reason))?;
        Ok(Self { recipient, batch_bytes })
    }

    /// Sends until it was taken.
    pub(super) async fn deliver(&self, body: Bytes) {
        let mut tries: u32 = 0;
        loop {
            let Err(reason) = self.recipient.post(body.clone()).await else {
                if tries > 0 {
                    tracing::info!(tries, "The audit webhook takes records again.");
                }
                return;
            };
            if tries == 0 {
                tracing::warn!(%reason, "The audit webhook did not take records; they are sent again until it does.");
            }
            let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(tries)).min(LONGEST_PAUSE);
            tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>() / 2.0)).await;
            tries = tries.saturating_add(1);
        }
    }
}
