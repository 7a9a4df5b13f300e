//! Single requests forwarded by a program that has a server of its own.

use super::rig::{Rig, Target};
use bytes::Bytes;
use futures_util::stream;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Frame;
use mctunnel::{
    ClusterName, Destination, Happening, HttpConfig, HttpForward, Hub, Observe, Onward, ServiceTarget,
    core::observe::SharedObserver,
};
use parking_lot::Mutex;
use std::{convert::Infallible, sync::Arc};

#[derive(Default)]
struct Seen(Mutex<Vec<Happening>>);

impl Observe for Seen {
    fn observe(&self, happening: &Happening) {
        self.0.lock().push(happening.clone());
    }
}

fn forward(rig: &Rig) -> (HttpForward<Hub>, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let observer: SharedObserver = Arc::<Seen>::clone(&seen);
    (HttpForward::new(rig.hub(), HttpConfig::default(), observer), seen)
}

fn onward(cluster: &str) -> Onward {
    let cluster = ClusterName::parse(cluster).expect("a name");
    let target = ServiceTarget::parse("default", "web").expect("a service").into();
    Onward::new(Destination { cluster, target }, "/a?b=c".parse().expect("a path"))
}

#[tokio::test]
async fn a_body_of_unknown_length_arrives_whole() {
    let (rig, target) = (Rig::start().await, Target::named("shop").await);
    let _agent = rig.agent("cluster-a", target.address).await;
    let (forward, seen) = forward(&rig);
    let pieces = (0..100).map(|_| Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b'x'; 10_000]))));
    let request = Request::post("/elsewhere").body(StreamBody::new(stream::iter(pieces))).unwrap();
    let answer = forward.forward(onward("cluster-a"), request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "shop");
    let requests = target.seen.lock();
    assert!(requests[0].starts_with("POST /a?b=c HTTP/1.1\r\n"), "{}", &requests[0][..100]);
    assert_eq!(requests[0].matches('x').count() - requests[0].matches("x-").count(), 1_000_000);
    let seen = seen.0.lock();
    assert!(
        matches!(seen[..], [Happening::StreamOpened { .. }, Happening::StreamEnded { error: None, .. }]),
        "{seen:?}"
    );
}

#[tokio::test]
async fn a_request_that_cannot_be_forwarded_is_told_and_reported() {
    let rig = Rig::start().await;
    let (forward, seen) = forward(&rig);
    let asking = || Request::get("/").body(Empty::<Bytes>::new()).unwrap();
    let mut upgrade = asking();
    upgrade.headers_mut().insert("upgrade", "websocket".parse().unwrap());
    for (request, status, code) in [
        (asking(), StatusCode::NOT_FOUND, "MCT-OPEN-UNKNOWN-CLUSTER"),
        (upgrade, StatusCode::BAD_REQUEST, "MCT-HTTP-BAD-UPGRADE"),
    ] {
        let error = forward.forward(onward("nobody"), request).await.unwrap_err();
        assert_eq!((error.status(), error.code().code), (status, code));
        assert_eq!(error.to_response().status(), status);
        let last = seen.0.lock().pop();
        assert!(matches!(&last, Some(Happening::StreamRefused { code: seen, .. }) if *seen == code), "{last:?}");
    }
}
