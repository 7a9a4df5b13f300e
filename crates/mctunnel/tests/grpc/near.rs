//! The client: a channel of tonic to the gateway, and the metadata that names the service behind it.

use crate::{note::Note, rig::Rig};
use hyper_util::rt::TokioIo;
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::{
    IntoRequest, Request, Response, Status, Streaming,
    client::Grpc,
    codegen::{InterceptedService, Service, http::Uri, http::uri::PathAndQuery, tokio_stream::Stream},
    metadata::MetadataValue,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

/// A client of the service `web` in cluster-a. Its calls share one connection.
pub(crate) struct Near(Grpc<InterceptedService<Channel, Routing>>);

type Routing = fn(Request<()>) -> Result<Request<()>, Status>;
type Answered<T> = Result<Response<T>, Status>;

impl Near {
    pub(crate) async fn connect(rig: &Rig) -> Self {
        let dial = Dial { tls: rig.trusting_client(), gateway: rig.gateway };
        let channel = Endpoint::from_static("https://localhost").connect_with_connector(dial).await.unwrap();
        Self(Grpc::new(InterceptedService::new(channel, routed as Routing)))
    }

    pub(crate) async fn unary(&self, method: &str, request: impl IntoRequest<Note>) -> Answered<Note> {
        self.ready().await.unary(request.into_request(), path(method), ProstCodec::default()).await
    }

    pub(crate) async fn upload(
        &self,
        method: &str,
        notes: impl Stream<Item = Note> + Send + 'static,
    ) -> Answered<Note> {
        self.ready().await.client_streaming(Request::new(notes), path(method), ProstCodec::default()).await
    }

    pub(crate) async fn download(&self, method: &str, request: impl IntoRequest<Note>) -> Answered<Streaming<Note>> {
        self.ready().await.server_streaming(request.into_request(), path(method), ProstCodec::default()).await
    }

    pub(crate) async fn both_ways(
        &self,
        method: &str,
        notes: impl Stream<Item = Note> + Send + 'static,
    ) -> Answered<Streaming<Note>> {
        self.ready().await.streaming(Request::new(notes), path(method), ProstCodec::default()).await
    }

    async fn ready(&self) -> Grpc<InterceptedService<Channel, Routing>> {
        let mut grpc = self.0.clone();
        grpc.ready().await.unwrap();
        grpc
    }
}

fn path(method: &str) -> PathAndQuery {
    format!("/test.Far/{method}").parse().unwrap()
}

fn routed(mut request: Request<()>) -> Result<Request<()>, Status> {
    for (name, value) in [("cluster", "cluster-a"), ("proto", "grpc"), ("host", "web.default"), ("port", "50051")] {
        let name = format!("x-mctunnel-{name}").parse::<tonic::metadata::AsciiMetadataKey>().unwrap();
        request.metadata_mut().insert(name, MetadataValue::from_static(value));
    }
    Ok(request)
}

/// Dials the gateway and makes TLS.
struct Dial {
    tls: TlsConnector,
    gateway: SocketAddr,
}

impl Service<Uri> for Dial {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (tls, gateway) = (self.tls.clone(), self.gateway);
        Box::pin(async move {
            let socket = TcpStream::connect(gateway).await?;
            socket.set_nodelay(true)?;
            let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
            Ok(TokioIo::new(tls.connect(name, socket).await?))
        })
    }
}
