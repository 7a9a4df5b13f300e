//! `GET /-/v1/clusters`: every cluster whose nodes the client may list, with its tunnel and what it reported of itself last.

use super::{
    ReportApi,
    asked::Parameters,
    rights::{Wanted, Whereabouts, destination},
};
use crate::{
    cluster_line::{ClusterLine, Tunnel},
    hub_pages::Route,
};
use mctunnel::{
    ClusterName,
    gateway::http::{Asking, NoPage, Page},
};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

/// The kind that says how a cluster is.
const STATUS: &str = "status";

impl ReportApi {
    pub(crate) async fn clusters(&self, asking: &Asking<'_>) -> Result<Page, NoPage> {
        Parameters::read(asking.query, Route::Clusters)?;
        let reading = self.reading()?;
        let all = self.clusters.all().await?;
        let place = Whereabouts::default();
        // Held until the list is made; it does not go on.
        let (clusters, kinds) = (Arc::clone(&all), vec![STATUS.to_owned()]);
        let _permit = self.admit(asking, Wanted { clusters, kinds, place: place.clone() }).await?;
        let (viewer, action) = (asking.viewer(), place.takes(STATUS));
        let latest = Arc::clone(&self.latest);
        let tunnels: BTreeMap<ClusterName, Tunnel> =
            self.hub.tunnels().iter().map(|tunnel| (tunnel.cluster.clone(), tunnel.into())).collect();
        let unreadable = |reason: String| NoPage::NotNow(format!("the reports cannot be read: {reason}"));
        let turn = Arc::clone(&self.readers).acquire_owned().await.map_err(|error| unreadable(error.to_string()))?;
        let read = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let mut latest = latest.lock();
            latest.read_store(&reading.store)?;
            let seen = all.iter().filter(|cluster| viewer.may(&destination(cluster), &action));
            let line = |cluster: &ClusterName| {
                let name = cluster.as_str();
                ClusterLine::of(name, latest.of(name), tunnels.get(cluster), SystemTime::now())
            };
            Ok(seen.map(line).collect::<Vec<_>>())
        });
        let lines = read.await.map_err(|error| unreadable(error.to_string()))?;
        let lines = lines.map_err(|error: mctunnel::report::ReportError| unreadable(error.to_string()))?;
        Ok(Page::json(json!({ "items": lines }).to_string()))
    }
}
