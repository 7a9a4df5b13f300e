//! Where reports go beside the store: a file, a webhook, a collector, each at its own pace. One that is slow or dead holds up nobody.

use crate::{
    process,
    report_file::ReportFile,
    report_receivers::{OtlpCollector, ReceiverSettings, ReportWebhook},
};
use anyhow::Context as _;
use mctunnel::report::{Sink, Store, feed};
use std::path::{Path, PathBuf};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

/// What the settings say.
#[derive(Debug, Clone, Default)]
pub(crate) struct SinkSettings {
    pub(crate) file: Option<PathBuf>,
    pub(crate) webhook: Option<ReceiverSettings>,
    pub(crate) otlp: Option<ReceiverSettings>,
}

/// Sinks that wait for the store.
pub(crate) struct ReportSinks {
    file: Option<ReportFile>,
    webhook: Option<ReportWebhook>,
    otlp: Option<OtlpCollector>,
}

impl ReportSinks {
    /// Reads what they need, so that a mistake is known before the hub serves.
    pub(crate) fn open(settings: &SinkSettings) -> anyhow::Result<Self> {
        let webhook = settings.webhook.as_ref().map(ReportWebhook::new).transpose().context("--report-webhook")?;
        let otlp = settings.otlp.as_ref().map(OtlpCollector::new).transpose().context("--report-otlp")?;
        Ok(Self { file: settings.file.clone().map(ReportFile::new), webhook, otlp })
    }

    /// Feeds each from the store, from its own place in `places` on.
    pub(crate) fn start(self, store: &Store, places: &Path) -> Vec<AbortOnDropHandle<()>> {
        let feeding = [
            self.file.map(|file| begin(file, store, places)),
            self.webhook.map(|webhook| begin(webhook, store, places)),
            self.otlp.map(|otlp| begin(otlp, store, places)),
        ];
        feeding.into_iter().flatten().collect()
    }
}

fn begin(sink: impl Sink, store: &Store, places: &Path) -> AbortOnDropHandle<()> {
    let (store, places) = (store.clone(), places.to_owned());
    process::owned(async move {
        let name = sink.name().to_owned();
        if let Err(error) = feed(store, &places, sink).await {
            warn!(sink = name, %error, "Reports do not go to a sink.");
        }
    })
}
