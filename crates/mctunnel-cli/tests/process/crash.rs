//! A hub that is killed around the use of a token and around a revocation forgets neither: the second use stays refused, and who was
//! revoked stays out. What it says was done was on the disk before it said so, at three chosen moments and at random ones.
//!
//! `CRASH_SEED` draws the random moments of an earlier run again.

use crate::{
    rig::{BINARY, PATIENCE, Rig, agent_command, start_hub, text, until},
    rotate::{Trust, ask_cluster},
};
use mctunnel_testkit::Rng;
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    process::{Child, Command},
    time::{Instant, timeout},
};

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
    /// Of the hub, each time it starts.
    flags: Vec<String>,
}

impl Stage {
    async fn start(flags: Vec<String>) -> Self {
        let words: Vec<&str> = flags.iter().map(String::as_str).collect();
        let rig = Rig::start_with("127.0.0.1:0", "127.0.0.1:0", &words).await;
        let homes = rig.dir.path().join("homes");
        Self { rig, homes, flags }
    }

    async fn command(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(BINARY);
        command.args(arguments).arg("--data-dir").arg(self.rig.dir.path()).stderr(Stdio::null());
        let done = command.output().await.expect("it runs");
        assert!(done.status.success(), "{arguments:?}");
        String::from_utf8(done.stdout).expect("UTF-8").trim().to_owned()
    }

    /// Kills the hub as a power cut would, and starts it again at the same address.
    async fn kill_and_restart(&mut self, name: &str) {
        self.kill().await;
        self.start_again(name).await;
    }

    async fn kill(&mut self) {
        self.rig.hub.signal("KILL").await;
        self.rig.hub.wait().await;
    }

    async fn start_again(&mut self, name: &str) {
        let (tunnel, connect) = (self.rig.tunnel.clone(), self.rig.connect.clone());
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        self.rig.hub = start_hub(self.rig.dir.path(), &format!("{name}.ready"), &tunnel, &connect, &flags).await;
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
    let ended = timeout(PATIENCE, agent.wait_with_output()).await;
    let ended = ended.expect("it ends in time").expect("it was ours");
    assert!(!ended.status.success());
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

#[tokio::test]
async fn t25_a_hub_that_is_killed_forgets_no_use_of_a_token_and_no_revocation() {
    let mut stage = Stage::start(Vec::new()).await;
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

// === any moment ===

const KILLS: u64 = 20;

/// What somebody was told is done, and what must be so from then on.
#[derive(Debug, Default)]
struct Told {
    /// Clusters whose agent has got a certificate for the one use of its token.
    used: Vec<String>,
    /// Clusters that are revoked.
    revoked: Vec<String>,
    /// Keys that count.
    keys: Vec<String>,
    /// Keys that do not any more.
    dead_keys: Vec<String>,
}

impl Told {
    fn add(&mut self, more: Self) {
        self.used.extend(more.used);
        self.revoked.extend(more.revoked);
        self.keys.extend(more.keys);
        self.dead_keys.extend(more.dead_keys);
    }
}

/// What is under way when the hub is killed.
struct Deeds {
    /// It enrols.
    agent: Child,
    revoke_cluster: Child,
    create_key: Child,
    /// The key that is revoked, and who does it.
    revoke_key: Option<(String, Child)>,
}

impl Stage {
    /// As [`Stage::command`], while others go on.
    fn begin(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(BINARY);
        command.args(arguments).arg("--data-dir").arg(self.rig.dir.path()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().expect("it starts")
    }

    async fn token(&self, cluster: &str) -> String {
        self.command(&["join-token", "create", "--cluster", cluster, "-o", "token", "--hub", &self.rig.tunnel]).await
    }

    fn has_identity(&self, cluster: &str) -> bool {
        self.homes.join(cluster).join("identity.json").exists()
    }

    /// How long it takes here and now to enrol.
    async fn usual_time(&self) -> Duration {
        let token = self.token("usual").await;
        let begun = Instant::now();
        let _agent = self.agent(&token, &self.homes.join("usual"));
        until("its identity", async || self.has_identity("usual").then_some(())).await;
        begun.elapsed()
    }

    /// Sees all of it through, with the hub or without; gives what was said to be done.
    async fn finish(&self, deeds: Deeds, (uses, revokes): (&str, &str)) -> Told {
        let Deeds { mut agent, revoke_cluster, create_key, revoke_key } = deeds;
        // It would try again and again.
        agent.kill().await.expect("it was ours");
        let mut told = Told::default();
        told.used.extend(self.has_identity(uses).then(|| uses.to_owned()));
        told.revoked.extend(said(revoke_cluster).await.map(|_| revokes.to_owned()));
        told.keys.extend(said(create_key).await);
        if let Some((key, revoke)) = revoke_key {
            told.dead_keys.extend(said(revoke).await.map(|_| key));
        }
        told
    }

    /// The hub that runs now, and the files, have all that was said to be done.
    async fn expect(&self, told: &Told) {
        for cluster in &told.used {
            assert_eq!(self.uses(cluster).await, 1, "{cluster}");
        }
        let listed = self.command(&["cluster", "list", "-o", "json"]).await;
        let listed: Value = serde_json::from_str(&listed).expect("JSON");
        for cluster in &told.revoked {
            let line = listed.as_array().expect("a list").iter().find(|line| line["name"] == cluster.as_str());
            assert!(line.is_some_and(|line| line["revoked"].is_string()), "{cluster}: {listed}");
        }
        let (gateway, ca) = (text(&self.rig.hub.ready, "gateway"), self.rig.dir.path().join("pki/ca.pem"));
        for (keys, status) in [(&told.keys, "HTTP/1.1 404 "), (&told.dead_keys, "HTTP/1.1 401 ")] {
            for key in keys {
                let answer = ask_cluster(&gateway, &ca, key, "nowhere").await.expect_err("there is no such cluster");
                assert!(answer.contains(status), "{status}, not {answer}");
            }
        }
    }

    /// None of their agents gets in.
    async fn expect_out(&self, clusters: &[String]) {
        let refused = "mctunnel_peers_refused_total{code=\"MCT-ADMIT-REVOKED\"}";
        for cluster in clusters {
            let before = self.rig.metric(refused).await.unwrap_or_default();
            let mut command = agent_command(&self.rig.dir.path().join(format!("{cluster}.join")), &[]);
            command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let _agent = command.spawn().expect("it starts");
            until("its refusal", async || self.rig.metric(refused).await.filter(|now| *now > before)).await;
        }
        assert!(self.rig.metric("mctunnel_tunnels").await.is_none_or(|tunnels| tunnels < 0.5), "one is up");
    }
}

/// What a command has printed that says it has done what it should.
async fn said(command: Child) -> Option<String> {
    let ended = timeout(PATIENCE, command.wait_with_output()).await;
    let ended = ended.expect("it ends in time").expect("it was ours");
    ended.status.success().then(|| String::from_utf8(ended.stdout).expect("UTF-8").trim().to_owned())
}

/// The seed of the run; another one each time unless one is given.
fn seed() -> u64 {
    let given = std::env::var("CRASH_SEED").ok();
    let of_now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| u64::from(now.subsec_nanos()));
    given.map_or_else(of_now, |seed| seed.parse().expect("a number"))
}

#[tokio::test]
async fn t25_t30_a_hub_that_is_killed_at_any_moment_has_all_that_it_said_was_done() {
    let seed = seed();
    println!("CRASH_SEED={seed}");
    let (mut rng, trust) = (Rng::new(seed), Trust::new());
    let flags = ["--auth-config", &trust.path("auth.yaml"), "--policy", &trust.path("policy.yaml")];
    let mut stage = Stage::start(flags.map(str::to_owned).into()).await;
    let usual = stage.usual_time().await;
    let mut all = Told::default();
    for kill in 0..KILLS {
        let (uses, revokes, name) = (format!("uses-{kill}"), format!("revokes-{kill}"), format!("key-{kill}"));
        let (token, _bundle) = tokio::join!(stage.token(&uses), stage.rig.add(&revokes));
        let revoke_key = all.keys.pop().map(|key| {
            let revoke = stage.begin(&["api-key", "revoke", key.split('_').nth(1).expect("an id")]);
            (key, revoke)
        });
        let deeds = Deeds {
            agent: stage.agent(&token, &stage.homes.join(&uses)),
            revoke_cluster: stage.begin(&["cluster", "revoke", &revokes]),
            create_key: stage.begin(&["api-key", "create", &name, "--user", "alice"]),
            revoke_key,
        };
        // From the beginning of all of it to twice the time it takes.
        let moment = usual * u32::try_from(rng.within(0, 200)).expect("a part") / 100;
        // tidy: sleep because the moment is a random one, and no event
        tokio::time::sleep(moment).await;
        stage.kill().await;
        let told = stage.finish(deeds, (uses.as_str(), revokes.as_str())).await;
        println!("kill {kill} after {moment:?}: {told:?}");
        stage.start_again(&format!("kill-{kill}")).await;
        stage.expect(&told).await;
        for cluster in &told.used {
            let other = stage.agent(&token, &stage.homes.join(format!("{cluster}-other")));
            let refused = turned_away(other).await;
            assert!(refused.contains("MCT-ENROL-TOKEN-USED"), "{cluster}: {refused}");
        }
        all.add(told);
    }
    stage.expect(&all).await;
    stage.expect_out(&all.revoked).await;
    let counts = [all.used.len(), all.revoked.len(), all.keys.len() + all.dead_keys.len()];
    assert!(counts.iter().all(|count| *count > 0), "tokens, clusters, keys: {counts:?}, so nothing was shown");
}
