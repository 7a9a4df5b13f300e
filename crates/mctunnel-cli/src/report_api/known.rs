//! Which clusters there are. Whoever may ask can ask often, also who is then refused; the files are read once a second at most.

use mctunnel::{ClusterFiles, ClusterName, gateway::http::NoPage};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Mutex, time::Instant};

/// How long what was read counts.
const COUNTS: Duration = Duration::from_secs(1);

/// The clusters of a hub.
pub(super) struct KnownClusters {
    data_dir: PathBuf,
    /// Held while somebody reads; the others wait and have what it found.
    read: Mutex<Option<(Instant, Arc<[ClusterName]>)>>,
}

impl KnownClusters {
    pub(super) fn of(data_dir: &Path) -> Self {
        Self { data_dir: data_dir.to_owned(), read: Mutex::default() }
    }

    /// All of them, as they were a second ago or later.
    pub(super) async fn all(&self) -> Result<Arc<[ClusterName]>, NoPage> {
        let mut read = self.read.lock().await;
        if let Some((_, known)) = read.as_ref().filter(|(when, _)| when.elapsed() < COUNTS) {
            return Ok(Arc::clone(known));
        }
        let (dir, begun) = (self.data_dir.clone(), Instant::now());
        let listed = tokio::task::spawn_blocking(move || ClusterFiles::new(&dir).list_readable()).await;
        let listed = listed.map_err(|error| error.to_string()).and_then(|list| list.map_err(|error| error.to_string()));
        let unreadable = |reason: String| NoPage::NotNow(format!("the list of clusters cannot be read: {reason}"));
        // One that cannot be read is left out, as it may be one that policy hides by its labels.
        let clusters = listed.map_err(unreadable)?.clusters;
        let known: Arc<[ClusterName]> = clusters.into_iter().map(|record| record.cluster).collect();
        *read = Some((begun, Arc::clone(&known)));
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn t40_the_files_are_read_once_a_second_however_often_it_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let files = ClusterFiles::new(dir.path());
        let cluster = |name: &str| ClusterName::parse(name).unwrap();
        files.ensure(&cluster("c1")).unwrap();
        let known = KnownClusters::of(dir.path());
        assert_eq!(*known.all().await.unwrap(), [cluster("c1")]);
        files.ensure(&cluster("c2")).unwrap();
        assert_eq!(*known.all().await.unwrap(), [cluster("c1")], "nobody looks");
        tokio::time::advance(COUNTS).await;
        assert_eq!(*known.all().await.unwrap(), [cluster("c1"), cluster("c2")]);
        std::fs::write(dir.path().join("clusters/c1.json"), "{").unwrap();
        tokio::time::advance(COUNTS).await;
        assert_eq!(*known.all().await.unwrap(), [cluster("c2")], "a damaged record hides itself alone");
    }
}
