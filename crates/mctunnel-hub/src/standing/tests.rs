//! What becomes of a tunnel while the list of clusters cannot be read. The list is made up, the clock jumps.

use super::*;
use mctunnel_core::{ClusterName, Clusters, Observe};
use mctunnel_identity::HubAuthority;
use parking_lot::Mutex;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::time::timeout;

/// A list that says the same of everybody.
#[derive(Clone)]
struct Saying(Arc<Mutex<Standing>>);

impl Clusters for Saying {
    async fn is_known(&self, _: &ClusterName) -> bool {
        true
    }

    async fn admits(&self, _: &ClusterName, _: &str) -> bool {
        *self.0.lock() == Standing::Admitted
    }

    async fn stands(&self, _: &ClusterName, _: &str) -> Standing {
        self.0.lock().clone()
    }
}

/// How often it was told that the list cannot be read.
#[derive(Default)]
struct Told(Mutex<usize>);

impl Observe for Told {
    fn observe(&self, happening: &Happening) {
        *self.0.lock() += usize::from(matches!(happening, Happening::ClusterUnread { .. }));
    }
}

struct Stage {
    hub: Hub,
    list: Saying,
    told: Arc<Told>,
    peer: Peer,
    _data: TempDir,
}

impl Stage {
    /// An agent whose certificate lives for a day.
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let authority = HubAuthority::open_or_create(data.path(), &[]).unwrap();
        let (list, told) = (Saying(Arc::new(Mutex::new(Standing::Admitted))), Arc::new(Told::default()));
        let hub = Hub::builder(&authority, Arc::new(list.clone())).observer(told.clone()).build().unwrap();
        let agent = AgentIdentity {
            cluster: ClusterName::parse("c1").unwrap(),
            serial: "01".to_owned(),
            not_after_unix: authority.unix_now() + 24 * 60 * 60,
        };
        Self { hub, list, told, peer: Peer { agent, own: None }, _data: data }
    }

    fn says(&self, standing: Standing) {
        *self.list.0.lock() = standing;
    }
}

fn unread() -> Standing {
    Standing::Unknown("too many open files".to_owned())
}

const TEN_MINUTES: Duration = Duration::from_secs(600);

#[tokio::test(start_paused = true)]
async fn t40_a_list_that_cannot_be_read_for_a_while_cuts_nobody() {
    let stage = Stage::new();
    let mut standing = Box::pin(stage.hub.no_longer_admitted(&stage.peer));
    for outage in 1..=3 {
        stage.says(unread());
        assert!(timeout(Duration::from_secs(50), &mut standing).await.is_err(), "outage {outage}");
        stage.says(Standing::Admitted);
        assert!(timeout(TEN_MINUTES, &mut standing).await.is_err(), "outage {outage}");
        assert_eq!(*stage.told.0.lock(), outage, "each is said once");
    }
    // What was taken back meanwhile counts at once.
    stage.says(unread());
    assert!(timeout(Duration::from_secs(30), &mut standing).await.is_err());
    stage.says(Standing::Refused);
    let begin = Instant::now();
    assert!(standing.await.contains("revoked"));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn t32_who_cannot_be_vouched_for_is_out_after_a_minute_and_told_why() {
    let stage = Stage::new();
    stage.says(unread());
    let begin = Instant::now();
    let reason = stage.hub.no_longer_admitted(&stage.peer).await;
    assert!(!reason.contains("revoked") && reason.contains("could not read"), "{reason}");
    let lasted = begin.elapsed();
    assert!(Duration::from_secs(50) < lasted && lasted <= Duration::from_secs(60), "{lasted:?}");
    assert_eq!(*stage.told.0.lock(), 1);
}
