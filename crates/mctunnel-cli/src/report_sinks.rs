//! Where reports go beside the store: a file, a webhook, a collector, each at its own pace. One that is slow or dead holds up nobody.

use crate::{
    process,
    report_file::ReportFile,
    report_receivers::{OtlpCollector, ReceiverSettings, ReportWebhook},
};
use anyhow::Context as _;
use mctunnel::report::{Kind, NotTaken, Sink, Store, StoredRecord, feed};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
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
    pub(crate) fn start(self, store: &Store, places: &Path, aside: &SetAside) -> Vec<AbortOnDropHandle<()>> {
        let feeding = [
            self.file.map(|file| begin(file, store, places, aside)),
            self.webhook.map(|webhook| begin(webhook, store, places, aside)),
            self.otlp.map(|otlp| begin(otlp, store, places, aside)),
        ];
        feeding.into_iter().flatten().collect()
    }
}

/// How many records each sink refused for good, by its name and the kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct SetAside(Arc<Mutex<BTreeMap<(String, Kind), u64>>>);

impl SetAside {
    /// Labels and counts.
    pub(crate) fn counts(&self) -> Vec<(String, u64)> {
        let label =
            |((sink, kind), count): (&(String, Kind), &u64)| (format!("sink=\"{sink}\",kind=\"{kind}\""), *count);
        self.0.lock().iter().map(label).collect()
    }
}

/// A sink whose refusals are counted.
struct Counted<S> {
    sink: S,
    aside: SetAside,
}

impl<S: Sink> Sink for Counted<S> {
    fn name(&self) -> &str {
        self.sink.name()
    }

    async fn deliver(&self, kind: &Kind, records: &[StoredRecord]) -> Result<(), NotTaken> {
        self.sink.deliver(kind, records).await
    }

    fn set_aside(&self, kind: &Kind, _: &StoredRecord) {
        *self.aside.0.lock().entry((self.name().to_owned(), kind.clone())).or_default() += 1;
    }
}

fn begin(sink: impl Sink, store: &Store, places: &Path, aside: &SetAside) -> AbortOnDropHandle<()> {
    let (store, places) = (store.clone(), places.to_owned());
    let sink = Counted { sink, aside: aside.clone() };
    process::owned(async move {
        let name = sink.name().to_owned();
        if let Err(error) = feed(store, &places, sink).await {
            warn!(sink = name, %error, "Reports do not go to a sink.");
        }
    })
}
