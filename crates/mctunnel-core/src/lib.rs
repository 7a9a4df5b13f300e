//! What every other mctunnel crate speaks: names, destinations, errors with stable codes, ports, and the splice.
//!
//! It is *not* a protocol (that is `mctunnel-mux`), not a runtime (that is `mctunnel-tunnel`) and holds no configuration.
//! Types here are plain values without serde: the wire and the config file have their own.

pub mod access;
pub mod audit;
pub mod authorization;
pub mod bad_target;
pub mod clusters;
pub mod endpoint;
pub mod error;
pub mod h2_meter;
pub mod identity;
pub mod keepalive;
pub mod kube_request;
pub mod locate;
pub mod look_up;
pub mod name;
pub mod observe;
pub mod open;
pub mod pipe;
pub mod routing;
pub mod secret;
pub mod source;
pub mod splice;
pub mod store;
pub mod target;

pub use access::{Access, Action, Authorize, Decision, Limit, Place, Unlimited};
pub use audit::{Audit, AuditFull, AuditOutcome, AuditSlot, AuditSubject, Unaudited};
pub use authorization::Authorization;
pub use bad_target::BadTarget;
pub use clusters::{Clusters, DynClusters};
pub use endpoint::{Endpoint, Host, InvalidTarget};
pub use error::{ErrorCode, OpenError};
pub use identity::{
    Authenticate, ClientCertificate, DynAuthenticate, Evidence, Identity, PassThrough, Unauthenticated, User,
};
pub use kube_request::{KubeRequest, ResourceRequest, Verb};
pub use locate::{ExpectedPeer, Locate, LocateError, Located, PermitService, Roots};
pub use name::{ClusterName, InvalidClusterName};
pub use observe::{Happening, Observe, Unobserved};
pub use open::{ByteStream, Open, OpenRequest, Priority};
pub use routing::Protocol;
pub use secret::Secret;
pub use source::source_of;
pub use store::{Store, StoreError};
pub use target::{Destination, Scheme, ServicePort, ServiceTarget, Target};
