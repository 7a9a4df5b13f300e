//! Who may do what in which cluster: roles and bindings in a YAML file, deny rules that win, conditions in CEL, quotas.
//!
//! It is *not* authentication: it believes the [`Identity`](mctunnel_core::Identity) it is given. It opens nothing and waits for
//! nobody; [`ReloadingPolicy`] is the one part that reads a file. How to write a policy is in `docs/security/policy.md`, why it is
//! made this way in ADR 0010.
//!
//! Two rules hold everywhere. What is not allowed is denied, and nothing is allowed by leaving something out: an empty list is an
//! error, "all" is written `"*"`. An allow rule covers what it *certainly* names, a deny rule what *may be* what it names.
//!
//! ```
//! use mctunnel_core::{Access, Action, Authorize, Destination, Identity, Protocol, Target, User};
//! use mctunnel_policy::Policy;
//!
//! let policy = Policy::parse(r#"
//! version: 1
//! roles:
//!   reader:
//!     rules:
//!       - clusters: ["*"]
//!         namespaces: [team-a]
//!         apiGroups: [""]
//!         resources: [pods, pods/log]
//!         names: ["*"]
//!         verbs: [get, list, watch]
//! bindings:
//!   - name: team-a
//!     role: reader
//!     groups: [team-a]
//!     providers: ["*"]
//! deny: []
//! "#)?;
//!
//! let mut alice = User::new("alice", "corp");
//! alice.groups.push("team-a".into());
//! let identity = Identity::from(alice);
//! let destination = Destination { cluster: "cluster-prod".parse()?, target: Target::KubeApi };
//! let action = Action::of_http(&destination.target, "GET", "/api/v1/namespaces/team-a/pods")?;
//! let access = Access {
//!     identity: &identity,
//!     destination: &destination,
//!     action: &action,
//!     protocol: &Protocol::http(),
//!     source: None,
//! };
//! let decision = policy.authorize(&access);
//! assert!(decision.is_allowed());
//! assert_eq!(&**decision.rule(), "role reader, rule 1, binding team-a");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A hub reads its policy with [`ReloadingPolicy::watch`], asks [`Quotas::admit`] for each request that was allowed, and keeps the
//! [`Permit`] for as long as the request lasts. [`Shadow`] tries out the next policy beside the one that decides.

pub mod check;
pub mod error;
pub mod expectation;
pub mod policy;
pub mod question;
pub mod quota;
pub mod reload;
pub mod shadow;

mod circumstance;
mod compile;
mod condition;
mod doubt;
mod file;
mod kubernetes;
mod names;
mod nearest;
mod rule;
mod subject;
mod verbs;

pub use check::{Finding, Severity, check, check_with_providers};
pub use error::{PolicyError, Problem};
pub use expectation::{Outcome, Table};
pub use policy::{ClusterLabels, Policy};
pub use question::{InvalidQuestion, Question};
pub use quota::{Permit, Quotas};
pub use reload::{PolicyStatus, PolicyText, ReloadingPolicy};
pub use shadow::{Shadow, ShadowCounts};
