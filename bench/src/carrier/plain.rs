//! TLS alone: no frames, no HTTP/2. What no carrier can beat.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{messages, tls::Tls};

pub(crate) async fn receive(listener: TcpListener, tls: &Tls) -> Result<u64> {
    let mut stream = tls.accept(&listener).await?;
    let mut buffer = vec![0; 64 << 10];
    let mut received = 0;
    loop {
        match stream.read(&mut buffer).await? {
            0 => break,
            read => received += read as u64,
        }
    }
    stream.shutdown().await?;
    Ok(received)
}

pub(crate) async fn send(address: SocketAddr, tls: &Tls, payload: usize, total: u64) -> Result<()> {
    let mut stream = tls.connect(address).await?;
    let message = vec![0x5a; payload];
    for _ in 0..messages(payload, total) {
        stream.write_all(&message).await?;
    }
    stream.shutdown().await?;
    stream.read_to_end(&mut Vec::new()).await?;
    Ok(())
}
