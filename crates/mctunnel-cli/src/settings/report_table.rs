//! The settings of a hub about reports: the part of the table, and what they come to.

use super::{
    effective::Effective,
    error::ConfigError,
    table::{Setting, many, one},
};
use crate::{audit_sinks::can_be_read, report_receivers::ReceiverSettings, report_sinks::SinkSettings};
use mctunnel::report::Kind;

pub(super) const HUB_REPORTS: &[Setting] = &[
    one("report_keep", "TIME", Some("7d"), "How long reports of clusters are kept, in the data directory"),
    one("report_size", "SIZE", Some("1GiB"), "How many bytes of each kind of reports are kept; the oldest go"),
    one("report_file", "FILE", None, "A file to which every report is added as well, one JSON object a line"),
    one(
        "report_webhook",
        "URL",
        None,
        "Where every report is sent to as well: http[s]://..., by POST, as lines of JSON, in order, at least once",
    ),
    many("report_webhook_kind", "KIND", "Only reports of this kind are sent to the webhook; may be given many times"),
    one(
        "report_webhook_ca",
        "FILE",
        None,
        "Who signed the certificate of the webhook for reports, as PEM; else the CAs of this system",
    ),
    one(
        "report_webhook_authorization_file",
        "FILE",
        None,
        "A file with what the webhook for reports is shown in the header 'authorization', as in 'Bearer ...'",
    ),
    one(
        "report_otlp",
        "URL",
        None,
        "An OpenTelemetry collector to which every report is sent as well, as log records by OTLP/HTTP in JSON",
    ),
    one(
        "report_otlp_ca",
        "FILE",
        None,
        "Who signed the certificate of the collector, as PEM; else the CAs of this system",
    ),
    one(
        "report_otlp_authorization_file",
        "FILE",
        None,
        "A file with what the collector is shown in the header 'authorization', as in 'Bearer ...'",
    ),
];

impl SinkSettings {
    pub(super) fn read(effective: &Effective) -> Result<Self, ConfigError> {
        let kind = |text: &String| {
            Kind::parse(text).map_err(|error| effective.bad_value("report_webhook_kind", error.to_string()))
        };
        let kinds: Vec<Kind> = effective.texts("report_webhook_kind").iter().map(kind).collect::<Result<_, _>>()?;
        let webhook = ["report_webhook", "report_webhook_ca", "report_webhook_authorization_file"];
        let webhook = receiver(effective, webhook)?.map(|webhook| ReceiverSettings { kinds: kinds.clone(), ..webhook });
        if webhook.is_none() && !kinds.is_empty() {
            return Err(effective.bad_value("report_webhook_kind", "it needs --report-webhook"));
        }
        let otlp = receiver(effective, ["report_otlp", "report_otlp_ca", "report_otlp_authorization_file"])?;
        Ok(Self { file: effective.path("report_file"), webhook, otlp })
    }
}

/// Somebody who is sent reports, if there is one.
fn receiver(effective: &Effective, [url, ca, secret]: [&str; 3]) -> Result<Option<ReceiverSettings>, ConfigError> {
    let (given_ca, authorization_file) = (effective.path(ca), effective.path(secret));
    let Some(text) = effective.text(url) else {
        // What is asked for and would not be done is an error, and not silence.
        let needless = given_ca.map(|_| ca).or_else(|| authorization_file.as_ref().map(|_| secret));
        let needs = || format!("it needs --{}", url.replace('_', "-"));
        return needless.map_or(Ok(None), |key| Err(effective.bad_value(key, needs())));
    };
    let is_url = text.parse::<hyper::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    });
    if !is_url {
        return Err(effective.bad_value(url, "it is not an address such as https://collector.example.com/in"));
    }
    if authorization_file.is_some() && can_be_read(text) {
        return Err(effective.bad_value(url, "what is shown there could be read on the way: write https://"));
    }
    Ok(Some(ReceiverSettings { url: text.to_owned(), ca: given_ca, authorization_file, kinds: Vec::new() }))
}
