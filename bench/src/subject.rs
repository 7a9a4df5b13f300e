//! What is measured: some processes between a client and a target, and the way in.

mod chain;
mod reporting;
mod tunnel;

use anyhow::Result;

use crate::{
    process::Process,
    route::{Route, Via},
};

pub(crate) use self::{
    chain::{CHAIN_CONNECTIONS, Mode, chain, http_target},
    reporting::{ASK_AGAIN, Reporting},
    tunnel::{Gate, Tunnel},
};

/// One way from a client to a target.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) route: Route,
    processes: Vec<Process>,
}

impl Subject {
    /// No process at all: the client dials the target.
    pub(crate) fn direct(target: &str) -> Self {
        Self { kind: Kind::Direct, route: straight_to(target), processes: Vec::new() }
    }

    /// CPU seconds spent so far by all processes of the subject.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        self.processes.iter().map(Process::cpu_seconds).sum()
    }

    /// CPU seconds spent so far by the process nearest to the client, for short times.
    pub(crate) fn nearest_cpu_seconds(&self) -> Result<f64> {
        self.processes.first().map_or(Ok(0.0), Process::cpu_seconds_of_threads)
    }

    /// Resident bytes of each process, the one nearest to the client first.
    pub(crate) fn resident(&self) -> Result<Vec<f64>> {
        self.processes.iter().map(Process::resident).collect()
    }
}

/// The subjects, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Direct,
    Chain,
    Tunnel,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Direct, Self::Chain, Self::Tunnel];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Chain => "haproxy chain",
            Self::Tunnel => "mctunnel",
        }
    }
}

fn straight_to(address: &str) -> Route {
    Route::new(Via::Direct, address, None)
}
