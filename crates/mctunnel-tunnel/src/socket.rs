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
