//! The checkpoint of the gateway and the audit log together: strangers leave room for those who are known.

use super::*;
use mctunnel::{
    Checkpoint, ClusterName, Destination, Target,
    core::{Action, PassThrough, Protocol, User},
    gateway::Admitted,
};
use mctunnel_audit::{Layout, Record, verify};
use std::sync::Arc;

/// A checkpoint with a log in this directory, of few slots and small files.
fn checkpoint(dir: &Path) -> (Checkpoint, Arc<AuditLog>) {
    let mut config = AuditConfig::default();
    let mut file = FileConfig::in_data_dir(dir);
    (file.rotate_bytes, file.keep) = (200_000, 5);
    (config.file, config.slots, config.slots_per_source) = (Some(file), 64, 16);
    let log = Arc::new(AuditLog::open(config).unwrap());
    (Checkpoint::new(Arc::new(PassThrough), Arc::new(PassThrough), Arc::clone(&log) as _), log)
}

fn from(last: u8) -> Option<IpAddr> {
    Some([10, 0, 0, last].into())
}

/// A request of somebody who is known, to its end.
fn known(checkpoint: &Checkpoint, name: &str) {
    let recording = checkpoint.record_from("http", name, from(1)).unwrap();
    let identity = User::new(name, "keys").into();
    recording.identified(&identity);
    let destination = Destination { cluster: ClusterName::parse("c1").unwrap(), target: Target::KubeApi };
    let (action, protocol) = (Action::Bytes, Protocol::tcp());
    let admitted = Admitted { identity, as_of: 0, destination, action, protocol, source: from(1) };
    let _permit = checkpoint.admit(admitted, &recording).unwrap();
    recording.answered(200);
}

#[tokio::test]
async fn t40_strangers_do_not_push_a_known_clients_record_out_of_the_log() {
    const MANY: u64 = 300_000;
    let dir = tempfile::tempdir().unwrap();
    let (checkpoint, log) = checkpoint(dir.path());
    known(&checkpoint, "alice");
    let mut refused = 0;
    for number in 0..MANY {
        let way = ["http", "connect", "sni"][usize::try_from(number % 3).unwrap()];
        // While others are being written there may be no slot; then it is refused and counted as that.
        match checkpoint.record_from(way, "r", from(u8::try_from(number % 7).unwrap() + 2)) {
            Ok(recording) => {
                recording.answered(401);
                recording.refused("MCT-HTTP-UNAUTHENTICATED: no credential".to_owned());
            }
            Err(_) => refused += 1,
        }
    }
    log.flush();
    known(&checkpoint, "bob");
    log.close().unwrap();

    let layout = Layout::of(&dir.path().join(FileConfig::IN_DATA_DIR));
    let texts: Vec<String> = layout.files().unwrap().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let records: Vec<Record> =
        texts.iter().flat_map(|text| text.lines()).filter_map(|l| Record::parse(l.as_bytes())).collect();
    for name in ["alice", "bob"] {
        assert!(records.iter().any(|record| record.user.as_deref() == Some(name)), "{name}");
    }
    let whole = records.iter().filter(|record| record.identity.as_deref() == Some("unknown")).count();
    let left_out: u64 = records.iter().filter_map(|record| record.left_out).sum();
    assert_eq!(u64::try_from(whole).unwrap() + left_out + refused, MANY, "{whole} have a record, {refused} no slot");
    assert_eq!(log.status().files_deleted, 0, "{whole}");
    assert_eq!(verify(&layout.files().unwrap(), &[]).unwrap().first, 1);
}

#[tokio::test]
async fn t40_one_source_cannot_take_all_places_in_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let (checkpoint, log) = checkpoint(dir.path());
    let held: Vec<_> = (0..16).map(|_| checkpoint.record_from("http", "r", from(9)).unwrap()).collect();
    assert!(checkpoint.record_from("http", "r", from(9)).is_err());
    known(&checkpoint, "alice");
    drop(held);
    log.flush();
    assert!(checkpoint.record_from("http", "r", from(9)).is_ok());
}
