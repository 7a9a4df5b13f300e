//! The wire between agent and hub: passes connections on, counts their bytes, and can be cut and laid to another hub. It delays nothing.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use anyhow::Result;
use parking_lot::Mutex;

/// A wire. Its threads last as long as the program.
#[derive(Debug)]
pub(crate) struct Wire {
    /// What agents dial.
    pub(crate) address: String,
    ends: Arc<Ends>,
}

#[derive(Debug, Default)]
struct Ends {
    hub: Mutex<Option<String>>,
    connections: Mutex<Vec<TcpStream>>,
    bytes: AtomicU64,
}

impl Wire {
    /// A wire that leads nowhere yet.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let ends = Arc::new(Ends::default());
        let inside = Arc::clone(&ends);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                // A hub that is not there is for the agent to notice.
                drop(inside.connect(near));
            }
        });
        Ok(Self { address, ends })
    }

    /// Leads to this hub from now on.
    pub(crate) fn lay(&self, hub: &str) {
        *self.ends.hub.lock() = Some(hub.to_owned());
    }

    /// Leads nowhere, and ends what there is.
    pub(crate) fn cut(&self) {
        *self.ends.hub.lock() = None;
        for connection in self.ends.connections.lock().drain(..) {
            // It fails when the connection has ended already.
            drop(connection.shutdown(Shutdown::Both));
        }
    }

    /// The bytes that went over it so far, both ways.
    pub(crate) fn bytes(&self) -> u64 {
        self.ends.bytes.load(Ordering::Relaxed)
    }
}

impl Ends {
    fn connect(self: &Arc<Self>, near: TcpStream) -> io::Result<()> {
        let Some(hub) = self.hub.lock().clone() else { return Ok(()) };
        let far = TcpStream::connect(hub)?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        self.connections.lock().extend([near.try_clone()?, far.try_clone()?]);
        for (from, to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
            let ends = Arc::clone(self);
            // How a connection ends is for its two ends to tell.
            thread::spawn(move || drop(ends.pass(from, to)));
        }
        Ok(())
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = from.read(&mut buffer)?;
            if read == 0 {
                return to.shutdown(Shutdown::Write);
            }
            self.bytes.fetch_add(read as u64, Ordering::Relaxed);
            to.write_all(buffer.get(..read).unwrap_or_default())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_counts_what_it_passes_on_and_ends_when_it_is_cut() {
        let hub = TcpListener::bind("127.0.0.1:0").unwrap();
        let wire = Wire::start().unwrap();
        let mut nowhere = TcpStream::connect(&wire.address).unwrap();
        assert_eq!(nowhere.read(&mut [0]).unwrap_or(0), 0);
        wire.lay(&hub.local_addr().unwrap().to_string());
        let mut agent = TcpStream::connect(&wire.address).unwrap();
        let (mut accepted, _) = hub.accept().unwrap();
        agent.write_all(b"hello").unwrap();
        accepted.read_exact(&mut [0; 5]).unwrap();
        accepted.write_all(b"you").unwrap();
        agent.read_exact(&mut [0; 3]).unwrap();
        assert_eq!(wire.bytes(), 8);
        wire.cut();
        assert_eq!(agent.read(&mut [0]).unwrap_or(0), 0);
        assert_eq!(accepted.read(&mut [0]).unwrap_or(0), 0);
    }
}
