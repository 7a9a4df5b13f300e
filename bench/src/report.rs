//! The report: the same rows as text for a terminal and as Markdown for the documentation.

use std::io::Write as _;

use anyhow::Result;

use crate::{
    subject::Kind,
    verdict::{Bar, Figures, Metric},
};

/// Prints one line at once, even into a pipe.
pub(crate) fn line(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}")?;
    Ok(stdout.flush()?)
}

/// The table for a terminal.
pub(crate) fn text(figures: &Figures) -> String {
    let rows = rows(figures);
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// The whole page.
pub(crate) fn markdown(figures: &Figures, facts: &[(&'static str, String)], rounds: usize) -> String {
    let mut out = String::from(INTRODUCTION);
    for (name, value) in facts {
        out.push_str(&format!("- {name}: {value}\n"));
    }
    out.push_str(&format!("- rounds: {rounds}\n\n## Figures\n\n"));
    for (index, row) in rows(figures).iter().enumerate() {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
        if index == 0 {
            out.push_str(&format!("|{}\n", "---|".repeat(row.len())));
        }
    }
    out.push_str(METHOD);
    out
}

const HEAD: [&str; 7] = ["", "direct", "haproxy chain", "mctunnel", "to the chain", "bar", "verdict"];

fn rows(figures: &Figures) -> Vec<Vec<String>> {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    for metric in Metric::ALL {
        let mut row = vec![metric.title().to_owned()];
        row.extend(Kind::ALL.map(|kind| cell(figures, metric, kind)));
        if row.iter().skip(1).all(String::is_empty) {
            continue;
        }
        row.push(figures.ratio(metric).map(|ratio| format!("{ratio:.2}x")).unwrap_or_default());
        let verdict = figures.verdict(metric);
        row.push(verdict.map(|verdict| bar(verdict.bar, metric)).unwrap_or_default());
        row.push(verdict.map(|verdict| if verdict.pass { "PASS" } else { "FAIL" }.to_owned()).unwrap_or_default());
        rows.push(row);
    }
    rows
}

/// The median, and the spread if there was more than one round.
fn cell(figures: &Figures, metric: Metric, kind: Kind) -> String {
    let (Some(median), Some((least, greatest))) = (figures.median(metric, kind), figures.spread(metric, kind)) else {
        return String::new();
    };
    let decimals = metric.decimals();
    let mut cell = format!("{median:.decimals$}");
    if least < greatest {
        cell.push_str(&format!(" ({least:.decimals$}..{greatest:.decimals$})"));
    }
    cell
}

fn bar(bar: Bar, metric: Metric) -> String {
    let decimals = metric.decimals();
    match bar {
        Bar::RatioAtLeast(least) => format!("at least {least:.1}x"),
        Bar::RatioAtMost(most) => format!("at most {most:.1}x"),
        Bar::AtLeast(least) => format!("at least {least:.0$}", decimals.min(2)),
        Bar::AtMost(most) => format!("at most {most:.decimals$}"),
    }
}

const INTRODUCTION: &str = "# Performance

Written by `make bench BENCH_FLAGS=\"--out docs/performance.md\"`. Compare figures of one run only: the subjects took turns on the same machine, and every bar is
a ratio, a size or a count; the one speed is the rate of reports.

- **direct**: the client dials the target.
- **haproxy chain**: two haproxy processes, mutual TLS 1.3 between them, everything else haproxy's default. In TCP mode;
  in the rows about HTTP in HTTP mode, with connections between them that are kept and shared (`http-reuse always`).
- **mctunnel**: hub and agent, one tunnel. HTTP CONNECT at the hub; in the rows about HTTP its path gateway.

## Machine

";

const METHOD: &str = "
## Method

A cell is the median of the rounds, with the least and the greatest in brackets. \"To the chain\" is the median of the
ratios of each round. Client and target are processes of their own and share the cores with the subject.

- Downloads and uploads are one stream with 256 KiB reads and writes. CPU is user and system time of both proxies.
- The 64-byte ping is sent again when it was answered. The paced ping is sent 200 times per second, answered or not.
- An open is: connect, order, one byte back, close.
- The stalled streams are a client that never reads and a target that never reads, beside 4 downloads and a paced ping;
  phases without and with them alternate.
- The GETs go over kept-alive HTTP/1.1 connections without TLS to the first proxy; each is sent when the last one was
  answered. A third haproxy is the target and answers with 27 bytes.
- The first GET is the first request of all to a hub whose one agent has just connected. A relay between hub and agent, or
  between the two haproxy, delivers every byte 25 ms later, each way. TCP's own handshake is not delayed: it would be one
  more round trip of the chain, which has no connection between its proxies before it is asked.
- What it costs to know who asks is CPU of the hub's process per GET on 32 connections, of a hub with a policy of 1,000 rules
  and 10,000 bindings to that of one that asks nobody; the audit log is off in both. They are asked in turn, 12 times a quarter of a
  second each, on connections that stay, and the medians of the turns are compared; three times in every round with new processes. API key and OIDC token without TLS, the client
  certificate with it in both. The requests to the one that asks nobody have no credential. The token has 20 groups and more
  than a kilobyte; in the row below it the other hub gets it as well, does not look at it and passes it on.
- Memory of an idle stream or agent is the growth of resident memory divided by their number, in fresh processes.
  The chain holds fewer streams than mctunnel, because each takes two file descriptors of a proxy.
- A report is a line of a log in JSON, of 500 bytes, with trace ids and other parts that are never twice the same. A client
  POSTs 500,000 of them to one agent, 1,500 at once as NDJSON on each of 4 connections that are kept. The time is from the
  first POST until the hub's counter of what it has synced to its disk has all of them. Client, agent, hub and the relay
  that counts bytes between hub and agent share the cores. Agent and hub sync to the same disk. Afterwards every record is
  looked for in the hub's store, in order.
- The bytes on the wire are those of the TCP connection between agent and hub, both ways. They are compared with the same
  lines compressed once, in pieces of 1 MiB with zstd at level 1. The agent packs smaller batches, of 128 KiB as a rule.
- The backlog is 2,000,000 reports that come while the hub is away. The agent's memory is the greatest resident size that the
  kernel saw of it, from its start until the hub has all of them.
- The ping beside an agent that catches up is sent 1,000 times per second through HTTP CONNECT over the same tunnel, from when
  the tunnel is up again until 200,000 reports that came while the hub was away are stored; then alone.
- The many agents are 1,000 real tunnels with a spool on disk each, in one process. All report 100 records at the same time.
  Every record is looked for in the hub's store.
";
