//! Which records of strangers are written whole. Who was not identified, and is allowed nothing, costs itself nothing by asking again,
//! and would fill the files until those are thrown away that others need. Beyond a pace, the number is the record. Who is refused although
//! it has a token of a cluster is told by the cluster, and has a pace of its own: no junk of others hides that a token was stolen.

use mctunnel_core::{ClusterName, source_of};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tokio::time::Instant;

/// Of one source: at once, and then two a second.
const EACH: Rate = Rate { at_once: 200, every: Duration::from_millis(500) };
/// Of all together: at once, and then five a second.
const ALL: Rate = Rate { at_once: 1_000, every: Duration::from_millis(200) };

/// Of those who have a token of one cluster that does not count: at once, and then one in five seconds.
const EACH_CLUSTER: Rate = Rate { at_once: 100, every: Duration::from_secs(5) };
/// Of those of all clusters together: at once, and then one a second.
const ALL_CLUSTERS: Rate = Rate { at_once: 500, every: Duration::from_secs(1) };

/// The least time between two lines that say how many were left out.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Sources, and clusters, that are told apart. Those beyond have the pace of all together, and no number of their own.
const MOST_SOURCES: usize = 1_024;

/// A record that is longer than this is counted as several.
const USUAL_BYTES: usize = 1_024;

/// The pace of strangers.
#[derive(Debug)]
pub(crate) struct Strangers {
    counted: Mutex<Counted>,
    ever: AtomicU64,
}

/// Who is refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) source: Option<IpAddr>,
    /// The cluster that it has proven to have a secret of.
    pub(crate) cluster: Option<&'a ClusterName>,
}

#[derive(Debug)]
struct Counted {
    all: Pace,
    known: Known<IpAddr>,
    /// The same of those who have a secret of a cluster.
    of_clusters: Pace,
    clusters: Known<ClusterName>,
    /// How many were left out since it was last told.
    left_out: u64,
    /// When that is to be told; `None` if nothing is.
    tell_at: Option<Instant>,
}

/// The sources that are told apart, or the clusters.
#[derive(Debug)]
struct Known<K> {
    sources: BTreeMap<K, Source>,
    /// When those that do nothing were last forgotten.
    swept: Instant,
}

#[derive(Debug)]
struct Source {
    pace: Pace,
    left_out: u64,
}

/// Requests of strangers that have no record of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) count: u64,
    /// From how many sources, as far as they are told apart.
    pub(crate) sources: usize,
    /// Where most of them come from, and how many.
    pub(crate) most: Option<(IpAddr, u64)>,
}

/// Whether a stranger's record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Written,
    /// It is the first that is left out since it was last told: somebody has to wake up in time.
    FirstLeftOut,
    LeftOut,
}

impl Strangers {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let (known, clusters) = (Known::new(now), Known::new(now));
        let (all, of_clusters) = (Pace(now), Pace(now));
        let counted = Counted { all, known, of_clusters, clusters, left_out: 0, tell_at: None };
        Self { counted: Mutex::new(counted), ever: AtomicU64::new(0) }
    }

    /// Decides about a request that has ended, and counts it.
    pub(crate) fn judge(&self, asker: &Asker<'_>, now: Instant) -> Verdict {
        let Counted { all, known, of_clusters, clusters, left_out, tell_at } = &mut *self.counted.lock();
        let source = asker.source.map(source_of);
        let is_written = match asker.cluster {
            Some(cluster) => clusters.has_turn(Some(cluster.clone()), &EACH_CLUSTER, (of_clusters, &ALL_CLUSTERS), now),
            None => known.has_turn(source, &EACH, (all, &ALL), now),
        };
        if is_written {
            return Verdict::Written;
        }
        if let Some(source) = source.and_then(|source| known.source(source, now)) {
            source.left_out += 1;
        }
        *left_out += 1;
        self.ever.fetch_add(1, Ordering::Relaxed);
        match tell_at {
            Some(_) => Verdict::LeftOut,
            None => {
                *tell_at = Some(now + TELL_EVERY);
                Verdict::FirstLeftOut
            }
        }
    }

    /// What was written was so long.
    pub(crate) fn wrote(&self, asker: &Asker<'_>, bytes: usize, now: Instant) {
        let more = u32::try_from(bytes / USUAL_BYTES).unwrap_or(u32::MAX);
        if more == 0 {
            return;
        }
        let counted = &mut *self.counted.lock();
        if let Some(cluster) = asker.cluster {
            counted.of_clusters.take(more, &ALL_CLUSTERS, now);
            if let Some(of) = counted.clusters.sources.get_mut(cluster) {
                of.pace.take(more, &EACH_CLUSTER, now);
            }
            return;
        }
        counted.all.take(more, &ALL, now);
        if let Some(source) = asker.source.and_then(|address| counted.known.sources.get_mut(&source_of(address))) {
            source.pace.take(more, &EACH, now);
        }
    }

    /// When [`Strangers::tell`] has something to say.
    pub(crate) fn tell_at(&self) -> Option<Instant> {
        self.counted.lock().tell_at
    }

    /// How many were left out since it was last asked, if it is time to say so; with `at_once` it is.
    pub(crate) fn tell(&self, now: Instant, at_once: bool) -> Option<LeftOut> {
        let counted = &mut *self.counted.lock();
        if counted.tell_at.is_none_or(|at| at > now && !at_once) {
            return None;
        }
        counted.tell_at = None;
        let count = std::mem::take(&mut counted.left_out);
        let of_sources = counted.known.sources.iter().filter(|(_, source)| source.left_out > 0);
        let sources = of_sources.clone().count();
        let most = of_sources.map(|(source, of)| (*source, of.left_out)).max_by_key(|(_, count)| *count);
        counted.known.sources.values_mut().for_each(|source| source.left_out = 0);
        counted.known.sweep(now);
        counted.clusters.sweep(now);
        Some(LeftOut { count, sources, most })
    }

    /// How many were left out so far.
    pub(crate) fn ever(&self) -> u64 {
        self.ever.load(Ordering::Relaxed)
    }
}

impl<K: Ord> Known<K> {
    fn new(now: Instant) -> Self {
        Self { sources: BTreeMap::new(), swept: now }
    }

    /// Whether its pace and that of all allow one more, which is taken from both then.
    fn has_turn(&mut self, source: Option<K>, each: &Rate, (all, of_all): (&mut Pace, &Rate), now: Instant) -> bool {
        let source = source.and_then(|source| self.source(source, now));
        let has_room = source.as_ref().is_none_or(|source| source.pace.has_room(each, now));
        if !has_room || !all.has_room(of_all, now) {
            return false;
        }
        all.take(1, of_all, now);
        source.into_iter().for_each(|source| source.pace.take(1, each, now));
        true
    }

    /// What is known of a source; `None` if there are too many.
    fn source(&mut self, source: K, now: Instant) -> Option<&mut Source> {
        if self.sources.len() >= MOST_SOURCES && !self.sources.contains_key(&source) {
            if now.duration_since(self.swept) < TELL_EVERY {
                return None;
            }
            self.sweep(now);
            if self.sources.len() >= MOST_SOURCES {
                return None;
            }
        }
        Some(self.sources.entry(source).or_insert(Source { pace: Pace(now), left_out: 0 }))
    }

    /// Forgets sources that are as if they had never come.
    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        self.sources.retain(|_, source| source.left_out > 0 || source.pace.0 > now);
    }
}

#[derive(Debug)]
struct Rate {
    at_once: u32,
    every: Duration,
}

/// When all that was taken is paid for.
#[derive(Debug)]
struct Pace(Instant);

impl Pace {
    fn has_room(&self, rate: &Rate, now: Instant) -> bool {
        self.0.saturating_duration_since(now) + rate.every <= rate.every * rate.at_once
    }

    fn take(&mut self, count: u32, rate: &Rate, now: Instant) {
        // A record has a bound, so this does not grow without end.
        self.0 = self.0.max(now) + rate.every * count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Asker<'static> {
        Asker { source: Some(IpAddr::from(number.to_be_bytes())), cluster: None }
    }

    fn written(strangers: &Strangers, from: Asker<'_>, times: u32, now: Instant) -> u32 {
        let judged = (0..times).filter(|_| strangers.judge(&from, now) == Verdict::Written);
        u32::try_from(judged.count()).unwrap()
    }

    #[test]
    fn t40_a_source_has_a_pace_and_all_together_have_one() {
        let (strangers, start) = (Strangers::new(), Instant::now());
        assert_eq!(written(&strangers, address(1), 50_000, start), 200);
        assert_eq!(written(&strangers, address(2), 1, start), 1, "another is not to blame");
        assert_eq!(strangers.tell(start, false), None, "not yet");
        let later = start + TELL_EVERY;
        assert_eq!(strangers.tell_at(), Some(later));
        let most = Some((IpAddr::from(1_u32.to_be_bytes()), 49_800));
        assert_eq!(strangers.tell(later, false), Some(LeftOut { count: 49_800, sources: 1, most }));
        assert_eq!((strangers.tell(later, true), strangers.tell_at(), strangers.ever()), (None, None, 49_800));
        assert_eq!(written(&strangers, address(1), 50, later), 2, "so many a second");
        let of_all: u32 = (10..100).map(|source| written(&strangers, address(source), 100, later)).sum();
        assert!((790..=810).contains(&of_all), "{of_all}");
        assert_eq!(written(&strangers, Asker { source: None, cluster: None }, 10, later + Duration::from_secs(1)), 5);
        assert_eq!(written(&strangers, address(1), 500, later + Duration::from_secs(3_600)), 200, "forgotten by then");
    }

    #[test]
    fn t40_long_records_count_for_several() {
        let (strangers, now) = (Strangers::new(), Instant::now());
        let mut whole = 0;
        while strangers.judge(&address(1), now) == Verdict::Written {
            strangers.wrote(&address(1), 4 * USUAL_BYTES, now);
            whole += 1;
        }
        assert_eq!(whole, 40);
    }

    #[test]
    fn t40_sources_are_forgotten_and_never_more_than_so_many_are_known() {
        let (strangers, start) = (Strangers::new(), Instant::now());
        let known = || strangers.counted.lock().known.sources.len();
        for source in 0..100_000 {
            strangers.judge(&address(source), start);
            assert!(known() <= MOST_SOURCES);
        }
        let told = strangers.tell(start, true).unwrap();
        assert_eq!(told.count, 100_000 - 1_000, "those without a number of their own are counted");
        let later = start + Duration::from_secs(3_600);
        assert_eq!(strangers.judge(&address(7), later), Verdict::Written);
        for source in 200_000..200_100 {
            strangers.judge(&address(source), later);
        }
        assert_eq!(known(), 101, "those who do nothing make room");
    }

    #[test]
    fn t40_who_has_a_token_has_a_pace_that_strangers_do_not_use_up_and_cannot_fill_the_files() {
        let (strangers, start) = (Strangers::new(), Instant::now());
        let clusters: Vec<ClusterName> = (0..5_000).map(|n| ClusterName::parse(&format!("c{n}")).unwrap()).collect();
        let of = |n: usize| Asker { cluster: Some(&clusters[n]), ..address(1) };
        assert_eq!(written(&strangers, address(1), 10_000, start), 200);
        let of_others: u32 = (2..100).map(|source| written(&strangers, address(source), 200, start)).sum();
        assert_eq!(of_others, 800, "the pace of all is used up");
        assert_eq!(written(&strangers, of(0), 1_000, start), 100, "its own pace, whoever asks besides");
        assert_eq!(written(&strangers, of(1), 1, start), 1, "another cluster is not to blame");
        let more: u32 = (2..5_000).map(|n| written(&strangers, of(n), 1, start)).sum();
        assert_eq!(more, 500 - 101, "all together have one");
        assert!(strangers.counted.lock().clusters.sources.len() <= MOST_SOURCES);
        let told = strangers.tell(start, true).unwrap();
        assert_eq!((told.count, told.most.map(|(source, _)| source)), (strangers.ever(), address(1).source));
        let later = start + Duration::from_secs(10);
        assert_eq!(written(&strangers, of(0), 50, later), 2, "so many in ten seconds");
        strangers.wrote(&of(1), 200 * USUAL_BYTES, later);
        assert_eq!(written(&strangers, of(1), 1, later), 0, "a long one counts for several");
        assert_eq!(written(&strangers, address(200), 1, later), 1, "of its own, not of those without a token");
        strangers.tell(start + Duration::from_secs(7_200), true);
        assert_eq!(strangers.counted.lock().clusters.sources.len(), 0, "forgotten by then");
    }
}
