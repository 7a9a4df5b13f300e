//! Whose turn it is to have policy go through clusters and kinds. That costs before anybody knows whether the client may see any of it,
//! so there is no quota yet that it could count for: here each who asks has one turn at a time, however often it asks.

use mctunnel::gateway::http::{Asking, NoPage};
use mctunnel_core::{Decision, source_of};
use parking_lot::Mutex;
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Of all together.
const AT_ONCE: usize = 2;
/// Questions of one that wait for its own turn.
const MOST_WAITING: usize = 64;
/// When to come again if there are more.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Who asks: a user of a provider wherever it is, for all may come from one front proxy; or an address, where nobody is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Asker {
    User(Arc<str>, Arc<str>),
    Source(IpAddr),
}

impl Asker {
    pub(super) fn of(asking: &Asking<'_>) -> Self {
        match asking.identity.user() {
            Some(user) => Self::User(Arc::clone(&user.provider), Arc::clone(&user.name)),
            None => Self::Source(source_of(asking.source)),
        }
    }
}

/// The turns.
pub(super) struct Turns {
    all: Arc<Semaphore>,
    askers: Askers,
}

/// Those who have a question here. As many as there are places for questions at most.
type Askers = Arc<Mutex<BTreeMap<Asker, Own>>>;

struct Own {
    questions: usize,
    one: Arc<Semaphore>,
}

/// A turn, until it is dropped.
pub(super) struct Turn {
    _any: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _entered: Entered,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), askers: Askers::default() }
    }

    /// Waits for a turn; behind others who ask, not behind their questions.
    pub(super) async fn take(&self, asker: Asker) -> Result<Turn, NoPage> {
        let ended = |error: tokio::sync::AcquireError| NoPage::NotNow(format!("it cannot be decided: {error}"));
        let (entered, one) = self.enter(asker)?;
        let own = one.acquire_owned().await.map_err(ended)?;
        let any = Arc::clone(&self.all).acquire_owned().await.map_err(ended)?;
        Ok(Turn { _any: any, _own: own, _entered: entered })
    }

    fn enter(&self, asker: Asker) -> Result<(Entered, Arc<Semaphore>), NoPage> {
        let mut askers = self.askers.lock();
        let own = askers.entry(asker.clone()).or_insert_with(|| Own { questions: 0, one: Arc::new(Semaphore::new(1)) });
        if own.questions > MOST_WAITING {
            let rule = "too many questions of yours wait to be decided".into();
            return Err(NoPage::Refused(Decision::Limited { rule, retry_after: RETRY_AFTER }));
        }
        own.questions += 1;
        Ok((Entered { askers: Arc::clone(&self.askers), asker }, Arc::clone(&own.one)))
    }
}

/// A question that is counted.
struct Entered {
    askers: Askers,
    asker: Asker,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut askers = self.askers.lock();
        if let Some(own) = askers.get_mut(&self.asker) {
            own.questions = own.questions.saturating_sub(1);
            if own.questions == 0 {
                askers.remove(&self.asker);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{pin::Pin, task::Poll};

    fn user(name: &str) -> Asker {
        Asker::User("keys".into(), name.into())
    }

    type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Turn, NoPage>> + 'a>>;

    async fn poll(waiting: &mut Waiting<'_>) -> Option<Result<Turn, NoPage>> {
        std::future::poll_fn(|cx| match waiting.as_mut().poll(cx) {
            Poll::Ready(turn) => Poll::Ready(Some(turn)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn t40_who_asks_often_has_one_turn_and_the_others_wait_for_no_more_than_that() {
        let turns = Turns::new();
        let deciding = turns.take(user("eve")).await.unwrap();
        let mut waiting: Vec<Waiting<'_>> = Vec::new();
        for _ in 0..MOST_WAITING {
            let mut one: Waiting<'_> = Box::pin(turns.take(user("eve")));
            assert!(poll(&mut one).await.is_none(), "one at a time");
            waiting.push(one);
        }
        let Err(NoPage::Refused(Decision::Limited { rule, .. })) = turns.take(user("eve")).await else {
            panic!("too many wait")
        };
        assert_eq!(&*rule, "too many questions of yours wait to be decided");
        let mut other: Waiting<'_> = Box::pin(turns.take(user("alice")));
        let other = poll(&mut other).await.expect("nobody is before her").unwrap();
        // Both turns are taken: who comes next is before all further questions of eve.
        let mut bob: Waiting<'_> = Box::pin(turns.take(user("bob")));
        assert!(poll(&mut bob).await.is_none());
        drop(deciding);
        let mut next = waiting.remove(0);
        assert!(poll(&mut next).await.is_none());
        let bob = poll(&mut bob).await.expect("his turn").unwrap();
        drop((other, bob, next, waiting));
        assert!(turns.askers.lock().is_empty(), "who is gone is forgotten");
    }
}
