//! A hub with a gateway, agents with a service proxy each, and targets that keep what they are sent.

use mctunnel::{
    Agent, ClusterFiles, ClusterName, Gateway, HttpAdapter, HttpConfig, Hub, HubAuthority, JoinBundle, PinnedTargets,
    ServiceProxy, ServiceProxyConfig, ServiceTarget,
    agent::{Builder, Impersonate},
    core::{Happening, Observe, PermitService, Secret, locate::SharedLocator},
};
use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsConnector;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// Ends when dropped.
pub(crate) struct Rig {
    pub(crate) gateway: SocketAddr,
    serving: Arc<Gateway<HttpAdapter<Hub>>>,
    hub: Hub,
    pub(crate) hub_address: SocketAddr,
    authority: HubAuthority,
    clusters: ClusterFiles,
    /// What the gateway has reported.
    pub(crate) happenings: Arc<Mutex<Vec<Happening>>>,
    stop: CancellationToken,
    _data: TempDir,
    _tasks: JoinSet<()>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::start_with(|adapter| adapter).await
    }

    /// With TLS, for clients that want HTTP/2.
    pub(crate) async fn start_tls() -> Self {
        Self::start_tls_configured(HttpConfig::default()).await
    }

    pub(crate) async fn start_tls_configured(config: HttpConfig) -> Self {
        Self::start_from(config, |authority, adapter| adapter.tls(authority.gateway_config().unwrap())).await
    }

    /// With other limits.
    pub(crate) async fn start_configured(config: HttpConfig) -> Self {
        Self::start_from(config, |_, adapter| adapter).await
    }

    /// The same, changed.
    pub(crate) async fn start_tls_with(change: impl FnOnce(HttpAdapter<Hub>) -> HttpAdapter<Hub>) -> Self {
        Self::start_from(HttpConfig::default(), |authority, adapter| {
            change(adapter.tls(authority.gateway_config().unwrap()))
        })
        .await
    }

    pub(crate) async fn start_with(change: impl FnOnce(HttpAdapter<Hub>) -> HttpAdapter<Hub>) -> Self {
        Self::start_from(HttpConfig::default(), |_, adapter| change(adapter)).await
    }

    /// TLS that believes the hub's CA and asks for HTTP/2.
    pub(crate) fn trusting_client(&self) -> TlsConnector {
        trusting(&self.authority)
    }

    /// Cuts the clients that there are, as at the end of a grace.
    pub(crate) fn cut(&self) {
        self.serving.cut();
    }

    /// Has the gateway begin its end, as the hub's first signal does.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Resolves when the gateway has no client left.
    pub(crate) async fn drained(&self) {
        self.serving.drained().await;
    }

    /// How many clients the gateway has.
    pub(crate) fn clients(&self) -> usize {
        self.serving.connections()
    }

    pub(crate) fn hub(&self) -> Hub {
        self.hub.clone()
    }

    async fn start_from(
        config: HttpConfig,
        change: impl FnOnce(&HubAuthority, HttpAdapter<Hub>) -> HttpAdapter<Hub>,
    ) -> Self {
        let data = tempfile::tempdir().unwrap();
        let authority = HubAuthority::open_or_create(data.path(), &[]).unwrap();
        let clusters = ClusterFiles::new(data.path());
        let hub = Hub::builder(&authority, Arc::new(clusters.clone())).build().unwrap();
        let mut tasks = JoinSet::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hub_address = listener.local_addr().unwrap();
        let serving = hub.clone();
        tasks.spawn(async move { serving.serve_tunnels(listener, serving.stopping()).await });
        let happenings = Arc::default();
        let adapter = HttpAdapter::new(hub.clone(), config, Arc::new(Notes(Arc::clone(&happenings))));
        let adapter = change(&authority, adapter);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gateway = listener.local_addr().unwrap();
        let serving = Arc::new(Gateway::new(adapter));
        let (accepting, stop) = (Arc::clone(&serving), CancellationToken::new());
        let stopping = stop.clone();
        tasks.spawn(async move { accepting.serve(listener, stopping).await });
        Self { gateway, serving, hub, hub_address, authority, clusters, happenings, stop, _data: data, _tasks: tasks }
    }

    /// Starts the agent of a cluster whose kube-apiserver, and whose service `default/web`, is at `target`.
    pub(crate) async fn agent(&self, cluster: &str, target: SocketAddr) -> RunningAgent {
        self.run(&self.bundle(cluster), target).await
    }

    pub(crate) fn bundle(&self, cluster: &str) -> JoinBundle {
        let cluster = ClusterName::parse(cluster).unwrap();
        let issued = self.authority.issue_agent(&cluster, Duration::from_secs(3600)).unwrap();
        self.clusters.add(&cluster, &issued.serial, false).unwrap();
        JoinBundle {
            version: JoinBundle::VERSION,
            cluster,
            hub: self.hub_address.to_string(),
            hub_server_name: mctunnel::identity::HUB_SERVER_NAME.to_owned(),
            ca_pem: self.authority.ca_pem().to_owned(),
            certificate_pem: issued.certificate_pem,
            key_pem: issued.key_pem,
        }
    }

    /// The same, with an agent that speaks to the kube-apiserver for the users the hub verified.
    pub(crate) async fn speaking_agent(&self, cluster: &str, target: SocketAddr) -> RunningAgent {
        let impersonate = Impersonate::new(Secret::new("agent-token"));
        self.agent_speaking_for(cluster, target, impersonate).await
    }

    /// The same, for those alone.
    pub(crate) async fn agent_speaking_for(
        &self,
        cluster: &str,
        target: SocketAddr,
        impersonate: Impersonate,
    ) -> RunningAgent {
        self.run_as(&self.bundle(cluster), target, Some(impersonate)).await
    }

    pub(crate) async fn run(&self, bundle: &JoinBundle, target: SocketAddr) -> RunningAgent {
        self.run_as(bundle, target, None).await
    }

    async fn run_as(&self, bundle: &JoinBundle, target: SocketAddr, impersonate: Option<Impersonate>) -> RunningAgent {
        let pinned = PinnedTargets::new()
            .pin_kube_api(&format!("http://{target}"), None)
            .and_then(|pinned| pinned.pin_service(&format!("default/web={target}")))
            .and_then(|pinned| pinned.pin_service(&format!("default/hidden={target}")))
            .unwrap();
        let proxy = ServiceProxy::new(Arc::new(pinned), ServiceProxyConfig::default()).kube_api(true);
        self.run_proxy(bundle, proxy.impersonate(impersonate)).await
    }

    /// Starts the agent of a cluster where this one knows the addresses.
    pub(crate) async fn agent_asking(&self, cluster: &str, locator: SharedLocator) -> RunningAgent {
        let proxy = ServiceProxy::new(locator, ServiceProxyConfig::default()).kube_api(true);
        self.run_proxy(&self.bundle(cluster), proxy).await
    }

    /// Starts an agent with a proxy of its own.
    pub(crate) async fn run_proxy(&self, bundle: &JoinBundle, proxy: ServiceProxy) -> RunningAgent {
        let proxy = Arc::new(proxy.services(Arc::new(OnlyWeb)));
        self.run_with(bundle, |agent| {
            agent.adapter(proxy.http()).adapter(proxy.grpc()).kube_api(proxy.kube_api_locator().unwrap())
        })
        .await
    }

    /// Starts an agent with adapters of its own.
    pub(crate) async fn run_with<F>(&self, bundle: &JoinBundle, with: F) -> RunningAgent
    where
        F: FnOnce(Builder<'_>) -> Builder<'_>,
    {
        let find = || self.hub.tunnels().into_iter().find(|t| t.cluster == bundle.cluster).map(|t| t.generation);
        let before = find();
        let happenings = Arc::default();
        let observer = Arc::new(Notes(Arc::clone(&happenings)));
        let agent = with(Agent::builder(bundle)).observer(observer).build().unwrap();
        let running = agent.clone();
        let task = AbortOnDropHandle::new(tokio::task::spawn(async move { running.run().await }));
        while find().is_none_or(|now| before == Some(now)) {
            tokio::task::yield_now().await;
        }
        RunningAgent { agent, happenings, _task: task }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::new(TcpStream::connect(self.gateway).await.unwrap())
    }

    /// One request on a connection of its own; gives everything up to the end.
    pub(crate) async fn once(&self, request: &str) -> String {
        let mut client = self.client().await;
        client.send(request).await;
        client.rest().await
    }
}

/// TLS that believes this CA and asks for HTTP/2.
pub(crate) fn trusting(authority: &HubAuthority) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.ca_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// An agent that runs until dropped.
pub(crate) struct RunningAgent {
    pub(crate) agent: Agent,
    /// What it has reported.
    pub(crate) happenings: Arc<Mutex<Vec<Happening>>>,
    _task: AbortOnDropHandle<()>,
}

impl RunningAgent {
    /// Ends at once, streams and all.
    pub(crate) fn kill(self) {
        self.agent.stop();
    }
}

struct Notes(Arc<Mutex<Vec<Happening>>>);

impl Observe for Notes {
    fn observe(&self, happening: &Happening) {
        self.0.lock().push(happening.clone());
    }
}

struct OnlyWeb;

impl PermitService for OnlyWeb {
    fn permits(&self, service: &ServiceTarget) -> bool {
        service.name.as_str() == "web"
    }
}

/// A request as clients send it.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n")
}

// === Client ===

/// A client that sends bytes as they are.
pub(crate) struct Client {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self { socket, read: Vec::new() }
    }

    pub(crate) async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.socket.write_all(text.as_ref()).await.unwrap();
    }

    /// Everything up to and including `end`.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = find(&self.read, end.as_bytes()) {
                let rest = self.read.split_off(at + end.len());
                return String::from_utf8_lossy(&std::mem::replace(&mut self.read, rest)).into_owned();
            }
            assert!(self.more().await.unwrap() > 0, "ended before {end:?}: {}", String::from_utf8_lossy(&self.read));
        }
    }

    /// Everything up to the end of the connection.
    pub(crate) async fn rest(&mut self) -> String {
        while self.more().await.unwrap() > 0 {}
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    /// Everything up to the end of the connection, whichever way it ends.
    pub(crate) async fn rest_or_error(&mut self) -> String {
        while matches!(self.more().await, Ok(1..)) {}
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    /// One answer with a known length; gives its head and its body.
    pub(crate) async fn answer(&mut self) -> (String, String) {
        let head = self.until("\r\n\r\n").await.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let length: usize = length.trim().parse().unwrap();
        while self.read.len() < length {
            assert!(self.more().await.unwrap() > 0, "the body ended early");
        }
        let rest = self.read.split_off(length);
        (head, String::from_utf8_lossy(&std::mem::replace(&mut self.read, rest)).into_owned())
    }

    /// Sends nothing more, and goes on reading.
    pub(crate) async fn end(&mut self) {
        self.socket.shutdown().await.unwrap();
    }

    /// Ends the connection as an error.
    pub(crate) fn reset(self) {
        self.socket.set_zero_linger().unwrap();
    }

    /// Whether the connection ended, cleanly or not.
    pub(crate) async fn ended(&mut self) -> bool {
        !matches!(self.more().await, Ok(1..))
    }

    /// Reads to the end; gives the error, if it was not a clean one.
    pub(crate) async fn error(&mut self) -> Option<std::io::ErrorKind> {
        loop {
            match self.more().await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(error.kind()),
            }
        }
    }

    async fn more(&mut self) -> std::io::Result<usize> {
        self.socket.read_buf(&mut self.read).await
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

// === Target ===

/// A server that keeps the requests it gets and answers as it is told.
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
    /// How many connections it was given.
    pub(crate) connections: Arc<Mutex<usize>>,
    _serving: AbortOnDropHandle<()>,
}

impl Target {
    /// Answers each head (and a body of known length) with what `answer` makes of it, as bytes.
    pub(crate) async fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let connections = Arc::new(Mutex::new(0));
        let (keep, count, answer) = (Arc::clone(&seen), Arc::clone(&connections), Arc::new(answer));
        let _serving = AbortOnDropHandle::new(tokio::task::spawn(async move {
            let mut visitors = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                *count.lock() += 1;
                let (keep, answer) = (Arc::clone(&keep), Arc::clone(&answer));
                visitors.spawn(async move {
                    let mut visitor = Client::new(socket);
                    while let Some(request) = visitor.request().await {
                        keep.lock().push(request.clone());
                        let bytes = answer(&request);
                        let end = bytes.ends_with(CUT);
                        visitor.socket.write_all(bytes.strip_suffix(CUT).unwrap_or(&bytes)).await.unwrap();
                        if end {
                            return;
                        }
                    }
                });
            }
        }));
        Self { address, seen, connections, _serving }
    }

    /// Answers every request with its own name.
    pub(crate) async fn named(name: &'static str) -> Self {
        Self::start(move |_| ok(name)).await
    }
}

/// At the end of an answer: the target closes the connection behind it.
pub(crate) const CUT: &[u8] = b"<cut>";

/// A whole answer.
pub(crate) fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

impl Client {
    /// A request as a target sees it, with its body.
    async fn request(&mut self) -> Option<String> {
        while find(&self.read, b"\r\n\r\n").is_none() {
            if self.more().await.unwrap_or(0) == 0 {
                return None;
            }
        }
        let mut request = self.until("\r\n\r\n").await;
        let head = request.to_ascii_lowercase();
        if head.contains("transfer-encoding: chunked") {
            request.push_str(&self.until("0\r\n\r\n").await);
        } else if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
            let length: usize = length.trim().parse().unwrap();
            while self.read.len() < length {
                if self.more().await.unwrap_or(0) == 0 {
                    return None;
                }
            }
            let rest = self.read.split_off(length);
            request.push_str(&String::from_utf8_lossy(&std::mem::replace(&mut self.read, rest)));
        }
        Some(request)
    }
}
