//! A random life of a tunnel, drawn from one number: windows, links, faults, streams and what both ends do with them.

use crate::{
    flow::{Ending, Flow, Plan, Reading, Start},
    fuzzing::{Input, frame},
    host::Answer,
    link::{Knobs, Stall},
    outcome::Violation,
    pair::{End, Pair, Setup},
    rng::Rng,
};
use bytes::{Bytes, BytesMut};
use mctunnel_mux::{Config, Header, Offer, Open, Priority, RefuseCode};
use std::time::Duration;

/// Which faults a run may have beyond chunking, delay, limits and stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    /// In a quarter of the runs the line is cut.
    Some,
    /// The line is always cut.
    Cut,
    /// Bits flip and frames appear that nobody sent. Then bytes mean nothing, but both ends must survive and forget.
    Hostile,
}

/// What a run did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    /// Streams that were opened.
    pub streams: usize,
    /// Bytes that were read.
    pub bytes: u64,
    /// Streams whose both directions ended cleanly.
    pub clean: usize,
    /// How long it took in virtual time.
    pub took: Duration,
}

/// More than any run without a broken promise needs.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs the life that follows from the seed, and checks every promise on the way.
pub fn simulate(seed: u64, faults: Faults) -> Result<Report, Violation> {
    let mut rng = Rng::new(seed);
    let streams = if seed.is_multiple_of(16) { 64 } else { rng.size(1, 12) };
    let scale = Scale::draw(&mut rng, streams);
    let mut setup = scale.setup(&mut rng);
    add_faults(&mut rng, &mut setup, faults, scale.total);
    let bounds = [bound(&setup.hub, streams, faults), bound(&setup.agent, streams, faults)];
    let mut pair = Pair::new(setup);
    for _ in 0..streams {
        scale.add_stream(&mut rng, &mut pair);
    }
    pair.hub.host.answer(move |offer| scale.answer(offer));
    pair.agent.host.answer(move |offer| scale.answer(offer));
    if faults == Faults::Hostile {
        survive(&mut pair)?
    } else {
        pair.run_to_the_end(LIMIT).and_then(|()| pair.check())?
    };
    for (end, bound) in [&pair.hub, &pair.agent].into_iter().zip(bounds) {
        if end.most_committed > bound {
            return Err(Violation(format!("{} bytes of windows, {bound} are allowed", end.most_committed)));
        }
    }
    Ok(report(&pair))
}

/// With bytes nobody sent, streams may stay open for ever. All must go when the applications let go and the carrier is lost.
fn survive(pair: &mut Pair) -> Result<(), Violation> {
    pair.run_until(Duration::from_secs(20), |pair| {
        pair.hub.connection.is_closed() && pair.agent.connection.is_closed()
    });
    let finished = pair.wind_up(Duration::from_secs(60));
    for end in [&mut pair.hub, &mut pair.agent] {
        end.connection.handle_carrier_lost();
        end.host.release_all(&mut end.connection);
        let (streams, memory) = (end.connection.streams(), end.connection.committed_memory());
        if streams > 0 || memory > 0 {
            let text = format!("{streams} streams and {memory} bytes outlive the tunnel; before: {finished:?}");
            return Err(Violation(text));
        }
    }
    Ok(())
}

/// What the windows of all streams may take together.
fn bound(config: &Config, streams: usize, faults: Faults) -> u64 {
    let injected = if faults == Faults::Hostile { 100 } else { 0 };
    let each = config.min_window.max(config.early_window);
    config.memory_budget + each * u64::try_from(streams + injected).unwrap_or(u64::MAX)
}

fn report(pair: &Pair) -> Report {
    let mut report = Report { took: pair.now().elapsed(), ..Report::default() };
    let all = [&pair.hub, &pair.agent].into_iter().flat_map(|end: &End| end.host.outcomes());
    for (_, opener, outcome) in all {
        report.streams += usize::from(opener);
        report.bytes += outcome.read;
        report.clean += usize::from(opener && outcome.finished && outcome.end == crate::ReadEnd::Clean);
    }
    report
}

// === Scale ===

/// How fine and how large a run is. Fine ones are small, so that each takes milliseconds.
#[derive(Debug, Clone, Copy)]
struct Scale {
    seed: u64,
    chunk: u64,
    window: u64,
    send_buffer: u64,
    /// Bytes of all streams, about.
    total: u64,
    each: u64,
}

impl Scale {
    fn draw(rng: &mut Rng, streams: usize) -> Self {
        let chunk = rng.magnitude(1, 256 * 1024);
        let window = rng.magnitude(16, 256 * 1024);
        let send_buffer = rng.magnitude(1, 128 * 1024);
        let total = (chunk.min(window).min(send_buffer) * 600).min(400_000);
        let each = total / u64::try_from(streams).unwrap_or(1) * 2;
        Self { seed: rng.word(), chunk, window, send_buffer, total, each }
    }

    fn setup(&self, rng: &mut Rng) -> Setup {
        Setup {
            seed: rng.word(),
            hub: self.config(rng),
            agent: self.config(rng),
            down: self.knobs(rng),
            up: self.knobs(rng),
        }
    }

    fn config(&self, rng: &mut Rng) -> Config {
        let mut config = Config::default();
        config.initial_window = rng.within(self.window / 2, self.window);
        config.max_window = rng.within(config.initial_window, self.window * 8);
        config.min_window = rng.within(1 + config.initial_window / 8, config.initial_window);
        let early = [0, rng.within(0, self.window), rng.within(0, self.window * 2)];
        config.early_window = rng.pick(&early);
        config.memory_budget = rng.magnitude(config.initial_window, 4 << 20);
        config.send_buffer = usize::try_from(rng.within(1 + self.send_buffer / 2, 1 + self.send_buffer)).unwrap_or(1);
        if rng.percent(10) {
            config.budgets.streams = rng.size(1, 16);
            config.budgets.half_open = rng.size(1, 8);
        }
        config
    }

    fn knobs(&self, rng: &mut Rng) -> Knobs {
        let chunk = usize::try_from(self.chunk).unwrap_or(usize::MAX);
        let stalls = (0..rng.pick(&[0, 0, 1, 2])).map(|_| {
            let from = Duration::from_millis(rng.within(0, 1000));
            Stall { from, until: from + Duration::from_millis(rng.within(1, 1500)) }
        });
        Knobs {
            stalls: stalls.collect(),
            delay: Duration::from_micros(rng.pick(&[0, 50, 1000, 20_000, 80_000])),
            bytes_per_second: rng.percent(50).then(|| rng.magnitude(300_000, 100_000_000)),
            backlog: rng.magnitude(1, 256 * 1024),
            chunk: if rng.percent(70) { (1, chunk) } else { (chunk, chunk) },
            ..Knobs::default()
        }
    }

    fn add_stream(&self, rng: &mut Rng, pair: &mut Pair) {
        let key = rng.word();
        let priority = rng.pick(&[Priority::Normal, Priority::Interactive, Priority::Bulk]);
        let open = Open { priority, headers: vec![Header::text("x-key", &key.to_string())], user: None };
        let at = Duration::from_millis(rng.pick(&[0, rng.clone().within(0, 300)]));
        let plan = self.plan(rng, false);
        let host = if rng.percent(50) { &mut pair.hub.host } else { &mut pair.agent.host };
        host.open(at, open, Flow::new(plan, key));
    }

    /// The other end's part follows from the key in the headers.
    fn answer(&self, offer: &Offer) -> Answer {
        let key = offer.headers.first().and_then(|h| std::str::from_utf8(&h.value).ok()?.parse::<u64>().ok());
        let mut rng = Rng::new(self.seed ^ key.unwrap_or_default());
        let after = Duration::from_millis(rng.pick(&[0, 0, 1, rng.clone().within(0, 200)]));
        if rng.percent(12) {
            return Answer::Refuse(after, RefuseCode::TargetRefused);
        }
        let plan = self.plan(&mut rng, true);
        Answer::Join { after, early: rng.percent(30), talk: Box::new(Flow::new(plan, rng.word())) }
    }

    fn plan(&self, rng: &mut Rng, answering: bool) -> Plan {
        let send = rng.pick(&[0, 1, rng.clone().within(0, self.each), rng.clone().within(0, self.each)]);
        let largest = usize::try_from(rng.magnitude(1, 1 << 17).max(self.send_buffer / 4)).unwrap_or(1);
        let mut plan = Plan { send, write: (1, largest), ..Plan::default() };
        plan.start = match rng.within(0, 9) {
            0..6 => Start::AtOnce,
            6 | 7 if answering => Start::PeerEnded,
            _ => Start::Joined,
        };
        let hold = Duration::from_millis(rng.within(0, 2000));
        match rng.within(0, 9) {
            0..6 => {}
            6..9 => {
                let bytes = usize::try_from(1 + self.each / 40).unwrap_or(1);
                plan.read = Reading::Paced { bytes, every: Duration::from_millis(rng.within(1, 40)) };
            }
            _ => (plan.read, plan.hold) = (Reading::Never, Some(hold)),
        }
        match rng.within(0, 19) {
            0..13 => {}
            13..16 => plan.ending = Ending::FinishAndLetGo,
            16..19 => plan.ending = Ending::ResetAt(rng.within(0, send)),
            _ => (plan.ending, plan.hold) = (Ending::KeepOpen, Some(hold)),
        }
        plan
    }
}

fn add_faults(rng: &mut Rng, setup: &mut Setup, faults: Faults, total: u64) {
    let cut = match faults {
        Faults::Some => rng.percent(25),
        Faults::Cut => true,
        Faults::Hostile => false,
    };
    let knobs = if rng.percent(50) { &mut setup.down } else { &mut setup.up };
    if cut {
        knobs.cut_at = Some(rng.magnitude(1, total));
    }
    if faults == Faults::Hostile {
        let positions =
            |rng: &mut Rng, most| (0..rng.within(0, most)).map(|_| rng.magnitude(1, total)).collect::<Vec<_>>();
        knobs.flips = positions(rng, 3);
        knobs.injections = positions(rng, 20).into_iter().map(|position| (position, injection(rng))).collect();
    }
}

fn injection(rng: &mut Rng) -> Bytes {
    if rng.percent(5) {
        return rng.bytes(20).into();
    }
    let mut bytes = BytesMut::new();
    frame(&mut Input::new(&rng.bytes(24))).encode(&mut bytes);
    bytes.freeze()
}
