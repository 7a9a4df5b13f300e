//! tonic with prost, as generated from the .proto.

use std::{net::SocketAddr, pin::Pin};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::{net::TcpListener, sync::mpsc};
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig, server::TcpIncoming},
};

use super::{
    MAX_FRAME, WINDOW, messages,
    tls::{NAME, Tls},
    wire::{
        Data, Frame,
        frame::Kind,
        tunnel_service_client::TunnelServiceClient,
        tunnel_service_server::{TunnelService, TunnelServiceServer},
    },
};

pub(crate) async fn receive(listener: TcpListener, tls: &Tls) -> Result<u64> {
    let (done, mut received) = mpsc::channel(1);
    let identity = Identity::from_pem(&tls.certificate_pem, &tls.key_pem);
    let mut total = None;
    // Once the count is known the server ends, as soon as the client has its answer.
    let counted = async { total = received.recv().await };
    Server::builder()
        .tls_config(ServerTlsConfig::new().identity(identity))?
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_frame_size(MAX_FRAME)
        .add_service(TunnelServiceServer::new(Count { done }))
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), counted)
        .await?;
    total.context("no call came")
}

pub(crate) async fn send(address: SocketAddr, tls: &Tls, payload: usize, total: u64) -> Result<()> {
    let trust = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.certificate_pem));
    let channel = Endpoint::from_shared(format!("https://{address}"))?
        .tls_config(trust.domain_name(NAME))?
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .tcp_nodelay(true)
        .connect()
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
