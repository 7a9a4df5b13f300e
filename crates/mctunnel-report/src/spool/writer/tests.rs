//! What becomes of one call's parts.

use super::*;
use crate::spool::Cursor;

fn job(call: &Arc<AtomicBool>) -> (Job, oneshot::Receiver<Result<usize, ReportError>>) {
    let (done, answer) = oneshot::channel();
    let room = Arc::new(Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap());
    let progress = SourceProgress::Untold;
    (Job { records: Vec::new(), progress, broken: Arc::clone(call), _room: room, done }, answer)
}

#[test]
fn behind_a_part_that_failed_nothing_of_the_same_call_is_taken() {
    let (one, other) = (Arc::default(), Arc::default());
    let ((first, _), (second, mut refused), (third, mut kept)) = (job(&one), job(&one), job(&other));
    let mut waiting = VecDeque::from([second, third]);
    refuse_broken(&mut waiting);
    assert_eq!(waiting.len(), 2, "nothing failed yet");
    first.fail(ReportError::TooMuch);
    refuse_broken(&mut waiting);
    assert_eq!(waiting.len(), 1);
    assert!(matches!(refused.try_recv(), Ok(Err(ReportError::Interrupted))));
    assert!(kept.try_recv().is_err(), "another call is not concerned");
}

#[test]
fn what_nobody_waits_for_any_more_is_not_taken_and_nothing_behind_it() {
    let call = Arc::default();
    let ((first, given_up), (second, mut refused)) = (job(&call), job(&call));
    drop(given_up);
    let mut waiting = VecDeque::from([first, second]);
    refuse_broken(&mut waiting);
    assert!(waiting.is_empty());
    assert!(matches!(refused.try_recv(), Ok(Err(ReportError::Interrupted))));
}

#[tokio::test]
async fn callers_that_give_up_while_the_lane_is_full_do_not_fill_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    let config = LaneConfig { limit: 1 << 20, ..LaneConfig::default() };
    let writer = LaneWriter::start(dir.path(), &config).unwrap();
    let noise = |_| Record::new(0, "s", (0..60_000).map(|_| rand::random()).collect::<Vec<u8>>()).unwrap();
    let records: Vec<Record> = (0..64).map(noise).collect();
    let parts = || records.chunks(2).map(|records| (records.to_vec(), SourceProgress::Untold)).collect::<Vec<_>>();
    for _ in 0..32 {
        // Polled once, which hands the records over if there is room, and dropped.
        tokio::select! {
            biased;
            _ = writer.append(parts()) => {}
            () = async {} => {}
        }
    }
    let waiting: usize = writer.shared.inbox.lock().jobs.iter().flat_map(|job| &job.records).map(room_for).sum();
    assert!(waiting <= 4 << 20, "{waiting} bytes of {}", 32 * 64 * 60_000);
}

#[tokio::test]
async fn many_records_of_one_call_are_usual_batches_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let writer = LaneWriter::start(dir.path(), &LaneConfig::default()).unwrap();
    let records: Vec<Record> = (0..2_000).map(|i| Record::new(i, "s", format!("{i:0500}")).unwrap()).collect();
    let part = |records: &[Record], first| (records.to_vec(), SourceProgress::Sequence("s".into(), first));
    let parts = records.chunks(200).zip((1..).step_by(200)).map(|(records, first)| part(records, first)).collect();
    assert_eq!(writer.append(parts).await.unwrap(), 2_000);
    assert_eq!(writer.append(vec![part(&records[1_900..], 1_901)]).await.unwrap(), 0, "they were taken before");
    let mut cursor = Cursor::new(dir.path(), 1);
    let progress = writer.progress().borrow().clone();
    let (mut times, mut batches) = (Vec::new(), 0);
    while let Some(batch) = cursor.read(&progress).unwrap() {
        assert!(batch.plain_len() as usize <= USUAL_PLAIN, "{}", batch.plain_len());
        times.extend(batch.unpack().unwrap().into_iter().map(|record| record.time));
        batches += 1;
    }
    assert_eq!(times, (0..2_000).collect::<Vec<_>>());
    assert_eq!(batches, 10, "a part of 200 records each");
}
