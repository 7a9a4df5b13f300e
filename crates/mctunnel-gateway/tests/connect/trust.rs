//! Clients that have to say who they are: by a token in `Proxy-Authorization`, for every connection.

use crate::rig::{ESTABLISHED, PATIENCE, Rig, read_some};
use mctunnel_core::{
    Access, Action, Authenticate, Authorize, Decision, Evidence, Identity, OpenError, OpenRequest, Unaudited,
    Unauthenticated, User,
};
use mctunnel_gateway::Checkpoint;
use parking_lot::Mutex;
use std::{
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::timeout,
};

/// Believes tokens that are names of people, and does not know what to do with `later`.
struct Names;

impl Authenticate for Names {
    async fn authenticate(&self, evidence: &Evidence) -> Result<Identity, Unauthenticated> {
        let token = evidence.authorization.as_ref().and_then(|shown| shown.expose().strip_prefix("Bearer "));
        match token {
            Some(name @ ("alice" | "mallory")) => Ok(User::new(name, "test").into()),
            Some("later") => Err(Unauthenticated::Unavailable("the provider does not answer".to_owned())),
            _ => Err(Unauthenticated::Rejected("no valid token".to_owned())),
        }
    }
}

/// Alice may, until the generation is not 0 any more.
#[derive(Default)]
struct OnlyAlice(AtomicU64);

impl Authorize for OnlyAlice {
    fn authorize(&self, access: &Access<'_>) -> Decision {
        assert_eq!(access.action, &Action::Bytes);
        match access.identity.user() {
            Some(user) if &*user.name == "alice" && self.0.load(Ordering::SeqCst) == 0 => Decision::allowed("alice"),
            _ => Decision::denied("only alice may"),
        }
    }

    fn generation(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

fn accepting() -> impl Fn(OpenRequest) -> Ready<Result<DuplexStream, OpenError>> + Send + Sync + 'static {
    let far_ends = Mutex::new(Vec::new());
    move |_| {
        let (near, far) = duplex(1024);
        far_ends.lock().push(far);
        ready(Ok(near))
    }
}

fn checkpoint() -> (Checkpoint, Arc<OnlyAlice>) {
    let rules = Arc::new(OnlyAlice::default());
    (Checkpoint::new(Arc::new(Names), Arc::clone(&rules) as _, Arc::new(Unaudited)), rules)
}

fn request(headers: &str) -> String {
    format!("CONNECT db.c1.mctunnel:1 HTTP/1.1\r\n{headers}\r\n")
}

#[tokio::test]
async fn every_answer_to_a_client_that_may_not() {
    let rig = Rig::start_behind(checkpoint().0, accepting()).await;
    for (headers, status, said) in [
        ("", "407", "MCT-CONNECT-UNAUTHENTICATED"),
        ("Proxy-Authorization: Bearer nobody\r\n", "407", "Proxy-Authenticate: Basic"),
        ("Proxy-Authorization: Basic YzE6\r\n", "407", "no valid token"),
        ("Proxy-Authorization: Bearer mallory\r\n", "403", "only alice may"),
        ("Proxy-Authorization: Bearer later\r\n", "503", "Retry-After: 1"),
        ("Authorization: Bearer alice\r\n", "400", "MCT-CONNECT-TWO-CREDENTIALS"),
        (
            "Proxy-Authorization: Bearer alice\r\nProxy-Authorization: Bearer alice\r\n",
            "400",
            "MCT-CONNECT-TWO-CREDENTIALS",
        ),
    ] {
        let answer = rig.exchange(request(headers).as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(said), "{headers}: {answer}");
    }
    assert_eq!(rig.requests.lock().len(), 0);
}

#[tokio::test]
async fn the_agent_is_told_whom_a_stream_is_for() {
    let rig = Rig::start_behind(checkpoint().0, accepting()).await;
    // c1:alice
    for headers in ["Proxy-Authorization: Bearer alice\r\n", "Proxy-Authorization: Basic YzE6YWxpY2U=\r\n"] {
        let mut client = rig.connect().await;
        client.write_all(request(headers).as_bytes()).await.expect("sent");
        assert_eq!(read_some(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
    }
    let requests = rig.requests.lock();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request.identity.to_string() == "alice"));
}

#[tokio::test]
async fn t32_a_stream_is_cut_when_its_permission_goes_away() {
    let (checkpoint, rules) = checkpoint();
    let rig = Rig::start_behind(checkpoint, accepting()).await;
    let mut client = rig.connect().await;
    client.write_all(request("Proxy-Authorization: Bearer alice\r\n").as_bytes()).await.expect("sent");
    assert_eq!(read_some(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
    rules.0.store(1, Ordering::SeqCst);
    let cut = timeout(PATIENCE, client.read(&mut [0])).await.expect("cut in time");
    assert!(cut.is_err(), "a reset, not a clean end");
}
