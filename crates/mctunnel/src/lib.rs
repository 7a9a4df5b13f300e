//! The multi-cluster tunnel as a library: the front door to the crates that make it up. It has no logic of its own.
//!
//! An **agent** in each cluster dials the **hub** once; everything else is a stream inside that one tunnel. A **gateway** lets
//! clients in and asks the hub to open streams. Each role is a crate that can be embedded alone.
//!
//! ```text
//! client -> Gateway -> Hub  <== one gRPC stream, dialled by the agent ==  Agent -> target
//! ```
//!
//! Protocols of your own, and gateways inside your own program: [the guide](guide::adapters).
//!
//! # A hub, an agent and a stream, in one process
//!
//! ```
//! use mctunnel::{
//!     Agent, AllowList, ClusterFiles, ClusterName, Destination, Hub, HubAuthority, JoinBundle, Open, OpenRequest, Endpoint,
//! };
//! use std::{sync::Arc, time::Duration};
//! use tokio::{
//!     io::{AsyncReadExt, AsyncWriteExt},
//!     net::TcpListener,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Something to reach, as if it ran inside the cluster.
//! let target = TcpListener::bind("127.0.0.1:0").await?;
//! let target_address = target.local_addr()?;
//!
//! // The hub, with a CA of its own.
//! let data = tempfile::tempdir()?;
//! let authority = HubAuthority::open_or_create(data.path(), &[])?;
//! let clusters = ClusterFiles::new(data.path());
//! let hub = Hub::builder(&authority, Arc::new(clusters.clone())).build()?;
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let hub_address = listener.local_addr()?;
//!
//! // What the agent of a cluster is given.
//! let cluster = ClusterName::parse("cluster-a")?;
//! let issued = authority.issue_agent(&cluster, Duration::from_secs(3600))?;
//! clusters.add(&cluster, &issued.serial, false)?;
//! let bundle = JoinBundle {
//!     version: JoinBundle::VERSION,
//!     cluster: cluster.clone(),
//!     hub: hub_address.to_string(),
//!     hub_server_name: mctunnel::identity::HUB_SERVER_NAME.to_owned(),
//!     ca_pem: authority.ca_pem().to_owned(),
//!     certificate_pem: issued.certificate_pem,
//!     key_pem: issued.key_pem,
//! };
//!
//! // The agent, which may reach that one target and nothing else.
//! let allow = AllowList::parse([format!("tcp://{target_address}")])?;
//! let agent = Agent::builder(&bundle).allow(allow).build()?;
//!
//! // A stream from the hub to the target; it waits until the agent is there.
//! let mut request = OpenRequest::new(Destination { cluster, target: Endpoint::parse(&target_address.to_string())?.into() });
//! request.wait_for_tunnel = Duration::from_secs(10);
//! let exchange = async {
//!     let (stream, served) = tokio::join!(hub.open(request), target.accept());
//!     let (mut stream, mut served) = (stream?, served?.0);
//!     served.write_all(b"hello from cluster-a").await?;
//!     let mut text = [0; 20];
//!     stream.read_exact(&mut text).await?;
//!     assert_eq!(&text, b"hello from cluster-a");
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! };
//! tokio::select! {
//!     done = exchange => done?,
//!     () = hub.serve_tunnels(listener, hub.stopping()) => {}
//!     () = agent.run() => {}
//! }
//! # Ok(())
//! # }
//! ```

pub mod guide;

/// Names, ports, errors with stable codes, the splice: [`mctunnel_core`].
pub use mctunnel_core as core;

/// Sessions and streams over a carrier: [`mctunnel_tunnel`].
pub use mctunnel_tunnel as tunnel;

/// Certificates, join bundles, the list of clusters: [`mctunnel_identity`].
pub use mctunnel_identity as identity;

/// The role that holds tunnels and opens streams: [`mctunnel_hub`].
pub use mctunnel_hub as hub;

/// The role that dials the hub and joins streams to targets: [`mctunnel_agent`].
pub use mctunnel_agent as agent;

/// The role that lets clients in: [`mctunnel_gateway`].
pub use mctunnel_gateway as gateway;

/// What an agent knows of its Kubernetes cluster: [`mctunnel_kube`].
pub use mctunnel_kube as kube;

/// Reports from clusters, spooled and stored exactly once: [`mctunnel_report`].
pub use mctunnel_report as report;

pub use mctunnel_agent::{
    Agent, Offered, ProxyAdapter, ServiceProxy, allow::AllowList, pinned::PinnedTargets, proxy::ProxySettings,
    service_proxy::ServiceProxyConfig,
};
pub use mctunnel_core::{
    ByteStream, ClusterName, Clusters, Destination, Endpoint, ErrorCode, Happening, Host, Observe, Open, OpenError,
    OpenRequest, Priority, Protocol, Scheme, Secret, ServicePort, ServiceTarget, Target,
};
pub use mctunnel_gateway::{
    Checkpoint, Client, ConnectAdapter, ConnectConfig, ForwardError, ForwardedBody, Gateway, HttpAdapter, HttpConfig,
    HttpForward, HubAdapter, Onward, OpenStream, SniAdapter, SniConfig,
};
pub use mctunnel_hub::Hub;
pub use mctunnel_identity::{ClusterFiles, HubAuthority, IdentityError, JoinBundle};
pub use mctunnel_tunnel::{Session, Stream};
