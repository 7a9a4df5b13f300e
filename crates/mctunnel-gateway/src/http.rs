//! The HTTP gateway's pure parts: where a request goes, what it means to a kube-apiserver, and which bytes a client may say.

mod bad_target;
mod guard;
mod kube_request;
mod route;

pub use bad_target::BadTarget;
pub use guard::{BadBody, BadHead, GuardConfig, Guarded, RefusedHead, check_h2, check_trailers};
pub use kube_request::{KubeRequest, ResourceRequest, Verb};
pub use route::{Routed, route};
