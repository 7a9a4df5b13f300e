//! One question per token at a time, and answers that are remembered for a few seconds: the cluster's API server is asked as little
//! as possible, and a token that was revoked dies soon.

use super::review::{Review, ReviewToken};
use crate::{
    Clock,
    digest::Digest,
    oidc::{claims::date, jwt::Unverified},
    recent::Recent,
};
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use mctunnel_core::{Secret, User, source_of};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

/// How long an answer counts, from when it was asked for.
const FRESH: Duration = Duration::from_secs(10);
/// How long an answer may take, with the wait for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many questions are under way at once.
const AT_ONCE: usize = 64;
/// How many tokens may wait for an answer.
const WAITING: usize = 4 * 1024;
/// Of both, so much for each source: nobody who shows one token after another keeps the others out.
const AT_ONCE_OF_A_SOURCE: usize = AT_ONCE / 4;
const WAITING_OF_A_SOURCE: usize = WAITING / 16;
/// How many answers are remembered.
const ROOM: usize = 16 * 1024;

/// What became of a question: an answer with the end of the token's time, or why there is none.
pub(super) type Outcome = Result<Arc<Answer>, Arc<str>>;

/// A question under way, for all who wait for its answer.
type Question = Shared<BoxFuture<'static, Outcome>>;

/// What the cluster says of a token, and until when.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) review: Review,
    /// The end the token itself has, if it has one and counts.
    pub(super) expires: Option<SystemTime>,
    /// The user it means, while somebody holds it: requests at the same time share one.
    pub(super) user: Mutex<Weak<User>>,
}

/// Asks for reviews.
pub(super) struct Reviewer {
    shared: Arc<Questions>,
}

struct Questions {
    reviews: Arc<dyn ReviewToken>,
    audiences: Vec<String>,
    clock: Clock,
    turns: Semaphore,
    state: Mutex<State>,
}

struct State {
    answers: Recent<Digest, Remembered>,
    /// Weak: a question that nobody waits for any more is not asked on.
    under_way: BTreeMap<Digest, WeakShared<BoxFuture<'static, Outcome>>>,
    /// The turns of sources that have questions under way, which hold them.
    sources: BTreeMap<Option<IpAddr>, Weak<Semaphore>>,
}

impl State {
    fn remembered(&mut self, digest: &Digest, now: SystemTime) -> Option<Arc<Answer>> {
        let known = self.answers.get(digest)?;
        let is_over = known.answer.expires.is_some_and(|end| end <= now);
        if is_over || known.asked.elapsed() >= FRESH {
            self.answers.remove(digest);
            return None;
        }
        Some(Arc::clone(&known.answer))
    }

    /// The turns of a source, for one more question; `None` if it has as many as it may.
    fn turns_of(&mut self, source: Option<IpAddr>) -> Option<Arc<Semaphore>> {
        if let Some(turns) = self.sources.get(&source).and_then(Weak::upgrade) {
            return (Arc::strong_count(&turns) <= WAITING_OF_A_SOURCE).then_some(turns);
        }
        if self.sources.len() >= WAITING {
            self.sources.retain(|_, turns| turns.strong_count() > 0);
        }
        let turns = Arc::new(Semaphore::new(AT_ONCE_OF_A_SOURCE));
        self.sources.insert(source, Arc::downgrade(&turns));
        Some(turns)
    }
}

struct Remembered {
    asked: Instant,
    answer: Arc<Answer>,
}

impl Reviewer {
    pub(super) fn new(reviews: Arc<dyn ReviewToken>, audiences: Vec<String>, clock: Clock) -> Self {
        let state = State { answers: Recent::with_room(ROOM), under_way: BTreeMap::new(), sources: BTreeMap::new() };
        let turns = Semaphore::new(AT_ONCE);
        Self { shared: Arc::new(Questions { reviews, audiences, clock, turns, state: Mutex::new(state) }) }
    }

    pub(super) fn audiences(&self) -> &[String] {
        &self.shared.audiences
    }

    /// An answer that still counts.
    pub(super) fn remembered(&self, digest: &Digest) -> Option<Arc<Answer>> {
        self.shared.state.lock().remembered(digest, self.shared.clock.now())
    }

    /// Asks for somebody who comes from there, or waits for the answer to the same question.
    pub(super) async fn ask(&self, digest: &Digest, token: &str, peer: Option<IpAddr>) -> Outcome {
        let question = self.question(digest, token, Asker::Source(peer.map(source_of)))?;
        question.await
    }

    /// Asks for ourselves, whatever was answered before.
    pub(super) async fn ask_anew(&self, digest: &Digest, token: &str) -> Outcome {
        let question = self.question(digest, token, Asker::Ourselves)?;
        question.await
    }

    fn question(&self, digest: &Digest, token: &str, asker: Asker) -> Result<Question, Arc<str>> {
        let mut state = self.shared.state.lock();
        if let Some(question) = state.under_way.get(digest).and_then(WeakShared::upgrade) {
            return Ok(question);
        }
        // The answer may have come since it was looked for.
        let may_be_known = asker != Asker::Ourselves;
        if let Some(answer) = state.remembered(digest, self.shared.clock.now()).filter(|_| may_be_known) {
            return Ok(std::future::ready(Ok(answer)).boxed().shared());
        }
        let of_source = match asker {
            Asker::Source(source) => {
                let turns = state.turns_of(source).ok_or("too many tokens from this address wait for an answer")?;
                Some(turns)
            }
            Asker::Ourselves => None,
        };
        if state.under_way.len() >= WAITING {
            state.under_way.retain(|_, question| question.upgrade().is_some());
        }
        if state.under_way.len() >= WAITING {
            return Err("too many tokens wait for an answer".into());
        }
        let asked = ask(Arc::clone(&self.shared), *digest, Secret::new(token), of_source);
        let question = asked.boxed().shared();
        if let Some(weak) = question.downgrade() {
            state.under_way.insert(*digest, weak);
        }
        Ok(question)
    }
}

/// For whom a question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// For a client, and where it comes from.
    Source(Option<IpAddr>),
    /// About what is open already.
    Ourselves,
}

async fn ask(shared: Arc<Questions>, digest: Digest, token: Secret, of_source: Option<Arc<Semaphore>>) -> Outcome {
    let answered = timeout(PATIENCE, async {
        let shut = |_| "it is shut down".to_owned();
        let _share = match &of_source {
            Some(turns) => Some(turns.acquire().await.map_err(shut)?),
            None => None,
        };
        let _turn = shared.turns.acquire().await.map_err(shut)?;
        // Counted from before the question, because the cluster may have known better by the time the answer came.
        let asked = Instant::now();
        let review = shared.reviews.review(&token, &shared.audiences).await?;
        Ok((asked, review))
    });
    let answered = answered.await.unwrap_or_else(|_| Err(format!("there was no answer within {PATIENCE:?}")));
    let mut state = shared.state.lock();
    state.under_way.remove(&digest);
    let (asked, review) = answered.map_err(|why: String| Arc::from(why))?;
    let answer = Arc::new(Answer { expires: end_of(&token, &review), review, user: Mutex::default() });
    state.answers.insert(digest, Remembered { asked, answer: Arc::clone(&answer) });
    Ok(answer)
}

/// The end in a token that is a JWT. The cluster has verified it; nobody else's word is taken for it.
fn end_of(token: &Secret, review: &Review) -> Option<SystemTime> {
    if *review == Review::NotAuthenticated {
        return None;
    }
    let Unverified::Jwt(jwt) = Unverified::parse(token.expose()) else { return None };
    jwt.claims.get("exp").and_then(date).and_then(crate::clock::moment)
}

impl fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviewer").field("audiences", &self.shared.audiences).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reviewing, digest};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts the questions.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl ReviewToken for Counted {
        fn review<'a>(&'a self, _: &'a Secret, _: &'a [String]) -> Reviewing<'a> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(Ok(Review::NotAuthenticated)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn t29_an_answer_that_came_between_look_and_question_is_taken() {
        let counted = Arc::new(Counted::default());
        let reviewer = Reviewer::new(counted.clone(), vec!["a".to_owned()], Clock::system());
        let digest = digest::of(b"token");
        assert!(reviewer.remembered(&digest).is_none());
        // Two that have both looked before one of them asked.
        for _ in 0..2 {
            assert!(reviewer.ask(&digest, "token", None).await.is_ok());
        }
        assert_eq!(counted.0.load(Ordering::Relaxed), 1);
    }
}
