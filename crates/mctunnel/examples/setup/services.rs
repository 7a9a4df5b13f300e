//! What the HTTP examples have in common: servers inside clusters, agents that may reach them, and a client.

use super::stage::{Failed, Stage};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Body, Incoming},
    client, server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use mctunnel::{PinnedTargets, ServiceProxy, ServiceProxyConfig, ServiceTarget, core::PermitService};
use std::{convert::Infallible, net::SocketAddr, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Starts an HTTP server that lasts as long as the tasks.
pub(crate) async fn serve_http<F, R, B>(tasks: &mut JoinSet<()>, answer: F) -> Result<SocketAddr, Failed>
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Failed>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tasks.spawn(async move {
        let mut visitors = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let answer = answer.clone();
            let service = service_fn(move |request| {
                let answered = answer(request);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            while visitors.try_join_next().is_some() {}
            visitors.spawn(server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
    Ok(address)
}

/// Starts the agent of a cluster in which `service`, as `namespace/name`, is at `address`, and the only one to be reached.
pub(crate) fn join_with_service(
    stage: &mut Stage,
    cluster: &str,
    service: &str,
    address: SocketAddr,
) -> Result<(), Failed> {
    let (namespace, name) = service.split_once('/').ok_or("a service is namespace/name")?;
    let permitted = OnlyThis(ServiceTarget::parse(namespace, name)?);
    let pinned = PinnedTargets::new().pin_service(&format!("{service}={address}"))?;
    let proxy = ServiceProxy::new(Arc::new(pinned), ServiceProxyConfig::default()).services(Arc::new(permitted));
    stage.join(cluster, |agent| agent.adapter(Arc::new(proxy).http()))
}

struct OnlyThis(ServiceTarget);

impl PermitService for OnlyThis {
    fn permits(&self, service: &ServiceTarget) -> bool {
        *service == self.0
    }
}

/// The client: one request on a connection of its own, and the whole answer.
pub(crate) async fn ask(
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, HeaderMap, String), Failed> {
    let socket = TcpStream::connect(address).await?;
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(socket)).await?;
    let exchange = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok((head.status, head.headers, String::from_utf8_lossy(&body).into_owned()))
    };
    let (exchanged, _) = tokio::join!(exchange, connection);
    exchanged
}
