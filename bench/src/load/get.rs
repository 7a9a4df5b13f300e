//! Small GETs over kept-alive HTTP/1.1 connections, each sent when the last one was answered. As little work as possible
//! for each, so that the client is not what is measured: no HTTP library, and of the answer only status and length.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    task::JoinSet,
    time::Instant,
};

use crate::{
    latency::Latency,
    report,
    route::{Connected, Route},
};

pub(crate) async fn closed_loop(route: &Route, connections: usize, phase: Duration) -> Result<Value> {
    let mut clients = Clients::connect(route, connections).await?;
    let started = Instant::now();
    let samples = clients.work(phase).await?;
    let per_second = samples.len() as f64 / started.elapsed().as_secs_f64();
    Ok(json!({
        "mode": "get",
        "streams": connections,
        "count": samples.len(),
        "per_s": per_second,
        "get": Latency::of(samples)?.to_json(),
    }))
}

/// A phase for each line on standard input, on the same connections: whoever takes turns with others does not pay for beginning anew.
pub(crate) async fn in_turns(route: &Route, connections: usize, phase: Duration) -> Result<()> {
    let mut clients = Clients::connect(route, connections).await?;
    let mut turns = BufReader::new(tokio::io::stdin()).lines();
    while turns.next_line().await?.is_some() {
        let count = clients.work(phase).await?.len();
        report::line(&json!({ "mode": "turns", "streams": connections, "count": count }).to_string())?;
    }
    Ok(())
}

/// Connections that stay.
struct Clients(Vec<Client>);

impl Clients {
    async fn connect(route: &Route, connections: usize) -> Result<Self> {
        let mut clients = Vec::with_capacity(connections);
        for _ in 0..connections {
            clients.push(Client::connect(route).await?);
        }
        Ok(Self(clients))
    }

    /// Requests on all of them; how long each took. Each connection sends at least one, however short the phase.
    async fn work(&mut self, phase: Duration) -> Result<Vec<Duration>> {
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for mut client in self.0.drain(..) {
            tasks.spawn(async move {
                let mut samples = Vec::new();
                loop {
                    let sent = Instant::now();
                    client.get().await?;
                    samples.push(sent.elapsed());
                    if started.elapsed() >= phase {
                        return anyhow::Ok((client, samples));
                    }
                }
            });
        }
        let mut all = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            let (client, samples) = ended??;
            self.0.push(client);
            all.extend(samples);
        }
        Ok(all)
    }
}

/// One connection.
struct Client {
    stream: Connected,
    request: String,
    answer: Vec<u8>,
}

impl Client {
    async fn connect(route: &Route) -> Result<Self> {
        let (stream, request) = route.http().await?;
        Ok(Self { stream, request, answer: Vec::with_capacity(ANSWER_LIMIT) })
    }

    /// One request, and its whole answer.
    async fn get(&mut self) -> Result<()> {
        self.stream.write_all(self.request.as_bytes()).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                bail!("the connection ended in the middle: {:?}", String::from_utf8_lossy(&self.answer));
            }
            match length(&self.answer)? {
                Some(length) if self.answer.len() == length => return Ok(()),
                Some(length) if self.answer.len() > length => bail!("more than the answer came"),
                _ if self.answer.len() > ANSWER_LIMIT => bail!("the answer is not small"),
                _ => {}
            }
        }
    }
}

const ANSWER_LIMIT: usize = 4 << 10;

/// How long an answer is, head and body, once its head is complete.
fn length(answer: &[u8]) -> Result<Option<usize>> {
    let Some(head) = answer.windows(END.len()).position(|window| window == END) else { return Ok(None) };
    let text = str::from_utf8(answer.get(..head).unwrap_or_default())?;
    if !text.starts_with("HTTP/1.1 200 ") {
        bail!("not a 200: {text:?}");
    }
    let field =
        text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case(LENGTH));
    let (_, body) = field.with_context(|| format!("no {LENGTH}: {text:?}"))?;
    Ok(Some(head + END.len() + body.trim().parse::<usize>()?))
}

const END: &[u8] = b"\r\n\r\n";
const LENGTH: &str = "content-length";

#[cfg(test)]
mod tests {
    use super::length;

    #[test]
    fn the_length_is_known_once_the_head_is_there() {
        let answer = b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nhello";
        let head = answer.len() - 5;
        assert_eq!(length(&answer[..head - 1]).unwrap(), None);
        assert_eq!(length(&answer[..head]).unwrap(), Some(answer.len()));
        assert_eq!(length(answer).unwrap(), Some(answer.len()));
    }

    #[test]
    fn an_answer_that_is_not_a_success_of_known_length_is_an_error() {
        for bad in ["HTTP/1.1 503 Nobody\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nX: y\r\n\r\n"] {
            assert!(length(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
