//! The adapter for plain bytes: a stream becomes a TCP connection to a host and port on the allow-list.

use crate::{
    adapter::{Offered, ProxyAdapter},
    allow::AllowList,
    dial::{Resolve, dial},
};
use mctunnel_core::{Protocol, Target, splice::splice};
use mctunnel_tunnel::RefuseCode;
use std::{sync::Arc, time::Duration};
use tokio::net::TcpStream;

/// Serves `x-mctunnel-proto: tcp`.
#[derive(Debug)]
pub(crate) struct TcpAdapter {
    pub(crate) allow: AllowList,
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) dial_timeout: Duration,
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
        let Target::Endpoint(endpoint) = offered.target() else {
            offered.refuse(RefuseCode::BadRequest, "plain bytes need a host and a port");
            return None;
        };
        let dialled = tokio::select! {
            dialled = dial(endpoint, &self.allow, self.dial_timeout, &*self.resolver) => dialled,
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
}
