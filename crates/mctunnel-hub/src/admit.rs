//! From a TCP connection to a registered tunnel: TLS, certificate, call, HELLO, generation, WELCOME. Any doubt turns the peer away,
//! and the reason is told to it as far as it has proven who it is.

use crate::{
    Hub,
    cluster_adapter::Opener,
    codes,
    registry::{Activated, Leave},
    sources::Visit,
    standing::Peer,
};
use mctunnel_core::{
    ClusterName, Happening,
    clusters::Standing,
    h2_meter::{Limits, Metered},
};
use mctunnel_identity::{
    AgentIdentity, ENROL_ALPN, IssuedBy,
    enrolment::{Enrolment, wire::RENEW_PATH},
};
use mctunnel_tunnel::{
    Aside, CloseCode, Drain, DrainReason, Driver, Hello, LinkEnd, Offers, ReadAhead, Session, Welcome,
    grpc::{Accepting, Call, ServerLink, Status, TUNNEL_PATH},
};
use std::{
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpStream, time::Instant};
use tokio_rustls::{
    LazyConfigAcceptor, StartHandshake,
    rustls::server::{Acceptor, ClientHello},
    server::TlsStream,
};

type Tls = TlsStream<ReadAhead<TcpStream>>;
pub(crate) type Io = Metered<Tls>;
type TunnelDriver = Pin<Box<Driver<ServerLink<Io>>>>;

/// How long a peer may take to send the first message of TLS.
const FIRST_WORD: Duration = Duration::from_secs(3);

/// How long a peer may keep its turn at the rest of TLS: a few round trips of a slow path, and no place to stall in.
const HANDSHAKE_TURN: Duration = Duration::from_secs(5);

/// How long the goodbye to a peer may take.
pub(crate) const GOODBYE: Duration = Duration::from_secs(2);

/// A tunnel that was taken in.
struct Admitted {
    agent: Peer,
    source: Option<IpAddr>,
    leave: Leave,
    session: Session,
    offers: Offers,
    driver: TunnelDriver,
}

/// A peer after TLS.
enum Greeted {
    /// It showed a certificate that leads to a CA of ours.
    Agent(Io, Peer),
    /// It wants to enrol, and nothing else is spoken with it.
    Stranger(Io, Arc<Enrolment>),
}

/// Why a peer was turned away.
pub(crate) struct TurnedAway {
    code: &'static str,
    reason: String,
}

impl Hub {
    pub(crate) async fn serve_connection(&self, socket: TcpStream, peer: String, visit: Visit) {
        let limit = self.inner.config.handshake_timeout;
        // Boxed, so that an idle tunnel does not keep the room the handshake needed.
        let admitting = Box::pin(tokio::time::timeout(limit, self.admit(socket, &peer, visit)));
        let admitted = match admitting.await {
            Ok(admitted) => admitted,
            Err(_) => Err(turned_away(codes::TIMEOUT.code, format!("no tunnel within {limit:?}"))),
        };
        match admitted {
            Ok(Some(admitted)) => Box::pin(self.hold(admitted)).await,
            // It came for a certificate.
            Ok(None) => {}
            Err(TurnedAway { code, reason }) => {
                self.inner.observe(&Happening::PeerRefused { peer, code, reason });
            }
        }
    }

    async fn admit(&self, socket: TcpStream, peer: &str, visit: Visit) -> Result<Option<Admitted>, TurnedAway> {
        let (io, agent) = match self.verify(socket, &visit).await? {
            Greeted::Agent(io, agent) => (io, agent),
            Greeted::Stranger(io, enrolment) => return self.enrol(io, &enrolment, peer).await.map(|()| None),
        };
        let accepting = Accepting::handshake(io).await.map_err(|end| broken(codes::HTTP2.code, end))?;
        let served: &[_] = if self.inner.enrolment.is_some() { &[TUNNEL_PATH, RENEW_PATH] } else { &[TUNNEL_PATH] };
        let call = accepting.call_of(served).await.map_err(|end| broken(codes::CALL.code, end))?;
        let call = self.check_claims(call, &agent).await?;
        if let (RENEW_PATH, Some(enrolment)) = (call.path(), &self.inner.enrolment) {
            return self.renew(call, enrolment, &agent, peer).await.map(|()| None);
        }
        self.register(call, agent, peer).await.map(Some)
    }

    /// HELLO, generation, WELCOME.
    async fn register(&self, call: Call<Io>, agent: Peer, peer: &str) -> Result<Admitted, TurnedAway> {
        let cluster = &agent.agent.cluster;
        let link = call.accept().map_err(|end| broken(codes::CALL.code, end))?;
        let (greeting, driver) = Session::hub(link, self.inner.config.tunnel.clone());
        let mut driver = Box::pin(driver);
        let hello = tokio::select! {
            hello = greeting.hello() => match hello {
                Ok(hello) => Ok(hello),
                Err(ending) => {
                    // The agent is told why before the connection goes.
                    let _ = tokio::time::timeout(GOODBYE, &mut driver).await;
                    Err(ending)
                }
            },
            ending = &mut driver => Err(ending),
        };
        let hello = hello.map_err(|ending| turned_away(codes::HELLO.code, ending.to_string()))?;
        let leave = match self.inner.registry.ask(cluster, &hello.instance) {
            Ok(leave) => leave,
            Err(duel) => {
                let text = format!(
                    "another agent of {} is connected and they take turns; stop one of them. Retry in {} s",
                    cluster,
                    duel.retry_after.as_secs()
                );
                greeting.turn_away(CloseCode::Budget, &text);
                let _ = tokio::time::timeout(GOODBYE, driver).await;
                return Err(turned_away(codes::DUEL.code, text));
            }
        };
        let (session, offers) = greeting.welcome(self.welcome(cluster, &leave));
        self.activate(cluster, &leave, &hello, peer, &session);
        let source = peer.parse::<SocketAddr>().ok().map(|address| address.ip());
        Ok(Admitted { agent, source, leave, session, offers, driver })
    }

    /// TLS with a client certificate; who the agent is, is its URI SAN and nothing else. Who has none yet says so in its first message,
    /// by asking for another protocol, and gets nowhere else.
    async fn verify(&self, socket: TcpStream, visit: &Visit) -> Result<Greeted, TurnedAway> {
        mctunnel_tunnel::tune(&socket, &self.inner.config.congestion_control)
            .map_err(|error| turned_away(codes::SOCKET.code, error.to_string()))?;
        let tls_failed = |error: std::io::Error| turned_away(codes::TLS.code, error.to_string());
        // A peer that says nothing does not get a turn: those are for the work of the handshake.
        let greeted = LazyConfigAcceptor::new(Acceptor::default(), ReadAhead::new(socket));
        let greeted = tokio::time::timeout(FIRST_WORD, greeted).await;
        let greeted = greeted.map_err(|_| turned_away(codes::TIMEOUT.code, "no TLS greeting"))?.map_err(tls_failed)?;
        let _turn = self.inner.sources.turn(visit).await;
        tokio::time::timeout(HANDSHAKE_TURN, self.shake_hands(greeted)).await.unwrap_or_else(|_| {
            let reason = format!("the TLS handshake took longer than {HANDSHAKE_TURN:?}");
            Err(turned_away(codes::TIMEOUT.code, reason))
        })
    }

    async fn shake_hands(&self, greeted: StartHandshake<ReadAhead<TcpStream>>) -> Result<Greeted, TurnedAway> {
        let tls_failed = |error: std::io::Error| turned_away(codes::TLS.code, error.to_string());
        let authority = &self.inner.authority;
        if let Some(enrolment) = self.inner.enrolment.as_ref().filter(|_| asks_to_enrol(&greeted.client_hello())) {
            let io = greeted.into_stream(authority.enrol_config()).await.map_err(tls_failed)?;
            return Ok(Greeted::Stranger(metered(io), Arc::clone(enrolment)));
        }
        // A peer may take its time for the last message: what it showed is judged as it was when it began.
        let tls = authority.agent_tls();
        let io = greeted.into_stream(tls.config()).await.map_err(tls_failed)?;
        let certificates = io.get_ref().1.peer_certificates().unwrap_or_default();
        let own = match tls.issuer_of(certificates) {
            Some(IssuedBy::Hub) => None,
            Some(IssuedBy::Own(chain)) => Some(chain),
            None => return Err(turned_away(codes::TLS.code, "the certificate ended during the handshake")),
        };
        let agent = AgentIdentity::from_certificates(certificates);
        let agent = agent.map_err(|error| turned_away(error.code().code, error.to_string()))?;
        Ok(Greeted::Agent(metered(io), Peer { agent, own }))
    }

    /// The certificate must be one this hub issued to that cluster, and the call must not claim to be another.
    async fn check_claims(&self, call: Call<Io>, peer: &Peer) -> Result<Call<Io>, TurnedAway> {
        let cluster = &peer.agent.cluster;
        let claim = call.header("x-mctunnel-cluster").map(|claim| claim.is_none_or(|c| c == cluster.as_str()));
        let stands = if claim == Ok(true) { Some(self.stands(peer).await) } else { None };
        let (status, code, reason) = match stands {
            None => (
                Status::PermissionDenied,
                codes::NAME.code,
                format!("the certificate is for {cluster}, the call claims another name"),
            ),
            Some(Standing::Refused) => (
                Status::PermissionDenied,
                codes::REVOKED.code,
                format!("{cluster} is not a cluster of this hub, or its certificate was revoked or replaced"),
            ),
            Some(Standing::Unknown(reason)) => {
                // The paths of the hub are not the agent's business.
                self.inner.observe(&Happening::ClusterUnread { cluster: cluster.clone(), reason });
                let reason = format!("what this hub has about {cluster} cannot be read just now; try again");
                (Status::Unavailable, codes::UNREAD.code, reason)
            }
            Some(Standing::Admitted) if self.inner.stopping.is_cancelled() => {
                (Status::Unavailable, codes::STOPPING.code, "this hub is about to stop".to_owned())
            }
            Some(Standing::Admitted) => return Ok(call),
        };
        let _ = tokio::time::timeout(GOODBYE, call.refuse(status, &format!("{code}: {reason}"))).await;
        Err(turned_away(code, reason))
    }

    fn welcome(&self, cluster: &ClusterName, leave: &Leave) -> Welcome {
        Welcome {
            tunnel: format!("{cluster}/{}", leave.generation),
            generation: leave.generation,
            software: concat!("mctunnel-hub/", env!("CARGO_PKG_VERSION")).to_owned(),
            ..Welcome::default()
        }
    }

    fn activate(&self, cluster: &ClusterName, leave: &Leave, hello: &Hello, peer: &str, session: &Session) {
        let generation = leave.generation;
        match self.inner.registry.activate(cluster, leave, &hello.instance, peer, session) {
            Activated::First => {}
            Activated::Replaced { old, old_generation, duel } => {
                self.retire(old, format!("a newer tunnel of {cluster} took over (generation {generation})"));
                self.inner.observe(&Happening::TunnelReplaced {
                    cluster: cluster.clone(),
                    old_generation,
                    new_generation: generation,
                    duel,
                });
            }
            Activated::Outdated => self.retire(session.clone(), format!("a newer tunnel of {cluster} came first")),
        }
        self.inner.observe(&Happening::TunnelUp {
            cluster: cluster.clone(),
            generation,
            instance: hello.instance.clone(),
            peer: peer.to_owned(),
        });
    }

    /// Tells the old tunnel why it leaves, lets its streams finish within the grace, and closes it.
    fn retire(&self, old: Session, message: String) {
        let wait = u64::try_from(self.inner.config.duel_wait.as_millis()).unwrap_or(u64::MAX);
        old.drain(Drain { reason: DrainReason::Replaced, message: message.clone(), reconnect_after_ms: wait });
        let grace = self.inner.config.replaced_grace;
        self.inner.tasks.spawn(async move {
            let _ = tokio::time::timeout(grace, old.idle()).await;
            old.close(CloseCode::Done, &message);
        });
    }

    /// Drives the tunnel until it ends.
    async fn hold(&self, admitted: Admitted) {
        let Admitted { agent, source, leave, session, offers, mut driver } = admitted;
        let since = Instant::now();
        let ending = {
            let opener = Opener { cluster: &agent.agent.cluster, generation: leave.generation, source };
            let serving = self.serve_offers(&opener, offers);
            let stopped = async {
                let reason = tokio::select! {
                    () = self.inner.stopped.cancelled() => "the hub stops",
                    reason = self.no_longer_admitted(&agent) => reason,
                };
                session.close(CloseCode::Done, reason);
            };
            // An agent that neither reads our goodbye nor hangs up must not keep the connection.
            let said_goodbye = async {
                session.ended().await;
                tokio::time::sleep(GOODBYE).await;
            };
            let beside = Aside::new(async {
                tokio::select! {
                    () = said_goodbye => {}
                    () = async { tokio::join!(serving, stopped); std::future::pending().await } => {}
                }
            });
            tokio::select! {
                biased;
                ending = &mut driver => ending,
                () = beside => session.ended().await,
            }
        };
        let cluster = agent.agent.cluster;
        self.inner.registry.deactivate(&cluster, leave.generation);
        self.inner.observe(&Happening::TunnelDown {
            cluster,
            generation: leave.generation,
            lasted: since.elapsed(),
            reason: ending.to_string(),
        });
    }
}

/// Frames of HTTP/2 are counted, whoever sends them.
fn metered(io: Tls) -> Io {
    Metered::new(io, Limits::default())
}

/// Whether the first message of TLS is of an agent that has no certificate yet.
fn asks_to_enrol(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut protocols| protocols.any(|protocol| protocol == ENROL_ALPN))
}

pub(crate) fn broken(code: &'static str, end: LinkEnd) -> TurnedAway {
    let (LinkEnd::Closed(reason) | LinkEnd::Broken(reason)) = end;
    turned_away(code, reason)
}

pub(crate) fn turned_away(code: &'static str, reason: impl Into<String>) -> TurnedAway {
    TurnedAway { code, reason: reason.into() }
}
