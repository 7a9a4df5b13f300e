//! One short text for everything that streams of this agent may reach: a hub sees at a glance which agents have the same lists, and
//! when one changes. The lists themselves stay in the cluster.

use crate::{cluster_access::PermittedServices, settings::AgentSettings};
use sha2::{Digest as _, Sha256};
use std::{fmt::Write as _, sync::Arc};

/// How many bytes of the hash are shown.
const SHOWN: usize = 16;

/// The lists of an agent.
pub(crate) struct AllowDigest {
    /// What was given with flags, and does not change.
    fixed: String,
    permitted: Arc<PermittedServices>,
}

impl AllowDigest {
    pub(crate) fn new(settings: &AgentSettings, permitted: Arc<PermittedServices>) -> Self {
        let kube_api = if settings.cluster.deny_kube_api { "denied" } else { "allowed" };
        Self { fixed: format!("{}\nkube-api {kube_api}\n", settings.allow), permitted }
    }

    /// The digest of the lists as they are now, as in `sha256:9f86d081884c7d659a2feaa0c55ad015`.
    pub(crate) fn now(&self) -> String {
        digest(&format!("{}{}", self.fixed, self.permitted.rules()))
    }
}

fn digest(text: &str) -> String {
    let mut shown = "sha256:".to_owned();
    for byte in Sha256::digest(text).iter().take(SHOWN) {
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_short_and_differs_with_the_rules() {
        assert_eq!(digest("test"), "sha256:9f86d081884c7d659a2feaa0c55ad015");
        assert_ne!(digest("tcp://a:1"), digest("tcp://a:2"));
    }
}
