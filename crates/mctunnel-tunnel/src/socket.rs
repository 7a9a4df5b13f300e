//! The settings of a tunnel's TCP socket, the same on both ends.

use std::{io, time::Duration};
use tokio::net::TcpStream;

/// Bytes the kernel may hold that it has not sent yet. What waits there can no longer be re-ordered by the scheduler.
const UNSENT_LIMIT: u32 = 256 * 1024;
/// Bytes sent but not acknowledged for this long mean that the path is dead.
const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(10);

/// Prepares a socket for a tunnel: no delay for small frames, little buffering, a bound on silence.
pub fn tune(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = socket2::SockRef::from(socket);
    socket.set_tcp_notsent_lowat(UNSENT_LIMIT)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_tunnels_socket_gives_up_on_a_dead_path() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (dialled, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        for socket in [dialled.unwrap(), accepted.unwrap().0] {
            tune(&socket).unwrap();
            assert!(socket.nodelay().unwrap());
            let socket = socket2::SockRef::from(&socket);
            // With the ping timeout of 5 s this keeps the promise of 12 s, also for what waits in the kernel alone.
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(10)));
            assert_eq!(socket.tcp_notsent_lowat().unwrap(), UNSENT_LIMIT);
        }
    }
}
