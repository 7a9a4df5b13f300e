//! Names through the system's own resolver, against a DNS server whose answers change (T20): what was checked is what is dialled.
//!
//! The test starts itself again in network and mount namespaces of its own, where it is the name server and has the addresses that must
//! never be dialled. Where the system gives nobody namespaces, it says so and shows nothing, or fails if `TESTS_MUST_RUN` is set, as CI does.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use mctunnel_agent::{
    allow::AllowList,
    dial::{DIAL_TIMEOUT, DialRefusal, SystemResolver, dial},
};
use mctunnel_core::Endpoint;
use mctunnel_mux::RefuseCode;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

const NAME: &str = "t20_only_the_checked_address_is_dialled_whatever_dns_says_next";
const INSIDE: &str = "MCTUNNEL_TEST_NAMESPACE";
const OWN_WORLD: &str = "ip link set lo up && ip addr add 10.9.9.1/32 dev lo && ip addr add 169.254.169.254/32 dev lo \
    && ip -6 addr add 64:ff9b::7f00:1/128 dev lo && mount --bind \"$1\" /etc/resolv.conf \
    && exec \"$0\" --exact \"$2\" --nocapture";

const GOOD: [u8; 4] = [10, 9, 9, 1];
const METADATA: [u8; 4] = [169, 254, 169, 254];
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

#[test]
fn t20_only_the_checked_address_is_dialled_whatever_dns_says_next() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(inside());
    }
    if !can_unshare() {
        // Not a name that begins as our settings do: other tests start the binary, which refuses those it does not know.
        let may_be_skipped = std::env::var_os("TESTS_MUST_RUN").is_none_or(|value| value.is_empty());
        assert!(may_be_skipped, "this system gives no namespaces to this user, and TESTS_MUST_RUN says that it should");
        println!("SKIPPED: this system gives no namespaces to this user");
        return;
    }
    let servers = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(servers.path(), "nameserver 127.0.0.1\noptions timeout:2 attempts:2\n").unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", OWN_WORLD])
        .arg(std::env::current_exe().unwrap())
        .arg(servers.path())
        .arg(NAME)
        .env(INSIDE, "1")
        .env("PATH", path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// The tools of administrators may not be on a developer's path.
fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

fn can_unshare() -> bool {
    let tried = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", "ip link set lo up"])
        .env("PATH", path())
        .output();
    tried.is_ok_and(|output| output.status.success())
}

// === inside ===

/// What each name is answered with, one list after the other, over and over.
type Zone = BTreeMap<&'static str, Vec<Vec<IpAddr>>>;

async fn inside() {
    let zone: Zone = [
        // Good the first time, bad the next: whoever asks twice dials what nobody checked.
        ("flip.test", vec![vec![GOOD.into()], vec![LOOPBACK.into()], vec![GOOD.into()], vec![METADATA.into()]]),
        ("both.test", vec![vec![METADATA.into(), GOOD.into(), LOOPBACK.into()]]),
        ("metadata.test", vec![vec![METADATA.into()]]),
        ("loopback.test", vec![vec![LOOPBACK.into()]]),
        ("any.test", vec![vec![Ipv4Addr::UNSPECIFIED.into()]]),
        ("nat64.test", vec![vec!["64:ff9b::7f00:1".parse::<Ipv6Addr>().unwrap().into()]]),
    ]
    .into();
    let asked = serve_names(zone);
    // Everything listens: a dial that should not be made would succeed.
    let good = TcpListener::bind((Ipv4Addr::from(GOOD), 0)).await.unwrap();
    let port = good.local_addr().unwrap().port();
    let forbidden = Arc::new(AtomicUsize::new(0));
    let mut listening = JoinSet::new();
    for address in [LOOPBACK.into(), METADATA.into(), "64:ff9b::7f00:1".parse::<IpAddr>().unwrap()] {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let forbidden = Arc::clone(&forbidden);
        listening.spawn(async move {
            while listener.accept().await.is_ok() {
                forbidden.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    listening.spawn(async move { while good.accept().await.is_ok() {} });

    let (mut joined, mut refused) = (0, 0);
    for _ in 0..40 {
        match to("flip.test", port).await {
            Ok(stream) => {
                assert_eq!(stream.peer_addr().unwrap(), SocketAddr::from((GOOD, port)));
                joined += 1;
            }
            Err(refusal) => {
                assert_eq!(refusal.code, RefuseCode::NotAllowed, "{refusal}");
                refused += 1;
            }
        }
    }
    assert_eq!((joined, refused), (20, 20), "every other answer is good");
    assert_eq!(asked.load(Ordering::SeqCst), 40, "each dial asks once, and nothing is remembered");
    assert_eq!(to("both.test", port).await.unwrap().peer_addr().unwrap(), SocketAddr::from((GOOD, port)));
    for name in ["metadata.test", "loopback.test", "any.test", "nat64.test"] {
        let refusal = to(name, port).await.expect_err(name);
        assert_eq!(refusal.code, RefuseCode::NotAllowed, "{name}: {refusal}");
    }
    // Other spellings of loopback are no names and no addresses.
    for spelling in ["0x7f.1", "2130706433", "017700000001", "127.1"] {
        let target = Endpoint::parse(&format!("{spelling}:{port}"));
        assert!(target.is_err(), "{spelling} is {target:?}");
    }
    assert_eq!(forbidden.load(Ordering::SeqCst), 0, "none of the others was dialled");
}

async fn to(name: &str, port: u16) -> Result<TcpStream, DialRefusal> {
    let target = Endpoint::parse(&format!("{name}:{port}")).unwrap();
    let allow = AllowList::parse([format!("tcp://*.test:{port}")]).unwrap();
    dial(&target, &allow, DIAL_TIMEOUT, &SystemResolver).await
}

/// Answers on port 53 until the process ends; counts how often `flip.test` was asked for by its IPv4 addresses.
fn serve_names(zone: Zone) -> Arc<AtomicUsize> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut turns: BTreeMap<String, usize> = BTreeMap::new();
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            let (name, kind) = question(&query[..length]);
            let lists = zone.get(name.as_str());
            // IPv6 is asked for as well; a name has one kind of addresses, and a turn is an answer of that kind.
            let of_kind = |ip: &IpAddr| ip.is_ipv4() == (kind == 1);
            let turn = turns.entry(name.clone()).or_default();
            let list = lists.and_then(|lists| lists.get(*turn % lists.len())).cloned().unwrap_or_default();
            let list: Vec<_> = list.into_iter().filter(of_kind).collect();
            if !list.is_empty() {
                *turn += 1;
                count.fetch_add(usize::from(name == "flip.test"), Ordering::SeqCst);
            }
            socket.send_to(&answer(&query[..length], kind, &list), from).unwrap();
        }
    });
    asked
}

/// The name and the kind of the one question in a DNS query.
fn question(query: &[u8]) -> (String, u16) {
    let (mut labels, mut at) = (Vec::new(), 12);
    while query[at] != 0 {
        let end = at + 1 + usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..end]).to_ascii_lowercase());
        at = end;
    }
    (labels.join("."), u16::from_be_bytes([query[at + 1], query[at + 2]]))
}

/// The answer with these addresses, good for no time at all.
fn answer(query: &[u8], kind: u16, addresses: &[IpAddr]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    let count = u8::try_from(addresses.len()).unwrap();
    let mut answer = [&query[..2], &[0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0], &query[12..end]].concat();
    for address in addresses {
        let octets = match address {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        answer.extend_from_slice(&[0xc0, 12]);
        answer.extend_from_slice(&kind.to_be_bytes());
        answer.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::try_from(octets.len()).unwrap()]);
        answer.extend_from_slice(&octets);
    }
    answer
}
