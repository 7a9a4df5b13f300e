//! A kube-apiserver that answers lists and watches as it was told, and hangs where it was told nothing.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{Request, Response, Uri, body::Frame, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

/// The two kinds of object that are asked for.
pub(crate) const SERVICES: &str = "services";
pub(crate) const SLICES: &str = "endpointslices";

/// The fake. Dropping it closes every connection.
pub(crate) struct FakeApi {
    pub(crate) address: SocketAddr,
    script: Arc<Script>,
    _server: JoinSet<()>,
}

struct Script {
    /// What was asked, path and query, in order.
    asked: watch::Sender<Vec<String>>,
    /// What to answer, by resource and deed.
    answers: Mutex<BTreeMap<(String, bool), VecDeque<Answer>>>,
}

enum Answer {
    Json(u16, Value),
    Stream(mpsc::Receiver<Step>),
}

enum Step {
    Bytes(Bytes),
    Cut,
}

type Body = BoxBody<Bytes, io::Error>;

impl FakeApi {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Script { asked: watch::Sender::new(Vec::new()), answers: Mutex::default() });
        let mut server = JoinSet::new();
        let served = Arc::clone(&script);
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let script = Arc::clone(&served);
                connections.spawn(async move {
                    let serve = service_fn(move |request| answer(Arc::clone(&script), request));
                    let _ =
                        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), serve).await;
                });
            }
        });
        Self { address, script, _server: server }
    }

    /// The next list of a resource is this.
    pub(crate) fn list(&self, resource: &str, version: &str, items: &[Value]) {
        let list = json!({"metadata": {"resourceVersion": version}, "items": items});
        self.answer(resource, false, Answer::Json(200, list));
    }

    /// The next page of a list is this, with more to come.
    pub(crate) fn page(&self, resource: &str, items: &[Value], next: &str) {
        let list = json!({"metadata": {"resourceVersion": "1", "continue": next}, "items": items});
        self.answer(resource, false, Answer::Json(200, list));
    }

    /// The next list of a resource fails.
    pub(crate) fn refuse_list(&self, resource: &str, code: u16) {
        self.answer(resource, false, Answer::Json(code, status(code)));
    }

    /// The next watch of a resource fails.
    pub(crate) fn refuse_watch(&self, resource: &str, code: u16) {
        self.answer(resource, true, Answer::Json(code, status(code)));
    }

    /// The next watch of a resource tells what is fed to it.
    pub(crate) fn watch(&self, resource: &str) -> Feed {
        let (sender, receiver) = mpsc::channel(16);
        self.answer(resource, true, Answer::Stream(receiver));
        Feed { sender }
    }

    /// The next answer for a log, `POD/CONTAINER` or `POD/CONTAINER/previous`, is what is fed to it.
    pub(crate) fn log(&self, name: &str) -> Feed {
        let (sender, receiver) = mpsc::channel(16);
        self.answer(name, false, Answer::Stream(receiver));
        Feed { sender }
    }

    /// The next answer for a log is this, whole.
    pub(crate) async fn whole_log(&self, name: &str, text: impl Into<Bytes>) {
        self.log(name).write(text).await;
    }

    /// The next request for a log fails.
    pub(crate) fn refuse_log(&self, name: &str, code: u16) {
        self.answer(name, false, Answer::Json(code, status(code)));
    }

    /// The next answer for any path that ends so.
    pub(crate) fn json(&self, last: &str, value: Value) {
        self.answer(last, false, Answer::Json(200, value));
    }

    /// Waits until at least `count` requests with that text were made, and gives them.
    pub(crate) async fn asked(&self, text: &str, count: usize) -> Vec<String> {
        let fits = |all: &Vec<String>| all.iter().filter(|one| one.contains(text)).cloned().collect::<Vec<_>>();
        let mut asked = self.script.asked.subscribe();
        let seen = timeout(Duration::from_secs(20), asked.wait_for(|all| fits(all).len() >= count)).await;
        match seen {
            Ok(all) => fits(&all.unwrap()),
            Err(_) => panic!("{text} was not asked {count} times: {:?}", self.script.asked.borrow()),
        }
    }

    fn answer(&self, resource: &str, is_watch: bool, answer: Answer) {
        self.script.answers.lock().entry((resource.to_owned(), is_watch)).or_default().push_back(answer);
    }
}

/// What a watch tells. Dropping it ends the watch cleanly.
pub(crate) struct Feed {
    sender: mpsc::Sender<Step>,
}

impl Feed {
    pub(crate) async fn tell(&self, kind: &str, object: Value) {
        self.write(format!("{}\n", json!({"type": kind, "object": object}))).await;
    }

    pub(crate) async fn write(&self, bytes: impl Into<Bytes>) {
        self.sender.send(Step::Bytes(bytes.into())).await.unwrap();
    }

    /// Breaks the connection in the middle of the answer.
    pub(crate) async fn cut(self) {
        self.sender.send(Step::Cut).await.unwrap();
        self.sender.closed().await;
    }
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": format!("refused with {code}"), "code": code})
}

/// The last part of the path; for a log `POD/CONTAINER`, with what is asked for of it.
fn resource(uri: &Uri) -> String {
    let mut parts = uri.path().rsplit('/');
    let (last, before) = (parts.next().unwrap(), parts.next().unwrap_or_default());
    if last != "log" {
        return last.to_owned();
    }
    let query = uri.query().unwrap_or_default();
    assert!(query.contains("timestamps=true"), "{uri}");
    let container = query.split('&').find_map(|pair| pair.strip_prefix("container=")).unwrap();
    let previous = if query.contains("previous=true") { "/previous" } else { "" };
    format!("{before}/{container}{previous}")
}

async fn answer(script: Arc<Script>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=1"));
    let resource = resource(request.uri());
    let next = script.answers.lock().get_mut(&(resource, is_watch)).and_then(VecDeque::pop_front);
    script.asked.send_modify(|asked| asked.push(request.uri().to_string()));
    match next {
        Some(Answer::Json(code, value)) => {
            let body = Full::from(value.to_string()).map_err(|never| match never {}).boxed();
            Ok(Response::builder().status(code).body(body).unwrap())
        }
        Some(Answer::Stream(steps)) => Ok(Response::new(BodyExt::boxed(StreamBody::new(lines(steps))))),
        // Nothing was told: a list does not come, a watch tells nothing.
        None if is_watch => Ok(Response::new(BodyExt::boxed(StreamBody::new(stream::pending())))),
        None => std::future::pending().await,
    }
}

fn lines(steps: mpsc::Receiver<Step>) -> impl futures_util::Stream<Item = io::Result<Frame<Bytes>>> + Send + Sync {
    let next = |mut steps: mpsc::Receiver<Step>| async move { steps.recv().await.map(|step| (step, steps)) };
    stream::unfold(steps, next).map(|step| match step {
        Step::Bytes(bytes) => Ok(Frame::data(bytes)),
        Step::Cut => Err(io::Error::other("cut")),
    })
}
