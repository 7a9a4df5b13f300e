//! A hub and an agent, the two directions of the carrier between them, and the clock all share. Not a driver: nothing here waits.

use crate::{
    host::Host,
    link::{Arrival, Knobs, Link},
    outcome::{Outcome, Violation, agree},
    rng::Rng,
};
use bytes::BytesMut;
use mctunnel_mux::{Config, Connection, Hello, Moment, ProtocolError, StreamId};
use std::time::Duration;

/// How a pair is set up.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// What the links draw from.
    pub seed: u64,
    /// The hub's knobs.
    pub hub: Config,
    /// The agent's knobs.
    pub agent: Config,
    /// From hub to agent.
    pub down: Knobs,
    /// From agent to hub.
    pub up: Knobs,
}

/// A hub and an agent in virtual time.
#[derive(Debug)]
pub struct Pair {
    now: Moment,
    /// The hub's end.
    pub hub: End,
    /// The agent's end.
    pub agent: End,
}

/// One end: the connection, the application above it, and the link that carries what it sends.
#[derive(Debug)]
pub struct End {
    /// The connection.
    pub connection: Connection,
    /// The application.
    pub host: Host,
    /// The rule the peer broke, if it did.
    pub error: Option<ProtocolError>,
    /// The carrier is gone.
    pub lost: bool,
    /// The most memory the windows ever took.
    pub most_committed: u64,
    link: Link,
    lose_at: Option<Moment>,
}

impl Pair {
    /// Two ends that have not said a word yet.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let mut rng = Rng::new(setup.seed);
        let hub = End::new(Connection::hub(setup.hub), Link::new(setup.down, rng.fork()));
        let agent = Connection::agent(setup.agent, Hello::default());
        Self { now: Moment::ZERO, hub, agent: End::new(agent, Link::new(setup.up, rng.fork())) }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Runs until the condition holds, nothing is left to happen, or the time is over; tells whether the condition holds.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            while self.pump() {}
            if done(self) {
                return true;
            }
            match self.next_moment() {
                Some(next) if next.elapsed() <= limit => self.now = next,
                Some(_) | None => return false,
            }
        }
    }

    /// Runs to that time.
    pub fn run_to(&mut self, time: Duration) {
        self.run_until(time, |_| false);
        self.now = self.now.max(Moment::ZERO + time);
    }

    /// Runs until both applications are done and both connections have forgotten all streams.
    pub fn run_to_the_end(&mut self, limit: Duration) -> Result<(), Violation> {
        if self.run_until(limit, |pair| [&pair.hub, &pair.agent].iter().all(|end| end.is_done(pair.now))) {
            return Ok(());
        }
        let now = self.now;
        for (name, end) in [("hub", &mut self.hub), ("agent", &mut self.agent)] {
            if let Some(stream) = end.host.missed(now, &mut end.connection) {
                return Err(Violation(format!("{name}: stream {stream} can be read, but nobody was told")));
            }
        }
        let open = |end: &End| {
            let open = end.host.outcomes().filter(|(_, _, outcome)| !outcome.released);
            format!("{} kept, waiting: {:#?}", end.connection.streams(), open.collect::<Vec<_>>())
        };
        let (hub, agent) = (open(&self.hub), open(&self.agent));
        Err(Violation(format!("not at the end after {limit:?} of virtual time; hub {hub}; agent {agent}")))
    }

    /// Lets go of everything at both ends and runs until it is forgotten.
    pub fn wind_up(&mut self, limit: Duration) -> Result<(), Violation> {
        for end in [&mut self.hub, &mut self.agent] {
            end.host.release_all(&mut end.connection);
        }
        self.run_to_the_end(limit)?;
        self.check_forgotten()
    }

    /// Holds the two ends against each other: the bytes and the ends of every stream, and that nothing is left behind.
    pub fn check(&self) -> Result<(), Violation> {
        for (name, end) in [("hub", &self.hub), ("agent", &self.agent)] {
            if let Some(error) = end.error {
                return Err(Violation(format!("{name}: the peer broke a rule: {error}")));
            }
        }
        self.check_forgotten()?;
        let intact = !self.hub.lost && !self.agent.lost;
        for (here, there) in [(&self.hub, &self.agent), (&self.agent, &self.hub)] {
            for (id, opener, outcome) in here.host.outcomes() {
                let other = there.host.outcome(id);
                if opener {
                    agree(outcome, other, intact).map_err(|text| Violation(format!("stream {id}: {text}")))?;
                } else if other.is_none() {
                    return Err(Violation(format!("stream {id} was offered, but nobody opened it")));
                }
            }
        }
        Ok(())
    }

    /// Both ends of one stream, the hub's first.
    #[must_use]
    pub fn outcomes(&self, stream: impl Into<StreamId>) -> Option<(&Outcome, &Outcome)> {
        let stream = stream.into();
        Some((self.hub.host.outcome(stream)?, self.agent.host.outcome(stream)?))
    }

    fn check_forgotten(&self) -> Result<(), Violation> {
        for (name, end) in [("hub", &self.hub), ("agent", &self.agent)] {
            let (streams, memory) = (end.connection.streams(), end.connection.committed_memory());
            if streams != 0 || memory != 0 {
                return Err(Violation(format!(
                    "{name}: {streams} streams and {memory} bytes of windows are left behind"
                )));
            }
        }
        Ok(())
    }

    /// Does what can be done at this moment; tells whether anything was.
    fn pump(&mut self) -> bool {
        let down = self.hub.deliver(self.now, &mut self.agent);
        let up = self.agent.deliver(self.now, &mut self.hub);
        let hub = self.hub.act(self.now);
        let agent = self.agent.act(self.now);
        down || up || hub || agent
    }

    fn next_moment(&self) -> Option<Moment> {
        let ends = [&self.hub, &self.agent];
        let next = ends.iter().filter_map(|end| end.next_moment(self.now)).min();
        next.map(|next| next.max(self.now))
    }
}

impl End {
    fn new(connection: Connection, link: Link) -> Self {
        Self { connection, host: Host::default(), error: None, lost: false, most_committed: 0, link, lose_at: None }
    }

    fn is_done(&self, now: Moment) -> bool {
        self.host.is_done() && self.connection.streams() == 0 && self.link.is_idle(now)
    }

    /// Hands over what has arrived at the other end.
    fn deliver(&mut self, now: Moment, to: &mut Self) -> bool {
        let mut any = false;
        while let Some(arrival) = self.link.arrive(now) {
            any = true;
            match arrival {
                Arrival::Bytes(bytes) if !to.lost => {
                    if let Err(error) = to.connection.handle_input(now, bytes) {
                        to.error = Some(error);
                    }
                    to.most_committed = to.most_committed.max(to.connection.committed_memory());
                    to.act_on_events(now);
                }
                Arrival::Bytes(_) => {}
                Arrival::Lost => {
                    to.lose();
                    self.lose_at.get_or_insert(now);
                }
            }
        }
        any
    }

    fn act(&mut self, now: Moment) -> bool {
        let lost = self.lose_at.take_if(|at| *at <= now).is_some();
        if lost {
            self.lose();
        }
        let due = self.connection.poll_timeout().is_some_and(|at| at <= now);
        if due && let Err(error) = self.connection.handle_timeout(now) {
            self.error = Some(error);
        }
        let acted = self.act_on_events(now);
        let sent = self.transmit(now);
        self.most_committed = self.most_committed.max(self.connection.committed_memory());
        lost || due || acted || sent
    }

    fn act_on_events(&mut self, now: Moment) -> bool {
        self.host.act(now, &mut self.connection)
    }

    fn transmit(&mut self, now: Moment) -> bool {
        let mut any = false;
        while self.link.room(now) > 0 {
            let mut burst = BytesMut::new();
            while u64::try_from(burst.len()).is_ok_and(|len| len < self.link.room(now)) {
                let Some(transmit) = self.connection.poll_transmit() else { break };
                burst.extend_from_slice(&transmit.head);
                burst.extend_from_slice(&transmit.body);
            }
            if burst.is_empty() {
                if self.connection.is_closed() {
                    self.link.hang_up(now);
                }
                break;
            }
            any = true;
            self.link.send(now, &burst);
        }
        any
    }

    fn lose(&mut self) {
        if !self.lost {
            self.lost = true;
            self.connection.handle_carrier_lost();
        }
    }

    fn next_moment(&self, now: Moment) -> Option<Moment> {
        let room = (self.link.room(now) == 0).then(|| self.link.room_at());
        let host = self.host.next_wake(&self.connection);
        let moments = [self.link.next_arrival(), self.connection.poll_timeout(), host, room, self.lose_at];
        moments.into_iter().flatten().min()
    }
}
