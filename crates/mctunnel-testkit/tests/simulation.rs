//! The multiplexer in virtual time: a thousand random lives, and the promises that have a name.
//!
//! A failing seed is printed with the command that replays it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, in its helpers too"
)]

use mctunnel_mux::{CloseCode, Config, Drain, DrainReason, EndedBy, Open, RefuseCode};
use mctunnel_testkit::{
    Answer, Echo, Ending, Faults, Flow, Knobs, Outcome, Pair, Pinger, Plan, ReadEnd, Reading, Report, Setup, Stall,
    Start, simulate,
};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1024 * 1024;

// === Random lives ===

#[test]
fn t41_bytes_exact_under_faults() {
    let report = every_seed(1000, Faults::Some);
    assert!(
        report.streams > 5_000 && report.bytes > 20_000_000 && report.clean > 1_000,
        "too little happened: {report:?}"
    );
}

#[test]
fn t41_cut_is_never_a_clean_end() {
    let report = every_seed(300, Faults::Cut);
    assert!(report.streams > 1_500, "too little happened: {report:?}");
}

#[test]
fn hostile_bytes_leave_nothing_behind() {
    every_seed(300, Faults::Hostile);
}

/// Runs so many seeds, or only the one in `MCTUNNEL_SIM_SEED`, or as many as `MCTUNNEL_SIM_COUNT` says.
fn every_seed(count: u64, faults: Faults) -> Report {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a seed is a number"));
    let only = number("MCTUNNEL_SIM_SEED");
    let count = number("MCTUNNEL_SIM_COUNT").unwrap_or(count);
    let seeds = only.map_or(0..count, |seed| seed..seed + 1);
    let mut sum = Report::default();
    for seed in seeds {
        let _on_panic = Replay(seed);
        match simulate(seed, faults) {
            Ok(report) => {
                sum.streams += report.streams;
                sum.bytes += report.bytes;
                sum.clean += report.clean;
                sum.took += report.took;
            }
            Err(violation) => panic!("{violation}"),
        }
    }
    if only.is_some() {
        println!("{faults:?}: {sum:?}");
        // One seed need not do much.
        return Report { streams: usize::MAX, bytes: u64::MAX, clean: usize::MAX, ..sum };
    }
    sum
}

/// Says how to see it again, when the thread panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {seed} fails; replay it with: cargo xtask sim --seed {seed}", seed = self.0);
        }
    }
}

// === Streams and their ends ===

#[test]
fn open_without_round_trip() {
    let mut pair = pair(Knobs::delay(50 * MS));
    let opened = 500 * MS;
    pair.hub.host.open(opened, Open::default(), Flow::new(Plan::send(10_000), 1));
    accept_all(&mut pair, |_| Plan::default());
    pair.run_to_the_end(10 * SECOND).unwrap();
    pair.check().unwrap();
    let (_, agent) = pair.outcomes(2).unwrap();
    assert_eq!(agent.first_byte_at.unwrap().elapsed(), opened + 50 * MS, "one way, no round trip");
}

#[test]
fn half_close_both_ways() {
    for answering in [Start::PeerEnded, Start::AtOnce] {
        for opener_is_hub in [true, false] {
            let mut pair = pair(Knobs { chunk: (1, 5000), ..Knobs::limited(5 * MS, 10_000_000) });
            let opener = if opener_is_hub { &mut pair.hub } else { &mut pair.agent };
            opener.host.open(Duration::ZERO, Open::default(), Flow::new(Plan::send(3 * MIB), 1));
            accept_all(&mut pair, move |_| Plan { start: answering, ..Plan::send(2 * MIB) });
            pair.run_to_the_end(60 * SECOND).unwrap();
            pair.check().unwrap();
            let (hub, agent) = pair.outcomes(if opener_is_hub { 2 } else { 1 }).unwrap();
            assert_eq!((hub.end, agent.end), (ReadEnd::Clean, ReadEnd::Clean));
            assert_eq!(hub.read + agent.read, 5 * MIB);
        }
    }
}

#[test]
fn server_speaks_first() {
    for seed in 0..200 {
        let mut pair = pair_of(seed, Knobs { chunk: (1, 64), ..Knobs::delay(3 * MS) });
        pair.hub.host.open(
            Duration::ZERO,
            Open::default(),
            Flow::new(Plan { start: Start::PeerEnded, ..Plan::send(5) }, 1),
        );
        accept_all(&mut pair, |_| Plan::send(100));
        pair.run_to_the_end(10 * SECOND).unwrap();
        pair.check().unwrap();
        let (hub, agent) = pair.outcomes(2).unwrap();
        assert_eq!((hub.read, hub.end, agent.read, agent.end), (100, ReadEnd::Clean, 5, ReadEnd::Clean), "seed {seed}");
    }
}

#[test]
fn upload_then_close_never_truncates() {
    for seed in 0..200 {
        let size = if seed % 2 == 0 { 4 * MIB } else { 1 + seed * 331 };
        let mut pair = pair_of(seed, Knobs { chunk: (1, 200_000), ..Knobs::limited(MS * 2, 50_000_000) });
        let plan = Plan { ending: Ending::FinishAndLetGo, ..Plan::send(size) };
        pair.hub.host.open(Duration::ZERO, Open::default(), Flow::new(plan, seed));
        // The far end answers late, and is still writing when the upload ends.
        pair.agent.host.answer(move |_| Answer::Join {
            after: MS * u32::try_from(seed % 5 * 20).unwrap(),
            early: false,
            talk: Box::new(Flow::new(Plan::endless(), seed)),
        });
        pair.run_to_the_end(60 * SECOND).unwrap();
        pair.check().unwrap();
        let (_, agent) = pair.outcomes(2).unwrap();
        assert_eq!((agent.read, agent.end), (size, ReadEnd::Clean), "seed {seed}");
    }
}

#[test]
fn a_refusal_reaches_the_opener_with_its_reason() {
    let mut pair = pair(Knobs::delay(MS));
    pair.agent.host.open(Duration::ZERO, Open::default(), Flow::new(Plan::send(100_000), 1));
    pair.hub.host.answer(|_| Answer::Refuse(10 * MS, RefuseCode::TargetTimeout));
    pair.run_to_the_end(SECOND).unwrap();
    pair.check().unwrap();
    assert_eq!(pair.outcomes(1).unwrap().1.refused, Some(RefuseCode::TargetTimeout));
}

#[test]
fn a_lost_carrier_is_an_error_at_both_ends() {
    let mut pair = Pair::new(Setup { down: Knobs { cut_at: Some(100_001), ..Knobs::default() }, ..Setup::default() });
    pair.hub.host.open(Duration::ZERO, Open::default(), Flow::new(Plan::send(MIB), 1));
    accept_all(&mut pair, |_| Plan::send(10));
    pair.run_to_the_end(SECOND).unwrap();
    pair.check().unwrap();
    let (hub, agent) = pair.outcomes(2).unwrap();
    assert_eq!(hub.cut.unwrap().1, EndedBy::Tunnel);
    assert_eq!(agent.cut.unwrap().1, EndedBy::Tunnel);
    assert!(matches!(agent.end, ReadEnd::Error(_)) && agent.read <= 100_001, "{agent:?}");
    assert_eq!((hub.end, hub.read), (ReadEnd::Clean, 10), "what had arrived in full is not lost");
}

// === Nobody stops anybody ===

#[test]
fn t43_stalled_reader_stalls_nobody() {
    let config = Config::default();
    let baseline = bulk_beside(0, Plan::deaf());
    let (read, stalled) = bulk_beside(8, Plan::deaf());
    assert!(
        stalled.len() == 8 && within(baseline.0, read, 5),
        "{} bytes alone, {read} beside stalled readers",
        baseline.0
    );
    let most = config.initial_window + u64::try_from(config.send_buffer).unwrap();
    for outcome in stalled {
        assert!(outcome.written <= most, "{} bytes wait for a stalled reader, {most} are allowed", outcome.written);
    }
}

#[test]
fn t43_stalled_destination_stalls_nobody() {
    // A destination that reads a little and then stops for good has had its window grown before.
    let slow = Plan { read: Reading::Paced { bytes: 300_000, every: 100 * SECOND }, ..Plan::deaf() };
    let baseline = bulk_beside(0, slow.clone());
    let (read, stalled) = bulk_beside(8, slow);
    assert!(
        stalled.len() == 8 && within(baseline.0, read, 5),
        "{} bytes alone, {read} beside stalled ones",
        baseline.0
    );
    for outcome in stalled {
        assert!(outcome.written <= MIB + 300_000, "{} bytes wait for a stalled destination", outcome.written);
    }
}

#[test]
fn t43_pings_do_not_wait_for_stalled_streams() {
    let (alone, _) = pinger_beside(0, &Plan::default());
    let stopped = Plan { read: Reading::Paced { bytes: 300_000, every: 100 * SECOND }, ..Plan::deaf() };
    for (name, plan) in [("nothing", Plan::deaf()), ("a little and then nothing", stopped)] {
        let (beside, read) = pinger_beside(16, &plan);
        assert_eq!(read.len(), 16);
        assert!(beside <= alone * 2, "a ping takes {beside:?} beside streams that read {name}, {alone:?} alone");
    }
}

/// Four bulk streams for ten seconds on a link of 10 MB/s, beside streams whose far end follows the plan. Gives what the bulk
/// streams read from second 5 on, and the outcomes of the others at their senders.
fn bulk_beside(stalled: u64, plan: Plan) -> (u64, Vec<Outcome>) {
    let mut pair = pair(Knobs::limited(10 * MS, 10_000_000));
    for stream in 0..stalled + 4 {
        pair.hub.host.open(Duration::ZERO, Open::default(), Flow::new(Plan::endless(), stream));
    }
    accept_all(&mut pair, move |id| if id > 2 * stalled { Plan::default() } else { plan.clone() });
    let read = |pair: &Pair| (stalled + 1..=stalled + 4).map(|n| pair.outcomes(2 * n).unwrap().1.read).sum::<u64>();
    pair.run_to(5 * SECOND);
    let before = read(&pair);
    pair.run_to(10 * SECOND);
    let got = read(&pair) - before;
    let others = (1..=stalled).map(|n| pair.outcomes(2 * n).unwrap().0.clone()).collect();
    pair.wind_up(60 * SECOND).unwrap();
    (got, others)
}

#[test]
fn t43_fair_sixteen_bulk_and_a_pinger() {
    let (idle, _) = pinger_beside(0, &Plan::default());
    let (busy, bulk) = pinger_beside(16, &Plan::default());
    assert!(idle >= 20 * MS && idle < 25 * MS, "an idle link has its delay: {idle:?}");
    // Both ways the backlog of the link, 128 KiB at 10 MB/s, and one turn of each bulk stream, 64 KiB, may be ahead.
    let turns = 2 * (Duration::from_secs_f64(131_072.0 / 1e7) + 16 * Duration::from_secs_f64(65_536.0 / 1e7));
    assert!(busy <= idle + turns, "the pinger waits {busy:?}, {idle:?} alone");
    assert_eq!(bulk.len(), 16);
    let (sum, squares) = bulk.iter().fold((0.0, 0.0), |(sum, squares), read| (sum + read, squares + read * read));
    let jain = sum * sum / (16.0 * squares);
    assert!(jain >= 0.95, "Jain's index is {jain}");
    assert!(sum > 80e6, "and the link is full: {sum} bytes");
}

/// The 99th percentile of a pinger's round trips beside bulk streams whose far end follows the plan, and what each of those read in ten
/// seconds of 10 MB/s.
fn pinger_beside(bulk: u64, plan: &Plan) -> (Duration, Vec<f64>) {
    let mut pair = pair(Knobs::limited(10 * MS, 10_000_000));
    for stream in 0..bulk {
        pair.hub.host.open(Duration::ZERO, Open::default(), Flow::new(Plan::endless(), stream));
    }
    pair.hub.host.open(SECOND, Open::default(), Pinger::new(64, 20 * MS));
    let (pinger, plan) = (2 * (bulk + 1), plan.clone());
    pair.agent.host.answer(move |offer| {
        if offer.stream.get() == pinger {
            Answer::join(Echo::default())
        } else {
            Answer::join(Flow::new(plan.clone(), 1))
        }
    });
    pair.run_to(11 * SECOND);
    let mut trips = pair.outcomes(pinger).unwrap().0.round_trips.clone();
    trips.sort_unstable();
    assert!(trips.len() > 50, "{} round trips", trips.len());
    let read = (1..=bulk).map(|n| u32::try_from(pair.outcomes(2 * n).unwrap().1.read).unwrap().into());
    let read = read.collect();
    pair.wind_up(60 * SECOND).unwrap();
    (trips[trips.len() * 99 / 100], read)
}

#[test]
fn a_stalled_link_only_delays() {
    let stalls = vec![Stall { from: 20 * MS, until: 4 * SECOND }];
    let mut pair = Pair::new(Setup { down: Knobs { stalls, ..Knobs::limited(MS, 10_000_000) }, ..Setup::default() });
    pair.hub.host.open(10 * MS, Open::default(), Flow::new(Plan::send(MIB), 1));
    accept_all(&mut pair, |_| Plan::send(MIB));
    pair.run_to_the_end(20 * SECOND).unwrap();
    pair.check().unwrap();
    assert!(pair.now().elapsed() >= 4 * SECOND);
    let (hub, agent) = pair.outcomes(2).unwrap();
    assert_eq!((hub.end, agent.end), (ReadEnd::Clean, ReadEnd::Clean));
}

// === Windows ===

#[test]
fn window_grows_with_bandwidth_delay_product() {
    let grown = throughput(Config::default());
    let mut fixed = Config::default();
    fixed.max_window = fixed.initial_window;
    let fixed = throughput(fixed);
    assert!(grown >= 4 * fixed, "{grown} bytes with growth, {fixed} without");
    assert!(grown > 150 * MIB, "{grown} bytes in five seconds of 100 MB/s");
}

/// Bytes of one download in five seconds over 100 MB/s with a round trip of 100 ms.
fn throughput(config: Config) -> u64 {
    let knobs = Knobs { backlog: 2 * MIB, ..Knobs::limited(50 * MS, 100_000_000) };
    let mut pair =
        Pair::new(Setup { hub: config.clone(), agent: config, down: knobs.clone(), up: knobs, ..Setup::default() });
    pair.hub.host.open(Duration::ZERO, Open::default(), Flow::new(Plan::endless(), 1));
    accept_all(&mut pair, |_| Plan::default());
    pair.run_to(5 * SECOND);
    let read = pair.outcomes(2).unwrap().1.read;
    pair.wind_up(60 * SECOND).unwrap();
    read
}

#[test]
fn memory_budget_bounds_windows() {
    let mut config = Config::default();
    config.memory_budget = 2 * MIB;
    let (streams, each) = (300, config.early_window.max(config.min_window));
    let bound = config.memory_budget + streams * each;
    let setup = Setup { hub: config.clone(), agent: config, ..Setup::default() };
    let mut pair = Pair::new(setup);
    for stream in 0..streams {
        let host = if stream % 2 == 0 { &mut pair.hub.host } else { &mut pair.agent.host };
        let plan = Plan { read: Reading::Never, ..Plan::endless() };
        host.open(MS * u32::try_from(stream).unwrap(), Open::default(), Flow::new(plan, stream));
    }
    accept_all(&mut pair, |_| Plan { read: Reading::Never, ..Plan::endless() });
    pair.run_to(10 * SECOND);
    for end in [&pair.hub, &pair.agent] {
        assert_eq!(end.connection.streams(), usize::try_from(streams).unwrap());
        assert!(end.most_committed <= bound, "{} bytes of windows, {bound} are allowed", end.most_committed);
        assert!(end.most_committed >= 2 * MIB, "the budget is used: {}", end.most_committed);
    }
    pair.wind_up(60 * SECOND).unwrap();
}

// === The tunnel ===

#[test]
fn silent_peer_is_found() {
    for silent_from in [100 * MS, 4900 * MS, 5001 * MS, 12 * SECOND] {
        let stalls = vec![Stall { from: silent_from, until: 3600 * SECOND }];
        let mut patient = Config::default();
        patient.ping_timeout = 3600 * SECOND;
        let up = Knobs { stalls, ..Knobs::delay(MS) };
        let mut pair = Pair::new(Setup { agent: patient, up, ..Setup::default() });
        pair.hub.host.open(Duration::ZERO, Open::default(), Flow::new(Plan::deaf(), 1));
        accept_all(&mut pair, |_| Plan::deaf());
        assert!(pair.run_until(60 * SECOND, |pair| pair.hub.connection.is_closed()));
        let config = Config::default();
        let most = silent_from + config.ping_interval + config.ping_timeout + 10 * MS;
        assert!(pair.now().elapsed() <= most, "silent from {silent_from:?}, found at {:?}", pair.now().elapsed());
        assert_eq!(pair.hub.error.map(|error| error.code), Some(CloseCode::Silent));
        pair.run_until(61 * SECOND, |pair| pair.agent.connection.is_closed());
        assert_eq!(pair.agent.host.closed.as_ref().map(|(code, _)| *code), Some(CloseCode::Silent), "and it is told");
    }
}

#[test]
fn drain_lets_streams_finish() {
    let mut pair = pair(Knobs::limited(5 * MS, 1_000_000));
    for stream in 0..4 {
        pair.agent.host.open(Duration::ZERO, Open::default(), Flow::new(Plan::send(MIB / 2), stream));
    }
    pair.agent.host.open(SECOND, Open::default(), Flow::new(Plan::send(1), 9));
    let drain = Drain { reason: DrainReason::Stopping, message: "stopping".into(), reconnect_after_ms: 0 };
    pair.hub.host.drain(200 * MS, drain);
    accept_all(&mut pair, |_| Plan::send(MIB / 2));
    pair.run_to_the_end(60 * SECOND).unwrap();
    pair.check().unwrap();
    assert!(pair.agent.host.draining && pair.agent.connection.peer_drains());
    assert_eq!(pair.agent.host.not_opened, 1, "no new stream once the drain is known");
    for stream in [1, 3, 5, 7] {
        let (hub, agent) = pair.outcomes(stream).unwrap();
        assert_eq!((hub.read, agent.read), (MIB / 2, MIB / 2));
        assert_eq!((hub.end, agent.end), (ReadEnd::Clean, ReadEnd::Clean));
    }
}

// === Setting up ===

fn pair(knobs: Knobs) -> Pair {
    pair_of(1, knobs)
}

/// The same link both ways.
fn pair_of(seed: u64, knobs: Knobs) -> Pair {
    Pair::new(Setup { seed, down: knobs.clone(), up: knobs, ..Setup::default() })
}

/// Both ends join what is offered at once; the plan follows from the stream's id.
fn accept_all(pair: &mut Pair, plan: impl Fn(u64) -> Plan + Clone + 'static) {
    let again = plan.clone();
    pair.hub.host.answer(move |offer| Answer::join(Flow::new(plan(offer.stream.get()), 1)));
    pair.agent.host.answer(move |offer| Answer::join(Flow::new(again(offer.stream.get()), 2)));
}

fn within(expected: u64, got: u64, percent: u64) -> bool {
    expected.abs_diff(got) * 100 <= expected * percent
}
