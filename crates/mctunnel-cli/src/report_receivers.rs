//! Sinks for reports that are sent away: to a webhook, as lines of JSON, and to an OTLP collector, as log records. What was not taken is
//! sent again, from the place that the store keeps for each.

#[cfg(test)]
mod tests;

use crate::{
    audit_sinks::authorization,
    reports::{LineForm, moment},
    tls_roots::client_config,
};
use bytes::Bytes;
use mctunnel::{
    ClusterName,
    report::{Kind, NotTaken, Sink, StoredRecord},
};
use mctunnel_audit::{InvalidRecipient, Recipient, RecipientConfig};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

/// The most bytes of one request, if one record is not more.
const MOST_BYTES: usize = 1 << 20;
/// Where a collector takes log records, if its address does not say.
const OTLP_PATH: &str = "v1/logs";

/// Somebody who is sent reports.
#[derive(Debug, Clone)]
pub(crate) struct ReceiverSettings {
    pub(crate) url: String,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) authorization_file: Option<PathBuf>,
    /// Of these kinds; of all if there are none.
    pub(crate) kinds: Vec<Kind>,
}

impl ReceiverSettings {
    fn recipient(&self, url: &str, content_type: &'static str) -> anyhow::Result<Recipient> {
        let mut config = RecipientConfig::new(url, content_type);
        config.authorization = self.authorization_file.as_deref().map(authorization).transpose()?;
        if url.starts_with("https://") {
            config.tls = Some(client_config(self.ca.as_deref())?);
        }
        Ok(Recipient::new(config)?)
    }
}

async fn post(recipient: &Recipient, body: String) -> Result<(), NotTaken> {
    recipient.post(Bytes::from(body)).await.map_err(|error| match error.is_for_good() {
        true => NotTaken::Never(error.to_string()),
        false => NotTaken::Later(error.to_string()),
    })
}

// === ReportWebhook ===

/// Gets each record as a line, as `mctunnel reports -o json` shows it.
pub(crate) struct ReportWebhook {
    recipient: Recipient,
    kinds: Vec<Kind>,
}

impl ReportWebhook {
    pub(crate) fn new(settings: &ReceiverSettings) -> anyhow::Result<Self> {
        let recipient = settings.recipient(&settings.url, "application/x-ndjson")?;
        Ok(Self { recipient, kinds: settings.kinds.clone() })
    }
}

impl Sink for ReportWebhook {
    fn name(&self) -> &str {
        "webhook"
    }

    async fn deliver(&self, kind: &Kind, records: &[StoredRecord]) -> Result<(), NotTaken> {
        if !self.kinds.is_empty() && !self.kinds.contains(kind) {
            return Ok(());
        }
        let mut body = String::new();
        for found in records {
            let line = LineForm::Json.line(kind, found);
            if !body.is_empty() && body.len() + line.len() >= MOST_BYTES {
                post(&self.recipient, std::mem::take(&mut body)).await?;
            }
            body.push_str(&line);
            body.push('\n');
        }
        post(&self.recipient, body).await
    }
}

// === OtlpCollector ===

/// Gets each record as a log record of OTLP over HTTP, in JSON.
pub(crate) struct OtlpCollector {
    recipient: Recipient,
}

impl OtlpCollector {
    pub(crate) fn new(settings: &ReceiverSettings) -> anyhow::Result<Self> {
        let uri: hyper::Uri =
            settings.url.parse().map_err(|_| InvalidRecipient("its address is not a URL".to_owned()))?;
        // As exporters do it: an address without a path is that of the collector.
        let url = match uri.path() {
            "" | "/" => format!("{}/{OTLP_PATH}", settings.url.trim_end_matches('/')),
            _ => settings.url.clone(),
        };
        Ok(Self { recipient: settings.recipient(&url, "application/json")? })
    }
}

impl Sink for OtlpCollector {
    fn name(&self) -> &str {
        "otlp"
    }

    async fn deliver(&self, kind: &Kind, records: &[StoredRecord]) -> Result<(), NotTaken> {
        let (mut group, mut bytes) = (0, 0);
        for (at, found) in records.iter().enumerate() {
            let size = found.record.body.len() + found.record.source.len() + 512;
            if at > group && bytes + size > MOST_BYTES {
                self.send(kind, records.get(group..at).unwrap_or_default()).await?;
                (group, bytes) = (at, 0);
            }
            bytes += size;
        }
        self.send(kind, records.get(group..).unwrap_or_default()).await
    }
}

impl OtlpCollector {
    async fn send(&self, kind: &Kind, records: &[StoredRecord]) -> Result<(), NotTaken> {
        post(&self.recipient, exported(kind, records, SystemTime::now()).to_string()).await
    }
}

/// `ExportLogsServiceRequest`, with a resource for each cluster.
fn exported(kind: &Kind, records: &[StoredRecord], now: SystemTime) -> Value {
    let mut by_cluster: BTreeMap<&ClusterName, Vec<Value>> = BTreeMap::new();
    for found in records {
        by_cluster.entry(&found.cluster).or_default().push(log_record(kind, found, now));
    }
    let scope = json!({ "name": "mctunnel", "version": env!("CARGO_PKG_VERSION") });
    let resource = |(cluster, records): (&ClusterName, Vec<Value>)| {
        json!({
            "resource": { "attributes": [attribute("k8s.cluster.name", cluster.as_str())] },
            "scopeLogs": [{ "scope": scope, "logRecords": records }],
        })
    };
    json!({ "resourceLogs": by_cluster.into_iter().map(resource).collect::<Vec<_>>() })
}

fn log_record(kind: &Kind, found: &StoredRecord, now: SystemTime) -> Value {
    let body = String::from_utf8_lossy(&found.record.body);
    let said: Value = serde_json::from_slice(&found.record.body).unwrap_or_default();
    let mut attributes = vec![
        attribute("mctunnel.kind", kind.as_str()),
        attribute("mctunnel.source", &found.record.source),
        json!({ "key": "mctunnel.position", "value": { "intValue": found.position.to_string() } }),
    ];
    let (severity, text) = match (kind.as_str(), said.get("type").and_then(Value::as_str)) {
        ("events", Some("Warning")) => (13, "WARN"),
        _ => (9, "INFO"),
    };
    let mut shown = body.as_ref();
    if kind.as_str() == "logs" {
        let mut names = found.record.source.split('/');
        for name in ["k8s.namespace.name", "k8s.pod.name", "k8s.container.name"] {
            attributes.extend(names.next().map(|value| attribute(name, value)));
        }
        attributes.extend(said.get("uid").and_then(Value::as_str).map(|uid| attribute("k8s.pod.uid", uid)));
        // The line alone is what others have for a log.
        shown = said.get("line").and_then(Value::as_str).unwrap_or(shown);
    }
    json!({
        "timeUnixNano": nanoseconds(moment(found.record.time)),
        "observedTimeUnixNano": nanoseconds(now),
        "severityNumber": severity,
        "severityText": text,
        "body": { "stringValue": shown },
        "attributes": attributes,
    })
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// 64-bit numbers are text in the JSON of protobuf.
fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
