//! The yardstick: measures a tunnel the same way as direct loopback and as a chain of two TLS proxies.
//! Nothing is measured from the inside: every subject is a set of processes and an address.

mod agents;
#[cfg(feature = "carrier")]
mod carrier;
mod latency;
mod load;
mod machine;
mod order;
mod post;
mod process;
mod records;
mod relay;
mod report;
mod route;
mod scrape;
mod sink;
mod subject;
mod suite;
mod verdict;
mod wire;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measures tunnels: ratios of one run on one machine")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The far end: serves downloads, uploads, echoes and idle connections; prints its address
    Sink(sink::Args),
    /// Drives a sink, directly or through an HTTP CONNECT proxy; prints one JSON line
    Load(load::Args),
    /// Passes TCP connections on, every byte later by a fixed time; prints its address
    Relay(relay::Args),
    /// Holds many real tunnels to one hub, each of a cluster of its own; prints one JSON line when all are up
    Agents(agents::Args),
    /// Reports records to an agent, over some connections; prints one JSON line when all are on its disk
    Post(post::Args),
    /// Measures direct loopback, the proxy chain and mctunnel in turn, and judges the ratios
    All(suite::Args),
    /// Compares tonic with the h2 crate as the carrier of frames
    #[cfg(feature = "carrier")]
    Carrier(carrier::Args),
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Sink(args) => sink::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Relay(args) => relay::run(&args),
        Command::Agents(args) => agents::run(&args),
        Command::Post(args) => post::run(&args),
        Command::All(args) => suite::run(&args),
        #[cfg(feature = "carrier")]
        Command::Carrier(args) => carrier::run(&args),
    }
}
