//! What the examples have in common: a hub with a CA of its own, and agents that join it, all in this process.

use mctunnel::{
    Agent, ClusterFiles, ClusterName, Hub, HubAuthority, JoinBundle, agent::Builder, identity::HUB_SERVER_NAME,
};
use std::{error::Error, net::SocketAddr, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinSet};

pub(crate) type Failed = Box<dyn Error + Send + Sync>;

/// A hub and its agents. They end when it is dropped.
pub(crate) struct Stage {
    pub(crate) hub: Hub,
    pub(crate) tasks: JoinSet<()>,
    hub_address: SocketAddr,
    authority: HubAuthority,
    clusters: ClusterFiles,
    _data: TempDir,
}

impl Stage {
    pub(crate) async fn start() -> Result<Self, Failed> {
        let data = tempfile::tempdir()?;
        let authority = HubAuthority::open_or_create(data.path(), &[])?;
        let clusters = ClusterFiles::new(data.path());
        let hub = Hub::builder(&authority, Arc::new(clusters.clone())).build()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let hub_address = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        let serving = hub.clone();
        tasks.spawn(async move { serving.serve_tunnels(listener, serving.stopping()).await });
        Ok(Self { hub, tasks, hub_address, authority, clusters, _data: data })
    }

    /// Starts the agent of a cluster. Streams that ask for it before its tunnel is up wait for it.
    pub(crate) fn join(
        &mut self,
        cluster: &str,
        configure: impl FnOnce(Builder<'_>) -> Builder<'_>,
    ) -> Result<(), Failed> {
        let cluster = ClusterName::parse(cluster)?;
        let issued = self.authority.issue_agent(&cluster, Duration::from_secs(3600))?;
        self.clusters.add(&cluster, &issued.serial, false)?;
        let bundle = JoinBundle {
            version: JoinBundle::VERSION,
            cluster,
            hub: self.hub_address.to_string(),
            hub_server_name: HUB_SERVER_NAME.to_owned(),
            ca_pem: self.authority.ca_pem().to_owned(),
            certificate_pem: issued.certificate_pem,
            key_pem: issued.key_pem,
        };
        let agent = configure(Agent::builder(&bundle)).build()?;
        self.tasks.spawn(async move { agent.run().await });
        Ok(())
    }
}
