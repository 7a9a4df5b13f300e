//! The adapter for plain bytes: a stream becomes a TCP connection to a host and port on the allow-list.

use crate::{
    adapter::{Offered, ProxyAdapter},
    allow::AllowList,
    dial::{DialRefusal, Resolve, dial, dial_located},
};
use mctunnel_core::{Protocol, Target, locate::SharedLocator, splice::splice};
use mctunnel_tunnel::RefuseCode;
use std::{sync::Arc, time::Duration};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};

/// Serves `x-mctunnel-proto: tcp`.
#[derive(Debug)]
pub(crate) struct TcpAdapter {
    pub(crate) allow: AllowList,
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) dial_timeout: Duration,
    /// Who knows where the kube-apiserver is, if streams may reach it.
    pub(crate) kube_api: Option<SharedLocator>,
}

impl ProxyAdapter for TcpAdapter {
    fn protocol(&self) -> Protocol {
        Protocol::tcp()
    }

    async fn serve(self: Arc<Self>, offered: Offered) {
        // Boxed, so that an idle stream does not keep the room the dial needed.
        let Some((socket, offered)) = Box::pin(self.reach(offered)).await else { return };
        drop(self);
        // 8 join
        let Some((stream, joined)) = offered.join() else { return };
        // 9 splice
        let spliced = splice(socket, stream).await;
        joined.ended(spliced.bytes_down, spliced.bytes_up, spliced.error.map(|error| error.to_string()));
    }
}

impl TcpAdapter {
    /// Steps 6 and 7; given up when the client goes away.
    async fn reach(&self, offered: Offered) -> Option<(TcpStream, Offered)> {
        let dialled = tokio::select! {
            dialled = self.dial(offered.target()) => dialled,
            () = offered.taken_back() => return None,
        };
        match dialled {
            Ok(socket) => Some((socket, offered)),
            Err(refusal) => {
                offered.refuse(refusal.code, &refusal.message);
                None
            }
        }
    }

    async fn dial(&self, target: &Target) -> Result<TcpStream, DialRefusal> {
        let refused = |code, message: &str| Err(DialRefusal { code, message: message.to_owned() });
        match (target, &self.kube_api) {
            (Target::Endpoint(endpoint), _) => dial(endpoint, &self.allow, self.dial_timeout, &*self.resolver).await,
            (Target::KubeApi, Some(locator)) => self.dial_kube_api(locator).await,
            (Target::KubeApi, None) => refused(RefuseCode::NotAllowed, "this agent does not serve the kube-apiserver"),
            (Target::Service(_), _) => refused(RefuseCode::BadRequest, "plain bytes need a host and a port"),
        }
    }

    /// The client and the kube-apiserver make TLS with each other; nobody between them can read it.
    async fn dial_kube_api(&self, locator: &SharedLocator) -> Result<TcpStream, DialRefusal> {
        let deadline = Instant::now() + self.dial_timeout;
        let unreachable = |message| DialRefusal { code: RefuseCode::TargetUnreachable, message };
        let located = match timeout_at(deadline, locator.locate(&Target::KubeApi)).await {
            Ok(located) => located.map_err(|error| unreachable(error.to_string()))?,
            Err(_) => return Err(unreachable("the kube-apiserver was not found in time".to_owned())),
        };
        dial_located(&located.authority, &located.addresses, deadline, self.dial_timeout).await
    }
}
