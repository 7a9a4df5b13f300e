//! A hundred megabytes in one call, and receivers that do not read: what they have not asked for is not sent.

use crate::{
    LIMIT,
    near::Near,
    note::{Note, SIXTEENTH, note, sixteenth, whole},
    stage::Stage,
};
use futures_util::stream;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_megabytes_each_way_are_what_was_sent() {
    let stage = Stage::set().await;
    let sent = stream::iter((0..100).map(whole));
    let mut answers = stage.near.both_ways("Chat", sent).await.unwrap().into_inner();
    for number in 0..100 {
        assert!(answers.message().await.unwrap().unwrap() == whole(number), "message {number}");
    }
    assert_eq!(answers.message().await.unwrap(), None);
}

/// 64 MiB in all; no receiver lets that much come without having read any of it.
const OFFERED: u64 = 1024;
/// The most that may be under way in all windows and buffers between the two ends.
const MOST_UNDER_WAY: usize = 16 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_read_stops_the_client() {
    let mut stage = Stage::set().await;
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    let notes = stream::iter((0..OFFERED).map(move |number| {
        count.fetch_add(1, Ordering::Relaxed);
        sixteenth(number)
    }));
    let release = async {
        stage.far.called().await;
        stopped(&stage.near, &taken, 1).await;
        stage.far.gate.add_permits(1);
    };
    let both = async { tokio::join!(stage.near.upload("Held", notes), release) };
    let (answer, ()) = timeout(LIMIT, both).await.expect("an end");
    assert_eq!(answer.unwrap().into_inner().number, OFFERED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_stops_the_server() {
    let stage = Stage::set().await;
    let asked = Note { number: OFFERED, ..Note::default() };
    let mut answers = stage.near.download("Flood", asked).await.unwrap().into_inner();
    stopped(&stage.near, &stage.far.flooded, 1).await;
    for number in 0..OFFERED {
        assert!(answers.message().await.unwrap().unwrap() == sixteenth(number), "message {number}");
    }
    assert_eq!(answers.message().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_read_do_not_stop_others() {
    let stage = Stage::set().await;
    let asked = Note { number: OFFERED, ..Note::default() };
    let mut unread = Vec::new();
    for _ in 0..12 {
        unread.push(stage.near.download("Flood", asked.clone()).await.unwrap().into_inner());
    }
    let other = Near::connect(&stage.rig).await;
    timeout(LIMIT, stopped(&other, &stage.far.flooded, unread.len())).await.expect("others are stopped too");
}

/// Resolves when the sender has stopped: many other calls were made and not one more message was taken.
async fn stopped(near: &Near, taken: &AtomicU64, calls: usize) {
    loop {
        let before = taken.load(Ordering::Relaxed);
        for number in 0..200 {
            near.unary("Echo", note(number)).await.unwrap();
        }
        if before > 0 && taken.load(Ordering::Relaxed) == before {
            let under_way = usize::try_from(before).unwrap() * SIXTEENTH;
            assert!(under_way < calls * MOST_UNDER_WAY, "{under_way} bytes under way and nobody reads");
            return;
        }
    }
}
