//! One stream, from its opening to its end.

use super::{ServiceProxy, Speak, forward::forward, impersonate::Speaker};
use crate::{adapter::Offered, allow};
use mctunnel_core::{LocateError, Located, Target};
use mctunnel_http::split;
use mctunnel_tunnel::{RefuseCode, User};
use std::net::SocketAddr;
use tokio::time::timeout;

impl ServiceProxy {
    pub(super) async fn serve(&self, offered: Offered, speak: Speak) {
        let Some((reached, offered)) = Box::pin(self.reach(offered)).await else { return };
        // 8 join: what fails from here on is told as a failure of the exchange
        let Some((stream, joined)) = offered.join() else { return };
        // 9 pass the exchange
        let passed = Box::pin(forward(self, &reached, speak, split(stream))).await;
        joined.ended(passed.bytes_up, passed.bytes_down, passed.error);
    }

    /// Steps 6 and 7, up to the addresses; given up when the client goes away.
    async fn reach(&self, offered: Offered) -> Option<(Reached, Offered)> {
        let target = offered.target().clone();
        // 6 authorise again
        let speaker = match self.authorise(&target, offered.user()) {
            Ok(speaker) => speaker,
            Err((code, reason)) => {
                offered.refuse(code, &reason);
                return None;
            }
        };
        // 7 locate
        let locating = timeout(self.config.dial_timeout, self.locator.locate(&target));
        let located = tokio::select! {
            located = locating => located,
            () = offered.taken_back() => return None,
        };
        let late =
            || LocateError::Unavailable(format!("{target} was not located within {:?}", self.config.dial_timeout));
        let located = located.unwrap_or_else(|_| Err(late())).and_then(|located| check_addresses(&target, located));
        match located {
            Ok(located) => Some((Reached { target, located, speaker }, offered)),
            Err(error) => {
                let forbidden = matches!(error, LocateError::Forbidden(_));
                let code = if forbidden { RefuseCode::NotAllowed } else { RefuseCode::TargetUnreachable };
                offered.refuse(code, &error.to_string());
                None
            }
        }
    }

    /// Whether the stream may have its target, and for whom the agent speaks there.
    fn authorise(&self, target: &Target, user: Option<&User>) -> Result<Option<Speaker>, (RefuseCode, String)> {
        let denied = |reason| Err((RefuseCode::NotAllowed, reason));
        match target {
            Target::KubeApi if self.kube_api => self.speak_for(user).or_else(denied),
            Target::KubeApi => denied("this agent does not serve the kube-apiserver".to_owned()),
            // A service learns nothing of the user: it has no reason to believe us.
            Target::Service(service) if self.services.permits(service) => Ok(None),
            Target::Service(service) => denied(format!("{service} is not on the agent's list of services")),
            Target::Endpoint(_) => {
                Err((RefuseCode::BadRequest, "HTTP is for services and the kube-apiserver".to_owned()))
            }
        }
    }
}

impl ServiceProxy {
    fn speak_for(&self, user: Option<&User>) -> Result<Option<Speaker>, String> {
        match (&self.impersonate, user) {
            (Some(impersonate), user) => impersonate.judge(user).map(Some),
            (None, None) => Ok(None),
            (None, Some(user)) => Err(format!(
                "the hub verified {:?}, but this agent does not speak for users: start it with --impersonate",
                user.name
            )),
        }
    }
}

/// Where an exchange goes, and for whom.
pub(super) struct Reached {
    pub(super) target: Target,
    pub(super) located: Located,
    pub(super) speaker: Option<Speaker>,
}

/// Whatever the cluster says: a service is never the agent's own host, its link or its cloud's metadata service.
fn check_addresses(target: &Target, mut located: Located) -> Result<Located, LocateError> {
    if !located.pinned && matches!(target, Target::Service(_)) {
        let special = |address: &SocketAddr| allow::is_special(address.ip());
        let preferred = located.addresses.iter().take(located.preferred);
        located.preferred = preferred.filter(|address| !special(address)).count();
        located.addresses.retain(|address| !special(address));
        if located.addresses.is_empty() {
            let reason = format!("{target} leads only to loopback, link-local or metadata addresses");
            return Err(LocateError::Forbidden(reason));
        }
    }
    Ok(located)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mctunnel_core::ServiceTarget;

    fn located(addresses: &[&str], preferred: usize, pinned: bool) -> Located {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Located { addresses, preferred, authority: "a.b.svc:1".to_owned(), tls: None, pinned }
    }

    #[test]
    fn t20_a_service_is_never_at_a_special_address_whatever_the_cluster_says() {
        let service = Target::Service(ServiceTarget::parse("b", "http:a:1").unwrap());
        let good = ["10.0.0.1:1", "10.0.0.2:1"];
        for bad in ["127.0.0.1:1", "169.254.169.254:1", "[::1]:1", "[fe80::1]:1"] {
            let mixed = [good[0], bad, good[1], bad];
            assert_eq!(check_addresses(&service, located(&mixed, 2, false)), Ok(located(&good, 1, false)), "{bad}");
            assert_eq!(check_addresses(&service, located(&mixed, 3, false)), Ok(located(&good, 2, false)), "{bad}");
            let none = check_addresses(&service, located(&[bad], 0, false));
            assert!(matches!(none, Err(LocateError::Forbidden(_))), "{bad} {none:?}");
            // The operator's own word counts, and a kube-apiserver may be anywhere.
            assert_eq!(check_addresses(&service, located(&[bad], 1, true)), Ok(located(&[bad], 1, true)));
            assert_eq!(check_addresses(&Target::KubeApi, located(&[bad], 1, false)), Ok(located(&[bad], 1, false)));
        }
    }
}
