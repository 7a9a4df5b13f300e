//! A hub that moves: its name leads elsewhere from one moment to the next, and agents follow.

use crate::stage::{Stage, cluster};
use mctunnel_agent::{
    Agent,
    dial::{Resolve, Resolving},
};
use mctunnel_core::Happening;
use parking_lot::Mutex;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

/// Knows one name, which leads where it says right now.
struct OneName(Mutex<IpAddr>);

impl Resolve for OneName {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        assert_eq!(name, "hub.test");
        let leads_to = *self.0.lock();
        Box::pin(async move { Ok(vec![leads_to]) })
    }
}

#[tokio::test]
async fn an_agent_looks_the_name_of_its_hub_up_anew_each_time() {
    let mut stage = Stage::new().await;
    let elsewhere = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 2).into(), stage.address.port());
    let seen_elsewhere = stage.another_hub(elsewhere).await;
    let name = Arc::new(OneName(Mutex::new(stage.address.ip())));
    let bundle = stage.join_bundle("c1");
    let hub = format!("hub.test:{}", stage.address.port());
    let agent = Agent::builder(&bundle).hub(hub).resolver(name.clone()).build().unwrap();
    stage.run(async move { agent.run().await });
    stage.tunnel_up("c1", 1).await;

    *name.0.lock() = elsewhere.ip();
    stage.hub.stop().await;
    let is_it = |h: &Happening| matches!(h, Happening::TunnelUp { cluster: c, .. } if *c == cluster("c1"));
    seen_elsewhere.wait("the tunnel at the new address", is_it).await;
}
