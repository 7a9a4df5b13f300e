//! Bytes through a tunnel whose wire delays, chops, stalls and cuts: equal at both ends, or an explicit error (T41).

use crate::{
    bad_wire::BadWire,
    rig::{Rig, Target, connect},
};
use mctunnel_testkit::Rng;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Mutex,
    task::JoinSet,
};

const STREAMS: u64 = 64;
/// More than the cuts of a wire could ever need.
const MOST_TRIES: u64 = 40;

type Hash = [u8; 32];

/// What the targets took to a clean end, by the number of the try.
static TAKEN: LazyLock<Mutex<BTreeMap<u64, Hash>>> = LazyLock::new(Mutex::default);

/// What one try sends in one direction.
fn content(seed: u64, most: u64) -> Vec<u8> {
    let mut random = Rng::new(seed);
    let len = match random.within(0, 7) {
        0 => random.within(0, 2),
        1 | 2 => random.within(0, 4999),
        _ => random.within(0, most - 1),
    };
    random.bytes(usize::try_from(len).expect("small"))
}

fn upload(number: u64) -> Vec<u8> {
    content(number, 700_000)
}

fn download(number: u64) -> Vec<u8> {
    content(!number, 700_000)
}

fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

async fn read_hash(mut from: impl AsyncRead + Unpin) -> io::Result<Hash> {
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 16 * 1024]);
    loop {
        match from.read(&mut buffer).await? {
            0 => return Ok(hasher.finalize().into()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// Reads the number of the try, takes the upload and sends the download at the same time, and last says what it took.
async fn target(socket: TcpStream) {
    let (mut read, mut write) = socket.into_split();
    let Ok(number) = read.read_u64().await else { return };
    let content = download(number);
    let (taken, sent) = tokio::join!(read_hash(&mut read), write.write_all(&content));
    if let (Ok(taken), Ok(())) = (taken, sent) {
        TAKEN.lock().await.insert(number, taken);
        if write.write_all(&taken).await.is_ok() {
            let _ = write.shutdown().await;
        }
    } else {
        // What broke must not look like an end.
        let _ = read.as_ref().set_zero_linger();
        write.forget();
    }
}

/// One try of one stream; an error is one that the client was told.
async fn exchange(proxy: &str, target: &str, number: u64) -> io::Result<()> {
    let mut socket = connect(proxy, "c1", target).await.map_err(io::Error::other)?;
    socket.write_u64(number).await?;
    let (mut read, mut write) = socket.into_split();
    let sending = async {
        write.write_all(&upload(number)).await?;
        write.shutdown().await
    };
    let (got, sent) = tokio::join!(read_hash(&mut read), sending);
    // The kernel tells a program of a reset once: if a write heard of it, the next read sees an end. That client was told as well.
    sent?;
    // A clean end means that all of it came, and that the target says the same of what it took.
    let expected = [download(number), hash(&upload(number)).to_vec()].concat();
    assert!(got? == hash(&expected), "try {number}: the download ended cleanly and is not what was sent");
    Ok(())
}

async fn run(seed: u64) {
    let rig = Rig::start_with("127.0.0.1:0", "127.0.0.1:0", &["--tunnel-wait", "5s"]).await;
    let far = Target::start(target).await;
    let wire = BadWire::start(&rig.tunnel, seed).await;
    let join = rig.add("c1").await;
    let text = std::fs::read_to_string(&join).expect("the bundle").replace(&rig.tunnel, &wire.address);
    std::fs::write(&join, text).expect("rewritten");
    let _agent = rig.agent(&join, &[&far.address]).await;
    let mut streams = JoinSet::new();
    for stream in 0..STREAMS {
        let (proxy, address) = (rig.connect.clone(), far.address.clone());
        streams.spawn(async move {
            for attempt in 0..MOST_TRIES {
                let number = (seed << 32) | (stream << 16) | attempt;
                match exchange(&proxy, &address, number).await {
                    Ok(()) => return (number, attempt),
                    // tidy: sleep because the tunnel is away for a moment, which is what the error said
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
            panic!("stream {stream} never got through");
        });
    }
    let finished = streams.join_all().await;
    let taken = TAKEN.lock().await;
    for (number, _) in &finished {
        assert!(taken.contains_key(number), "try {number}: the client's end was clean and the target's was not");
    }
    // Tries that failed for the client may have come through to the target: then they came whole.
    for (number, taken) in taken.iter().filter(|(number, _)| **number >> 32 == seed) {
        assert!(*taken == hash(&upload(*number)), "try {number}: the upload ended cleanly and is not what was sent");
    }
    let told: u64 = finished.iter().map(|(_, errors)| errors).sum();
    println!("seed {seed}: {} cuts, {told} streams were told of an error and tried again", wire.cuts());
    assert!(
        wire.cuts() >= 3 && told > 0,
        "the wire was too good to show anything: {} cuts, {told} errors",
        wire.cuts()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t41_bytes_on_a_wire_that_delays_chops_stalls_and_cuts_are_equal_or_an_error() {
    let seeds: Arc<[u64]> = match std::env::var("MCTUNNEL_SEED") {
        Ok(seed) => Arc::new([seed.parse().expect("a number")]),
        Err(_) => Arc::new([1, 2]),
    };
    for seed in seeds.iter() {
        println!("MCTUNNEL_SEED={seed} replays this");
        run(*seed).await;
    }
}
