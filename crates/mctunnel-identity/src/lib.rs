//! Who is who: the hub's certificate authority, the certificates of agents, join bundles, the list of added clusters,
//! and the TLS configurations made from them.
//!
//! It is *not* a transport: it opens no sockets and runs no tasks. An agent is whoever its certificate's one URI SAN says;
//! nothing else in a certificate, a request or a file makes an identity.

pub mod agent_identity;
pub mod authority;
pub mod cluster_files;
pub mod error;
pub mod join_bundle;

mod certificate;
mod clock;
mod private_file;
mod tls;

pub use agent_identity::AgentIdentity;
pub use authority::{HUB_SERVER_NAME, HubAuthority, IssuedAgent};
pub use cluster_files::{ClusterFiles, ClusterRecord};
pub use error::IdentityError;
pub use join_bundle::JoinBundle;
