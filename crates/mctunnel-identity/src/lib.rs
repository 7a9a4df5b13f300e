//! Who is who: the hub's certificate authority, the certificates of agents and how they get them, join bundles, the list of added
//! clusters, and the TLS configurations made from them.
//!
//! It is *not* a transport: it opens no sockets and runs no tasks. An agent is whoever its certificate's one URI SAN says;
//! nothing else in a certificate, a request or a file makes an identity.
//!
//! # Enrolment
//!
//! A hub makes a join token; an agent makes a key and sends a request with the token; the hub signs the key. `mctunnel-hub` and
//! `mctunnel-agent` carry the messages, here they are handed over directly:
//!
//! ```
//! use mctunnel_core::ClusterName;
//! use mctunnel_identity::{
//!     AgentKey, ClusterFiles, EnrolledAgent, Enrolment, HubAuthority, JoinToken, JoinTokenFiles, JoinTokens, NewJoinToken,
//!     SharedClock, SystemClock, enrolment::wire,
//! };
//! use std::{collections::BTreeMap, sync::Arc, time::Duration};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let data = tempfile::tempdir()?;
//! // At the hub: a token for one agent of one cluster, good for an hour.
//! let authority = HubAuthority::open_or_create(data.path(), &[])?;
//! let clusters = ClusterFiles::new(data.path());
//! let tokens = JoinTokenFiles::new(data.path());
//! let cluster = ClusterName::parse("cluster-a")?;
//! let (epoch, pin) = (clusters.ensure(&cluster)?, authority.pin());
//! let ttl = Duration::from_secs(3600);
//! let new = NewJoinToken { cluster, epoch, ttl, uses: 1, labels: BTreeMap::new(), pin };
//! let (id, secret) = tokens.create(new)?;
//! let pasted = JoinToken { id, secret, pin, hub: "hub.example.com:8443".to_owned() }.text();
//!
//! // At the agent: a key of its own, and a request to sign it.
//! let token = JoinToken::parse(pasted.expose())?;
//! let key = AgentKey::generate()?;
//! let proof = wire::JoinTokenProof { id: token.id.as_bytes().to_vec(), secret: token.secret.expose().to_vec() };
//! let evidence = Some(wire::Evidence::JoinToken(proof));
//! let request = wire::EnrolRequest { csr: key.request(None)?, lifetime_seconds: 0, evidence };
//!
//! // At the hub again: the token is used up, the certificate is issued and listed.
//! let enrolment = Enrolment::new(&authority, Arc::new(clusters)).with_join_tokens(Arc::new(tokens));
//! let (issued, _) = enrolment.enrol(request.clone()).await?;
//!
//! // At the agent again.
//! let clock: SharedClock = Arc::new(SystemClock);
//! let agent = EnrolledAgent::enrolled(&token, &key, &issued.answer, &clock)?;
//! assert_eq!(agent.bundle.cluster.as_str(), "cluster-a");
//!
//! // Another key is refused: the token was for one agent.
//! let second = wire::EnrolRequest { csr: AgentKey::generate()?.request(None)?, ..request };
//! assert_eq!(enrolment.enrol(second).await.unwrap_err().code().code, "MCT-ENROL-TOKEN-USED");
//! # Ok(())
//! # }
//! ```

pub mod agent_identity;
pub mod agent_key;
pub mod agent_store;
pub mod authority;
pub mod ca_pin;
pub mod clock;
pub mod cluster_files;
pub mod enrolment;
pub mod error;
pub mod join_bundle;
pub mod join_token;
pub mod join_tokens;
pub mod own_certificate;
pub mod service_account;

mod certificate;
mod csr;
mod file_lock;
mod private_file;
mod tls;

pub use agent_identity::AgentIdentity;
pub use agent_key::AgentKey;
pub use agent_store::{AgentStore, EnrolledAgent, EnrolledBy};
pub use authority::{AgentTls, HUB_SERVER_NAME, HubAuthority, IssuedAgent, IssuedBy, OwnChain, Rotation};
pub use ca_pin::CaPin;
pub use clock::{Clock, SharedClock, SystemClock};
pub use cluster_files::{ClusterFiles, ClusterList, ClusterRecord, RecordedCertificate};
pub use enrolment::{ClusterLedger, EnrolError, EnrolEvidence, Enrolment, FindCluster};
pub use error::IdentityError;
pub use join_bundle::JoinBundle;
pub use join_token::{JoinToken, TokenId, TokenSecret};
pub use join_tokens::{JoinTokenFiles, JoinTokenRecord, JoinTokens, NewJoinToken};
pub use own_certificate::OwnCertificate;
pub use service_account::ServiceAccount;
pub use tls::ENROL_ALPN;
