//! The API keys of a hub: those of its own store, or, while another hub has the store and hands over to this one, what that one tells.
//!
//! What was told counts for less than a second from when it was asked for, so a key that was revoked does not outlive it here. Once
//! nobody has the store it is opened, and commands come here. Why: ADR 0023.

use crate::{
    control::{self, Command, Control, ControlError, Reply},
    process,
    stored_api_keys::StoredApiKeys,
};
use mctunnel_authn::{ApiKeyRecord, ApiKeyStore, AuthnError};
use mctunnel_core::Store;
use mctunnel_store::{FileStore, OpenStoreError};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info, warn};

/// How often the other hub is asked, and looked whether it has let go of the store.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// How long it may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// How often it is asked at the start, until this hub gives up.
const FIRST_ASKS: u32 = 50;
/// How long what it told counts for who comes in: revoked keys are to be dead within a second.
const COUNTS_FOR: Duration = Duration::from_millis(900);
/// How long it counts for who is in: they are to be cut within five seconds, and permits are looked at every second.
const HOLDS_FOR: Duration = Duration::from_secs(3);

/// The keys, and how they come here. Dropping it ends that.
pub(crate) struct HubApiKeys {
    keys: Arc<Keys>,
    /// Commands that change keys, once the store is ours.
    control: Arc<Mutex<Option<Control>>>,
    _following: Option<AbortOnDropHandle<()>>,
}

impl HubApiKeys {
    /// Opens the store. With `shared`, and another hub that has it, follows that one until it ends.
    pub(crate) async fn start(data_dir: &Path, shared: bool) -> anyhow::Result<Self> {
        let in_use = match FileStore::open(data_dir) {
            Ok(store) => return Self::own(data_dir, store),
            Err(error @ OpenStoreError::InUse { .. }) if shared => error,
            Err(error) => return Err(error.into()),
        };
        for _ in 0..FIRST_ASKS {
            match Told::ask(data_dir, None).await {
                Ok(told) => return Ok(Self::follow(data_dir, told)),
                Err(NotTold::Refused(error)) => {
                    warn!(%error, "The hub that runs does not hand over its API keys.");
                    return Err(in_use.into());
                }
                Err(NotTold::NotNow(_)) => {}
            }
            // A hub that is just starting or ending, or a command.
            tokio::time::sleep(ASK_EVERY).await;
            match FileStore::open(data_dir) {
                Ok(store) => return Self::own(data_dir, store),
                Err(OpenStoreError::InUse { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(in_use.into())
    }

    fn own(data_dir: &Path, store: FileStore) -> anyhow::Result<Self> {
        let store: Arc<dyn Store> = Arc::new(store);
        let keys = Keys(RwLock::new(Source::Own { keys: StoredApiKeys::open(Arc::clone(&store))?, before: 0 }));
        let control = control::serve(data_dir, store)?;
        Ok(Self { keys: Arc::new(keys), control: Arc::new(Mutex::new(Some(control))), _following: None })
    }

    fn follow(data_dir: &Path, told: Told) -> Self {
        info!("Another hub has the API keys; they are taken over when it ends.");
        let keys = Arc::new(Keys(RwLock::new(Source::Told(told))));
        let control = Arc::new(Mutex::new(None));
        let follower = Follower {
            data_dir: data_dir.to_owned(),
            keys: Arc::clone(&keys),
            control: Arc::clone(&control),
            has_complained: false,
        };
        Self { keys, control, _following: Some(process::owned(follower.run())) }
    }

    /// For who asks for keys.
    pub(crate) fn store(&self) -> Arc<dyn ApiKeyStore> {
        Arc::clone(&self.keys) as _
    }

    /// Lets go of the store, for the next hub. From now on no key counts here.
    pub(crate) async fn end(self) {
        let Self { keys, control, _following } = self;
        drop(_following);
        let listening = control.lock().take();
        if let Some(listening) = listening {
            listening.end().await;
        }
        keys.forget();
    }
}

// === Keys ===

/// The keys as they are now.
#[derive(Debug)]
struct Keys(RwLock<Source>);

#[derive(Debug)]
enum Source {
    /// The store is ours.
    Own {
        keys: StoredApiKeys,
        /// Added to its generation, so that it never falls.
        before: u64,
    },
    /// Another hub has it.
    Told(Told),
    /// It was given up.
    Nobody { generation: u64 },
}

impl Keys {
    fn take_over(&self, keys: StoredApiKeys) {
        let before = self.generation() + 1;
        *self.0.write() = Source::Own { keys, before };
    }

    fn forget(&self) {
        let generation = self.generation() + 1;
        *self.0.write() = Source::Nobody { generation };
    }

    /// The state that was told last.
    fn known(&self) -> Option<String> {
        match &*self.0.read() {
            Source::Told(told) => Some(told.state.clone()),
            Source::Own { .. } | Source::Nobody { .. } => None,
        }
    }

    fn tell(&self, news: Told) {
        if let Source::Told(told) = &mut *self.0.write() {
            told.renew(news);
        }
    }

    /// Has everybody who is in looked at again when what was told no longer holds for them.
    fn expire(&self) {
        if let Source::Told(told) = &mut *self.0.write()
            && told.age() >= HOLDS_FOR
        {
            told.generation += 1;
        }
    }
}

impl ApiKeyStore for Keys {
    fn find(&self, id: &str) -> Option<Arc<ApiKeyRecord>> {
        match &*self.0.read() {
            Source::Own { keys, .. } => keys.find(id),
            Source::Told(told) => told.holding()?.get(id).cloned(),
            Source::Nobody { .. } => None,
        }
    }

    fn list(&self) -> Vec<Arc<ApiKeyRecord>> {
        match &*self.0.read() {
            Source::Own { keys, .. } => keys.list(),
            Source::Told(told) => told.holding().into_iter().flat_map(BTreeMap::values).cloned().collect(),
            Source::Nobody { .. } => Vec::new(),
        }
    }

    fn put(&self, record: ApiKeyRecord) -> Result<(), String> {
        match &*self.0.read() {
            Source::Own { keys, .. } => keys.put(record),
            Source::Told(_) | Source::Nobody { .. } => Err("another hub has the API keys".to_owned()),
        }
    }

    fn generation(&self) -> u64 {
        match &*self.0.read() {
            Source::Own { keys, before } => before + keys.generation(),
            Source::Told(Told { generation, .. }) | Source::Nobody { generation } => *generation,
        }
    }

    fn is_current(&self) -> bool {
        match &*self.0.read() {
            Source::Own { keys, .. } => keys.is_current(),
            Source::Told(told) => told.age() < COUNTS_FOR,
            Source::Nobody { .. } => false,
        }
    }
}

// === Told ===

/// What another hub told.
#[derive(Debug)]
struct Told {
    state: String,
    /// `None` in an answer that says that nothing changed.
    records: Option<BTreeMap<String, Arc<ApiKeyRecord>>>,
    /// When it was asked for: it may have been old when it came.
    asked: Instant,
    generation: u64,
}

/// Why it did not tell.
enum NotTold {
    /// It will not.
    Refused(ControlError),
    /// It is gone, or does not answer.
    NotNow(ControlError),
}

impl Told {
    async fn ask(data_dir: &Path, known: Option<String>) -> Result<Self, NotTold> {
        let asked = Instant::now();
        let is_first = known.is_none();
        let command = Command::ApiKeyRecords { known };
        let bad = |problem: String| NotTold::Refused(ControlError::BadAnswer(problem));
        match control::ask_hub(data_dir, &command, ANSWER_WITHIN).await {
            Ok(Reply::ApiKeyRecords { state, records }) if records.is_some() || !is_first => {
                let read = |records: Vec<String>| records.iter().map(|json| record(json)).collect();
                let records = records.map(read).transpose().map_err(|error: AuthnError| bad(error.to_string()))?;
                Ok(Self { state, records, asked, generation: 0 })
            }
            Ok(_) => Err(bad("it is about something else".to_owned())),
            Err(error @ (ControlError::Refused(_) | ControlError::BadAnswer(_))) => Err(NotTold::Refused(error)),
            Err(error) => Err(NotTold::NotNow(error)),
        }
    }

    fn renew(&mut self, news: Self) {
        self.asked = news.asked;
        if let Some(records) = news.records {
            (self.state, self.records) = (news.state, Some(records));
            self.generation += 1;
        }
    }

    fn age(&self) -> Duration {
        self.asked.elapsed()
    }

    /// The records, as long as they hold.
    fn holding(&self) -> Option<&BTreeMap<String, Arc<ApiKeyRecord>>> {
        self.records.as_ref().filter(|_| self.age() < HOLDS_FOR)
    }
}

fn record(json: &str) -> Result<(String, Arc<ApiKeyRecord>), AuthnError> {
    ApiKeyRecord::from_json(json).map(|record| (record.id.clone(), Arc::new(record)))
}

// === Follower ===

/// Asks the other hub until it is gone, and takes its place.
struct Follower {
    data_dir: PathBuf,
    keys: Arc<Keys>,
    control: Arc<Mutex<Option<Control>>>,
    has_complained: bool,
}

impl Follower {
    async fn run(mut self) {
        loop {
            let problem = match self.step().await {
                Ok(Step::Taken) => break,
                Ok(Step::Told) => None,
                Ok(Step::Between) => Some("somebody has the store and does not answer".to_owned()),
                Err(error) => Some(format!("{error:#}")),
            };
            self.complain(problem);
            self.keys.expire();
            tokio::time::sleep(ASK_EVERY).await;
        }
        info!("The API keys are this hub's now.");
    }

    async fn step(&self) -> anyhow::Result<Step> {
        match Told::ask(&self.data_dir, self.keys.known()).await {
            Ok(told) => {
                self.keys.tell(told);
                return Ok(Step::Told);
            }
            Err(NotTold::NotNow(ControlError::NoHub { .. })) => {}
            Err(NotTold::NotNow(error) | NotTold::Refused(error)) => return Err(error.into()),
        }
        let data_dir = self.data_dir.clone();
        // After a crash it is repaired first.
        let opened = tokio::task::spawn_blocking(move || FileStore::open(&data_dir)).await?;
        let store: Arc<dyn Store> = match opened {
            Ok(store) => Arc::new(store),
            Err(OpenStoreError::InUse { .. }) => return Ok(Step::Between),
            Err(error) => return Err(error.into()),
        };
        let keys = StoredApiKeys::open(Arc::clone(&store))?;
        *self.control.lock() = Some(control::serve(&self.data_dir, store)?);
        self.keys.take_over(keys);
        Ok(Step::Taken)
    }

    /// Once, when it has come to matter.
    fn complain(&mut self, problem: Option<String>) {
        match problem {
            Some(problem) if !self.keys.is_current() && !self.has_complained => {
                self.has_complained = true;
                error!(problem, "Nothing is heard of the API keys; who shows one is refused until something is.");
            }
            Some(_) => {}
            None => self.has_complained = false,
        }
    }
}

/// How far it came.
enum Step {
    /// The other hub answered.
    Told,
    /// It did not, but somebody has the store: a hub that starts or ends, or a command.
    Between,
    /// The store is ours.
    Taken,
}
