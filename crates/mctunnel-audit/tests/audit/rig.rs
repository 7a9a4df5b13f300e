//! A record in a directory of its own, subjects to record, and a place that fails when it is told to.

use mctunnel_audit::{AuditConfig, AuditLog, Batch, FileConfig, Layout, Sink, Verified, VerifyError, verify};
use mctunnel_core::{Action, Audit as _, AuditOutcome, AuditSubject, ClusterName, Decision, Destination, Target, User};
use serde_json::Value;
use std::{
    fs, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    time::Duration,
};

/// Nothing here takes longer, on a busy machine either.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A directory for a record.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.path().join("audit/audit.log")
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::of(&self.log())
    }

    pub(crate) fn config(&self) -> AuditConfig {
        let mut config = AuditConfig::default();
        config.file = Some(FileConfig::new(self.log()));
        config.retry_every = Duration::from_millis(1);
        config
    }

    pub(crate) fn open(&self) -> AuditLog {
        AuditLog::open(self.config()).expect("it opens")
    }

    /// Records so many requests in one life of the log.
    pub(crate) fn record(&self, requests: usize) {
        let log = self.open();
        for number in 0..requests {
            request(&log, &format!("request-{number}"));
        }
        log.close().expect("it closes");
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.log()).expect("the log")
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }

    pub(crate) fn write(&self, text: impl AsRef<[u8]>) {
        fs::write(self.log(), text).expect("the log");
    }

    pub(crate) fn records(&self) -> Vec<Value> {
        self.lines().iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Verifies all files against the checkpoint beside them.
    pub(crate) fn verify(&self) -> Result<Verified, VerifyError> {
        let layout = self.layout();
        let known = layout.read_head()?;
        verify(&layout.files()?, known.as_slice())
    }

    /// Verifies without the checkpoint, as somebody who has only the files.
    pub(crate) fn verify_files(&self) -> Result<Verified, VerifyError> {
        verify(&self.layout().files()?, &[])
    }
}

/// Alice looks at pods.
pub(crate) fn subject(request_id: &str) -> AuditSubject {
    let mut user = User::new("alice", "keys");
    user.groups = vec!["devs".into(), "ops".into()];
    user.credential = "k-17".into();
    let path = "/api/v1/namespaces/kube-system/pods/dns-1/log?follow=true";
    AuditSubject {
        request_id: request_id.into(),
        gateway: "http",
        identity: Some(user.into()),
        source: Some([10, 0, 0, 1].into()),
        cluster: None,
        destination: Some(Destination {
            cluster: ClusterName::parse("cluster-a").expect("a name"),
            target: Target::KubeApi,
        }),
        action: Some(Action::of_http(&Target::KubeApi, "GET", path).expect("a path")),
        decision: Some(Decision::allowed("devs may look")),
    }
}

pub(crate) fn outcome() -> AuditOutcome {
    AuditOutcome { status: 200, bytes_up: 3, bytes_down: 4_096, lasted: Duration::from_millis(12), error: None }
}

/// Records a request.
pub(crate) fn request(log: &AuditLog, id: &str) {
    log.begin().expect("a slot").finish(&subject(id), &outcome());
}

/// A place that fails as long as it is told to, and tells of each try.
#[derive(Debug)]
pub(crate) struct Fragile {
    pub(crate) fails: Arc<AtomicBool>,
    pub(crate) tried: Sender<bool>,
}

impl Sink for Fragile {
    fn name(&self) -> &'static str {
        "fragile"
    }

    fn write(&mut self, _: &Batch) -> io::Result<()> {
        let fails = self.fails.load(Ordering::SeqCst);
        // Nobody listens any more at the end of a test.
        let _ = self.tried.send(fails);
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}
