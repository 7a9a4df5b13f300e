//! What is written down of plain bytes, when a place for it is taken, and that what was moved is known however it ends.

use crate::{
    rig::{ESTABLISHED, PATIENCE, REQUEST, Rig, opener, read_some},
    trust::{Names, OnlyAlice, far_ends, hello_for, request},
};
use mctunnel_core::{
    Access, Audit, AuditFull, AuditOutcome, AuditSlot, AuditSubject, Decision, Limit, Place, Unobserved,
};
use mctunnel_gateway::{Checkpoint, Gateway, SniAdapter, SniConfig};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// A record with one place.
#[derive(Clone, Default)]
struct Book {
    taken: Arc<AtomicUsize>,
    entries: Arc<Mutex<Vec<AuditOutcome>>>,
}

impl Book {
    fn checkpoint(&self) -> Checkpoint {
        Checkpoint::default().with_audit(Arc::new(self.clone()))
    }

    /// The next entry, once it is there.
    async fn next(&self) -> AuditOutcome {
        let written = async {
            loop {
                let entry = self.entries.lock().pop();
                match entry {
                    Some(entry) => return entry,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        timeout(PATIENCE, written).await.expect("an entry")
    }
}

impl Audit for Book {
    fn begin(&self) -> Result<Box<dyn AuditSlot>, AuditFull> {
        if self.taken.fetch_add(1, Ordering::SeqCst) > 0 {
            self.taken.fetch_sub(1, Ordering::SeqCst);
            return Err(AuditFull);
        }
        Ok(Box::new(self.clone()))
    }
}

impl AuditSlot for Book {
    fn started(&mut self, _: &AuditSubject) {}

    fn finish(self: Box<Self>, _: &AuditSubject, outcome: &AuditOutcome) {
        self.entries.lock().push(outcome.clone());
        self.taken.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn t32_what_was_moved_before_a_cut_is_written_down() {
    let (book, rules, (far_ends, open)) = (Book::default(), Arc::new(OnlyAlice::default()), far_ends());
    let checkpoint = Checkpoint::new(Arc::new(Names), Arc::clone(&rules) as _, Arc::new(book.clone()));
    let rig = Rig::start_behind(checkpoint, open).await;
    let mut client = rig.connect().await;
    client
        .write_all(format!("{}123", request("Proxy-Authorization: Bearer alice\r\n")).as_bytes())
        .await
        .expect("sent");
    assert_eq!(read_some(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
    let mut far = far_ends.lock().pop().expect("a stream");
    client.write_all(b"45678").await.expect("sent");
    assert_eq!(read_some(&mut far, 8).await, "12345678");
    far.write_all(b"answer").await.expect("sent");
    assert_eq!(read_some(&mut client, 6).await, "answer");
    rules.0.store(1, Ordering::SeqCst);
    let outcome = book.next().await;
    assert_eq!((outcome.bytes_up, outcome.bytes_down), (8, 6), "{outcome:?}");
    assert_eq!(outcome.error.as_deref(), Some("only alice may"));
}

#[tokio::test]
async fn what_was_moved_before_the_gateway_cut_is_written_down() {
    let (book, (far_ends, open)) = (Book::default(), far_ends());
    let rig = Rig::start_behind(book.checkpoint(), open).await;
    let mut client = rig.connect().await;
    client.write_all(&[REQUEST, b"12345"].concat()).await.expect("sent");
    assert_eq!(read_some(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
    let mut far = far_ends.lock().pop().expect("a stream");
    assert_eq!(read_some(&mut far, 5).await, "12345");
    far.write_all(b"answer").await.expect("sent");
    assert_eq!(read_some(&mut client, 6).await, "answer");
    rig.gateway.cut();
    let outcome = book.next().await;
    assert_eq!((outcome.bytes_up, outcome.bytes_down), (5, 6), "{outcome:?}");
    assert!(outcome.error.is_some_and(|error| error.contains("cut")));
}

#[tokio::test]
async fn t40_silent_clients_take_no_place_in_the_record() {
    let (book, (far_ends, open)) = (Book::default(), far_ends());
    let rig = Rig::start_behind(book.checkpoint(), open).await;
    let (mut silent, mut begun) = (rig.connect().await, rig.connect().await);
    begun.write_all(b"CONNECT db:1 HT").await.expect("sent");
    while rig.gateway.connections() < 2 {
        tokio::task::yield_now().await;
    }
    let mut client = rig.connect().await;
    client.write_all(REQUEST).await.expect("sent");
    assert_eq!(read_some(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
    drop(client);
    drop(far_ends.lock().pop());
    assert_eq!(book.next().await.status, 200);
    // Who leaves without a word asked for nothing; who leaves in the middle of a word is refused.
    silent.shutdown().await.expect("ended");
    assert_eq!(silent.read(&mut [0]).await.expect("a clean end"), 0);
    begun.shutdown().await.expect("ended");
    let outcome = book.next().await;
    assert_eq!(outcome.status, 400, "{outcome:?}");
    assert!(outcome.error.is_some_and(|error| error.contains("MCT-CONNECT-BAD-HEAD")));
    assert!(book.entries.lock().is_empty(), "{:?}", book.entries.lock());
}

#[tokio::test]
async fn t40_silent_sni_clients_take_no_place_in_the_record() {
    let (book, (far_ends, open)) = (Book::default(), far_ends());
    let adapter = SniAdapter::new(opener(open), SniConfig::new("hub.test"), Arc::new(Unobserved));
    let gateway = Arc::new(Gateway::new(adapter.checkpoint(book.checkpoint())));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let (mut serving, accepting) = (JoinSet::new(), Arc::clone(&gateway));
    serving.spawn(async move { accepting.serve(listener, CancellationToken::new()).await });
    let mut silent = TcpStream::connect(address).await.expect("it listens");
    while gateway.connections() < 1 {
        tokio::task::yield_now().await;
    }
    let mut client = TcpStream::connect(address).await.expect("it listens");
    client.write_all(&hello_for("c1.hub.test")).await.expect("sent");
    let opened = async {
        while far_ends.lock().pop().is_none() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, opened).await.expect("it was opened");
    drop(client);
    assert!(book.next().await.bytes_up > 0);
    silent.shutdown().await.expect("ended");
    assert_eq!(silent.read(&mut [0]).await.expect("a clean end"), 0);
    // What is no hello is refused, and that is written down.
    let mut other = TcpStream::connect(address).await.expect("it listens");
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("sent");
    assert!(book.next().await.error.is_some_and(|error| error.contains("MCT-SNI-BAD-HELLO")));
    assert!(book.entries.lock().is_empty(), "{:?}", book.entries.lock());
}

/// Full for some time.
struct Full(Duration);

impl Limit for Full {
    fn take(&self, _: &Access<'_>) -> Result<Box<dyn Place>, Decision> {
        Err(Decision::Limited { rule: "quota few".into(), retry_after: self.0 })
    }
}

#[tokio::test]
async fn who_is_over_its_quota_is_told_when_to_come_back() {
    for (wait, said) in [(Duration::from_millis(6_100), 7), (Duration::from_millis(3), 1)] {
        let rig = Rig::start_behind(Checkpoint::default().with_limit(Arc::new(Full(wait))), far_ends().1).await;
        let answer = rig.exchange(REQUEST).await;
        assert!(answer.starts_with("HTTP/1.1 429 MCT-CONNECT-QUOTA: quota few\r\n"), "{answer}");
        assert!(answer.contains(&format!("\r\nRetry-After: {said}\r\n")), "{answer}");
    }
}
