//! Keeping one tunnel up: connect, hold, and again, with growing pauses; move when the hub asks; drain when we are asked to stop.

use crate::{
    Agent,
    agent::LiveTunnel,
    backoff::Backoff,
    connect::{Connected, TunnelDriver},
};
use mctunnel_core::Happening;
use mctunnel_tunnel::{Aside, CloseCode, Drain, DrainReason, Ending, Offers, Session};
use std::time::Duration;
use tokio::time::Instant;

/// How long the goodbye to the hub may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// A hub may ask us to stay away, but not for good.
const LONGEST_WISH: Duration = Duration::from_secs(300);

impl Agent {
    /// Keeps a tunnel up until [`Agent::drain`] or [`Agent::stop`], and the certificate from ending. The hub is looked up anew at each
    /// attempt.
    pub async fn run(&self) {
        tokio::select! {
            () = self.keep_tunnel() => {}
            () = self.keep_renewed() => {}
        }
    }

    async fn keep_tunnel(&self) {
        let mut backoff = Backoff::new();
        while !self.inner.stopping.is_cancelled() {
            let (lived, reason, not_before) = tokio::select! {
                attempt = self.attempt() => match attempt {
                    Ok(connected) => self.hold_until_moved(connected).await,
                    Err(failed) => {
                        self.mind_refusal(&failed);
                        (Duration::ZERO, failed.to_string(), Duration::ZERO)
                    }
                },
                () = self.inner.stopping.cancelled() => break,
            };
            if self.inner.stopping.is_cancelled() {
                break;
            }
            let retry_in = backoff.wait(lived, rand::random()).max(not_before);
            self.inner.observe(&Happening::Reconnecting { reason, retry_in });
            tokio::select! {
                () = tokio::time::sleep(retry_in) => {}
                () = self.inner.stopping.cancelled() => {}
            }
        }
        // Streams of tunnels that are left go on until drain() or stop() ends them.
        self.inner.stopped.cancelled().await;
        self.inner.tasks.close();
        let _ = tokio::time::timeout(GOODBYE + GOODBYE, self.inner.tasks.wait()).await;
    }

    /// Stops taking new tunnels, asks the hub to open no more streams, and waits until none is open or `grace` has passed.
    pub async fn drain(&self, grace: Duration) {
        self.inner.stopping.cancel();
        let tunnels = self.inner.tunnels.lock().clone();
        let streams = || tunnels.iter().map(|t| t.session.streams()).sum();
        self.inner.observe(&Happening::Draining { streams: streams(), grace });
        for tunnel in &tunnels {
            tunnel.session.drain(Drain {
                reason: DrainReason::Stopping,
                message: "the agent is about to stop".to_owned(),
                reconnect_after_ms: 0,
            });
        }
        let all_idle = async {
            for tunnel in &tunnels {
                // Opens that crossed our notice arrive within a round trip.
                let crossing = tunnel.session.rtt().unwrap_or(Duration::from_millis(100)) * 2;
                tokio::time::sleep(crossing.clamp(Duration::from_millis(20), Duration::from_secs(1))).await;
                tunnel.session.idle().await;
            }
        };
        let _ = tokio::time::timeout(grace, all_idle).await;
        self.inner.observe(&Happening::Drained { cut: streams() });
    }

    /// Ends every tunnel now; [`Agent::run`] returns.
    pub fn stop(&self) {
        self.inner.stopping.cancel();
        self.inner.stopped.cancel();
    }

    /// Holds the tunnel until it ends or the hub has us move; then it goes on in a task of its own while a new one is made.
    /// Gives how long it lived, why it ended, and the hub's wish when to come back.
    async fn hold_until_moved(&self, connected: Connected) -> (Duration, String, Duration) {
        let since = Instant::now();
        let Connected { session, offers, welcome, driver, peer } = connected;
        let generation = welcome.generation;
        self.inner.observe(&Happening::TunnelUp {
            cluster: self.inner.cluster.clone(),
            generation,
            instance: self.inner.instance.clone(),
            peer,
        });
        self.inner.tunnels.lock().push(LiveTunnel { generation, session: session.clone(), since });
        self.inner.tunnels_changed.notify_waiters();
        let agent = self.clone();
        let held = session.clone();
        self.inner.tasks.spawn(async move { agent.hold(held, offers, driver, generation, since).await });
        tokio::select! {
            ending = session.ended() => (since.elapsed(), ending.to_string(), Duration::ZERO),
            drain = session.drained_by_peer() => {
                let wait = Duration::from_millis(drain.reconnect_after_ms).min(LONGEST_WISH);
                let spread = wait.mul_f64(rand::random::<f64>() / 4.0);
                (since.elapsed(), format!("the hub asks to move: {}", drain.message), wait + spread)
            }
            () = self.inner.stopping.cancelled() => (since.elapsed(), String::new(), Duration::ZERO),
        }
    }

    async fn hold(&self, session: Session, offers: Offers, mut driver: TunnelDriver, generation: u64, since: Instant) {
        let ending: Ending = {
            let serving = self.serve(offers);
            let stopped = async {
                tokio::select! {
                    () = self.inner.stopped.cancelled() => session.close(CloseCode::Done, "the agent stops"),
                    _ = session.ended() => {}
                }
                session.ended().await;
                tokio::time::sleep(GOODBYE).await;
            };
            let beside = Aside::new(async {
                tokio::select! {
                    () = stopped => {}
                    () = async { serving.await; std::future::pending().await } => {}
                }
            });
            tokio::select! {
                biased;
                ending = &mut driver => ending,
                () = beside => session.ended().await,
            }
        };
        self.inner.tunnels.lock().retain(|t| t.generation != generation);
        self.inner.observe(&Happening::TunnelDown {
            cluster: self.inner.cluster.clone(),
            generation,
            lasted: since.elapsed(),
            reason: ending.to_string(),
        });
    }
}
