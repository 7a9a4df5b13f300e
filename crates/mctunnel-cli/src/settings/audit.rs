//! What a hub is told about its audit log.

use super::{ConfigError, effective::Effective};
use crate::{
    audit_sinks::{AuditFile, AuditSettings, AuditTo, WebhookSettings},
    trust::UnclearTrust,
};
use mctunnel_audit::OnFull;
use std::num::NonZeroUsize;

/// The smallest file: less is a file for every few records.
const SMALLEST_FILE: u64 = 4 << 10;

/// Where requests are recorded. Without a policy, and unless told otherwise, nowhere.
pub(super) fn audit_settings(effective: &Effective, has_policy: bool) -> anyhow::Result<AuditSettings> {
    let to = match effective.required("audit_log")? {
        "off" => AuditTo::Off,
        "stdout" => AuditTo::Stdout,
        "auto" if has_policy => AuditTo::DataDir,
        "auto" => AuditTo::Off,
        path => AuditTo::File(path.into()),
    };
    let on_full = match effective.required("audit_on_full")? {
        "refuse" => OnFull::Refuse,
        "drop-and-count" => OnFull::DropAndCount,
        other => {
            let problem = format!("{other:?} is neither refuse nor drop-and-count");
            return Err(effective.bad_value("audit_on_full", problem).into());
        }
    };
    let queue = effective.required("audit_webhook_queue")?;
    let queue: NonZeroUsize = queue
        .parse()
        .map_err(|_| effective.bad_value("audit_webhook_queue", format!("{queue:?} is not a number of records")))?;
    let (ca, authorization_file) =
        (effective.path("audit_webhook_ca"), effective.path("audit_webhook_authorization_file"));
    let half = |given| Err(UnclearTrust::NoWebhook { given });
    let webhook = match effective.text("audit_webhook") {
        Some(url) => {
            let webhook = WebhookSettings { url: url.to_owned(), ca, authorization_file, queue: queue.get() };
            if webhook.shows_its_secret() {
                let problem = "what the webhook is shown could be read on the way: write https://";
                return Err(effective.bad_value("audit_webhook", problem).into());
            }
            Some(webhook)
        }
        None if ca.is_some() => half("--audit-webhook-ca")?,
        None if authorization_file.is_some() => half("--audit-webhook-authorization-file")?,
        None => None,
    };
    Ok(AuditSettings { to, file: file_settings(effective)?, webhook, on_full })
}

fn file_settings(effective: &Effective) -> Result<AuditFile, ConfigError> {
    let size = effective.size("audit_file_size")?;
    if size < SMALLEST_FILE {
        return Err(effective.bad_value("audit_file_size", "a file has at least 4KiB"));
    }
    let keep = effective.required("audit_keep")?;
    let keep: NonZeroUsize =
        keep.parse().map_err(|_| effective.bad_value("audit_keep", format!("{keep:?} is not a number of files")))?;
    Ok(AuditFile { size, keep: keep.get() })
}
