//! A file of rules that may change while the agent runs: a new list counts within a second, a broken file changes nothing, a
//! deleted one denies everything. Kubernetes replaces mounted files by swapping links, so the content is compared, not the time.

#[cfg(test)]
mod tests;

use crate::{InvalidServiceRule, ServiceAllowList};
use mctunnel_core::{ErrorCode, ServiceTarget};
use parking_lot::RwLock;
use serde::Deserialize;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::AsyncReadExt,
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

/// How often the file is read.
const POLL: Duration = Duration::from_millis(500);

/// A changed file must read the same twice, this far apart: one that is being written must not count.
const SETTLE: Duration = Duration::from_millis(100);

/// A longer file is not a list of rules.
const LONGEST: u64 = 1 << 20;

/// The rules of a file, as they are now. Cheap to clone; the file is watched until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct SharedAllowList {
    rules: Arc<Rules>,
    _watching: Arc<JoinSet<()>>,
}

impl SharedAllowList {
    /// Rules that do not change.
    #[must_use]
    pub fn fixed(list: ServiceAllowList) -> Self {
        Self { rules: Arc::new(Rules::new(list, None)), _watching: Arc::default() }
    }

    /// Reads a file and watches it from then on. A file that is not there denies everything until it is; a broken one is an
    /// error now, because there is no last good one. Must be called inside a tokio runtime.
    ///
    /// ```yaml
    /// services:
    ///   - monitoring/prometheus:9090
    ///   - default/*
    /// ```
    pub async fn watch(path: PathBuf) -> Result<Self, InvalidRulesFile> {
        let content = read(&path).await.map_err(|problem| InvalidRulesFile { path: path.clone(), problem })?;
        let (list, problem) = match &content {
            Some(text) => (parse(text).map_err(|problem| InvalidRulesFile { path: path.clone(), problem })?, None),
            None => {
                tracing::warn!(file = %path.display(), "{MISSING}");
                (ServiceAllowList::default(), Some(MISSING.to_owned()))
            }
        };
        let rules = Arc::new(Rules::new(list, problem));
        let mut watching = JoinSet::new();
        let follower = Follower { path, judged: Some(content), rules: Arc::clone(&rules) };
        watching.spawn(follower.follow());
        Ok(Self { rules, _watching: Arc::new(watching) })
    }

    /// Whether a rule has the service, now.
    #[must_use]
    pub fn permits(&self, target: &ServiceTarget) -> bool {
        self.rules.list.read().permits(target)
    }

    /// The list as it is now.
    #[must_use]
    pub fn list(&self) -> ServiceAllowList {
        self.rules.list.read().clone()
    }

    /// How the file is.
    #[must_use]
    pub fn status(&self) -> RulesStatus {
        self.rules.status.borrow().clone()
    }

    /// Tells of each change of [`SharedAllowList::status`].
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<RulesStatus> {
        self.rules.status.subscribe()
    }
}

/// How a file of rules is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesStatus {
    /// How many rules count now.
    pub rules: usize,
    /// How often the rules were replaced.
    pub replaced: u64,
    /// Why the file as it is now does not count; the rules are then the last good ones, or none if it is not there.
    pub problem: Option<String>,
}

const MISSING: &str = "the file of service rules is not there: every service is denied";

// === Rules ===

#[derive(Debug)]
struct Rules {
    list: RwLock<ServiceAllowList>,
    status: watch::Sender<RulesStatus>,
}

impl Rules {
    fn new(list: ServiceAllowList, problem: Option<String>) -> Self {
        let status = RulesStatus { rules: list.len(), replaced: 0, problem };
        Self { list: RwLock::new(list), status: watch::Sender::new(status) }
    }

    fn replace(&self, list: ServiceAllowList, problem: Option<String>) {
        let rules = list.len();
        *self.list.write() = list;
        self.status.send_modify(|status| {
            *status = RulesStatus { rules, replaced: status.replaced + 1, problem };
        });
    }

    fn keep(&self, problem: String) {
        self.status.send_modify(|status| status.problem = Some(problem));
    }
}

// === Follower ===

struct Follower {
    path: PathBuf,
    /// What was judged last, in which `None` is a file that was not there; `None` when it could not be read since.
    judged: Option<Option<String>>,
    rules: Arc<Rules>,
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

    /// Reads the file, and judges it if it is another than before.
    async fn look(&mut self) {
        let content = match read(&self.path).await {
            Ok(content) => content,
            Err(problem) => {
                self.judged = None;
                return self.refuse(&problem);
            }
        };
        if self.judged.as_ref() == Some(&content) {
            return;
        }
        sleep(SETTLE).await;
        if !matches!(read(&self.path).await, Ok(again) if again == content) {
            // Still being written, or being replaced in two steps; the next look will see.
            return;
        }
        self.judge(content);
    }

    fn judge(&mut self, content: Option<String>) {
        let file = self.path.display();
        match content.as_deref().map(parse) {
            None => {
                tracing::warn!(%file, "{MISSING}");
                self.rules.replace(ServiceAllowList::default(), Some(MISSING.to_owned()));
            }
            Some(Ok(list)) => {
                tracing::info!(%file, rules = list.len(), "the service rules changed");
                self.rules.replace(list, None);
            }
            Some(Err(problem)) => self.refuse(&problem),
        }
        self.judged = Some(content);
    }

    /// The file as it is does not count. Said once for each problem.
    fn refuse(&self, problem: &RulesProblem) {
        let said = told(problem);
        if self.rules.status.borrow().problem.as_ref() != Some(&said) {
            let code = problem.code().code;
            tracing::warn!(file = %self.path.display(), code, problem = said, "the service rules are broken: the last good ones stay");
            self.rules.keep(said);
        }
    }
}

/// The file's text; `None` when it is not there.
async fn read(path: &Path) -> Result<Option<String>, RulesProblem> {
    let file = match tokio::fs::File::open(path).await {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RulesProblem::Unreadable(error)),
    };
    let mut text = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut text).await.map_err(RulesProblem::Unreadable)?;
    if u64::try_from(text.len()).is_ok_and(|length| length > LONGEST) {
        return Err(RulesProblem::Syntax("it is longer than 1 MiB".to_owned()));
    }
    String::from_utf8(text).map(Some).map_err(|_| RulesProblem::Syntax("it is not UTF-8".to_owned()))
}

/// What the file holds: one key, and it must be there. An empty file is not an empty list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    /// An `Option`, because the parser would take a key without a value for an empty list.
    services: Option<Vec<String>>,
}

fn parse(text: &str) -> Result<ServiceAllowList, RulesProblem> {
    let options = serde_saphyr::options! { with_snippet: false };
    let file: RulesFile =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| RulesProblem::Syntax(error.to_string()))?;
    let rules = file.services.ok_or_else(|| RulesProblem::Syntax("there is no list".to_owned()))?;
    ServiceAllowList::parse(rules).map_err(RulesProblem::Rule)
}

// === InvalidRulesFile ===

/// A file of rules cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be used as a file of service rules", path.display())]
pub struct InvalidRulesFile {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub problem: RulesProblem,
}

impl InvalidRulesFile {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.problem.code()
    }
}

/// What is wrong with a file of rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesProblem {
    /// The file with the service rules cannot be read.
    #[error("it cannot be read")]
    Unreadable(#[source] io::Error),
    /// The file with the service rules is not YAML as we take it.
    #[error("it is not a list of rules under the key services: {0}")]
    Syntax(String),
    /// One of the rules is misspelt.
    #[error("a rule is misspelt")]
    Rule(#[source] InvalidServiceRule),
}

impl RulesProblem {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::Unreadable(_) => {
                ("MCT-KUBE-RULES-FILE", "check that this user may read the file with the service rules")
            }
            Self::Syntax(_) => (
                "MCT-KUBE-RULES-SYNTAX",
                "write one key 'services' with a list of rules such as monitoring/prometheus:9090; 'services: []' denies everything",
            ),
            Self::Rule(rule) => return rule.code(),
        };
        ErrorCode { code, remedy }
    }
}

/// The problem with its causes, in one line.
fn told(problem: &RulesProblem) -> String {
    match problem {
        RulesProblem::Unreadable(cause) => format!("{problem}: {cause}"),
        RulesProblem::Syntax(_) => problem.to_string(),
        RulesProblem::Rule(cause) => format!("{problem}: {cause}"),
    }
}
