//! The file that says which services the hub offers to which clusters: read strictly, watched, and as a whole or not at all. A broken
//! file changes nothing, a deleted one offers nothing.

#[cfg(test)]
mod tests;

use mctunnel::{
    ClusterName, Endpoint, ErrorCode,
    core::{clusters::Labels, target::Label},
    hub::{HubService, HubServices, ServiceTable},
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{info, warn};

/// How often the file is read.
const POLL: Duration = Duration::from_millis(500);

/// A changed file must read the same twice, this far apart: one that is being written must not count.
const SETTLE: Duration = Duration::from_millis(100);

/// Reads the file for the start. One that is not there offers nothing; a broken one is an error, because there is no last good one.
pub(crate) fn read(path: &Path) -> Result<(ServiceTable, Option<String>), ServicesFileError> {
    let broken = |problem| ServicesFileError { path: path.to_owned(), problem };
    match content(path).map_err(broken)? {
        Some(text) => Ok((parse(&text).map_err(broken)?, Some(text))),
        None => {
            warn!(file = %path.display(), "The file of services is not there: clusters are offered none.");
            Ok((ServiceTable::new(), None))
        }
    }
}

/// How the file is, for the metrics.
#[derive(Debug, Default)]
pub(crate) struct ServicesStatus {
    is_broken: AtomicBool,
    replaced: AtomicU64,
}

impl ServicesStatus {
    /// Whether the file as it is now does not count, one that is not there included.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// How often what it says was replaced.
    pub(crate) fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }

    fn set(&self, is_broken: bool) {
        self.is_broken.store(is_broken, Ordering::Relaxed);
    }
}

/// Follows the file for ever, from what it said at the start.
pub(crate) async fn follow(
    path: PathBuf,
    first: Option<String>,
    services: Arc<HubServices>,
    status: Arc<ServicesStatus>,
) {
    status.set(first.is_none());
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut judged, mut said) = (Some(first), None);
    loop {
        ticks.tick().await;
        match look(&path, judged.as_ref()).await {
            Ok(None) => {}
            Ok(Some(now)) => {
                said = judge(&path, now.as_deref(), &services, said.as_deref());
                status.set(now.is_none() || said.is_some());
                if said.is_none() {
                    status.replaced.fetch_add(1, Ordering::Relaxed);
                }
                judged = Some(now);
            }
            Err(problem) => {
                said = Some(keep(&path, &problem, said.as_deref()));
                status.set(true);
                // When it can be read again it is judged, whatever it says.
                judged = None;
            }
        }
    }
}

/// What the file says, if it is not what it said when it was judged last; `Some(None)` when it is gone.
async fn look(path: &Path, judged: Option<&Option<String>>) -> Result<Option<Option<String>>, Problem> {
    let now = content(path)?;
    if judged == Some(&now) {
        return Ok(None);
    }
    sleep(SETTLE).await;
    if content(path)? != now {
        // Still being written, or being replaced in two steps; the next look will see.
        return Ok(None);
    }
    Ok(Some(now))
}

fn judge(path: &Path, now: Option<&str>, services: &HubServices, said: Option<&str>) -> Option<String> {
    let file = path.display();
    match now.map(parse) {
        None => {
            warn!(%file, "The file of services is gone: clusters are offered none.");
            services.replace(ServiceTable::new());
        }
        Some(Ok(table)) => {
            info!(%file, services = table.len(), "The services for clusters changed.");
            services.replace(table);
        }
        Some(Err(problem)) => return Some(keep(path, &problem, said)),
    }
    None
}

/// The file as it is does not count. Said once for each problem.
fn keep(path: &Path, problem: &Problem, said: Option<&str>) -> String {
    let text = problem.to_string();
    if said != Some(text.as_str()) {
        let code = problem.code().code;
        warn!(file = %path.display(), code, problem = text, "The file of services is broken: the last good one stays.");
    }
    text
}

fn content(path: &Path) -> Result<Option<String>, Problem> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Problem::Unreadable(error)),
    }
}

// === The file ===

/// One key, and it must be there. An empty file is not an empty list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    services: Option<BTreeMap<String, ServiceText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceText {
    address: String,
    #[serde(default)]
    clusters: Vec<String>,
    #[serde(default)]
    labels: Labels,
}

fn parse(text: &str) -> Result<ServiceTable, Problem> {
    let options = serde_saphyr::options! { with_snippet: false };
    let file: FileText =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| Problem::Syntax(error.to_string()))?;
    let services = file.services.ok_or_else(|| Problem::Syntax("there is no key services".to_owned()))?;
    services.into_iter().map(|(name, service)| one(&name, service)).collect()
}

fn one(name: &str, text: ServiceText) -> Result<(Label, HubService), Problem> {
    let bad = |what: String| Problem::Syntax(format!("{name:?}: {what}"));
    let label =
        Label::parse(name).map_err(|_| bad("a service's name is a DNS label, as in hub-apiserver".to_owned()))?;
    let endpoint = address(&text.address).ok_or_else(|| {
        bad(format!("{:?} is not an address such as https://10.0.0.1:6443 or tcp://db.example.com:5432", text.address))
    })?;
    let mut service = HubService { endpoint, clusters: Vec::new(), labels: text.labels, every_cluster: false };
    for cluster in &text.clusters {
        match cluster.as_str() {
            "*" => service.every_cluster = true,
            cluster => service
                .clusters
                .push(ClusterName::parse(cluster).map_err(|error| bad(format!("the cluster {cluster:?}: {error}")))?),
        }
    }
    Ok((label, service))
}

/// `https://host[:port]`, `http://host[:port]` or `tcp://host:port`. The scheme only says the usual port: bytes are passed as they are.
fn address(text: &str) -> Option<Endpoint> {
    let (scheme, rest) = text.split_once("://")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let usual = match scheme {
        "https" => ":443",
        "http" => ":80",
        "tcp" => "",
        _ => return None,
    };
    Endpoint::parse(rest).or_else(|_| Endpoint::parse(&format!("{rest}{usual}"))).ok()
}

// === Errors ===

/// The file of services cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be used as a file of services", path.display())]
pub(crate) struct ServicesFileError {
    path: PathBuf,
    #[source]
    problem: Problem,
}

impl ServicesFileError {
    pub(crate) fn code(&self) -> ErrorCode {
        self.problem.code()
    }
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("{0}")]
    Syntax(String),
}

impl Problem {
    fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            // The file of --services cannot be read.
            Self::Unreadable(_) => ("MCT-SERVICE-FILE", "check that this user may read the file given with --services"),
            // The file of --services is not YAML as we take it.
            Self::Syntax(_) => (
                "MCT-SERVICE-SYNTAX",
                "write 'services:' with a name for each, and under it address, and clusters or labels; 'services: {}' offers none",
            ),
        };
        ErrorCode { code, remedy }
    }
}
