//! Log lines on standard error: for people on a terminal, one JSON object per line otherwise.

use crate::settings::LogFormat;
use std::io::{self, IsTerminal};
use tracing_subscriber::{EnvFilter, fmt};

/// Sends the process's log to standard error from now on.
pub(crate) fn start(format: LogFormat, filter: EnvFilter) {
    let terminal = io::stderr().is_terminal();
    let human = match format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => terminal,
    };
    let colours = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let builder = fmt().with_env_filter(filter).with_writer(io::stderr);
    // Fails only when a log was started before, which then goes on.
    let _ = if human {
        builder.with_ansi(colours).with_target(false).compact().try_init()
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    };
}
