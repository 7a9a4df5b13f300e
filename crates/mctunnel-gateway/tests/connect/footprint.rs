//! What a client costs while it waits.

use crate::rig::Rig;
use mctunnel_core::OpenError;
use mctunnel_gateway::{Client, ConnectConfig, HubAdapter as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// An idle stream is mostly this future, and one hub holds ten thousands of them; each is also moved a few times at its start.
#[tokio::test]
async fn the_future_of_a_client_is_small() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let peer = listener.local_addr().expect("bound");
    let (socket, _accepted) = tokio::join!(TcpStream::connect(peer), listener.accept());
    let client = Client { socket: socket.expect("connected"), peer, stopping: CancellationToken::new() };
    let serving = Rig::adapter(ConnectConfig::default(), |_| async { Err(OpenError::UnknownCluster) }).serve(client);
    let size = size_of_val(&serving);
    assert!(size <= 1024, "{size} bytes");
}
