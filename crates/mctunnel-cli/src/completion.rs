//! Completion scripts for shells.

use crate::{cli::Cli, output};
use clap::CommandFactory;

pub(crate) fn run(shell: clap_complete::Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "mctunnel", &mut script);
    output::say(String::from_utf8_lossy(&script).trim_end());
}
