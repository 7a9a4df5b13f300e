//! Finding out that the other end of a TCP connection is gone although it never said so.

use std::time::Duration;
use tokio::net::TcpStream;

/// Probes an idle connection after a minute and gives it up half a minute later. Prepares it for small writes, too.
///
/// Fails only on a socket that is dead already; whoever reads from it finds out.
pub fn prepare(socket: &TcpStream) {
    let _ = socket.set_nodelay(true);
    let probing = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    let _ = socket2::SockRef::from(socket).set_tcp_keepalive(&probing);
}
