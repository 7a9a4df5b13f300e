//! The h2 crate directly: gRPC framing by hand, one message per DATA frame, small ones together.

use std::{future::poll_fn, net::SocketAddr};

use anyhow::{Context as _, Result};
use bytes::{Buf as _, Bytes, BytesMut};
use h2::{SendStream, client, server};
use tokio::net::TcpListener;

use super::{
    MAX_FRAME, WINDOW, messages,
    packet::{COALESCE, Packet, Unpack, append},
    tls::Tls,
};

pub(crate) async fn receive(listener: TcpListener, tls: &Tls) -> Result<u64> {
    let stream = tls.accept(&listener).await?;
    let mut connection = server::Builder::new()
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_frame_size(MAX_FRAME)
        .handshake::<_, Bytes>(stream)
        .await?;
    let (request, mut respond) = connection.accept().await.context("no request")??;
    let take = async {
        let mut body = request.into_body();
        let (mut unpack, mut received) = (Unpack::default(), 0);
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            received += unpack.push(chunk)?;
        }
        let mut response = respond.send_response(http::Response::new(()), false)?;
        response.send_trailers(http::HeaderMap::new())?;
        anyhow::Ok(received)
    };
    // The connection makes progress only while it is polled; it ends when the client leaves.
    let (received, _) = tokio::join!(take, connection.accept());
    received
}

pub(crate) async fn send(address: SocketAddr, tls: &Tls, payload: usize, total: u64) -> Result<()> {
    let stream = tls.connect(address).await?;
    let (client, connection) = client::Builder::new()
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_frame_size(MAX_FRAME)
        .handshake::<_, Packet>(stream)
        .await?;
    let give = async {
        let request = http::Request::post("https://bench.test/mctunnel.tunnel.v1.TunnelService/Tunnel")
            .header("content-type", "application/grpc")
            .body(())?;
        let (response, mut stream) = client.ready().await?.send_request(request, false)?;
        give(&mut stream, payload, total).await?;
        stream.send_data(Packet::batch(Bytes::new()), true)?;
        let mut body = response.await?.into_body();
        while body.data().await.transpose()?.is_some() {}
        // Dropping the last handle closes the connection.
        anyhow::Ok(())
    };
    let (given, closed) = tokio::join!(give, connection);
    given?;
    Ok(closed?)
}

async fn give(stream: &mut SendStream<Packet>, payload: usize, total: u64) -> Result<()> {
    let message = Bytes::from(vec![0x5a; payload]);
    let count = messages(payload, total);
    if payload >= COALESCE {
        for _ in 0..count {
            push(stream, Packet::single(STREAM, message.clone())).await?;
        }
        return Ok(());
    }
    let mut batch = BytesMut::with_capacity(COALESCE * 2);
    for _ in 0..count {
        append(&mut batch, STREAM, &message);
        if batch.len() >= COALESCE {
            push(stream, Packet::batch(batch.split().freeze())).await?;
            batch.reserve(COALESCE * 2);
        }
    }
    push(stream, Packet::batch(batch.freeze())).await
}

/// Sends when HTTP/2 has room for all of it.
async fn push(stream: &mut SendStream<Packet>, packet: Packet) -> Result<()> {
    let length = packet.remaining();
    stream.reserve_capacity(length);
    while stream.capacity() < length {
        poll_fn(|context| stream.poll_capacity(context)).await.context("the stream ended")??;
    }
    Ok(stream.send_data(packet, false)?)
}

const STREAM: u64 = 2;
