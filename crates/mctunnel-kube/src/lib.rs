//! What the agent knows of its Kubernetes cluster: where the kube-apiserver is, where the endpoints of services are, and which
//! services may be reached.
//!
//! It dials nothing but the kube-apiserver it watches; reaching targets is the agent's. No type of the Kubernetes client is in
//! this API, so that its next major release concerns this crate alone.
//!
//! | question | answered by |
//! |---|---|
//! | Where is the kube-apiserver, and who are we to it? | [`ClusterAccess`] |
//! | Where is a target? | [`KubeLocator`], or [`DnsLocator`] without credentials |
//! | Which addresses are never given? | [`address`] |
//! | Which endpoints of a service? | `select.rs` |
//! | What happens in the cluster? | [`events`] |
//! | What do its containers write? | [`logs`] |
//! | How is it: nodes, capacity, served APIs? | [`cluster_state`] |
//! | Which services may be reached? | [`ServiceAllowList`], and [`SharedAllowList`] for a file that changes |
//! | Whose is a token? | `ClusterTokenReview`, with the feature `token-review`: the hub's side |
//! | For which agent does a ServiceAccount vouch? | `ServiceAccountEvidence`, the same |

pub mod access;
pub mod address;
pub mod api_server;
pub mod cluster_state;
pub mod dns;
pub mod error;
pub mod events;
pub mod locator;
pub mod logs;
pub mod resolve;
pub mod service;
#[cfg(feature = "token-review")]
pub mod service_account_evidence;
pub mod service_allow;
pub mod service_tls;
#[cfg(feature = "token-review")]
pub mod token_review;
pub mod watch_file;

mod follow;
mod object;
mod own_records;
mod quantity;
mod scope;
mod select;
mod view;

pub use access::{ClusterAccess, OwnToken};
pub use api_server::ApiServer;
pub use dns::DnsLocator;
pub use error::KubeError;
pub use locator::{KubeLocator, LocatorConfig, Namespaces};
pub use resolve::{Resolve, Resolving, ResolvingOwn, SystemResolver};
pub use service::ServiceName;
#[cfg(feature = "token-review")]
pub use service_account_evidence::ServiceAccountEvidence;
pub use service_allow::{InvalidServiceRule, ServiceAllowList};
pub use service_tls::ServiceTls;
#[cfg(feature = "token-review")]
pub use token_review::ClusterTokenReview;
pub use watch_file::{RulesStatus, SharedAllowList};
