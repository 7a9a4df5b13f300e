//! `GET /-/v1/reports` and `/-/v1/events`: a list, lines, and lines that go on as records come. Each record is decided by itself.

use super::{
    Reading, ReportApi,
    asked::{Asked, Form},
    rights::{Sight, Wanted, Whereabouts},
};
use crate::{hub_pages::Route, report_endpoint::OWN_KINDS, reports::LineForm};
use mctunnel::{
    gateway::http::{Asking, NoPage, Page, PageEnded, PageWriter, Viewer},
    report::{Kind, Query, StoredRecord},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl ReportApi {
    /// Records of a kind, or of all.
    pub(crate) async fn reports(&self, asking: &Asking<'_>) -> Result<Page, NoPage> {
        self.records(asking, Asked::read(asking, Route::Reports, None)?).await
    }

    /// Kubernetes events.
    pub(crate) async fn events(&self, asking: &Asking<'_>) -> Result<Page, NoPage> {
        let events = Kind::parse("events").map_err(|error| NoPage::Bad(error.to_string()))?;
        self.records(asking, Asked::read(asking, Route::Events, Some(events))?).await
    }

    async fn records(&self, asking: &Asking<'_>, asked: Asked) -> Result<Page, NoPage> {
        let reading = self.reading()?;
        let clusters = match &asked.cluster {
            Some(cluster) => Arc::from([cluster.clone()]),
            None => self.clusters.all().await?,
        };
        let there = reading.store.kinds();
        let kinds: BTreeSet<&str> = match &asked.kind {
            Some(kind) => BTreeSet::from([kind.as_str()]),
            // The agent's own kinds can be asked about before there are any.
            None => there.iter().map(Kind::as_str).chain(OWN_KINDS).collect(),
        };
        let kinds = kinds.into_iter().map(str::to_owned).collect();
        let place = Whereabouts { namespace: asked.namespace.clone(), pod: None };
        let Some(permit) = self.admit(asking, Wanted { clusters, kinds, place }).await? else {
            return Ok(Page::json("{\"items\":[],\"after\":null}"));
        };
        let viewer = asking.viewer();
        let content_type = match asked.form {
            Form::List => "application/json",
            Form::Lines => "application/x-ndjson",
        };
        Ok(Page::written(content_type, permit, |page| async move {
            let left = asked.limit;
            Telling { reading, viewer, asked, page, left, places: BTreeMap::new(), last: None }.tell().await
        }))
    }
}

/// An answer on its way.
struct Telling {
    reading: Reading,
    viewer: Viewer,
    asked: Asked,
    page: PageWriter,
    /// How many may still be shown.
    left: u64,
    /// The position of the next of each kind.
    places: BTreeMap<Kind, u64>,
    /// The position of the last that was shown.
    last: Option<u64>,
}

impl Telling {
    async fn tell(mut self) -> Result<(), PageEnded> {
        if self.asked.form == Form::List {
            self.page.write("{\"items\":[").await?;
        }
        let mut changes = self.reading.store.changes();
        loop {
            changes.mark_unchanged();
            let kinds = self.asked.kind.clone().map_or_else(|| self.reading.store.kinds(), |kind| vec![kind]);
            for kind in &kinds {
                while self.left > 0 && self.tell_group(kind).await? {}
            }
            if !self.asked.watch || self.left == 0 {
                break;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { break },
                () = self.reading.stopping.cancelled() => break,
                () = self.page.gone() => return Err(PageEnded::Gone),
            }
        }
        if self.asked.form == Form::List {
            let after = self.last.filter(|_| self.asked.kind.is_some());
            let after = after.map_or_else(|| "null".to_owned(), |position| position.to_string());
            self.page.write(format!("],\"after\":{after}}}")).await?;
        }
        Ok(())
    }

    /// Shows the next records of a kind; says whether there were any.
    async fn tell_group(&mut self, kind: &Kind) -> Result<bool, PageEnded> {
        let from = self.places.get(kind).copied().unwrap_or(self.asked.from);
        let Asked { cluster, since, .. } = &self.asked;
        let query = Query { cluster: cluster.clone(), since: *since, from, ..Query::new(kind.clone()) };
        let records = self.reading.group(query).await?;
        let Some(last) = records.last() else { return Ok(false) };
        self.places.insert(kind.clone(), last.position + 1);
        let text = self.select(kind, &records);
        if !text.is_empty() {
            self.page.write(text).await?;
        }
        Ok(true)
    }

    /// The text of those that are asked for and may be seen.
    fn select(&mut self, kind: &Kind, records: &[StoredRecord]) -> String {
        let mut sight = Sight::new(&self.viewer, kind.as_str());
        let mut text = String::new();
        for found in records.iter().filter(|found| found.record.source.starts_with(&self.asked.source)) {
            if self.left == 0 {
                break;
            }
            let place = Whereabouts::of(kind.as_str(), found);
            let is_there = self.asked.namespace.is_none() || self.asked.namespace == place.namespace;
            if !is_there || !sight.has(&found.cluster, place) {
                continue;
            }
            if self.asked.form == Form::List && self.last.is_some() {
                text.push(',');
            }
            text.push_str(&LineForm::Json.line(kind, found));
            text.push('\n');
            self.last = Some(found.position);
            self.left -= 1;
        }
        text
    }
}
