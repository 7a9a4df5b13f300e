//! Clients of SNI have shown nothing, and are asked like everybody who has: both the authenticator and policy have to let nobody in.

use crate::{
    rig::{Notes, PATIENCE, opener},
    trust::{Names, OnlyAlice, far_ends, hello_for},
};
use mctunnel_core::{Authenticate, Authorize, Evidence, Happening, Identity, PassThrough, Unaudited, Unauthenticated};
use mctunnel_gateway::{Checkpoint, Gateway, SniAdapter, SniConfig};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Lets in who shows nothing, as long as its number is even.
#[derive(Default)]
struct Nobody(AtomicU64);

impl Nobody {
    fn lets_in(&self) -> bool {
        self.0.load(Ordering::SeqCst).is_multiple_of(2)
    }
}

impl Authenticate for Nobody {
    async fn authenticate(&self, evidence: &Evidence) -> Result<Identity, Unauthenticated> {
        assert!(evidence.authorization.is_none() && evidence.certificate.is_none() && evidence.forwarded.is_empty());
        assert!(evidence.peer.is_some_and(|peer| peer.ip().is_loopback()), "{evidence:?}");
        if self.lets_in() { Ok(Identity::Anonymous) } else { Err(Unauthenticated::Unavailable("not now".to_owned())) }
    }

    fn still_holds(&self, identity: &Identity) -> bool {
        identity.user().is_none() && self.lets_in()
    }

    fn generation(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A gateway, a client of it that has said hello, and what becomes of it.
struct Stage {
    client: TcpStream,
    far_ends: Arc<Mutex<Vec<DuplexStream>>>,
    happenings: Arc<Mutex<Vec<Happening>>>,
    _serving: JoinSet<()>,
}

impl Stage {
    async fn set(authenticate: Arc<impl Authenticate>, authorize: Arc<dyn Authorize>) -> Self {
        let (happenings, (far_ends, open)) = (Arc::default(), far_ends());
        let observer = Arc::new(Notes(Arc::clone(&happenings)));
        let adapter = SniAdapter::new(opener(open), SniConfig::new("hub.test"), observer).checkpoint(Checkpoint::new(
            authenticate,
            authorize,
            Arc::new(Unaudited),
        ));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let mut _serving = JoinSet::new();
        _serving.spawn(async move { Gateway::new(adapter).serve(listener, CancellationToken::new()).await });
        client.write_all(&hello_for("c1.hub.test")).await.expect("sent");
        Self { client, far_ends, happenings, _serving }
    }

    /// Waits for the end of a client that is refused: not a byte for it, and no stream; gives the code.
    async fn refused(mut self) -> &'static str {
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, self.client.read_to_end(&mut answer)).await.expect("it is closed");
        assert_eq!(answer, b"");
        assert!(self.far_ends.lock().is_empty(), "nothing was opened for it");
        let happenings = self.happenings.lock();
        match &happenings[..] {
            [Happening::StreamRefused { cluster: None, code, .. }] => *code,
            other => panic!("{other:?}"),
        }
    }

    /// The far end of the stream that was opened.
    async fn opened(&self) -> DuplexStream {
        let opened = async {
            loop {
                let far = self.far_ends.lock().pop();
                match far {
                    Some(far) => return far,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        timeout(PATIENCE, opened).await.expect("it was opened")
    }
}

#[tokio::test]
async fn t16_sni_clients_come_in_only_where_clients_without_a_credential_do() {
    let everything = || Arc::new(PassThrough);
    // Policy would let anybody in; the authenticator knows users alone, or cannot say.
    assert_eq!(Stage::set(Arc::new(Names), everything()).await.refused().await, "MCT-SNI-UNAUTHENTICATED");
    let away = Arc::new(Nobody(AtomicU64::new(1)));
    assert_eq!(Stage::set(away, everything()).await.refused().await, "MCT-SNI-UNAUTHENTICATED");
    // Nobody comes in, and has no rights.
    let nobody = || Arc::new(Nobody::default());
    assert_eq!(Stage::set(nobody(), Arc::new(OnlyAlice::default())).await.refused().await, "MCT-SNI-DENIED");
    Stage::set(nobody(), everything()).await.opened().await;
}

#[tokio::test]
async fn t32_an_sni_client_is_cut_when_clients_without_a_credential_come_in_no_more() {
    let nobody = Arc::new(Nobody::default());
    let mut stage = Stage::set(Arc::clone(&nobody), Arc::new(PassThrough)).await;
    let _far = stage.opened().await;
    // Another generation in which they come in as before; looked at a second later.
    nobody.0.store(2, Ordering::SeqCst);
    let stays = timeout(Duration::from_millis(2500), stage.client.read(&mut [0])).await;
    assert!(stays.is_err(), "{stays:?}");
    nobody.0.store(3, Ordering::SeqCst);
    let cut = timeout(Duration::from_secs(5), stage.client.read(&mut [0])).await.expect("cut in time");
    assert!(cut.is_err(), "a reset, not a clean end");
}
