//! The command line as a contract: flags, files, output, exit status, signals. What tunnels do is tested in `process`.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod admin_port;
mod agent_options_effective;
mod allow_list_live;
mod api_keys;
mod audit;
mod audit_strangers;
mod audit_trust;
mod audit_webhook;
mod auth_config_effective;
mod browsers;
mod can_i_hub;
mod charts;
mod cluster_labels;
mod clusters;
mod configuration;
mod data_dirs;
mod enrolment;
mod front_proxies;
mod help;
mod life;
mod live_streams;
mod log_injection;
mod metrics;
mod policy;
mod public_ca;
mod quick_start;
mod quotas;
mod report_api;
mod report_commands;
mod report_rig;
mod report_sinks;
mod rig;
mod secrets;
mod secrets_over_tls;
mod service_accounts;
mod tls_clients;
mod tls_servers;
