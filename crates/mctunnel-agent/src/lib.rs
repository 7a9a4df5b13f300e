//! The agent: keeps one tunnel to the hub up, and joins each stream the hub opens to a target inside the cluster, if its own
//! allow-list has it. What the hub already decided does not count here.
//!
//! ```no_run
//! use mctunnel_agent::{Agent, allow::AllowList};
//! use mctunnel_identity::JoinBundle;
//! use std::path::Path;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let bundle = JoinBundle::read(Path::new("cluster-a.join"))?;
//! let agent = Agent::builder(&bundle).allow(AllowList::parse(["tcp://db.default.svc:5432"])?).build()?;
//! agent.run().await;
//! # Ok(())
//! # }
//! ```

pub mod adapter;
pub mod allow;
pub mod backoff;
pub mod dial;
pub mod enrol;
pub mod hub_address;
pub mod pinned;
pub mod proxy;
pub mod service_proxy;

mod agent;
mod at_hub;
mod config;
mod connect;
mod keep;
mod renew;
mod serve;
mod tcp;

pub use adapter::{Offered, ProxyAdapter};
pub use agent::{Agent, AgentStatus, Builder, InvalidAgent, LastError};
pub use config::Config;
pub use service_proxy::{Impersonate, ServiceProxy};
