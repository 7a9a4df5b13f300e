//! A hub that is killed around the use of a token and around a revocation forgets neither: the second use stays refused, and who was
//! revoked stays out. What it says was done was on the disk before it said so.

use crate::rig::{BINARY, Rig, start_hub, text, until};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::process::{Child, Command};

/// When the hub is killed, counted from the start of an agent that enrols.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// The use of the token is on the disk; whether the agent has its answer is open.
    TokenUsed,
    /// The agent has its identity.
    AgentHasIt,
    /// Its tunnel is up.
    TunnelUp,
}

struct Stage {
    rig: Rig,
    homes: PathBuf,
}

impl Stage {
    async fn command(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(BINARY);
        command.args(arguments).arg("--data-dir").arg(self.rig.dir.path()).stderr(Stdio::null());
        let done = command.output().await.expect("it runs");
        assert!(done.status.success(), "{arguments:?}");
        String::from_utf8(done.stdout).expect("UTF-8").trim().to_owned()
    }

    /// Kills the hub as a power cut would, and starts it again at the same address.
    async fn kill_and_restart(&mut self, name: &str) {
        self.rig.hub.signal("KILL").await;
        self.rig.hub.wait().await;
        let (tunnel, connect) = (self.rig.tunnel.clone(), self.rig.connect.clone());
        self.rig.hub = start_hub(self.rig.dir.path(), &format!("{name}.ready"), &tunnel, &connect, &[]).await;
        self.rig.admin = text(&self.rig.hub.ready, "admin");
    }

    fn agent(&self, token: &str, home: &Path) -> Child {
        let mut command = Command::new(BINARY);
        command.args(["agent", "--join-token", token, "--log-level", "warn", "--data-dir"]).arg(home);
        command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    }

    /// How often a token was used, as the files say.
    async fn uses(&self, cluster: &str) -> u64 {
        let listed = self.command(&["join-token", "list", "-o", "json"]).await;
        let tokens: Value = serde_json::from_str(&listed).expect("JSON");
        let of_cluster = tokens.as_array().expect("a list").iter().find(|token| token["cluster"] == cluster);
        of_cluster.expect("a token")["used"].as_u64().expect("a number")
    }

    async fn has_tunnel(&self, cluster: &str) -> bool {
        self.rig.metric(&format!("mctunnel_tunnel_up_total{{cluster=\"{cluster}\"}}")).await.is_some()
    }
}

/// What an agent says that ends without getting in.
async fn turned_away(agent: Child) -> String {
    let ended = tokio::time::timeout(crate::rig::PATIENCE, agent.wait_with_output()).await;
    let ended = ended.expect("it ends in time").expect("it was ours");
    assert!(!ended.status.success());
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

#[tokio::test]
async fn t25_a_hub_that_is_killed_forgets_no_use_of_a_token_and_no_revocation() {
    let rig = Rig::start().await;
    let homes = rig.dir.path().join("homes");
    let mut stage = Stage { rig, homes };
    for (round, moment) in [Moment::TokenUsed, Moment::AgentHasIt, Moment::TunnelUp].into_iter().enumerate() {
        let cluster = format!("c{round}");
        let create = ["join-token", "create", "--cluster", &cluster, "-o", "token", "--hub", &stage.rig.tunnel];
        let token = stage.command(&create).await;
        let (home, other) = (stage.homes.join(&cluster), stage.homes.join(format!("{cluster}-other")));
        let agent = stage.agent(&token, &home);
        let has_identity = || home.join("identity.json").exists();
        until("the moment", async || {
            let is_now = match moment {
                Moment::TokenUsed => stage.uses(&cluster).await == 1,
                Moment::AgentHasIt => has_identity(),
                Moment::TunnelUp => stage.has_tunnel(&cluster).await,
            };
            is_now.then_some(())
        })
        .await;
        stage.kill_and_restart(&format!("{cluster}-used")).await;

        // The one that used it is in, with the answer that it has or asks for again; nobody else is.
        until("its identity", async || has_identity().then_some(())).await;
        until("its tunnel", async || stage.has_tunnel(&cluster).await.then_some(())).await;
        let refused = turned_away(stage.agent(&token, &other)).await;
        assert!(refused.contains("MCT-ENROL-TOKEN-USED"), "{moment:?}: {refused}");
        assert_eq!(stage.uses(&cluster).await, 1, "{moment:?}");

        stage.command(&["cluster", "revoke", &cluster]).await;
        stage.kill_and_restart(&format!("{cluster}-revoked")).await;

        let code = "mctunnel_peers_refused_total{code=\"MCT-ADMIT-REVOKED\"}";
        until("its next try", async || stage.rig.metric(code).await).await;
        assert!(!stage.has_tunnel(&cluster).await, "{moment:?}: it was revoked");
        let refused = turned_away(stage.agent(&token, &other)).await;
        assert!(refused.contains("MCT-ENROL-"), "{moment:?}: {refused}");
        drop(agent);
    }
}
