//! The real lane and the real log of a hub, joined by a wire that is cut, and crashed at any point, from a seed. Whatever happens, each
//! record is stored once and in order, and none that a source was told to be safe is missing.

use crate::{
    Batch, Kind, Record, ReportError, Retention, SpoolId,
    segments::Segments,
    spool::{AtLimit, Checkpoints, Cursor, Lane, LaneConfig},
    store::{
        Query, StoredRecord,
        index::{Index, LaneKey},
        log::{Change, KindLog, Stored},
    },
};
use bytes::Bytes;
use mctunnel_core::ClusterName;
use std::{
    collections::{BTreeMap, VecDeque},
    fs::OpenOptions,
    io::Write as _,
    path::PathBuf,
};

const SOURCES: usize = 4;
const STEPS: usize = 600;

/// SplitMix64: a seed replays a run.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }
}

/// Both sides and what is under way between them.
struct World {
    rng: Rng,
    _dir: tempfile::TempDir,
    spool_dir: PathBuf,
    store_dir: PathBuf,
    config: LaneConfig,
    lane: Lane,
    log: KindLog,
    index: Index,
    cursor: Option<Cursor>,
    up: VecDeque<Batch>,
    down: VecDeque<u64>,
    /// What the hub has appended and not synced.
    unsynced: Vec<(Option<Change>, u64)>,
    follows: u64,
    /// What the lane was told that the hub wants, and what it dropped from there on.
    heard: u64,
    dropped: u64,
    /// The next ordinal of each source.
    produced: [u64; SOURCES],
    /// What each source was told to be safe.
    safe: [u64; SOURCES],
    crashes: usize,
}

impl World {
    fn new(seed: u64, at_limit: AtLimit) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (spool_dir, store_dir) = (dir.path().join("spool"), dir.path().join("store"));
        let config = LaneConfig { limit: 64 << 10, at_limit };
        let lane = Lane::open(&spool_dir, &config).unwrap();
        let (log, index) = KindLog::open(&store_dir, retention()).unwrap();
        Self {
            rng: Rng(seed),
            _dir: dir,
            spool_dir,
            store_dir,
            config,
            lane,
            log,
            index,
            cursor: None,
            up: VecDeque::new(),
            down: VecDeque::new(),
            unsynced: Vec::new(),
            follows: 0,
            heard: 1,
            dropped: 0,
            produced: [0; SOURCES],
            safe: [0; SOURCES],
            crashes: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..30 => self.produce(),
            30..50 => self.sync_spool(),
            50..65 => self.send(),
            65..80 => self.receive(),
            80..88 => self.sync_store(),
            88..94 => self.hear(),
            94..97 => self.cut(),
            97 => self.crash_agent(),
            98 => self.crash_hub(),
            _ => {
                self.crash_hub();
                self.crash_agent();
            }
        }
    }

    fn produce(&mut self) {
        let source = usize::try_from(self.rng.below(SOURCES as u64)).unwrap();
        let mut records = Vec::new();
        let first = self.produced[source];
        for ordinal in first..=first + self.rng.below(8) {
            let mut body = ordinal.to_be_bytes().to_vec();
            // Noise, so that segments fill.
            for _ in 0..self.rng.below(40) {
                body.extend(self.rng.next().to_be_bytes());
            }
            records.push(Record::new(7, format!("source-{source}"), body).unwrap());
        }
        let next = first + records.len() as u64;
        let checkpoint = (format!("source-{source}").into(), (next + 1).to_be_bytes().to_vec().into());
        let before = self.lane.progress().oldest();
        let appended = self.lane.append(&records, &Checkpoints::from([checkpoint]));
        self.dropped += self.lane.progress().oldest().saturating_sub(before.max(self.heard));
        match appended {
            Ok(()) => self.produced[source] = next,
            // The source has to wait.
            Err(ReportError::Full) => {}
            Err(error) => panic!("{error:?}"),
        }
    }

    fn sync_spool(&mut self) {
        self.lane.sync().unwrap();
        self.safe = self.produced;
    }

    /// Opens a stream if there is none, and sends a batch.
    fn send(&mut self) {
        let progress = self.lane.progress();
        if self.cursor.is_none() {
            let wanted = self.index.lanes.get(&key()).map_or(1, |mark| mark.next);
            assert!(wanted <= progress.synced, "a number that was given to the hub is given again");
            self.hear_of(wanted);
            self.cursor = Some(Cursor::new(&self.spool_dir, wanted));
            self.follows = wanted;
        }
        let progress = self.lane.progress();
        let batch = self.cursor.as_mut().unwrap().read(&progress).unwrap();
        self.up.extend(batch);
    }

    fn receive(&mut self) {
        let Some(batch) = self.up.pop_front() else { return };
        batch.unpack().expect("what we send is whole");
        let next = batch.next();
        let appended = self.log.append(Stored::new(&cluster(), spool(), batch), self.follows).unwrap();
        self.follows = self.follows.max(next);
        self.unsynced.push(appended);
    }

    fn sync_store(&mut self) {
        self.log.sync().unwrap();
        for (change, next) in self.unsynced.drain(..) {
            if let Some(change) = change {
                change.apply(&mut self.index);
            }
            self.down.push_back(next);
        }
    }

    fn hear(&mut self) {
        if let Some(wanted) = self.down.pop_front() {
            self.hear_of(wanted);
        }
    }

    fn hear_of(&mut self, wanted: u64) {
        self.lane.forget_below(wanted).unwrap();
        self.heard = self.heard.max(wanted);
    }

    fn cut(&mut self) {
        self.cursor = None;
        self.up.clear();
        self.down.clear();
    }

    fn crash_agent(&mut self) {
        self.crashes += 1;
        self.cut();
        leave_of(self.lane.segments(), &mut self.rng);
        self.lane = Lane::open(&self.spool_dir, &self.config).unwrap();
        assert_eq!(self.lane.progress().dropped, self.dropped, "a restart counts what was dropped otherwise");
        // Each source takes up where its checkpoint says.
        for source in 0..SOURCES {
            let token = self.lane.checkpoint(&format!("source-{source}"));
            self.produced[source] = token.map_or(0, |token| u64::from_be_bytes(token[..].try_into().unwrap()) - 1);
            assert!(self.produced[source] >= self.safe[source], "what was safe is not");
        }
    }

    fn crash_hub(&mut self) {
        self.crashes += 1;
        self.cut();
        self.unsynced.clear();
        leave_of(self.log.segments(), &mut self.rng);
        let (log, index) = KindLog::open(&self.store_dir, retention()).unwrap();
        (self.log, self.index) = (log, index);
    }

    /// Lets everything arrive.
    fn settle(&mut self) {
        self.sync_spool();
        self.cut();
        loop {
            self.send();
            let sent = self.up.len();
            while !self.up.is_empty() {
                self.receive();
            }
            self.sync_store();
            while !self.down.is_empty() {
                self.hear();
            }
            if sent == 0 {
                break;
            }
        }
    }

    fn stored(&self) -> Vec<StoredRecord> {
        let query = Query { limit: usize::MAX, ..Query::new(Kind::parse("sim").unwrap()) };
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(behind) = query.read(&self.store_dir, &query.find(&self.index, from), &mut found).unwrap() {
            from = behind;
        }
        found
    }
}

/// Cuts the file that was being written anywhere behind what was synced, sometimes with garbage where the rest was.
fn leave_of(segments: &Segments, rng: &mut Rng) {
    let (synced, len) = (segments.synced_len(), segments.active().len);
    let mut file = OpenOptions::new().append(true).open(segments.active_path()).unwrap();
    let kept = synced + rng.below(len - synced + 1);
    file.set_len(kept).unwrap();
    if kept < len && rng.below(2) == 0 {
        let garbage: Vec<u8> = (0..rng.below(64)).map(|_| rng.next().to_be_bytes()[0]).collect();
        file.write_all(&garbage).unwrap();
    }
}

fn retention() -> Retention {
    Retention::default()
}

fn cluster() -> ClusterName {
    ClusterName::parse("c1").unwrap()
}

fn spool() -> SpoolId {
    SpoolId([7; 16])
}

fn key() -> LaneKey {
    LaneKey { cluster: cluster(), spool: spool() }
}

fn ordinal(body: &Bytes) -> u64 {
    u64::from_be_bytes(body[..8].try_into().unwrap())
}

/// Runs a seed; gives how many records were stored, were missing and how many crashes there were.
fn run(seed: u64, at_limit: AtLimit) -> (u64, u64, usize) {
    let mut world = World::new(seed, at_limit);
    for _ in 0..STEPS {
        world.step();
    }
    world.settle();
    let stored = world.stored();
    let numbers: Vec<u64> = stored.iter().map(|record| record.number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "seed {seed}: a number was stored twice or out of order");
    let positions: Vec<u64> = stored.iter().map(|record| record.position).collect();
    assert_eq!(positions, (0..stored.len() as u64).collect::<Vec<_>>(), "seed {seed}: positions");
    let mut of_source: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for StoredRecord { record, .. } in &stored {
        of_source.entry(&record.source).or_default().push(ordinal(&record.body));
    }
    for (source, ordinals) in &of_source {
        assert!(ordinals.is_sorted_by(|a, b| a < b), "seed {seed}: {source} twice or out of order");
    }
    let mark = world.index.lanes.get(&key()).copied().unwrap_or_default();
    assert_eq!(mark.next, world.lane.next(), "seed {seed}: everything arrived");
    assert_eq!(mark.stored, stored.len() as u64, "seed {seed}");
    assert_eq!(mark.stored + mark.missing, mark.next - 1, "seed {seed}: stored and missing are all");
    assert_eq!(world.lane.progress().dropped, world.dropped, "seed {seed}: what was dropped unacknowledged");
    assert!(mark.missing <= world.dropped, "seed {seed}: what is missing was dropped");
    if at_limit == AtLimit::Block {
        assert_eq!(mark.missing, 0, "seed {seed}");
        for (source, produced) in world.produced.iter().enumerate() {
            let arrived = of_source.get(format!("source-{source}").as_str()).into_iter().flatten().copied();
            assert!(arrived.eq(0..*produced), "seed {seed}: source-{source} is not there as it was sent");
        }
    }
    (mark.stored, mark.missing, world.crashes)
}

fn seeds() -> std::ops::Range<u64> {
    // A failing seed is replayed alone by writing it here.
    0..150
}

#[test]
fn t41_whatever_is_cut_or_crashes_each_record_is_stored_once_and_in_order() {
    let (mut stored, mut crashes) = (0, 0);
    for seed in seeds() {
        let (some, missing, crashed) = run(seed, AtLimit::Block);
        assert_eq!(missing, 0);
        stored += some;
        crashes += crashed;
    }
    assert!(stored > 20_000 && crashes > 1_000, "the runs were too tame: {stored} records, {crashes} crashes");
}

#[test]
fn t41_what_a_full_spool_drops_is_counted_to_the_record_whatever_crashes() {
    let (mut stored, mut missing) = (0, 0);
    for seed in seeds() {
        let (some, lost, _) = run(seed, AtLimit::DropOldest);
        stored += some;
        missing += lost;
    }
    assert!(stored > 20_000 && missing > 1_000, "the runs were too tame: {stored} stored, {missing} missing");
}
