//! Many agents at once.

use crate::rig::{PATIENCE, Rig, admin_page, connect, start_hub, text, until};
use mctunnel::{
    agent::Agent,
    identity::{ClusterFiles, HUB_SERVER_NAME, HubAuthority, JoinBundle},
};
use std::time::Duration;
use tokio::{task::JoinSet, time::Instant};

const AGENTS: usize = 1_000;

/// What all agents need to come back, once for each.
fn bundles(rig: &Rig) -> Vec<JoinBundle> {
    let authority = HubAuthority::open_or_create(rig.dir.path(), &[]).expect("the hub's own");
    let files = ClusterFiles::new(rig.dir.path());
    let one = |i| {
        let cluster = format!("c{i}").parse().expect("a name");
        let issued = authority.issue_agent(&cluster, Duration::from_secs(3600)).expect("issued");
        files.add(&cluster, &issued.serial, false).expect("added");
        JoinBundle {
            version: JoinBundle::VERSION,
            cluster,
            hub: rig.tunnel.clone(),
            hub_server_name: HUB_SERVER_NAME.to_owned(),
            ca_pem: authority.ca_pem().to_owned(),
            certificate_pem: issued.certificate_pem,
            key_pem: issued.key_pem,
        }
    };
    (0..AGENTS).map(one).collect()
}

/// Agents that run.
struct Herd {
    agents: Vec<Agent>,
    running: JoinSet<()>,
}

impl Herd {
    fn start(bundles: &[JoinBundle]) -> Self {
        let agents: Vec<_> = bundles.iter().map(|bundle| Agent::builder(bundle).build().expect("an agent")).collect();
        let mut running = JoinSet::new();
        for agent in &agents {
            let agent = agent.clone();
            running.spawn(async move { agent.run().await });
        }
        Self { agents, running }
    }

    async fn end(self) {
        self.agents.iter().for_each(Agent::stop);
        self.running.join_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t48_a_thousand_agents_are_back_within_ten_seconds_of_a_killed_hub_each_time() {
    let mut rig = Rig::start().await;
    let bundles = bundles(&rig);
    let mut costs = Vec::new();
    for round in 0..ROUNDS {
        // New ones each time, as after a minute in which all was well: the pauses of those that lost their hub a moment ago go on growing.
        let herd = Herd::start(&bundles);
        all_connected(&rig.admin).await;
        rig.hub.child.kill().await.expect("kill -9");
        let ready = format!("again-{round}.ready");
        let killed = Instant::now();
        rig.hub = start_hub(rig.dir.path(), &ready, &rig.tunnel, &rig.connect, &[]).await;
        rig.admin = text(&rig.hub.ready, "admin");
        let (first, took) = until_all_are_back(&rig, killed).await;
        let asked = first.len();
        let (first, then) = (p99(first), p99(all_answer(&rig.connect).await));
        let cost = Cost::now(&rig);
        println!(
            "round {round}: all back after {took:?}; p99 {first:.3?} of the first {asked}, {then:.3?} of all; {cost:?}"
        );
        assert!(took <= Duration::from_secs(10), "all back after {took:?}");
        assert!(first <= SERVED_WITHIN && then <= SERVED_WITHIN, "p99 {first:?} of the first, {then:?} of all");
        costs.push(cost);
        herd.end().await;
        until("no tunnel", async || {
            (crate::rig::metric(&rig.admin, "mctunnel_tunnels").await == Some(0.0)).then_some(())
        })
        .await;
    }
    // The first round finds what was never used before.
    let [_, second, .., last] = costs.as_slice() else { panic!("{ROUNDS} rounds") };
    last.expect_no_more_than(second);
}

const ROUNDS: usize = 5;

/// What a cluster that is connected takes at most to answer, while others come back.
const SERVED_WITHIN: Duration = Duration::from_secs(1);

fn p99(mut times: Vec<Duration>) -> Duration {
    assert!(!times.is_empty(), "nobody was asked");
    times.sort_unstable();
    let rank = (times.len() * 99).div_ceil(100);
    times.get(rank.saturating_sub(1)).copied().expect("there is one")
}

/// What a round has left: memory in KiB, and files and sockets, of the hub and of this process, which has the agents; and their tasks.
#[derive(Debug)]
struct Cost {
    hub: (u64, usize),
    agents: (u64, usize),
    tasks: usize,
}

impl Cost {
    fn now(rig: &Rig) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        let resident = line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number");
        let descriptors = std::fs::read_dir("/proc/self/fd").expect("it runs").count();
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        Self { hub: (rig.hub.resident(), rig.hub.descriptors()), agents: (resident, descriptors), tasks }
    }

    /// A fifth and 16 MiB more memory are noise, and 64 files or tasks.
    fn expect_no_more_than(&self, before: &Self) {
        for (now, before) in [(self.hub, before.hub), (self.agents, before.agents)] {
            assert!(now.0 <= before.0 + before.0 / 5 + 16 * 1024, "{self:?}, and before {before:?}");
            assert!(now.1 <= before.1 + 64, "{self:?}, and before {before:?}");
        }
        assert!(self.tasks >= AGENTS && self.tasks <= before.tasks + 64, "{self:?}, and before {before:?}");
    }
}

/// Asks clusters that are back, one after the other, until all are. Gives how long each answer took, and all of it since `killed`.
async fn until_all_are_back(rig: &Rig, killed: Instant) -> (Vec<Duration>, Duration) {
    let mut times = Vec::new();
    let mut next = 0;
    loop {
        let back = back(&rig.admin).await;
        if back.len() == AGENTS {
            all_connected(&rig.admin).await;
            return (times, killed.elapsed());
        }
        assert!(killed.elapsed() < PATIENCE, "{} are back", back.len());
        // Others each time, so that those are among them that have just come.
        for cluster in back.iter().cycle().skip(next).take(back.len().min(10)) {
            times.push(answers(&rig.connect, cluster).await);
        }
        next = (next + 7) % AGENTS;
        // tidy: sleep because the hub needs the machine for those that come back
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The clusters that have had a tunnel since the hub began.
async fn back(admin: &str) -> Vec<String> {
    let page = admin_page(admin, "/metrics").await.unwrap_or_default();
    let up = page.lines().filter_map(|line| line.strip_prefix("mctunnel_tunnel_up_total{cluster=\""));
    up.filter_map(|line| Some(line.split_once('"')?.0.to_owned())).collect()
}

/// Asks a cluster, which answers for itself, by its own agent's refusal; gives how long that took.
async fn answers(proxy: &str, cluster: &str) -> Duration {
    let begun = Instant::now();
    let line = connect(proxy, cluster, "10.1.2.3:80").await.expect_err("nothing is allowed");
    assert!(line.starts_with("HTTP/1.1 403 "), "{cluster}: {line}");
    begun.elapsed()
}

/// How many are asked at the same time.
const ASKED: usize = 50;

/// No stale route: every cluster answers for itself. Gives how long each took.
async fn all_answer(proxy: &str) -> Vec<Duration> {
    let mut times = Vec::new();
    for first in (0..AGENTS).step_by(ASKED) {
        let mut asked = JoinSet::new();
        for i in first..AGENTS.min(first + ASKED) {
            let proxy = proxy.to_owned();
            asked.spawn(async move { answers(&proxy, &format!("c{i}")).await });
        }
        while let Some(answered) = asked.join_next().await {
            times.push(answered.expect("it answers for itself"));
        }
    }
    times
}

async fn all_connected(admin: &str) {
    #[expect(clippy::cast_precision_loss, reason = "a thousand")]
    let all = AGENTS as f64;
    until("all agents", async || (crate::rig::metric(admin, "mctunnel_tunnels").await == Some(all)).then_some(()))
        .await;
}
