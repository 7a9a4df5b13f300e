//! Settings of the long-running roles. One table says what there is; a setting comes from the file, the environment or a flag,
//! and the later wins. The other commands take their few flags from `cli.rs` alone.

mod agent_table;
mod audit;
mod congestion;
mod effective;
mod error;
mod file_value;
mod flags;
mod join_by;
mod nearest;
mod report_table;
mod reports;
mod roles;
mod service_ca;
mod show;
mod source;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use congestion::mention_kept;
pub(crate) use error::ConfigError;
pub(crate) use flags::Flags;
pub(crate) use join_by::{AccountSettings, JoinBy};
pub(crate) use nearest::nearest;
pub(crate) use reports::ReportSettings;
pub(crate) use roles::{AgentSettings, ClusterSettings, HubSettings, LogFormat, ProcessSettings, TrustSettings};
pub(crate) use table::{AgentRole, HubRole};
