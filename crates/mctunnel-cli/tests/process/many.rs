//! Too many of everything (T40): no descriptors left, and names that nobody has.

use crate::{
    floods::{Bystander, web_agent},
    raw_h2::connect,
    rig::{PATIENCE, Rig, Target, echo, exchange, text, until},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeSet;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// What a hub has that is to run out of them.
const DESCRIPTORS: usize = 256;

#[tokio::test]
async fn t40_without_descriptors_the_hub_serves_whom_it_has_and_recovers() {
    let rig = Rig::start_limited(DESCRIPTORS).await;
    let target = Target::start(echo).await;
    let _agent = rig.agent(&rig.add("c1").await, &[&target.address]).await;
    let mut early = rig.open("c1", &target.address).await.expect("open");
    let gateway = text(&rig.hub.ready, "gateway");
    let mut silent = Vec::new();
    for address in [&gateway, &rig.tunnel, &rig.connect] {
        for _ in 0..200 {
            silent.push(TcpStream::connect(address).await.expect("queued by the system"));
        }
    }
    until("the hub to have no descriptor left", async || (rig.hub.descriptors() == DESCRIPTORS).then_some(())).await;
    // Who was there before goes on: neither the tunnel nor its streams need another descriptor.
    for turn in 0..200_u8 {
        early.write_all(&[turn]).await.expect("sent");
        assert_eq!(early.read_u8().await.expect("echoed"), turn);
    }
    drop(silent);
    until("clients to be served again", async || {
        exchange(&rig.connect, "c1", &target.address, b"hello again").await.ok()
    })
    .await;
    let _second = rig.agent(&rig.add("c2").await, &[&target.address]).await;
    exchange(&rig.connect, "c2", &target.address, b"a new agent").await.expect("served");
    early.write_all(b"!").await.expect("sent");
    assert_eq!(early.read_u8().await.expect("echoed"), b'!');
}

/// The lines of the metrics page, without their values.
async fn series(admin: &str) -> BTreeSet<String> {
    let mut socket = TcpStream::connect(admin).await.expect("connected");
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.expect("sent");
    let mut page = String::new();
    socket.read_to_string(&mut page).await.expect("a page");
    let (_, body) = page.split_once("\r\n\r\n").expect("a head");
    let names = body.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[tokio::test]
async fn t40_names_that_nobody_has_leave_no_trace_in_metrics_or_memory() {
    const NAMES: usize = 100_000;
    const BATCH: usize = 100;
    let rig = Rig::start().await;
    let (_agent, _web) = web_agent(&rig).await;
    let gateway = text(&rig.hub.ready, "gateway");
    let mut bystander = Bystander::new(&rig, &gateway).await;
    bystander.ask().await;
    let mut client = connect(&rig, &gateway, "http/1.1", "localhost", None).await;
    let (mut before, mut memory) = (BTreeSet::new(), 0);
    let mut answers = Vec::new();
    for batch in 0..NAMES / BATCH {
        let names = batch * BATCH..(batch + 1) * BATCH;
        let requests: String =
            names.map(|n| format!("GET /unknown-{n}/api HTTP/1.1\r\nHost: localhost\r\n\r\n")).collect();
        client.write_all(requests.as_bytes()).await.expect("sent");
        client.flush().await.expect("sent");
        answers.clear();
        // The last one may still be on its way when its head is here; the next batch does not mind.
        while answers.windows(13).filter(|part| part == b"HTTP/1.1 404 ").count() < BATCH {
            assert!(client.read_buf(&mut answers).await.expect("answered") > 0);
        }
        if batch % 100 == 0 {
            bystander.ask().await;
        }
        if batch == 10 {
            (before, memory) = (series(&rig.admin).await, rig.hub.resident());
        }
    }
    let (after, grown) = (series(&rig.admin).await, rig.hub.resident().saturating_sub(memory));
    let new: Vec<_> = after.difference(&before).collect();
    assert!(new.is_empty(), "{} new: {:?}", new.len(), &new[..new.len().min(5)]);
    assert!(!after.iter().any(|name| name.contains("unknown-")), "a name from outside became a label");
    assert!(grown < 16 * 1024, "+{grown} KiB");
    for n in 0..200 {
        let refused = rig.open(&format!("nobody-{n}"), "127.0.0.1:1").await.expect_err("refused");
        assert!(refused.contains(" 404 "), "{refused}");
    }
    assert!(series(&rig.admin).await.len() <= after.len() + 2);
    bystander.ask().await;
}

/// So many clients that say nothing; fewer only where `IDLE_CLIENTS` says so, for a system that does not let a process have that many files.
fn idle_clients() -> usize {
    let told = std::env::var("IDLE_CLIENTS").ok();
    let count = told.map_or(15_000, |count| count.parse().expect("a number"));
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).expect("it may be raised");
    let room = limit.maximum.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    assert!(
        count + 1000 <= room,
        "{room} files are too few for {count} clients: raise 'ulimit -Hn', or set IDLE_CLIENTS"
    );
    count
}

#[tokio::test]
async fn t40_fifteen_thousand_idle_clients_keep_nobody_out_and_are_sent_away() {
    let rig = Rig::start().await;
    let (_agent, _web) = web_agent(&rig).await;
    let gateway = text(&rig.hub.ready, "gateway");
    let mut bystander = Bystander::new(&rig, &gateway).await;
    bystander.ask().await;
    let (descriptors, memory) = (rig.hub.descriptors(), rig.hub.resident());
    let count = idle_clients();
    let mut idle = Vec::with_capacity(count);
    for n in 0..count {
        idle.push(TcpStream::connect(&gateway).await.expect("queued by the system"));
        if n % 100 == 0 {
            bystander.ask().await;
        }
    }
    // One that comes behind all of them, and one that was there before.
    Bystander::new(&rig, &gateway).await.ask().await;
    bystander.ask().await;
    let cost = rig.hub.most_resident().saturating_sub(memory);
    println!("{count} idle clients, +{cost} KiB");
    assert!(cost <= 300 * 1024, "+{cost} KiB");
    for mut client in idle {
        let end = timeout(PATIENCE, client.read(&mut [0])).await.expect("in time");
        assert!(!matches!(end, Ok(1..)), "nothing is said to who has said nothing");
    }
    until("their descriptors to be free", async || (rig.hub.descriptors() <= descriptors).then_some(())).await;
    bystander.ask().await;
}
