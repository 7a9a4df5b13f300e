//! What every test here needs: evidence, a clock that follows tokio's, and short names for answers.

use mctunnel_authn::{Chain, Clock, Provider};
use mctunnel_core::{Authenticate, Authorization, Evidence, Identity, Unauthenticated, User};
use std::{net::SocketAddr, sync::Arc, time::SystemTime};
use tokio::time::Instant;

/// A client that shows this token.
pub(crate) fn bearer(token: &str) -> Evidence {
    Evidence { authorization: Some(Authorization::new(format!("Bearer {token}"))), ..Evidence::default() }
}

/// The same, from an address.
pub(crate) fn bearer_from(token: &str, address: &str) -> Evidence {
    Evidence { peer: Some(SocketAddr::new(address.parse().unwrap(), 4711)), ..bearer(token) }
}

/// Wall-clock time that stands still and moves with tokio's.
pub(crate) fn paused_clock() -> Clock {
    let (wall, since) = (SystemTime::now(), Instant::now());
    Clock::from_fn(move || wall + since.elapsed())
}

/// A chain of one.
pub(crate) fn chain(provider: impl Provider) -> Chain {
    Chain::new(vec![Arc::new(provider)]).unwrap()
}

/// The user, or a panic with the reason.
#[track_caller]
pub(crate) fn accepted(answer: Result<Identity, Unauthenticated>) -> Arc<User> {
    match answer {
        Ok(Identity::User(user)) => user,
        other => panic!("not accepted: {other:?}"),
    }
}

/// What a gateway would answer.
pub(crate) fn status(answer: &Result<Identity, Unauthenticated>) -> u16 {
    match answer {
        Ok(_) => 200,
        Err(Unauthenticated::Rejected(_)) => 401,
        Err(Unauthenticated::Conflict(_)) => 400,
        Err(Unauthenticated::TooMany(_)) => 429,
        Err(Unauthenticated::Unavailable(_)) => 503,
    }
}

/// What a gateway would answer to a token.
pub(crate) async fn status_of(chain: &impl Authenticate, token: &str) -> u16 {
    status(&chain.authenticate(&bearer(token)).await)
}
