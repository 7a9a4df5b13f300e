//! The services that a hub offers to clusters, and to which of them: default deny. A stream becomes a TCP connection to the address
//! of the service; what the two ends say to each other is theirs.

use crate::{
    cluster_adapter::{ClusterAdapter, Denial, FromCluster},
    codes,
    counted::{Counted, Moved},
    entry::Entry,
};
use mctunnel_core::{
    Audit, ClusterName, Decision, Destination, Endpoint, Host, Protocol, Unaudited,
    clusters::{Labels, SharedClusters},
    look_up::look_up,
    splice::splice,
    target::Label,
};
use mctunnel_tunnel::RefuseCode;
use std::{collections::BTreeMap, fmt, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpStream, sync::watch};

/// How long a service may take to accept, its name's resolution included.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a stream that lives is held against labels, which change without a word. Changes of the table count at once.
const RECHECK: Duration = Duration::from_secs(4);

/// The services of a hub by name. Without one, every stream is refused.
pub type ServiceTable = BTreeMap<Label, HubService>;

/// A service, and the clusters it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubService {
    /// Where it is, as the hub reaches it.
    pub endpoint: Endpoint,
    /// Clusters that may reach it, by name.
    pub clusters: Vec<ClusterName>,
    /// Clusters that may reach it because they have all of these labels. No labels are no cluster.
    pub labels: Labels,
    /// Whether it is for every cluster of this hub.
    pub every_cluster: bool,
}

impl HubService {
    /// What lets a cluster with these labels reach the service, if something does.
    fn opened_by(&self, cluster: &ClusterName, labels: &Labels) -> Option<&'static str> {
        let labelled = !self.labels.is_empty() && self.labels.iter().all(|(key, value)| labels.get(key) == Some(value));
        if self.clusters.contains(cluster) {
            Some("by name")
        } else if labelled {
            Some("by labels")
        } else {
            self.every_cluster.then_some("for every cluster")
        }
    }
}

/// Serves `x-mctunnel-proto: tcp` for streams that clusters open.
pub struct HubServices {
    table: watch::Sender<Arc<ServiceTable>>,
    clusters: SharedClusters,
    audit: Arc<dyn Audit>,
}

impl HubServices {
    /// Offers these services to clusters of that list.
    #[must_use]
    pub fn new(table: ServiceTable, clusters: SharedClusters) -> Self {
        Self { table: watch::Sender::new(Arc::new(table)), clusters, audit: Arc::new(Unaudited) }
    }

    /// Records every stream, and every refusal, there.
    #[must_use]
    pub fn audit(mut self, audit: Arc<dyn Audit>) -> Self {
        self.audit = audit;
        self
    }

    /// Offers these from now on. Streams that the new table does not allow are cut.
    pub fn replace(&self, table: ServiceTable) {
        self.table.send_replace(Arc::new(table));
    }

    /// Where the service is and what opens it to the cluster, or why it is refused.
    async fn permitted(&self, cluster: &ClusterName, service: &Label) -> Result<(Endpoint, String), String> {
        let table = Arc::clone(&self.table.borrow());
        let Some(found) = table.get(service) else { return Err("there is no such service".to_owned()) };
        let labels = if found.labels.is_empty() { Labels::new() } else { self.clusters.labels(cluster).await };
        match found.opened_by(cluster, &labels) {
            Some(how) => Ok((found.endpoint.clone(), format!("service {service}, {how}"))),
            None => Err("the service is not for this cluster".to_owned()),
        }
    }

    /// Resolves when a stream that was opened to this endpoint would no longer be.
    async fn no_longer_permitted(&self, cluster: &ClusterName, service: &Label, endpoint: &Endpoint) {
        let mut table = self.table.subscribe();
        loop {
            // A table that was replaced before we subscribed is seen by asking first.
            match self.permitted(cluster, service).await {
                Ok((now, _)) if now == *endpoint => {}
                _ => return,
            }
            let _ = tokio::time::timeout(RECHECK, table.changed()).await;
        }
    }
}

impl ClusterAdapter for HubServices {
    fn protocol(&self) -> Protocol {
        Protocol::tcp()
    }

    async fn serve(self: Arc<Self>, opened: FromCluster) {
        let Some(service) = opened.service().cloned() else {
            return opened.refuse(RefuseCode::BadRequest, codes::SERVICE_BAD_REQUEST, "the stream names no service");
        };
        let cluster = opened.cluster().clone();
        let (endpoint, rule) = match self.permitted(&cluster, &service).await {
            Ok(permitted) => permitted,
            Err(why) => {
                return opened.deny(Denial {
                    wire: RefuseCode::NotAllowed,
                    stable: codes::SERVICE_NOT_ALLOWED,
                    asked: format!("service {service}: {why}"),
                    why,
                    // Which of the two it is, is not the cluster's business.
                    told: format!("this hub offers {cluster} no service {service}"),
                    audit: Arc::clone(&self.audit),
                });
            }
        };
        let Ok(mut visit) = Entry::of_stream(&*self.audit, &cluster, opened.source()) else {
            let reason = "the audit log cannot take another record";
            return opened.refuse_at_once(RefuseCode::Internal, codes::SERVICE_UNRECORDED, reason);
        };
        visit.subject.decision = Some(Decision::allowed(rule));
        visit.subject.destination = Some(Destination { cluster: cluster.clone(), target: endpoint.clone().into() });
        // Boxed, so that an idle stream does not keep the room the dial needed.
        let dialled = tokio::select! {
            dialled = Box::pin(dial(&endpoint)) => dialled,
            () = opened.taken_back() => return visit.failed(codes::SERVICE_UNREACHABLE, "the agent took the stream back"),
        };
        let socket = match dialled {
            Ok(socket) => socket,
            Err((wire, reason)) => {
                visit.failed(codes::SERVICE_UNREACHABLE, &reason);
                // The address is the hub's business.
                let told = format!("the service {service} cannot be reached from the hub");
                return opened.refuse_at_once(wire, codes::SERVICE_UNREACHABLE, &told);
            }
        };
        let Some((stream, served)) = opened.join(&format!("hub service {service}")) else {
            return visit.failed(codes::SERVICE_UNREACHABLE, "the tunnel was lost before the service answered");
        };
        visit.started();
        let moved = Arc::new(Moved::default());
        tokio::select! {
            spliced = splice(socket, Counted::new(stream, &moved)) => {
                let error = spliced.error.map(|error| error.to_string());
                // Up is towards the target: what came out of the stream.
                visit.ended(spliced.bytes_down, spliced.bytes_up, error.clone());
                served.ended(spliced.bytes_down, spliced.bytes_up, error);
            }
            () = self.no_longer_permitted(&cluster, &service, &endpoint) => {
                let reason = "the service is no longer for this cluster";
                let (up, down) = moved.so_far();
                visit.failed_after(up, down, codes::SERVICE_NOT_ALLOWED, reason);
                served.ended(up, down, Some(reason.to_owned()));
            }
        }
    }
}

impl fmt::Debug for HubServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubServices").field("table", &self.table.borrow()).finish_non_exhaustive()
    }
}

async fn connect(endpoint: &Endpoint) -> io::Result<TcpStream> {
    let ips = match &endpoint.host {
        Host::Ip(ip) => vec![*ip],
        Host::Name(name) => look_up(name).await?,
    };
    let addresses: Vec<SocketAddr> = ips.into_iter().map(|ip| SocketAddr::new(ip, endpoint.port)).collect();
    TcpStream::connect(&*addresses).await
}

async fn dial(endpoint: &Endpoint) -> Result<TcpStream, (RefuseCode, String)> {
    match tokio::time::timeout(DIAL_TIMEOUT, connect(endpoint)).await {
        Ok(Ok(socket)) => {
            mctunnel_core::keepalive::prepare(&socket);
            Ok(socket)
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err((RefuseCode::TargetRefused, format!("{endpoint} refused the connection")))
        }
        Ok(Err(error)) => Err((RefuseCode::TargetUnreachable, format!("{endpoint} cannot be reached: {error}"))),
        Err(_) => Err((RefuseCode::TargetTimeout, format!("{endpoint} did not answer within {DIAL_TIMEOUT:?}"))),
    }
}
