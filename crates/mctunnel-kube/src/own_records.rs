//! Asks a name server for the addresses that a name has itself, and not through another name. The system's own call does not tell
//! the two apart, and a service that stands for a host outside the cluster is such a name.
//!
//! It completes no names, keeps no answers and follows no aliases: there is nothing to follow them for.

#[cfg(test)]
mod tests;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};
use tokio::{net::UdpSocket, time::timeout};

/// Where the system says which name servers there are.
pub(crate) const RESOLV_CONF: &str = "/etc/resolv.conf";
/// How long a name server has for an answer before it, or the next, is asked again.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often each is asked.
const ROUNDS: usize = 2;
/// The system asks no more either.
const MOST_SERVERS: usize = 3;
/// The longest answer by UDP.
const LONGEST: usize = 4096;

// Kinds of records, and their class.
const A: u16 = 1;
const CNAME: u16 = 5;
const DNAME: u16 = 39;
const AAAA: u16 = 28;
const INTERNET: u16 = 1;

/// The name servers in a `resolv.conf`.
pub(crate) fn name_servers(resolv_conf: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and_then(|_| words.next())?;
        Some(SocketAddr::new(address.parse().ok()?, 53))
    };
    resolv_conf.lines().filter_map(server).take(MOST_SERVERS).collect()
}

/// The addresses of a whole name; `None` when it stands for another name.
pub(crate) async fn own_addresses(servers: &[SocketAddr], name: &str) -> io::Result<Option<Vec<IpAddr>>> {
    let answers = tokio::join!(ask(servers, name, A), ask(servers, name, AAAA));
    let (first, second) = match answers {
        (Ok(first), Ok(second)) => (first, second),
        // Some servers know one kind only.
        (Ok(one), Err(_)) | (Err(_), Ok(one)) if !one.addresses.is_empty() => (one, Answer::default()),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    if first.is_alias || second.is_alias {
        return Ok(None);
    }
    Ok(Some(first.addresses.into_iter().chain(second.addresses).collect()))
}

async fn ask(servers: &[SocketAddr], name: &str, kind: u16) -> io::Result<Answer> {
    let mut problem = io::Error::other("no name server is known");
    for server in servers.iter().cycle().take(servers.len() * ROUNDS) {
        match timeout(PATIENCE, ask_one(*server, name, kind)).await {
            Ok(Ok(answer)) => return answer.judged(),
            Ok(Err(error)) => problem = error,
            Err(_) => problem = io::Error::new(io::ErrorKind::TimedOut, "the name server does not answer"),
        }
    }
    Err(problem)
}

async fn ask_one(server: SocketAddr, name: &str, kind: u16) -> io::Result<Answer> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    // What comes from anybody else is not taken.
    socket.connect(server).await?;
    let id = rand::random();
    let name = wire_name(name).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a DNS name"))?;
    socket.send(&question(id, &name, kind)).await?;
    let mut buffer = vec![0; LONGEST];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(answer) = read_answer(buffer.get(..length).unwrap_or_default(), id, &name, kind) {
            return Ok(answer);
        }
    }
}

/// A name as it is on the wire, in lower case.
fn wire_name(name: &str) -> Option<Vec<u8>> {
    let mut wire = Vec::with_capacity(name.len() + 2);
    for label in name.strip_suffix('.').unwrap_or(name).split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=LONGEST_LABEL).contains(length))?;
        wire.push(length);
        wire.extend(label.as_bytes().to_ascii_lowercase());
    }
    wire.push(0);
    (wire.len() <= LONGEST_NAME).then_some(wire)
}

const LONGEST_LABEL: u8 = 63;
const LONGEST_NAME: usize = 255;

fn question(id: u16, name: &[u8], kind: u16) -> Vec<u8> {
    // One question; whoever is asked may ask others.
    let counts = [0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
    [&id.to_be_bytes()[..], &counts, name, &kind.to_be_bytes(), &INTERNET.to_be_bytes()].concat()
}

// === Answers ===

/// What a name server says of a name itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    code: u16,
    addresses: Vec<IpAddr>,
    is_alias: bool,
    is_cut: bool,
}

impl Answer {
    fn judged(self) -> io::Result<Self> {
        match self.code {
            0 if self.is_cut && self.addresses.is_empty() && !self.is_alias => {
                Err(io::Error::other("the answer of the name server is too long"))
            }
            0 => Ok(self),
            NO_SUCH_NAME => Err(io::Error::new(io::ErrorKind::NotFound, "the name server knows no such name")),
            code => Err(io::Error::other(format!("Temporary failure: the name server answers with code {code}"))),
        }
    }
}

const NO_SUCH_NAME: u16 = 3;
const IS_ANSWER: u16 = 0x8000;
const IS_CUT: u16 = 0x0200;
const CODE: u16 = 0x000f;

/// Reads an answer to the question; `None` for anything else.
fn read_answer(message: &[u8], id: u16, name: &[u8], kind: u16) -> Option<Answer> {
    let mut reader = Reader { message, at: 0 };
    let (got, flags) = (reader.number()?, reader.number()?);
    let (questions, records) = (reader.number()?, reader.number()?);
    reader.skip(4)?;
    if got != id || flags & IS_ANSWER == 0 || questions != 1 {
        return None;
    }
    if reader.name()? != name || reader.number()? != kind || reader.number()? != INTERNET {
        return None;
    }
    let is_cut = flags & IS_CUT != 0;
    let mut answer = Answer { code: flags & CODE, is_cut, ..Answer::default() };
    for _ in 0..records {
        match reader.record(name, kind) {
            Some(record) => answer.add(record),
            None if is_cut => break,
            None => return None,
        }
    }
    Some(answer)
}

impl Answer {
    fn add(&mut self, record: Record) {
        match record {
            Record::Address(address) => self.addresses.push(address),
            Record::Alias => self.is_alias = true,
            Record::Other => {}
        }
    }
}

#[derive(Clone, Copy)]
enum Record {
    /// An address of the name itself.
    Address(IpAddr),
    /// The name stands for another.
    Alias,
    /// Nothing of the name, or nothing that was asked for.
    Other,
}

struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.message.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(*bytes)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.at = self.at.checked_add(count).filter(|at| *at <= self.message.len())?;
        Some(())
    }

    fn number(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn record(&mut self, name: &[u8], kind: u16) -> Option<Record> {
        let is_own = self.name()? == name;
        let (got, class) = (self.number()?, self.number()?);
        // How long it may be kept.
        self.skip(4)?;
        let length = usize::from(self.number()?);
        let end = self.at + length;
        let record = match got {
            CNAME | DNAME => Record::Alias,
            A if is_own && kind == A && class == INTERNET && length == 4 => {
                Record::Address(IpAddr::from(self.take::<4>()?))
            }
            AAAA if is_own && kind == AAAA && class == INTERNET && length == 16 => {
                Record::Address(IpAddr::from(self.take::<16>()?))
            }
            _ => Record::Other,
        };
        self.at = end;
        (end <= self.message.len()).then_some(record)
    }

    /// A name, which may go on at an earlier place of the message.
    fn name(&mut self) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        let mut behind = None;
        loop {
            let place = self.at;
            let [length] = self.take()?;
            match length {
                0 => break,
                1..=LONGEST_LABEL => {
                    let label = self.message.get(self.at..self.at + usize::from(length))?;
                    name.push(length);
                    name.extend(label.to_ascii_lowercase());
                    self.skip(usize::from(length))?;
                }
                0xc0.. => {
                    let [low] = self.take()?;
                    behind.get_or_insert(self.at);
                    // Only back, so that it ends.
                    self.at = Some(usize::from(u16::from_be_bytes([length & 0x3f, low]))).filter(|to| *to < place)?;
                }
                _ => return None,
            }
            if name.len() > LONGEST_NAME {
                return None;
            }
        }
        name.push(0);
        self.at = behind.unwrap_or(self.at);
        Some(name)
    }
}
