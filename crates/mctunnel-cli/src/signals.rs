//! Signals that end the process: the first is a request to drain, the second is an order to stop.
//!
//! They are waited for on a thread of their own: a second signal must not be lost in the first because the workers are busy.

use std::{io, process::ExitCode, thread};
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// SIGTERM and SIGINT, from now on.
#[derive(Debug)]
pub(crate) struct Signals {
    arrived: mpsc::Receiver<Ending>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Terminate,
    Interrupt,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let (terminate, interrupt) = {
            let _inside = runtime.enter();
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
        };
        let (tell, arrived) = mpsc::channel(MOST_WAITING);
        let waiting = thread::Builder::new().name("signals".to_owned());
        waiting.spawn(move || runtime.block_on(wait(terminate, interrupt, tell)))?;
        Ok(Self { arrived })
    }

    pub(crate) async fn next(&mut self) -> Ending {
        match self.arrived.recv().await {
            Some(ending) => ending,
            // The thread is gone, and with it all signals.
            None => std::future::pending().await,
        }
    }
}

/// A third has nothing to add.
const MOST_WAITING: usize = 2;

/// Passes signals on until nobody wants them.
async fn wait(mut terminate: Signal, mut interrupt: Signal, tell: mpsc::Sender<Ending>) {
    loop {
        let ending = tokio::select! {
            Some(()) = terminate.recv() => Ending::Terminate,
            Some(()) = interrupt.recv() => Ending::Interrupt,
            () = tell.closed() => return,
        };
        // Full means that two wait already.
        let _ = tell.try_send(ending);
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
