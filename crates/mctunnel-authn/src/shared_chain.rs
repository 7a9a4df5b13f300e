//! The chain of a file that may change while the hub runs: a new one counts within a second and as a whole, a broken file changes
//! nothing, and without a file nobody gets in. Kubernetes replaces mounted files by swapping links, so contents are compared.

#[cfg(test)]
mod tests;

use crate::{
    AuthParts, AuthnError, Chain, Wants,
    config::{Files, Reuse},
};
use mctunnel_core::{Authenticate, Evidence, Identity, Unauthenticated};
use parking_lot::RwLock;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::{MissedTickBehavior, interval, sleep},
};

/// How often the files are read.
const POLL: Duration = Duration::from_millis(500);

/// Changed files must read the same twice, this far apart: one that is being written must not count.
const SETTLE: Duration = Duration::from_millis(100);

/// The chain of a file, as it is now. Cheap to clone; the file is watched until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct SharedChain {
    current: Arc<Current>,
    _watching: Arc<JoinSet<()>>,
}

impl SharedChain {
    /// Reads a file and watches it, and the files it names, from then on. A file that is missing or broken now is an error, because
    /// there is no last good one.
    pub async fn watch(path: PathBuf, parts: AuthParts) -> Result<Self, AuthnError> {
        let files = read(&path).await?;
        let built = files.build(&parts, &Reuse::nothing())?;
        let sha256 = Some(files.sha256());
        let current = Arc::new(Current {
            place: RwLock::new(Place { chain: Some(built.chain), base: 0 }),
            status: watch::Sender::new(ChainStatus { replaced: 0, sha256, problem: None }),
        });
        let follower =
            Follower { path, parts, judged: Judged::Files(files), reuse: built.reuse, current: Arc::clone(&current) };
        let mut watching = JoinSet::new();
        watching.spawn(follower.follow());
        Ok(Self { current, _watching: Arc::new(watching) })
    }

    /// How the file is.
    #[must_use]
    pub fn status(&self) -> ChainStatus {
        self.current.status.borrow().clone()
    }

    /// Tells of each change of [`status`](Self::status).
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<ChainStatus> {
        self.current.status.subscribe()
    }

    /// What the gateway's listener has to collect now; nothing while there is no file.
    #[must_use]
    pub fn wants(&self) -> Wants {
        self.current.chain().map(|chain| chain.wants()).unwrap_or_default()
    }
}

impl Authenticate for SharedChain {
    async fn authenticate(&self, evidence: &Evidence) -> Result<Identity, Unauthenticated> {
        match self.current.chain() {
            Some(chain) => chain.authenticate(evidence).await,
            None => Err(Unauthenticated::Unavailable(MISSING.to_owned())),
        }
    }

    fn still_holds(&self, identity: &Identity) -> bool {
        self.current.chain().is_some_and(|chain| chain.still_holds(identity))
    }

    fn generation(&self) -> u64 {
        self.current.place.read().generation()
    }
}

/// How an authentication file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainStatus {
    /// How often the chain was replaced.
    pub replaced: u64,
    /// The SHA-256 of the text of the chain that counts now, in hex; `None` without a chain.
    pub sha256: Option<String>,
    /// Why the file as it is now does not count; the chain is then the last good one, or none if the file is not there.
    pub problem: Option<String>,
}

const MISSING: &str = "the authentication file is not there: nobody gets in";

// === Current ===

#[derive(Debug)]
struct Current {
    place: RwLock<Place>,
    status: watch::Sender<ChainStatus>,
}

#[derive(Debug)]
struct Place {
    /// None while there is no file.
    chain: Option<Chain>,
    /// What is added to the chain's own generation, so that a new chain, which may begin at 0, never has an old number.
    base: u64,
}

impl Place {
    fn generation(&self) -> u64 {
        self.base.wrapping_add(self.chain.as_ref().map_or(0, Chain::generation))
    }
}

impl Current {
    fn chain(&self) -> Option<Chain> {
        self.place.read().chain.clone()
    }

    fn replace(&self, chain: Option<Chain>, sha256: Option<String>, problem: Option<String>) {
        let mut place = self.place.write();
        let next = place.generation().wrapping_add(1);
        place.base = next.wrapping_sub(chain.as_ref().map_or(0, Chain::generation));
        place.chain = chain;
        drop(place);
        self.status.send_modify(|status| {
            *status = ChainStatus { replaced: status.replaced + 1, sha256, problem };
        });
    }
}

// === Follower ===

struct Follower {
    path: PathBuf,
    parts: AuthParts,
    judged: Judged,
    reuse: Reuse,
    current: Arc<Current>,
}

/// What was judged last.
#[derive(PartialEq, Eq)]
enum Judged {
    Files(Files),
    /// There was no file.
    Missing,
    /// It could not be read.
    Trouble,
}

impl Follower {
    async fn follow(mut self) {
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look().await;
        }
    }

    /// Reads the files, and judges them if they are others than before.
    async fn look(&mut self) {
        let seen = read(&self.path).await;
        if matches!((&seen, &self.judged), (Ok(files), Judged::Files(judged)) if files == judged) {
            return;
        }
        // A change or a trouble counts when it is still there a moment later.
        sleep(SETTLE).await;
        match (seen, read(&self.path).await) {
            (Ok(files), Ok(again)) if files == again => self.judge(files),
            (Err(problem), Err(again)) if said(&problem) == said(&again) => self.refuse(&problem),
            // Still being written; the next look will see.
            _ => {}
        }
    }

    fn judge(&mut self, files: Files) {
        match files.build(&self.parts, &self.reuse) {
            Ok(built) => {
                let file = self.path.display();
                let providers: Vec<_> = built.chain.names().map(AsRef::as_ref).collect();
                tracing::info!(%file, providers = providers.join(","), "the authentication file changed");
                self.reuse = built.reuse;
                self.current.replace(Some(built.chain), Some(files.sha256()), None);
                self.judged = Judged::Files(files);
            }
            Err(problem) => self.refuse(&problem),
        }
    }

    /// The file as it is does not count. Said once for each problem.
    fn refuse(&mut self, problem: &AuthnError) {
        let file = self.path.display();
        if is_missing(problem, &self.path) {
            if self.judged != Judged::Missing {
                tracing::warn!(%file, "{MISSING}");
                self.judged = Judged::Missing;
                self.reuse = Reuse::nothing();
                self.current.replace(None, None, Some(MISSING.to_owned()));
            }
            return;
        }
        self.judged = Judged::Trouble;
        let said = said(problem);
        if self.current.status.borrow().problem.as_ref() != Some(&said) {
            let code = problem.code().code;
            tracing::warn!(%file, code, problem = said, "the authentication file is broken: the last good one stays");
            self.current.status.send_modify(|status| status.problem = Some(said));
        }
    }
}

/// Whether the authentication file itself is not there. A file that it names is another matter: it may be on its way.
fn is_missing(problem: &AuthnError, path: &Path) -> bool {
    matches!(problem, AuthnError::File { path: file, source } if file == path && source.kind() == io::ErrorKind::NotFound)
}

/// The problem with its cause, in one line.
fn said(problem: &AuthnError) -> String {
    match std::error::Error::source(problem) {
        Some(cause) => format!("{problem}: {cause}"),
        None => problem.to_string(),
    }
}

/// Off the threads that serve: a file may be on a slow disk.
async fn read(path: &Path) -> Result<Files, AuthnError> {
    let owned = path.to_owned();
    let reading = spawn_blocking(move || Files::read(&owned)).await;
    reading.unwrap_or_else(|_| Err(AuthnError::file(path)(io::Error::other("the reading was broken off"))))
}
