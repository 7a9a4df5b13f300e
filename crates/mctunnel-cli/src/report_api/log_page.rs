//! `GET /-/v1/logs/CLUSTER/NAMESPACE/POD`: what a container wrote, byte for byte, of its newest run; and what it writes, if asked to.

use super::{
    Reading, ReportApi,
    asked::{Parameters, cluster_name, kubernetes_name},
    rights::{Whereabouts, destination, explained},
};
use crate::{
    container_log::{LogPrinter, LogWanted, Next, NoLog, Run, Runs},
    hub_pages::Route,
};
use mctunnel::{
    ClusterName,
    gateway::http::{Asking, NoPage, Page, PageEnded, PageWriter},
    report::{Kind, Query},
};

impl ReportApi {
    pub(crate) async fn logs(&self, asking: &Asking<'_>, parts: &[&str]) -> Result<Page, NoPage> {
        let [cluster, namespace, pod] = parts else { return Err(NoPage::Unknown) };
        let given = Parameters::read(asking.query, Route::Logs)?;
        let cluster = cluster_name(cluster)?;
        let wanted = LogWanted {
            namespace: kubernetes_name("namespace", namespace)?,
            pod: kubernetes_name("pod", pod)?,
            container: given.name("container")?,
            previous: given.switch("previous")?,
            timestamps: given.switch("timestamps")?,
            follow: given.switch("follow")?,
        };
        let kind = Kind::parse("logs").map_err(|error| NoPage::Bad(error.to_string()))?;
        let place = Whereabouts { namespace: Some(wanted.namespace.clone()), pod: Some(wanted.pod.clone()) };
        let action = place.takes(kind.as_str());
        let admitted = asking.admit(destination(&cluster), action.clone());
        let permit = admitted.map_err(|decision| NoPage::Refused(explained(decision, &action, cluster.as_str())))?;
        let query = Query { cluster: Some(cluster.clone()), ..Query::new(kind) };
        let showing = Showing { reading: self.reading()?, query, wanted };
        let run = showing.find(&cluster).await?;
        Ok(Page::written("text/plain; charset=utf-8", permit, |page| showing.show(run, page)))
    }
}

/// A log on its way.
struct Showing {
    reading: Reading,
    query: Query,
    wanted: LogWanted,
}

impl Showing {
    /// Which run of which container.
    async fn find(&self, cluster: &ClusterName) -> Result<Run, NoPage> {
        let mut runs = Runs::default();
        let mut query = self.query.clone();
        loop {
            let records = self.reading.group(query.clone()).await.map_err(|ended| match ended {
                PageEnded::Broken(reason) => NoPage::NotNow(reason),
                PageEnded::Gone => NoPage::NotNow("the hub is about to end".to_owned()),
            })?;
            let Some(last) = records.last() else { break };
            query.from = last.position + 1;
            records.iter().for_each(|found| runs.note(&self.wanted, found));
        }
        runs.choose(&self.wanted).map_err(|none| match none {
            NoLog::Several { .. } => NoPage::Bad(format!("{none}; name one of them with 'container'")),
            NoLog::Nothing { .. } | NoLog::NoPrevious { .. } => NoPage::Nothing(format!("{none}, in {cluster}")),
        })
    }

    async fn show(self, run: Run, page: PageWriter) -> Result<(), PageEnded> {
        let mut query = Query { from: run.first, ..self.query };
        let mut printer = LogPrinter::new(run, self.wanted);
        let mut changes = self.reading.store.changes();
        loop {
            changes.mark_unchanged();
            loop {
                let records = self.reading.group(query.clone()).await?;
                let Some(last) = records.last() else { break };
                query.from = last.position + 1;
                let mut bytes = Vec::new();
                let is_over = records.iter().any(|found| printer.print(found, &mut bytes) == Next::Over);
                if !bytes.is_empty() {
                    page.write(bytes).await?;
                }
                if is_over {
                    return Ok(());
                }
            }
            if !printer.goes_on() {
                return Ok(());
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
                () = self.reading.stopping.cancelled() => return Ok(()),
                () = page.gone() => return Err(PageEnded::Gone),
            }
        }
    }
}
