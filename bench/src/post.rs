//! A program in a cluster that reports: POSTs records to an agent's endpoint, over some connections that are kept. Each is a source of
//! its own, and POSTs again when it was answered.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    thread,
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{process::Process, records::Records, report};

/// The kind of every record of a measurement.
pub(crate) const KIND: &str = "bench";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Where the agent takes reports
    #[arg(long)]
    to: String,
    /// Records of each connection
    #[arg(long)]
    each: usize,
    /// Connections at once
    #[arg(long, default_value_t = CONNECTIONS)]
    connections: usize,
    /// Records of one POST
    #[arg(long, default_value_t = 1_500)]
    batch: usize,
}

pub(crate) const CONNECTIONS: usize = 4;

pub(crate) fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    let mut posted = 0;
    thread::scope(|scope| {
        let sources: Vec<_> = (0..args.connections).map(|source| scope.spawn(move || post_all(args, source))).collect();
        for source in sources {
            posted += source.join().map_err(|_| anyhow::anyhow!("a source gave up"))??;
        }
        anyhow::Ok(())
    })?;
    report::line(&json!({ "records": posted, "seconds": started.elapsed().as_secs_f64() }).to_string())
}

/// Starts to post so many records in all, in a process of its own.
pub(crate) fn start(to: &str, records: usize) -> Result<Process> {
    let each = (records / CONNECTIONS).to_string();
    Process::start_self("post", &["post", "--to", to, "--each", &each].map(str::to_owned))
}

/// The name of a source.
pub(crate) fn source_name(source: usize) -> String {
    format!("source-{source}")
}

/// The records of a source.
pub(crate) fn records_of(source: usize) -> Records {
    Records::new(source as u64 + 1)
}

fn post_all(args: &Args, source: usize) -> Result<usize> {
    let socket = TcpStream::connect(&args.to).with_context(|| format!("connect to {}", args.to))?;
    socket.set_nodelay(true)?;
    let mut answers = BufReader::new(socket.try_clone()?);
    let (mut records, mut posted) = (records_of(source), 0);
    while posted < args.each {
        let count = args.batch.min(args.each - posted);
        let mut body = Vec::new();
        records.write_lines(count, &mut body)?;
        let head = format!(
            "POST /v1/reports/{KIND}?source={} HTTP/1.1\r\nHost: {}\r\nContent-Type: \
             application/x-ndjson\r\nContent-Length: {}\r\n\r\n",
            source_name(source),
            args.to,
            body.len()
        );
        (&socket).write_all(head.as_bytes())?;
        (&socket).write_all(&body)?;
        let answer = read_answer(&mut answers)?;
        if answer.get("accepted").and_then(Value::as_u64) != Some(count as u64) {
            bail!("{count} records were posted, and the answer is {answer}");
        }
        posted += count;
    }
    Ok(posted)
}

/// Reads an answer that is 202; gives its body.
fn read_answer(from: &mut BufReader<TcpStream>) -> Result<Value> {
    let (mut status, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            line => {
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse()?;
                }
                status.get_or_insert_with(|| line.to_owned());
            }
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    match status {
        Some(status) if status.starts_with("HTTP/1.1 202") => Ok(serde_json::from_slice(&body)?),
        other => bail!("the answer to a POST is {other:?}: {}", String::from_utf8_lossy(&body)),
    }
}
