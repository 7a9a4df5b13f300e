//! tonic with prost, as generated from the .proto.

use std::{
    future, io,
    net::SocketAddr,
    pin::Pin,
    task::{self, Poll},
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
    sync::mpsc,
};
use tokio_rustls::{client, server};
use tonic::{
    Request, Response, Status, Streaming,
    codegen::{Service, http::Uri},
    transport::{Endpoint, Server, server::Connected},
};

use super::{
    MAX_FRAME, WINDOW, messages,
    tls::{Socket, Tls},
    wire::{
        Data, Frame,
        frame::Kind,
        tunnel_service_client::TunnelServiceClient,
        tunnel_service_server::{TunnelService, TunnelServiceServer},
    },
};

pub(crate) async fn receive(listener: TcpListener, tls: &Tls) -> Result<u64> {
    let (done, mut received) = mpsc::channel(1);
    let connection = Accepted(tls.accept(&listener).await?);
    let mut total = None;
    // Once the count is known the server ends, as soon as the client has its answer.
    let counted = async { total = received.recv().await };
    Server::builder()
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_frame_size(MAX_FRAME)
        .add_service(TunnelServiceServer::new(Count { done }))
        .serve_with_incoming_shutdown(stream::iter([io::Result::Ok(connection)]).chain(stream::pending()), counted)
        .await?;
    total.context("no call came")
}

pub(crate) async fn send(address: SocketAddr, tls: &Tls, payload: usize, total: u64) -> Result<()> {
    let channel = Endpoint::from_shared(format!("http://{address}"))?
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .connect_with_connector(Ready(Some(tls.connect(address).await?)))
        .await?;
    let message = Bytes::from(vec![0x5a; payload]);
    let frames = (0..messages(payload, total))
        .map(move |_| Frame { kind: Some(Kind::Data(Data { stream: 2, fin: false, payload: message.clone() })) });
    let mut client = TunnelServiceClient::new(channel);
    let mut answers = client.tunnel(stream::iter(frames)).await?.into_inner();
    while answers.message().await?.is_some() {}
    Ok(())
}

/// Counts the payload of the one call.
#[derive(Debug)]
struct Count {
    done: mpsc::Sender<u64>,
}

#[tonic::async_trait]
impl TunnelService for Count {
    type TunnelStream = Pin<Box<dyn Stream<Item = Result<Frame, Status>> + Send>>;

    async fn tunnel(&self, request: Request<Streaming<Frame>>) -> Result<Response<Self::TunnelStream>, Status> {
        let (mut frames, done) = (request.into_inner(), self.done.clone());
        // The answer comes at once and ends when everything has arrived.
        let answers = stream::once(async move {
            let mut received = 0;
            while let Some(frame) = frames.message().await? {
                if let Some(Kind::Data(data)) = frame.kind {
                    received += data.payload.len() as u64;
                }
            }
            done.send(received).await.map_err(|_| Status::internal("nobody counts"))?;
            Ok(Frame { kind: None })
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

// === Transport ===

/// A connection the server may serve, TLS and all.
struct Accepted(server::TlsStream<Socket>);

impl Connected for Accepted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Accepted {
    fn poll_read(self: Pin<&mut Self>, cx: &mut task::Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut task::Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}

/// Gives the client the one connection that was made for it.
struct Ready(Option<client::TlsStream<Socket>>);

impl Service<Uri> for Ready {
    type Response = TokioIo<client::TlsStream<Socket>>;
    type Error = io::Error;
    type Future = future::Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let stream = self.0.take().ok_or_else(|| io::Error::other("the connection is in use"));
        future::ready(stream.map(TokioIo::new))
    }
}
