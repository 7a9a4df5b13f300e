//! Lists something and watches it from there, for ever: resumes after a cut, lists anew when the server has forgotten where we were,
//! and asks less and less often while it does not answer. What is listed and watched is the caller's.

use super::Trouble;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a page of a list may take.
pub(crate) const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the server is asked to keep a watch open. Short, because a connection that died silently is noticed only then.
pub(crate) const WATCH_SECONDS: u32 = 120;

/// How long after that a watch is given up.
pub(crate) const WATCH_TIMEOUT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 15);

/// How long to wait before asking again for what was denied.
pub(crate) const DENIED_RETRY: Duration = Duration::from_secs(60);

/// A watch that lived this long, or that brought anything, was healthy.
pub(crate) const HEALTHY: Duration = Duration::from_secs(5);

/// After so many failures in a row a watch is not resumed, but begun anew.
const ENOUGH: u32 = 5;

/// What can be listed, and watched from there.
pub(crate) trait ListAndWatch: Sync {
    /// Lists everything; gives the version to watch from.
    fn list(&self) -> impl Future<Output = Result<String, Trouble>> + Send;
    /// Watches from a version, which moves with what is seen. Ends only in trouble, of which the end of the watch is the least.
    fn watch(&self, version: &mut String) -> impl Future<Output = Trouble> + Send;
    /// The agent may not.
    fn denied(&self, reason: &str);
    /// It will be tried again.
    fn failed(&self, reason: &str);
}

/// Keeps up with it.
pub(crate) async fn keep_up(with: &impl ListAndWatch) {
    // Where to resume; `None` to begin with a list.
    let mut version: Option<String> = None;
    let mut failures: u32 = 0;
    loop {
        let trouble = match &mut version {
            None => match with.list().await {
                // The watch follows at once.
                Ok(listed) => {
                    version = Some(listed);
                    continue;
                }
                Err(trouble) => trouble,
            },
            Some(version) => {
                let (since, before) = (Instant::now(), version.clone());
                let trouble = with.watch(version).await;
                if since.elapsed() >= HEALTHY || *version != before {
                    failures = 0;
                }
                trouble
            }
        };
        let pause = match trouble {
            Trouble::Ended => backoff(failures, rand::random()),
            Trouble::Gone => {
                version = None;
                backoff(failures, rand::random())
            }
            Trouble::Denied(reason) => {
                version = None;
                with.denied(&reason);
                DENIED_RETRY
            }
            Trouble::Failed(reason) => {
                with.failed(&reason);
                // Whatever it is about this version that the server does not like, a list has another.
                if failures >= ENOUGH {
                    version = None;
                }
                backoff(failures, rand::random())
            }
        };
        failures = failures.saturating_add(1);
        sleep(pause).await;
    }
}

/// The wait after a number of failures in a row: from 50 ms, doubling up to 30 s, the upper half of it at random.
pub(crate) fn backoff(failures: u32, random: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(30);
    let longest = FIRST.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX)).min(LONGEST);
    let half = longest / 2;
    half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_50_ms_to_30_s() {
        let longest: Vec<_> = (0..12).map(|failures| backoff(failures, u32::MAX).as_millis()).collect();
        assert_eq!(longest, [50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(backoff(0, 0), Duration::from_millis(25));
        assert_eq!(backoff(u32::MAX, 0), Duration::from_secs(15));
    }
}
