//! How many records a second the log takes, with the chain, to a file:
//! `cargo run --release -p mctunnel-audit --example throughput`. For one core: `taskset -c 0` in front.

#![expect(clippy::print_stdout, reason = "it is a program")]

use mctunnel_audit::{AuditConfig, AuditLog, FileConfig, Layout, verify};
use mctunnel_core::{Action, Audit as _, AuditOutcome, AuditSubject, ClusterName, Decision, Destination, Target, User};
use std::time::Duration;
use tokio::time::Instant;

const RECORDS: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let file = FileConfig::new(directory.path().join("audit.log"));
    let layout = Layout::of(&file.path);
    let mut config = AuditConfig::default();
    config.file = Some(file);
    let log = AuditLog::open(config)?;
    let (subject, outcome) = (subject()?, outcome());

    let began = Instant::now();
    let (mut waited, mut recording) = (0_u32, Duration::ZERO);
    for _ in 0..RECORDS {
        // Whoever is refused comes again, so that the writer's pace is measured and not the size of the queue.
        let slot = loop {
            match log.begin() {
                Ok(slot) => break slot,
                Err(_) => {
                    waited += 1;
                    std::thread::yield_now();
                }
            }
        };
        let from = Instant::now();
        slot.finish(&subject, &outcome);
        recording += from.elapsed();
    }
    log.close()?;
    let took = began.elapsed();
    println!("{RECORDS} records in {took:.2?}: {:.0} a second", f64::from(RECORDS) / took.as_secs_f64());
    println!("recording one: {:.2?}; no slot: {waited} times", recording / RECORDS);

    let bytes: u64 = layout.files()?.iter().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
    println!("{} bytes a record", bytes / u64::from(RECORDS));
    let began = Instant::now();
    let verified = verify(&layout.files()?, layout.read_head()?.as_slice())?;
    println!("verified {} in {:.2?}", verified.records, began.elapsed());
    Ok(())
}

fn subject() -> Result<AuditSubject, Box<dyn std::error::Error>> {
    let mut user = User::new("oidc:alice@example.com", "company");
    user.groups = ["oidc:developers", "oidc:on-call"].map(Into::into).to_vec();
    user.credential = "9b2f7c1e-4a51-4f0e-9a53-1c2b3d4e5f60".into();
    Ok(AuditSubject {
        request_id: "01JCT3Y6Z1R8QK5W2N7M4B9XHD".into(),
        gateway: "http",
        identity: Some(user.into()),
        source: Some([10, 20, 30, 40].into()),
        cluster: None,
        destination: Some(Destination { cluster: ClusterName::parse("cluster-prod")?, target: Target::KubeApi }),
        action: Some(Action::of_http(
            &Target::KubeApi,
            "GET",
            "/api/v1/namespaces/kube-system/pods/coredns-5d78c9869d/log",
        )?),
        decision: Some(Decision::allowed("role developers, binding on-call")),
    })
}

fn outcome() -> AuditOutcome {
    AuditOutcome { status: 200, bytes_up: 0, bytes_down: 48_213, lasted: Duration::from_millis(17), error: None }
}
