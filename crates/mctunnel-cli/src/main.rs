//! The binary `mctunnel`: reads flags, environment and files, wires the roles together, and ends them in order. No logic of
//! tunnels lives here.

mod admin;
mod agent;
mod agent_identity;
mod api_key;
mod audit;
mod ca;
mod cli;
mod cluster;
mod cluster_access;
mod completion;
mod control;
mod demo;
mod explain;
mod hub;
mod join_token;
mod limits;
mod listen;
mod logging;
mod output;
mod policy;
mod process;
mod ready_file;
mod report;
mod settings;
mod signals;
mod stored_api_keys;
mod telemetry;
mod trust;

use clap::Parser;
use std::process::ExitCode;

/// Gives memory back to the system soon after a burst, and wastes little on thousands of idle tunnels; ADR 0006.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => report::failure(&error),
    }
}
