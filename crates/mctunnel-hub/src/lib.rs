//! The hub: admits agents by their certificates, holds exactly one active tunnel per cluster, and opens streams to targets behind it.
//! Streams that clusters open go to a [`ClusterAdapter`]: the services of the hub ([`HubServices`]), or one of your own.
//!
//! It knows nothing of HTTP or of clients: those come in through a gateway, which sees the hub only as [`mctunnel_core::Open`].
//!
//! ```no_run
//! use mctunnel_hub::Hub;
//! use mctunnel_identity::{ClusterFiles, Enrolment, HubAuthority, JoinTokenFiles};
//! use std::{path::Path, sync::Arc};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let data = Path::new("/var/lib/mctunnel");
//! let authority = HubAuthority::open_or_create(data, &[])?;
//! let clusters = Arc::new(ClusterFiles::new(data));
//! let enrolment = Enrolment::new(&authority, clusters.clone()).with_join_tokens(Arc::new(JoinTokenFiles::new(data)));
//! let hub = Hub::builder(&authority, clusters).enrolment(enrolment).build()?;
//! let listener = tokio::net::TcpListener::bind("0.0.0.0:8443").await?;
//! hub.serve_tunnels(listener, hub.stopping()).await;
//! # Ok(())
//! # }
//! ```

pub mod cluster_adapter;
pub mod services;

mod admit;
mod authority;
mod codes;
mod config;
mod counted;
mod drain;
mod enrol;
mod entry;
mod hub;
mod listen;
mod open;
mod open_users;
mod places;
mod refusals;
mod registry;
mod sources;
mod standing;

pub use cluster_adapter::{ClusterAdapter, FromCluster};
pub use config::Config;
pub use hub::{Builder, Hub};
pub use registry::TunnelStatus;
pub use services::{HubService, HubServices, ServiceTable};
