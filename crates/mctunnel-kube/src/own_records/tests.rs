//! Answers of name servers, honest and not.

use super::*;
use tokio::task::JoinSet;

const NAME: &str = "web.default.svc.cluster.local.";
/// The name of the question.
const SAME: [u8; 2] = [0xc0, 12];

fn record(owner: &[u8], kind: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [owner, &kind.to_be_bytes(), &INTERNET.to_be_bytes(), &[0, 0, 0, 5], &length, content].concat()
}

/// An answer to a question, with these records.
fn answer(question: &[u8], flags: u16, records: &[Vec<u8>]) -> Vec<u8> {
    let mut message = question.to_vec();
    message[2..4].copy_from_slice(&(IS_ANSWER | flags).to_be_bytes());
    message[6..8].copy_from_slice(&u16::try_from(records.len()).unwrap().to_be_bytes());
    [message, records.concat()].concat()
}

fn read(flags: u16, records: &[Vec<u8>]) -> Option<Answer> {
    let name = wire_name(NAME).unwrap();
    read_answer(&answer(&question(7, &name, A), flags, records), 7, &name, A)
}

fn outside() -> Vec<u8> {
    wire_name("db.example.com").unwrap()
}

#[test]
fn addresses_of_the_name_itself_count() {
    let capitals = wire_name(NAME).unwrap().to_ascii_uppercase();
    let records = [record(&SAME, A, &[10, 96, 0, 7]), record(&capitals, A, &[10, 96, 0, 8])];
    let addresses = vec![[10, 96, 0, 7].into(), [10, 96, 0, 8].into()];
    assert_eq!(read(0, &records), Some(Answer { addresses, ..Answer::default() }));
}

#[test]
fn t20_addresses_of_another_name_do_not_count() {
    let alias = [record(&SAME, CNAME, &outside()), record(&outside(), A, &[10, 9, 9, 9])];
    assert_eq!(read(0, &alias), Some(Answer { is_alias: true, ..Answer::default() }));
    // One that hides the alias.
    assert_eq!(read(0, &alias[1..]), Some(Answer::default()));
    let both = [record(&SAME, A, &[10, 96, 0, 7]), record(&SAME, CNAME, &outside())];
    assert!(read(0, &both).is_some_and(|answer| answer.is_alias));
}

#[test]
fn answers_to_other_questions_are_none() {
    let name = wire_name(NAME).unwrap();
    let right = answer(&question(7, &name, A), 0, &[record(&SAME, A, &[10, 96, 0, 7])]);
    assert!(read_answer(&right, 7, &name, A).is_some());
    assert_eq!(read_answer(&right, 8, &name, A), None);
    assert_eq!(read_answer(&right, 7, &name, AAAA), None);
    assert_eq!(read_answer(&right, 7, &outside(), A), None);
    assert_eq!(read_answer(&question(7, &name, A), 7, &name, A), None, "the question itself");
}

#[test]
fn t22_cut_and_twisted_answers_are_none() {
    let name = wire_name(NAME).unwrap();
    let whole = answer(&question(7, &name, A), 0, &[record(&SAME, A, &[10, 96, 0, 7])]);
    for length in 0..whole.len() {
        assert_eq!(read_answer(&whole[..length], 7, &name, A), None, "{length}");
    }
    for at in 0..whole.len() {
        for byte in 0..=u8::MAX {
            let mut twisted = whole.clone();
            twisted[at] = byte;
            // It ends, and gives no address of another name.
            let _ = read_answer(&twisted, 7, &name, A);
        }
    }
    let ahead = u8::try_from(question(7, &name, A).len()).unwrap();
    for pointer in [[0xc0, ahead], [0xff, 0xff]] {
        assert_eq!(read(0, &[record(&pointer, A, &[10, 96, 0, 7])]), None, "to itself or ahead");
    }
}

#[test]
fn names_that_are_none_are_not_asked_for() {
    for bad in ["", ".", "a..b", &"a".repeat(64), &"a.".repeat(200)] {
        assert_eq!(wire_name(bad), None, "{bad:?}");
    }
}

#[test]
fn name_servers_are_read_as_the_system_reads_them() {
    let text = "# x\nsearch default.svc.cluster.local\nnameserver 10.96.0.10\n nameserver  fd00::a \noptions ndots:5\nnameserver x\n";
    assert_eq!(name_servers(text), ["10.96.0.10:53".parse().unwrap(), "[fd00::a]:53".parse().unwrap()]);
}

/// A name server that answers each question with what `records` has for its kind; ends with the set.
async fn server(serving: &mut JoinSet<()>, flags: u16, records: fn(u16) -> Vec<Vec<u8>>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    serving.spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let question = &buffer[..length];
            let kind = u16::from_be_bytes([question[length - 4], question[length - 3]]);
            socket.send_to(b"not an answer", from).await.unwrap();
            socket.send_to(&answer(question, flags, &records(kind)), from).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn both_kinds_of_addresses_are_asked_for() {
    let mut serving = JoinSet::new();
    let both = server(&mut serving, 0, |kind| match kind {
        A => vec![record(&SAME, A, &[10, 96, 0, 7])],
        _ => vec![record(&SAME, AAAA, &Ipv6Addr::LOCALHOST.octets())],
    });
    let found = own_addresses(&[both.await], NAME).await.unwrap();
    assert_eq!(found, Some(vec![[10, 96, 0, 7].into(), Ipv6Addr::LOCALHOST.into()]));
}

#[tokio::test]
async fn t20_a_name_that_stands_for_another_has_none_of_its_own() {
    let mut serving = JoinSet::new();
    let alias = server(&mut serving, 0, |kind| match kind {
        A => vec![record(&SAME, CNAME, &outside()), record(&outside(), A, &[10, 9, 9, 9])],
        _ => vec![],
    });
    assert_eq!(own_addresses(&[alias.await], NAME).await.unwrap(), None);
}

#[tokio::test]
async fn unknown_names_are_told_from_servers_in_trouble() {
    let mut serving = JoinSet::new();
    let unknown = server(&mut serving, NO_SUCH_NAME, |_| vec![]).await;
    assert_eq!(own_addresses(&[unknown], NAME).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    let failing = server(&mut serving, 2, |_| vec![]).await;
    assert!(own_addresses(&[failing], NAME).await.unwrap_err().to_string().contains("Temporary failure"));
    assert!(own_addresses(&[], NAME).await.is_err());
}
