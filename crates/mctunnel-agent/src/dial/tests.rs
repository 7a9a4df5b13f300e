//! Dialling with answers that the tests choose: what is asked, what is connected to, and what is said when it is not.

use super::*;
use std::{
    net::IpAddr,
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::net::{TcpListener, TcpSocket};

/// Gives one list of addresses after the other and counts how often it is asked.
struct Answers {
    lists: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Answers {
    fn new(lists: &[&[&str]]) -> Self {
        let parse = |list: &&[&str]| list.iter().map(|ip| ip.parse().expect("an address")).collect();
        Self { lists: lists.iter().map(parse).collect(), asked: AtomicUsize::new(0) }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Resolve for Answers {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.lists.get(turn).cloned();
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such host")) })
    }
}

/// Never answers.
struct Silent;

impl Resolve for Silent {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        Box::pin(std::future::pending())
    }
}

async fn listen(address: &str) -> (TcpListener, u16) {
    let listener = TcpListener::bind((address, 0)).await.expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}

/// A port that is held but not listened on, so that nothing else can take it.
fn refusing_port() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("loopback");
    let port = socket.local_addr().expect("bound").port();
    (socket, port)
}

async fn dial_with(to: &str, rules: &[&str], resolver: &dyn Resolve) -> Result<TcpStream, DialRefusal> {
    let target = Endpoint::parse(to).expect("a target");
    let allow = AllowList::parse(rules).expect("rules");
    dial(&target, &allow, DIAL_TIMEOUT, resolver).await
}

#[track_caller]
fn refused(result: Result<TcpStream, DialRefusal>, code: RefuseCode, words: &[&str]) {
    let refusal = result.expect_err("it must be refused");
    assert_eq!(refusal.code, code, "{refusal}");
    for word in words {
        assert!(refusal.message.contains(word), "{refusal} does not name {word}");
    }
}

#[tokio::test]
async fn a_listening_target_is_joined_without_delay_on_the_socket() {
    let (listener, port) = listen("127.0.0.1").await;
    let rule = format!("tcp://127.0.0.1:{port}");
    let stream = dial_with(&format!("127.0.0.1:{port}"), &[&rule], &Silent).await.expect("joined");
    let (_, peer) = listener.accept().await.expect("accepted");
    assert_eq!(stream.local_addr().expect("bound"), peer);
    assert!(stream.nodelay().expect("an option"));
}

#[tokio::test]
async fn t17_a_target_without_a_rule_is_neither_resolved_nor_dialled() {
    let answers = Answers::new(&[&["10.0.0.1"]]);
    refused(
        dial_with("db:1", &["tcp://other:1", "tcp://10.0.0.0/8:2"], &answers).await,
        RefuseCode::NotAllowed,
        &["db:1"],
    );
    refused(dial_with("db:1", &[], &answers).await, RefuseCode::NotAllowed, &["db:1"]);
    assert_eq!(answers.asked(), 0);
}

#[tokio::test]
async fn t20_a_name_that_turns_into_loopback_is_not_dialled() {
    let (listener, port) = listen("127.0.0.1").await;
    let (rule, to) = (format!("tcp://db.svc:{port}"), format!("db.svc:{port}"));
    for bad in ["127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254", "::1", "::", "64:ff9b::7f00:1"] {
        let answers = Answers::new(&[&[bad]]);
        let named = bad.parse::<IpAddr>().expect("an address").to_canonical().to_string();
        refused(dial_with(&to, &[&rule], &answers).await, RefuseCode::NotAllowed, &[&to, &named]);
    }
    let nobody = std::future::poll_fn(|cx| std::task::Poll::Ready(listener.poll_accept(cx).is_pending())).await;
    assert!(nobody, "the listener was dialled");
}

#[tokio::test]
async fn t20_the_name_is_asked_for_once_and_the_checked_address_is_dialled() {
    let (listener, port) = listen("127.0.0.1").await;
    // The second answer would lead elsewhere; of the two in the first, only one may be dialled.
    let answers = Answers::new(&[&["169.254.169.254", "127.0.0.1"], &["10.0.0.1"]]);
    let rules = [format!("tcp://db.svc:{port}"), format!("tcp://127.0.0.1:{port}")];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let stream = dial_with(&format!("db.svc:{port}"), &rules, &answers).await.expect("joined");
    assert_eq!(stream.peer_addr().expect("connected"), listener.local_addr().expect("bound"));
    assert_eq!(answers.asked(), 1);
}

#[tokio::test]
async fn the_next_address_is_tried_after_a_refusal() {
    let (listener, port) = listen("127.0.0.2").await;
    let answers = Answers::new(&[&["127.0.0.3", "127.0.0.2"]]);
    let rule = format!("tcp://127.0.0.0/8:{port}");
    let stream = dial_with(&format!("db:{port}"), &[&rule], &answers).await.expect("joined");
    assert_eq!(stream.peer_addr().expect("connected"), listener.local_addr().expect("bound"));
}

#[tokio::test]
async fn a_refusal_names_target_and_address() {
    let (_held, port) = refusing_port();
    let rule = format!("tcp://127.0.0.0/8:{port}");
    let to = format!("db:{port}");
    let one = Answers::new(&[&["127.0.0.1"]]);
    refused(dial_with(&to, &[&rule], &one).await, RefuseCode::TargetRefused, &[&to, "127.0.0.1"]);
    let two = Answers::new(&[&["127.0.0.1", "127.0.0.9"]]);
    refused(dial_with(&to, &[&rule], &two).await, RefuseCode::TargetRefused, &[&to, "127.0.0."]);
    let literal = format!("127.0.0.1:{port}");
    refused(dial_with(&literal, &[&rule], &Silent).await, RefuseCode::TargetRefused, &[&literal]);
}

#[tokio::test]
async fn names_that_do_not_resolve_are_unreachable() {
    let none = Answers::new(&[]);
    refused(dial_with("db:1", &["tcp://db:1"], &none).await, RefuseCode::TargetUnreachable, &["db:1", "no such host"]);
    let empty = Answers::new(&[&[]]);
    refused(dial_with("db:1", &["tcp://db:1"], &empty).await, RefuseCode::TargetUnreachable, &["db:1", "no addresses"]);
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_hangs_ends_at_the_timeout() {
    let begun = Instant::now();
    refused(dial_with("db:1", &["tcp://db:1"], &Silent).await, RefuseCode::TargetTimeout, &["db:1", "5s"]);
    assert_eq!(begun.elapsed(), DIAL_TIMEOUT);
}

#[tokio::test]
async fn targets_that_do_not_answer_end_at_the_timeout() {
    // A listener whose queue is full drops what comes after: the system's own way not to answer.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([0, 0, 0, 0], 0).into()).expect("any address");
    let listener = socket.listen(1).expect("listening");
    let port = listener.local_addr().expect("bound").port();
    let mut fillers = Vec::new();
    let fill = || tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(("127.0.0.1", port)));
    while let Ok(Ok(stream)) = fill().await {
        fillers.push(stream);
    }
    let allow = AllowList::parse([format!("tcp://127.0.0.0/8:{port}")]).expect("rules");
    let answers = Answers::new(&[&["127.0.0.1", "127.0.0.2"]]);
    for to in [format!("127.0.0.1:{port}"), format!("db:{port}")] {
        let target = Endpoint::parse(&to).expect("a target");
        let result = dial(&target, &allow, Duration::from_millis(50), &answers).await;
        refused(result, RefuseCode::TargetTimeout, &[&to, "127.0.0.1", "50ms"]);
    }
}
