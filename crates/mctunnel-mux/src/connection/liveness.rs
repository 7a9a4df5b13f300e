//! Is the peer still there, and how far away is it.

use super::Config;
use crate::{CloseCode, Moment, ProtocolError};
use core::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Liveness {
    next_nonce: u64,
    asked: Option<(u64, Moment)>,
    next_ping: Moment,
    last_heard: Moment,
    rtt: Option<Duration>,
    /// The round-trip time without queues: the lowest seen, drifting slowly upwards so that a changed route is noticed.
    base_rtt: Option<Duration>,
    samples: u32,
}

/// The first answers come from ends that are still warming up; so many are asked for at once to find the true distance.
const FIRST_SAMPLES: u32 = 8;

impl Liveness {
    /// The tunnel is open: the first PING goes out at once, to learn the round-trip time.
    pub(super) fn start(&mut self, now: Moment) {
        self.next_ping = now;
        self.last_heard = now;
    }

    pub(super) fn heard(&mut self, now: Moment) {
        self.last_heard = now;
    }

    /// The latest time it was told; while the tunnel is up, no longer ago than a PING takes to be due and answered.
    pub(super) fn last_heard(&self) -> Moment {
        self.last_heard
    }

    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    pub(super) fn base_rtt(&self) -> Option<Duration> {
        self.base_rtt
    }

    /// The nonce of the next PING that will be sent.
    pub(super) fn next_nonce(&self) -> u64 {
        self.next_nonce
    }

    /// Asks now rather than at the next interval, unless an answer is already on its way.
    pub(super) fn hurry(&mut self, now: Moment) {
        self.next_ping = self.next_ping.min(now);
    }

    pub(super) fn deadline(&self, config: &Config) -> Moment {
        match self.asked {
            Some((_, at)) => at.max(self.last_heard) + config.ping_timeout,
            None => self.next_ping,
        }
    }

    /// Gives the nonce of a PING to send, or the error that ends the tunnel.
    pub(super) fn handle_timeout(&mut self, now: Moment, config: &Config) -> Result<Option<u64>, ProtocolError> {
        if now < self.deadline(config) {
            return Ok(None);
        }
        if self.asked.is_some() {
            return Err(ProtocolError { code: CloseCode::Silent, what: "the peer did not answer in time" });
        }
        let nonce = self.next_nonce;
        self.next_nonce += 1;
        self.asked = Some((nonce, now));
        self.next_ping = now + config.ping_interval;
        Ok(Some(nonce))
    }

    pub(super) fn handle_pong(&mut self, now: Moment, nonce: u64) -> Result<(), ProtocolError> {
        let Some((_, at)) = self.asked.take_if(|(asked, _)| *asked == nonce) else {
            return Err(ProtocolError::rule("a PONG answers no PING"));
        };
        let sample = now.since(at);
        self.samples = self.samples.saturating_add(1);
        if self.samples < FIRST_SAMPLES {
            self.next_ping = now;
        }
        self.rtt = Some(self.rtt.map_or(sample, |old| (old * 7 + sample) / 8));
        self.base_rtt = Some(self.base_rtt.map_or(sample, |base| sample.min((base * 63 + sample) / 64)));
        Ok(())
    }
}
