//! The binary `mctunnel`: reads flags, environment and files, wires the roles together, and ends them in order. No logic of
//! tunnels lives here.

mod admin;
mod agent;
mod agent_identity;
mod agent_reports;
mod allow_digest;
mod api_key;
mod audit;
mod audit_sinks;
mod ca;
mod can_i;
mod cli;
mod cluster;
mod cluster_access;
mod cluster_labels;
mod cluster_line;
mod clusters;
mod completion;
mod container_log;
mod control;
mod data_dir;
mod demo;
mod event_reports;
mod explain;
mod few;
mod hub;
mod hub_api_keys;
mod hub_client;
mod hub_pages;
mod hub_reports;
mod hub_services;
mod join_token;
mod limits;
mod listen;
mod log_reports;
mod logging;
mod logs;
mod output;
mod policy;
mod process;
mod ready_file;
mod report;
mod report_api;
mod report_endpoint;
mod report_file;
mod report_place;
mod report_receivers;
mod report_sinks;
mod reports;
mod settings;
mod signals;
mod status_reports;
mod stored_api_keys;
mod telemetry;
mod tls_roots;
mod trust;
mod trust_events;
mod watched;

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
