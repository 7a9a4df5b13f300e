//! The settings of a tunnel's TCP socket, the same on both ends.

use socket2::{Domain, SockRef, Socket, Type};
use std::{io, time::Duration};
use tokio::net::TcpStream;

/// Bytes the kernel may hold that it has not sent yet. What waits there can no longer be re-ordered by the scheduler.
const UNSENT_LIMIT: u32 = 256 * 1024;
/// Bytes sent but not acknowledged for this long mean that the path is dead.
const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(10);

/// Prepares a socket for a tunnel: no delay for small frames, little buffering, a bound on silence, no pauses of all streams.
pub fn tune(socket: &TcpStream, congestion: &CongestionControl) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    socket.set_tcp_notsent_lowat(UNSENT_LIMIT)?;
    congestion.choose(&socket);
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_LIMIT))
}

/// Which of the kernel's congestion controls a tunnel uses for what this end sends; see `docs/adr/0020-no-pauses-of-a-whole-tunnel.md`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CongestionControl {
    /// Cubic, which does not pause; the system's where the kernel has no cubic, or not for this process.
    #[default]
    Auto,
    /// What the system uses for every connection.
    System,
    /// The one of this name, if this process may use it: [`CongestionControl::check`] tells.
    Named(String),
}

impl CongestionControl {
    /// Whether the kernel has it and lets this process use it: one without a privilege may use what was a default of the system.
    pub fn check(&self) -> io::Result<()> {
        match self.name() {
            Some(name) => Socket::new(Domain::IPV4, Type::STREAM, None)?.set_tcp_congestion(name.as_bytes()),
            None => Ok(()),
        }
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Auto => Some("cubic"),
            Self::System => None,
            Self::Named(name) => Some(name),
        }
    }

    /// A kernel without it keeps its own: a tunnel that pauses now and then is better than none.
    fn choose(&self, socket: &Socket) {
        if let Some(name) = self.name() {
            let _ = socket.set_tcp_congestion(name.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    async fn pair() -> [TcpStream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (dialled, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        [dialled.unwrap(), accepted.unwrap().0]
    }

    fn congestion_of(socket: &TcpStream) -> String {
        let name = SockRef::from(socket).tcp_congestion().unwrap();
        String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
    }

    #[tokio::test]
    async fn a_tunnels_socket_gives_up_on_a_dead_path() {
        for socket in pair().await {
            tune(&socket, &CongestionControl::default()).unwrap();
            assert!(socket.nodelay().unwrap());
            let socket = SockRef::from(&socket);
            // With the ping timeout of 5 s this keeps the promise of 12 s, also for what waits in the kernel alone.
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(10)));
            assert_eq!(socket.tcp_notsent_lowat().unwrap(), UNSENT_LIMIT);
        }
    }

    #[tokio::test]
    async fn a_tunnels_socket_uses_the_congestion_control_it_is_told() {
        let [one, two] = pair().await;
        // Every Linux kernel has reno; cubic is there unless somebody built one without it.
        let cubic = CongestionControl::Named("cubic".to_owned()).check().is_ok();
        let of_system = congestion_of(&one);
        tune(&one, &CongestionControl::System).unwrap();
        assert_eq!(congestion_of(&one), of_system);
        tune(&one, &CongestionControl::Named("reno".to_owned())).unwrap();
        assert_eq!(congestion_of(&one), "reno");
        tune(&one, &CongestionControl::Auto).unwrap();
        assert_eq!(congestion_of(&one), if cubic { "cubic" } else { "reno" });
        let unknown = CongestionControl::Named("no-such-one".to_owned());
        assert!(unknown.check().is_err());
        tune(&two, &unknown).unwrap();
        assert_eq!(congestion_of(&two), of_system);
    }
}
