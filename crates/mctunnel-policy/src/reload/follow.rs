//! Looks at the policy file twice a second.

use super::{MISSING, Shared};
use crate::{
    error::{PolicyError, Problem},
    file::LONGEST,
};
use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    io::AsyncReadExt,
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, sleep},
};

/// How often the file is looked at.
pub(super) const POLL: Duration = Duration::from_millis(500);

/// A changed file must read the same twice, this far apart: one that is being written must not count.
pub(super) const SETTLE: Duration = Duration::from_millis(100);

/// A file that was written longer ago than this and looks the same is the same; a younger one may have changed within a tick of the
/// file system's clock.
const OLD: Duration = Duration::from_secs(2);

/// Watches one file.
pub(super) struct Follower {
    path: PathBuf,
    /// What was judged last, in which `None` is a file that was not there; `None` when it could not be read since.
    judged: Option<Option<String>>,
    /// How the file looked when it was judged, if it was old then.
    looked: Option<Looks>,
    shared: Arc<Shared>,
}

/// What can be told of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Looks {
    modified: (i64, i64),
    length: u64,
    file: (u64, u64),
}

impl Follower {
    pub(super) fn new(path: PathBuf, content: Option<String>, shared: Arc<Shared>) -> Self {
        Self { path, judged: Some(content), looked: None, shared }
    }

    pub(super) async fn follow(mut self) {
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look().await;
        }
    }

    /// Reads the file, and judges it if it is another than before.
    async fn look(&mut self) {
        let looks = looks(&self.path).await;
        if looks.is_some() && looks == self.looked {
            return;
        }
        let content = match read(&self.path).await {
            Ok(content) => content,
            Err(error) => {
                (self.judged, self.looked) = (None, None);
                return self.refuse(&error);
            }
        };
        if self.judged.as_ref() != Some(&content) {
            sleep(SETTLE).await;
            if !matches!(read(&self.path).await, Ok(again) if again == content) {
                // Still being written, or being replaced in two steps; the next look will see.
                return;
            }
            self.judge(content).await;
        }
        self.looked = looks;
    }

    async fn judge(&mut self, content: Option<String>) {
        let file = self.path.display();
        match content.clone() {
            None => {
                tracing::warn!(%file, "{MISSING}");
                self.shared.deny_all();
            }
            Some(text) => {
                let shared = Arc::clone(&self.shared);
                match spawn_blocking(move || shared.install(&text)).await {
                    Ok(Ok(())) => {
                        let status = self.shared.status.borrow().clone();
                        let (roles, bindings, deny) = (status.roles, status.bindings, status.deny);
                        tracing::info!(%file, roles, bindings, deny, "the policy changed");
                    }
                    Ok(Err(error)) => self.refuse(&error),
                    Err(_) => {
                        let message = "the policy could not be read to its end".to_owned();
                        self.refuse(&PolicyError::Syntax(Problem { line: None, place: String::new(), message }));
                    }
                }
            }
        }
        self.judged = Some(content);
    }

    /// The file as it is does not count. Said once for each problem.
    fn refuse(&self, error: &PolicyError) {
        let problem = match error {
            PolicyError::Unreadable(cause) => format!("{error}: {cause}"),
            PolicyError::Syntax(_) | PolicyError::Invalid(_) => error.to_string(),
        };
        if self.shared.status.borrow().problem.as_ref() != Some(&problem) {
            let code = error.code().code;
            tracing::error!(file = %self.path.display(), code, problem, "the policy is broken: the last good one stays");
            self.shared.keep(problem);
        }
    }
}

/// How the file looks; `None` if it is too young for that to say anything.
async fn looks(path: &Path) -> Option<Looks> {
    let metadata = tokio::fs::metadata(path).await.ok()?;
    let age = SystemTime::now().duration_since(metadata.modified().ok()?).ok()?;
    (age > OLD).then(|| Looks {
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        length: metadata.len(),
        file: (metadata.dev(), metadata.ino()),
    })
}

/// The file's text; `None` when it is not there.
pub(super) async fn read(path: &Path) -> Result<Option<String>, PolicyError> {
    let file = match tokio::fs::File::open(path).await {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(PolicyError::Unreadable(error)),
    };
    let mut text = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut text).await.map_err(PolicyError::Unreadable)?;
    let syntax =
        |message: &str| PolicyError::Syntax(Problem { line: None, place: String::new(), message: message.to_owned() });
    if u64::try_from(text.len()).is_ok_and(|length| length > LONGEST) {
        return Err(syntax("it is longer than 32 MiB"));
    }
    String::from_utf8(text).map(Some).map_err(|_| syntax("it is not UTF-8"))
}
