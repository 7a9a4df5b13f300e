//! Signals that end the process: the first is a request to drain, the second is an order to stop.

use std::{io, process::ExitCode};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, from now on.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Terminate,
    Interrupt,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(crate) async fn next(&mut self) -> Ending {
        tokio::select! {
            _ = self.terminate.recv() => Ending::Terminate,
            _ = self.interrupt.recv() => Ending::Interrupt,
        }
    }
}

impl Ending {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }

    /// What a shell gives a process that the signal killed: 128 and its number.
    pub(crate) fn status(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Terminate => 143,
            Self::Interrupt => 130,
        })
    }
}
