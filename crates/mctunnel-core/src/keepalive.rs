//! Settings of plain TCP sockets: no delay for small writes, little that waits in the kernel for who does not read, and a way to find out
//! that the other end is gone without a word.

use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// An idle connection is probed after this.
const IDLE: Duration = Duration::from_secs(60);
/// Further probes come this often.
const INTERVAL: Duration = Duration::from_secs(10);
/// So many unanswered probes mean that the other end is gone: 90 s in all, where the system's own settings would take over 11 minutes.
const RETRIES: u32 = 3;

/// Bytes that the kernel takes for an accepted connection beyond what its client has room for. It would take megabytes; a thousand clients
/// who do not read would use up the memory that the kernel has for all connections, and stall every one of them.
const UNSENT_LIMIT: u32 = 256 * 1024;

fn probing() -> socket2::TcpKeepalive {
    socket2::TcpKeepalive::new().with_time(IDLE).with_interval(INTERVAL).with_retries(RETRIES)
}

/// Prepares a connection that was dialled. Errors mean that the socket is dead already; whoever reads from it finds out.
pub fn prepare(socket: &TcpStream) {
    let _ = socket.set_nodelay(true);
    let socket = socket2::SockRef::from(socket);
    let _ = socket.set_tcp_keepalive(&probing());
}

/// Prepares a listener so that the connections it accepts are prepared, which saves the calls for each of them. Linux hands the
/// settings on; elsewhere [`prepare_accepted`] makes up for it.
pub fn prepare_listener(listener: &TcpListener) {
    let socket = socket2::SockRef::from(listener);
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_keepalive(&probing());
    let _ = socket.set_tcp_notsent_lowat(UNSENT_LIMIT);
}

/// Prepares a connection from a prepared listener.
pub fn prepare_accepted(socket: &TcpStream) {
    if cfg!(not(target_os = "linux")) {
        prepare(socket);
        let _ = socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_LIMIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accepted_and_dialled_connections_are_prepared() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        prepare_listener(&listener);
        let (dialled, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (dialled, (accepted, _)) = (dialled.unwrap(), accepted.unwrap());
        prepare(&dialled);
        prepare_accepted(&accepted);
        for socket in [&dialled, &accepted] {
            assert!(socket.nodelay().unwrap());
            let socket = socket2::SockRef::from(socket);
            assert!(socket.keepalive().unwrap());
            let longest = socket.tcp_keepalive_time().unwrap()
                + socket.tcp_keepalive_interval().unwrap() * socket.tcp_keepalive_retries().unwrap();
            assert_eq!(longest, Duration::from_secs(90), "who is gone without a word is found within this");
        }
        assert_eq!(socket2::SockRef::from(&accepted).tcp_notsent_lowat().unwrap(), UNSENT_LIMIT);
    }
}
