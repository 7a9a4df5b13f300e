//! A hub with a good certificate that asks for what the agent must not give, frame by frame: the agent keeps to rules of its own.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "own_rules/backend.rs"]
#[cfg(test)]
mod backend;
#[path = "bad_hub/by_hand.rs"]
#[cfg(test)]
mod by_hand;
#[path = "bad_hub/fake_hub.rs"]
#[cfg(test)]
mod fake_hub;
#[path = "own_rules/identity.rs"]
#[cfg(test)]
mod identity;

use backend::Backend;
use by_hand::{Hub, encoded};
use bytes::Bytes;
use fake_hub::FakeHub;
use http::{HeaderMap, HeaderValue, Method, header, uri::PathAndQuery};
use mctunnel_agent::{
    Agent, Impersonate, ServiceProxy,
    pinned::PinnedTargets,
    service_proxy::{ServiceProxyConfig, TokenSource},
};
use mctunnel_core::{
    ClusterName, Destination, Happening, Observe, PermitService, Protocol, Secret, ServiceTarget, Target,
    locate::Changing, routing,
};
use mctunnel_http::{BodyKind, RequestHead};
use mctunnel_mux::{Frame, Open, OpenUser, RefuseCode, StreamId, User};
use mctunnel_tunnel::Link;
use std::{
    collections::BTreeMap,
    future::poll_fn,
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(15);
const TOKEN: &str = "the-agents-own";

/// The agent's own token, and how often it was read.
#[derive(Debug, Clone, Default)]
struct CountedToken(Arc<AtomicUsize>);

impl TokenSource for CountedToken {
    fn token(&self) -> Result<Secret, String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Secret::new(TOKEN))
    }
}

/// The names of the services that may be reached.
struct List(watch::Sender<Vec<&'static str>>);

impl PermitService for List {
    fn permits(&self, service: &ServiceTarget) -> bool {
        self.0.borrow().contains(&service.name.as_str())
    }

    fn changed(&self) -> Changing<'_> {
        let mut names = self.0.subscribe();
        Box::pin(async move {
            // Its sender is here.
            let _ = names.changed().await;
        })
    }
}

/// Why the tunnel is down; empty while it is not.
struct Down(watch::Sender<String>);

impl Observe for Down {
    fn observe(&self, happening: &Happening) {
        if let Happening::TunnelDown { reason, .. } = happening {
            self.0.send_replace(reason.clone());
        }
    }
}

// === the stage ===

/// How a stream ended at the hub.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Whole,
    Cut,
    Refused(RefuseCode, String),
}

/// What was heard of a stream.
#[derive(Default)]
struct Heard {
    text: String,
    end: Option<End>,
}

struct Stage {
    hub: Hub,
    heard: BTreeMap<StreamId, Heard>,
    streams: u64,
    down: Arc<Down>,
    token: CountedToken,
    list: Arc<List>,
    backend: Backend,
    ends: mpsc::Receiver<Option<ErrorKind>>,
    _fake: FakeHub,
    _tasks: JoinSet<()>,
}

impl Stage {
    /// An agent that speaks for users, and reaches the services `web` and `other`.
    async fn start() -> Self {
        let (fake, mut tasks) = (FakeHub::new(), JoinSet::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (more, (tell, ends)) = (watch::Sender::new(()), mpsc::channel(8));
        let (heads, trailers, dialled) = (Arc::default(), Arc::default(), Arc::default());
        let backend = Backend { heads, trailers, dialled, more, ends: tell };
        tasks.spawn(backend.clone().serve(listener));
        let pinned = PinnedTargets::new()
            .pin_kube_api(&format!("http://{address}"), None)
            .and_then(|pinned| pinned.pin_service(&format!("default/web:80={address}")))
            .and_then(|pinned| pinned.pin_service(&format!("default/other:80={address}")))
            .unwrap();
        let (token, list) = (CountedToken::default(), Arc::new(List(watch::Sender::new(vec!["web", "other"]))));
        let services: Arc<dyn PermitService> = Arc::<List>::clone(&list);
        let proxy = ServiceProxy::new(Arc::new(pinned), ServiceProxyConfig::default())
            .kube_api(true)
            .impersonate(Some(Impersonate::new(token.clone())))
            .services(services);
        let proxy = Arc::new(proxy);
        let bundle = fake.bundle();
        let down = Arc::new(Down(watch::Sender::new(String::new())));
        let agent = Agent::builder(&bundle).adapter(proxy.http()).adapter(proxy.grpc()).observer(down.clone());
        let agent = agent.build().unwrap();
        tasks.spawn(async move { agent.run().await });
        let hub = timeout(LIMIT, Hub::take_in(&fake)).await.expect("the agent comes");
        let (heard, streams) = (BTreeMap::new(), 0);
        Self { hub, heard, streams, down, token, list, backend, ends, _fake: fake, _tasks: tasks }
    }

    /// Opens a stream, with a GET right behind it.
    async fn open(&mut self, protocol: Protocol, target: Target, user: Option<&User>, path: &'static str) -> StreamId {
        let upgrade = path == "/shell";
        let mut fields = HeaderMap::new();
        if upgrade {
            fields.insert(header::UPGRADE, HeaderValue::from_static("shell"));
        }
        let head = RequestHead {
            method: Method::GET,
            path: PathAndQuery::from_static(path),
            authority: Bytes::new(),
            fields,
            body: BodyKind::None,
            upgrade,
        };
        self.open_with(protocol, target, user, &head, b"").await
    }

    /// The same, with this head, and this behind it.
    async fn open_with(
        &mut self,
        protocol: Protocol,
        target: Target,
        user: Option<&User>,
        head: &RequestHead,
        body: &[u8],
    ) -> StreamId {
        self.streams += 1;
        let stream = StreamId::from(self.streams * 2);
        let destination = Destination { cluster: ClusterName::parse("c1").unwrap(), target };
        let headers = routing::headers_for(&protocol, &destination);
        let user = user.map(|user| Arc::new(OpenUser::new(user.clone())));
        let open = Frame::Open(stream, 1 << 20, Open { headers, user, ..Open::default() });
        let payload = Bytes::from([&head.encode()[..], body].concat());
        let data = Frame::Data { stream, fin: !head.upgrade, payload };
        let pushed = timeout(LIMIT, self.hub.push(encoded(&[open, data]))).await;
        assert!(pushed.expect("the agent takes it"), "the tunnel is up");
        stream
    }

    /// Takes the next frame.
    async fn hear(&mut self) {
        let frame = timeout(LIMIT, self.hub.receive()).await.expect("the agent says something");
        if let Frame::Data { stream, fin, payload } = &frame {
            let heard = self.heard.entry(*stream).or_default();
            heard.text.push_str(&String::from_utf8_lossy(payload));
            if *fin {
                heard.end = Some(End::Whole);
            }
        }
        if let Frame::Refused { stream, code, message } = &frame {
            self.heard.entry(*stream).or_default().end = Some(End::Refused(*code, message.clone()));
        }
        if let Frame::Reset { stream, .. } = &frame {
            self.heard.entry(*stream).or_default().end = Some(End::Cut);
        }
    }

    /// Everything of a stream, once it ended.
    async fn ended(&mut self, stream: StreamId) -> (String, End) {
        loop {
            let heard = self.heard.entry(stream).or_default();
            if let Some(end) = heard.end.take() {
                return (std::mem::take(&mut heard.text), end);
            }
            self.hear().await;
        }
    }

    /// Waits until a stream that is open has said this.
    async fn says(&mut self, stream: StreamId, text: &str) {
        loop {
            let heard = self.heard.entry(stream).or_default();
            assert!(heard.end.is_none(), "it ended: {:?}", heard.end);
            if heard.text.contains(text) {
                return;
            }
            self.hear().await;
        }
    }

    /// Why the agent ended the tunnel, once it has.
    async fn down(&mut self) -> String {
        let mut reasons = self.down.0.subscribe();
        let link = &mut self.hub.link;
        let mut down = Box::pin(timeout(LIMIT, reasons.wait_for(|reason| !reason.is_empty())));
        poll_fn(|cx| {
            // The link moves only while it is polled.
            let _ = link.poll_flush(cx);
            down.as_mut().poll(cx).map(|reason| reason.expect("the agent ends the tunnel").unwrap().clone())
        })
        .await
    }

    fn token_reads(&self) -> usize {
        self.token.0.load(Ordering::SeqCst)
    }

    fn dialled(&self) -> usize {
        self.backend.dialled.load(Ordering::SeqCst)
    }
}

fn service(name: &str) -> Target {
    ServiceTarget::parse("default", &format!("{name}:80")).unwrap().into()
}

fn alice() -> User {
    User {
        name: "alice".into(),
        groups: vec!["dev".into()],
        uid: "u-1".into(),
        extra: vec![("example.com/team".to_owned(), vec!["blue".to_owned()])],
    }
}

// === T06 ===

#[tokio::test]
async fn t06_a_stream_for_nobody_is_refused_and_no_token_is_read() {
    let mut stage = Stage::start().await;
    for protocol in [Protocol::http(), Protocol::grpc()] {
        let stream = stage.open(protocol, Target::KubeApi, None, "/api").await;
        let (text, end) = stage.ended(stream).await;
        let is_refused = matches!(&end, End::Refused(RefuseCode::NotAllowed, why) if why.contains("names no user"));
        assert!(is_refused, "{end:?}: {text}");
    }
    assert_eq!((stage.token_reads(), stage.dialled()), (0, 0));
    // The same with a user, so that it is seen what is counted.
    let stream = stage.open(Protocol::http(), Target::KubeApi, Some(&alice()), "/api").await;
    let (text, end) = stage.ended(stream).await;
    assert!(end == End::Whole && text.ends_with("ok"), "{end:?}: {text}");
    assert_eq!((stage.token_reads(), stage.dialled()), (1, 1));
    let head = stage.backend.heads.lock().concat();
    for field in ["authorization: bearer the-agents-own\r\n", "impersonate-user: alice\r\n"] {
        assert!(head.contains(field), "{field} in {head}");
    }
}

#[tokio::test]
async fn t06_a_user_without_a_name_ends_the_tunnel_and_no_token_is_read() {
    let mut stage = Stage::start().await;
    let nameless = User { groups: vec!["system:masters".into()], ..User::default() };
    stage.open(Protocol::http(), Target::KubeApi, Some(&nameless), "/api").await;
    let why = stage.down().await;
    assert!(why.contains("a user without a name"), "{why}");
    assert_eq!((stage.token_reads(), stage.dialled()), (0, 0));
}

#[tokio::test]
async fn t06_a_service_learns_nothing_of_a_user_and_gets_no_token() {
    let mut stage = Stage::start().await;
    let stream = stage.open(Protocol::http(), service("web"), Some(&alice()), "/x").await;
    let (text, end) = stage.ended(stream).await;
    assert!(end == End::Whole && text.ends_with("ok"), "{end:?}: {text}");
    let heads = stage.backend.heads.lock().clone();
    assert_eq!(heads.len(), 1, "{heads:?}");
    for secret in ["authorization", TOKEN, "impersonate-", "x-remote-", "alice", "u-1", "example.com"] {
        assert!(!heads.concat().contains(secret), "{secret} in {heads:?}");
    }
    assert_eq!(stage.token_reads(), 0);
}

// === T17 ===

#[tokio::test]
async fn t17_t32_what_leaves_the_list_is_cut_and_what_stays_goes_on() {
    let mut stage = Stage::start().await;
    let http = Protocol::http;
    let web = stage.open(http(), service("web"), None, "/held").await;
    let silent = stage.open(http(), service("web"), None, "/silent").await;
    let shell = stage.open(http(), service("web"), None, "/shell").await;
    let other = stage.open(http(), service("other"), None, "/held").await;
    let api = stage.open(http(), Target::KubeApi, Some(&alice()), "/held").await;
    for (stream, text) in [(web, "first"), (shell, "$ "), (other, "first"), (api, "first")] {
        stage.says(stream, text).await;
    }
    let dialled = async {
        while stage.dialled() < 5 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, dialled).await.expect("each has a connection");

    stage.list.0.send_replace(vec!["other"]);
    for stream in [web, shell] {
        let (text, end) = stage.ended(stream).await;
        assert_eq!(end, End::Cut, "{text}");
    }
    // Where nothing of an answer was said yet, there is room for the reason.
    let (text, end) = stage.ended(silent).await;
    assert!(end == End::Cut && text.contains("is no longer on the agent's list of services"), "{end:?}: {text}");
    let reset = timeout(LIMIT, stage.ends.recv()).await.expect("the target learns of it");
    assert_eq!(reset, Some(Some(ErrorKind::ConnectionReset)), "as an error");

    // The others carry bytes that were not there before.
    stage.backend.more.send_replace(());
    for stream in [other, api] {
        stage.says(stream, "more").await;
    }
    let before = stage.dialled();
    let again = stage.open(http(), service("web"), None, "/x").await;
    let (_, end) = stage.ended(again).await;
    assert!(matches!(&end, End::Refused(RefuseCode::NotAllowed, _)), "{end:?}");
    assert_eq!(stage.dialled(), before);
}
