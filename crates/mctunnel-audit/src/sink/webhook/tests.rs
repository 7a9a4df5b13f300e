//! A receiver made by hand: what it is sent, in which order, and what happens when it will not.

use super::*;
use crate::chain::Head;
use mctunnel_core::Secret;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
};

/// How long the end may wait for a receiver that works.
const PATIENCE: Duration = Duration::from_secs(30);

fn batch(lines: &'static str) -> Batch {
    Batch { lines: Bytes::from_static(lines.as_bytes()), records: count(lines.as_bytes()), first: 1, head: Head::START }
}

/// A request as the receiver saw it.
#[derive(Debug)]
struct Seen {
    head: String,
    body: String,
}

/// Answers each request with the next of the answers, and with the last one from then on.
fn receiver(answers: &'static [&'static str]) -> (String, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/in", listener.local_addr().unwrap());
    let (tell, seen) = channel();
    thread::spawn(move || {
        let mut turn = 0;
        for socket in listener.incoming() {
            serve(&socket.unwrap(), answers, &mut turn, &tell);
        }
    });
    (url, seen)
}

/// Serves a connection until the other side or the test has ended.
fn serve(mut socket: &TcpStream, answers: &[&str], turn: &mut usize, tell: &Sender<Seen>) -> Option<()> {
    let mut reader = BufReader::new(socket);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).ok().filter(|count| *count > 0)?;
        }
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        tell.send(Seen { head, body: String::from_utf8(body).unwrap() }).ok()?;
        let answer = answers[(*turn).min(answers.len() - 1)];
        *turn += 1;
        socket.write_all(format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n").as_bytes()).ok()?;
    }
}

fn start(config: WebhookConfig, close_within: Duration) -> (Webhook, Arc<AtomicU64>) {
    let left_out = Arc::new(AtomicU64::new(0));
    (Webhook::start(config, close_within, Arc::clone(&left_out)).unwrap(), left_out)
}

#[test]
fn records_are_sent_in_order_until_they_are_taken() {
    let (url, seen) = receiver(&["503 Service Unavailable", "302 Found\r\nlocation: /elsewhere", "200 OK"]);
    let mut config = WebhookConfig::new(url);
    config.authorization = Some(Secret::new("Bearer canary"));
    let (mut webhook, _) = start(config, PATIENCE);
    webhook.write(&batch("a\nb\n")).unwrap();
    let first = seen.recv().unwrap();
    assert_eq!(first.body, "a\nb\n");
    assert!(first.head.starts_with("post /in http/1.1\r\n"), "{}", first.head);
    assert!(first.head.contains("content-type: application/x-ndjson\r\n"), "{}", first.head);
    assert!(first.head.contains("authorization: bearer canary\r\n"), "{}", first.head);
    webhook.write(&batch("c\n")).unwrap();
    webhook.write(&batch("d\n")).unwrap();
    webhook.close().unwrap();
    let rest: Vec<_> = seen.try_iter().map(|request| (request.head.starts_with("post /in "), request.body)).collect();
    let again = (true, "a\nb\n".to_owned());
    assert_eq!(rest, [again.clone(), again, (true, "c\nd\n".to_owned())], "twice not taken, then taken");
}

#[test]
fn a_receiver_that_does_not_keep_up_holds_up_the_record_or_is_left_out() {
    for (on_full, left_out) in [(OnFull::Refuse, 0), (OnFull::DropAndCount, 2)] {
        // Nobody answers here: the listener never accepts.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = WebhookConfig::new(format!("http://{}/", listener.local_addr().unwrap()));
        (config.queue, config.on_full) = (3, on_full);
        let (mut webhook, counted) = start(config, Duration::from_millis(50));
        webhook.write(&batch("a\nb\n")).unwrap();
        let result = webhook.write(&batch("c\nd\n"));
        assert_eq!(result.is_err(), on_full == OnFull::Refuse, "{result:?}");
        assert_eq!(counted.load(Ordering::Relaxed), left_out);
        webhook.write(&batch("e\n")).unwrap();
        assert!(webhook.close().is_err(), "whoever cannot deliver at the end says so");
    }
}

#[test]
fn bodies_are_whole_lines_within_their_bound() {
    let queue = |lines: &[&'static str]| Queue {
        batches: lines.iter().map(|lines| Bytes::from_static(lines.as_bytes())).collect(),
        records: 0,
    };
    let all = |mut queue: Queue, most| {
        let bodies: Vec<_> =
            std::iter::from_fn(|| queue.take(most)).map(|body| String::from_utf8(body.to_vec()).unwrap()).collect();
        bodies
    };
    assert_eq!(all(queue(&["a\nb\n", "c\n"]), 100), ["a\nb\nc\n"]);
    assert_eq!(all(queue(&["a\nb\n", "c\n"]), 4), ["a\nb\n", "c\n"]);
    assert_eq!(all(queue(&["aa\nbb\ncc\n"]), 6), ["aa\nbb\n", "cc\n"]);
    assert_eq!(all(queue(&["aaaaaaaa\nb\n"]), 4), ["aaaaaaaa\n", "b\n"], "a line that is too long goes alone");
}

#[test]
fn what_cannot_work_is_refused_at_the_start() {
    for (url, authorization) in [("ftp://x/", None), ("x", None), ("https://x/", None), ("http://x/", Some("a\nb"))] {
        let mut config = WebhookConfig::new(url);
        config.authorization = authorization.map(Secret::new);
        let refused = Webhook::start(config, PATIENCE, Arc::default()).unwrap_err();
        assert!(matches!(refused, AuditError::Webhook(_)), "{url}: {refused:?}");
    }
}
