//! The SNI adapter: a TLS client that asks for `CLUSTER.SUFFIX` is passed through, unterminated, to that cluster's kube-apiserver.
//! The hub sees the name and nothing else.

mod hello;

use crate::{
    Admitted, Checkpoint, Client, HubAdapter, Identified, Permit, Recording,
    meter::{Account, Metered},
    open_stream::{Held, OpenStream},
};
use hello::{BadHello, Hello, read_hello};
use mctunnel_core::{
    Action, AuditFull, ClusterName, Destination, ErrorCode, Evidence, Happening, Open, OpenRequest, Protocol, Target,
    Unauthenticated, observe::SharedObserver, splice::splice,
};
use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};

/// How SNI clients are treated. Begin with [`SniConfig::new`] and change what differs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SniConfig {
    /// What follows the cluster's name, beginning with a dot: `.hub.example.com`.
    pub suffix: String,
    /// The longest a client may take to say whom it wants. Default 10 s.
    pub hello_timeout: Duration,
    /// The longest to wait for the kube-apiserver. Default 8 s.
    pub open_timeout: Duration,
    /// How long to wait for a cluster whose agent is just reconnecting. Default 5 s.
    pub wait_for_tunnel: Duration,
    /// How many connections there may be. Default 65,536.
    pub max_connections: usize,
}

impl SniConfig {
    /// The defaults, for names that end in `suffix`.
    #[must_use]
    pub fn new(suffix: &str) -> Self {
        Self {
            suffix: format!(".{}", suffix.trim_start_matches('.').to_ascii_lowercase()),
            hello_timeout: Duration::from_secs(10),
            open_timeout: Duration::from_secs(8),
            wait_for_tunnel: Duration::from_secs(5),
            max_connections: 65_536,
        }
    }
}

/// Serves TLS clients by the name they ask for.
pub struct SniAdapter<O: Open> {
    opener: O,
    config: SniConfig,
    observer: SharedObserver,
    checkpoint: Checkpoint,
}

impl<O: Open> SniAdapter<O> {
    /// An adapter that opens its streams with `opener`.
    #[must_use]
    pub fn new(opener: O, config: SniConfig, observer: SharedObserver) -> Self {
        Self { opener, config, observer, checkpoint: Checkpoint::default() }
    }

    /// Has every client pass this checkpoint. What a client shows is between it and the kube-apiserver; here it has shown nothing. So
    /// it is for the authenticator to say whether such clients come in at all, as on every other way in, and for policy whether they
    /// may have plain bytes to a cluster's kube-apiserver.
    #[must_use]
    pub fn checkpoint(mut self, checkpoint: Checkpoint) -> Self {
        self.checkpoint = checkpoint;
        self
    }

    /// Steps 1 to 4. There is no way to tell a TLS client why not: it is closed, and the reason is in the log.
    async fn establish(
        &self,
        socket: &mut TcpStream,
        peer: SocketAddr,
    ) -> Result<(Metered<O::Stream>, OpenStream), Refused> {
        let hello = timeout(self.config.hello_timeout, read_hello(socket)).await.unwrap_or(Err(BadHello::Slow));
        if hello.as_ref().is_err_and(|bad| *bad == BadHello::Gone) {
            // Whoever says nothing takes no place in the record, and leaves none.
            return Err(BadHello::Gone.into());
        }
        let recording =
            self.checkpoint.record_from("sni", &format!("{:032x}", rand::random::<u128>()), Some(peer.ip()))?;
        let opened = match hello {
            Ok(hello) => self.open(hello, peer, &recording).await,
            Err(bad) => Err(bad.into()),
        };
        if let Err(refused) = &opened {
            recording.refused(format!("{}: {}", refused.code.code, refused.reason));
        }
        opened
    }

    async fn open(
        &self,
        hello: Hello,
        peer: SocketAddr,
        recording: &Recording,
    ) -> Result<(Metered<O::Stream>, OpenStream), Refused> {
        let cluster = self.cluster_of(&hello.name).ok_or(BadHello::OtherName)?;
        let destination = Destination { cluster: cluster.clone(), target: Target::KubeApi };
        recording.routed(&destination);
        let permit = self.admit(&destination, peer, recording).await?;
        let asked = Instant::now();
        let first = hello.bytes.len();
        let mut request = OpenRequest::new(destination);
        request.timeout = self.config.open_timeout;
        request.wait_for_tunnel = self.config.wait_for_tunnel;
        request.first_bytes = hello.bytes;
        request.identity = permit.admitted().identity.clone();
        let stream = self.opener.open(request).await.map_err(|error| Refused {
            cluster: (error.code() != mctunnel_core::OpenError::UnknownCluster.code()).then(|| cluster.clone()),
            code: error.code(),
            reason: error.to_string(),
        })?;
        self.observer.observe(&Happening::StreamOpened {
            cluster: cluster.clone(),
            target: Target::KubeApi.to_string(),
            took: asked.elapsed(),
        });
        let held = Held { account: Arc::new(Account::new(permit)), recording: Some(recording.clone()) };
        let open = OpenStream::new(Arc::clone(&self.observer), cluster, 0).hold(held);
        open.started();
        Ok((Metered::new(stream, open.account(), first), open))
    }

    /// Steps 1 and 3.
    async fn admit(
        &self,
        destination: &Destination,
        peer: SocketAddr,
        recording: &Recording,
    ) -> Result<Permit, Refused> {
        let evidence = Evidence { peer: Some(peer), ..Evidence::default() };
        let Identified { identity, as_of } = self.checkpoint.identify(&evidence).await?;
        recording.identified(&identity);
        let admitted = Admitted {
            identity,
            as_of,
            destination: destination.clone(),
            action: Action::Bytes,
            protocol: Protocol::tcp(),
            source: Some(peer.ip()),
        };
        self.checkpoint.admit(admitted, recording).map_err(|decision| Refused {
            cluster: None,
            code: ErrorCode { code: "MCT-SNI-DENIED", remedy: "ask the hub's operator for a policy that allows it" },
            reason: decision.rule().to_string(),
        })
    }

    fn cluster_of(&self, name: &str) -> Option<ClusterName> {
        ClusterName::parse(name.to_ascii_lowercase().strip_suffix(&self.config.suffix)?).ok()
    }
}

impl<O: Open> HubAdapter for SniAdapter<O> {
    async fn serve(self: Arc<Self>, client: Client) {
        let mut socket = client.socket;
        // Boxed: what opening needs is given back before the splice, which may last for days.
        match Box::pin(self.establish(&mut socket, client.peer)).await {
            Ok((stream, open)) => {
                tokio::select! {
                    spliced = splice(socket, stream) => {
                        open.over(spliced.error.map(|error| error.to_string()));
                    }
                    // Dropping the splice cuts both sides.
                    rule = open.revoked() => open.over(Some(rule.to_string())),
                }
            }
            Err(refused) => self.observer.observe(&Happening::StreamRefused {
                cluster: refused.cluster,
                target: Target::KubeApi.to_string(),
                code: refused.code.code,
                reason: refused.reason,
            }),
        }
    }

    fn max_clients(&self) -> usize {
        self.config.max_connections
    }
}

impl<O: Open> fmt::Debug for SniAdapter<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SniAdapter").field("config", &self.config).finish_non_exhaustive()
    }
}

struct Refused {
    cluster: Option<ClusterName>,
    code: ErrorCode,
    reason: String,
}

impl From<AuditFull> for Refused {
    fn from(full: AuditFull) -> Self {
        let code = ErrorCode {
            code: "MCT-SNI-AUDIT-FULL",
            remedy: "try again later; the hub's log says why its audit log takes no more",
        };
        Self { cluster: None, code, reason: full.to_string() }
    }
}

impl From<Unauthenticated> for Refused {
    fn from(unauthenticated: Unauthenticated) -> Self {
        let code = ErrorCode {
            code: "MCT-SNI-UNAUTHENTICATED",
            remedy: "let clients without a credential in by 'anonymous' in the file of --auth-config, or use CONNECT",
        };
        Self { cluster: None, code, reason: unauthenticated.to_string() }
    }
}

impl From<BadHello> for Refused {
    fn from(bad: BadHello) -> Self {
        let code = ErrorCode {
            code: "MCT-SNI-BAD-HELLO",
            remedy: "connect with TLS and the server name CLUSTER.SUFFIX, as --sni-suffix says",
        };
        Self { cluster: None, code, reason: bad.to_string() }
    }
}
