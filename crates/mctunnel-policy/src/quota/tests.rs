//! Quotas on a paused clock: how much, for whom, and when again.

use super::*;
use crate::Question;
use tokio::time::advance;

fn quotas(text: &str) -> Quotas {
    Quotas::new(&policy(text))
}

fn policy(text: &str) -> Policy {
    Policy::parse(&format!("{{version: 1, roles: {{}}, bindings: [], deny: [], quotas: [{text}]}}")).unwrap()
}

fn admit(quotas: &Quotas, user: &str, cluster: &str) -> Result<Permit, (String, Duration)> {
    let question = Question::resource(user, cluster, "get", "pods");
    question.with_access(|access| quotas.admit(access)).unwrap().map_err(|decision| match decision {
        Decision::Limited { rule, retry_after } => (rule.to_string(), retry_after),
        Decision::Allowed { .. } | Decision::Denied { .. } => panic!("{decision:?}"),
    })
}

fn is_admitted(quotas: &Quotas, user: &str, cluster: &str) -> bool {
    admit(quotas, user, cluster).is_ok()
}

const RATE: &str = "{name: q, per: user, users: ['*'], clusters: ['*'], requestsPerSecond: 10, burst: 3}";

#[tokio::test(start_paused = true)]
async fn a_burst_then_a_rate_and_the_time_to_try_again_is_exact() {
    let quotas = quotas(RATE);
    assert_eq!((0..4).map(|_| is_admitted(&quotas, "a", "c")).collect::<Vec<_>>(), [true, true, true, false]);
    let (rule, wait) = admit(&quotas, "a", "c").unwrap_err();
    assert_eq!((rule.as_str(), wait), ("quota q, requests per second", Duration::from_millis(100)));
    advance(wait - Duration::from_millis(1)).await;
    assert!(!is_admitted(&quotas, "a", "c"));
    advance(Duration::from_millis(1)).await;
    assert!(is_admitted(&quotas, "a", "c") && !is_admitted(&quotas, "a", "c"));
    // After a rest there is room for a burst again, and for no more than that.
    advance(Duration::from_secs(60)).await;
    assert_eq!((0..4).filter(|_| is_admitted(&quotas, "a", "c")).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn in_the_long_run_the_rate_is_kept() {
    let quotas = quotas(RATE);
    let mut admitted = 0;
    for _ in 0..1000 {
        admitted += usize::from(is_admitted(&quotas, "a", "c"));
        advance(Duration::from_millis(10)).await;
    }
    // Ten seconds at ten a second, and the burst.
    assert!((100..=103).contains(&admitted), "{admitted}");
}

#[tokio::test(start_paused = true)]
async fn each_quota_counts_for_whom_it_says() {
    for (per, others) in
        [("user", [false, true, false]), ("cluster", [false, false, true]), ("userAndCluster", [false, true, true])]
    {
        let quotas = quotas(&format!("{{name: q, per: {per}, users: ['*'], clusters: ['*'], concurrentStreams: 1}}"));
        let _held = admit(&quotas, "a", "c1").unwrap();
        let asked = [("a", "c1"), ("b", "c1"), ("a", "c2")].map(|(user, cluster)| is_admitted(&quotas, user, cluster));
        assert_eq!(asked, others, "{per}");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_are_counted_until_they_end() {
    let quotas = quotas("{name: q, per: user, users: [a], clusters: [c], concurrentStreams: 2}");
    let first = admit(&quotas, "a", "c").unwrap();
    let second = admit(&quotas, "a", "c").unwrap();
    assert_eq!(
        admit(&quotas, "a", "c").unwrap_err(),
        ("quota q, concurrent streams".to_owned(), Duration::from_secs(1))
    );
    drop(first);
    let third = admit(&quotas, "a", "c").unwrap();
    assert!(!is_admitted(&quotas, "a", "c"));
    assert!(is_admitted(&quotas, "b", "c") && is_admitted(&quotas, "a", "d"), "the quota is about others");
    drop((second, third));
    assert!(is_admitted(&quotas, "a", "c"));
}

#[tokio::test(start_paused = true)]
async fn what_one_quota_refuses_costs_nothing_under_another() {
    let quotas = quotas(
        "{name: wide, per: user, users: ['*'], clusters: ['*'], requestsPerSecond: 1, burst: 2}, \
         {name: narrow, per: cluster, users: ['*'], clusters: [full], concurrentStreams: 1}",
    );
    let _held = admit(&quotas, "other", "full").unwrap();
    for _ in 0..10 {
        assert_eq!(admit(&quotas, "a", "full").unwrap_err().0, "quota narrow, concurrent streams");
    }
    assert_eq!((0..3).filter(|_| is_admitted(&quotas, "a", "c")).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_policy_takes_over_what_is_in_use() {
    let quotas = quotas("{name: q, per: user, users: ['*'], clusters: ['*'], concurrentStreams: 1}");
    let held = admit(&quotas, "a", "c").unwrap();
    quotas.replace(&policy("{name: q, per: user, users: ['*'], clusters: ['*'], concurrentStreams: 2}"));
    let second = admit(&quotas, "a", "c").unwrap();
    assert!(!is_admitted(&quotas, "a", "c"));
    quotas.replace(&Policy::deny_all());
    assert!(is_admitted(&quotas, "a", "c"), "no quotas, no limits");
    drop((held, second));
}

#[tokio::test(start_paused = true)]
async fn bytes_wait_once_a_second_of_them_is_used_up() {
    let quotas = quotas("{name: q, per: user, users: ['*'], clusters: ['*'], bytesPerSecond: 1KiB}");
    let (one, two) = (admit(&quotas, "a", "c").unwrap(), admit(&quotas, "a", "c").unwrap());
    assert!(one.limits_bytes());
    assert_eq!(one.take_bytes(1024), Duration::ZERO);
    assert_eq!(two.take_bytes(512), Duration::from_millis(500), "the two share it");
    advance(Duration::from_millis(1500)).await;
    assert_eq!(two.take_bytes(1024), Duration::ZERO);
    assert!(!admit(&self::quotas(RATE), "a", "c").unwrap().limits_bytes());
    let with_another = "{name: q, per: user, users: ['*'], clusters: ['*'], bytesPerSecond: 1KiB}, \
        {name: r, per: user, users: ['*'], clusters: ['*'], requestsPerSecond: 10}";
    assert!(admit(&self::quotas(with_another), "a", "c").unwrap().limits_bytes(), "one that does is enough");
}

#[tokio::test(start_paused = true)]
async fn nobody_new_comes_in_while_those_who_are_in_wait_longer_than_a_second_for_bytes() {
    let quotas = quotas("{name: q, per: user, users: ['*'], clusters: ['*'], bytesPerSecond: 1KiB}");
    let first = admit(&quotas, "a", "c").unwrap();
    assert_eq!(first.take_bytes(2 * 1024), Duration::from_secs(1));
    let second = admit(&quotas, "a", "c").expect("a second is not long");
    assert_eq!(second.take_bytes(3 * 1024), Duration::from_secs(4));
    let (rule, wait) = admit(&quotas, "a", "c").unwrap_err();
    assert_eq!((rule.as_str(), wait), ("quota q, bytes per second", Duration::from_secs(3)));
    assert!(is_admitted(&quotas, "b", "c"), "others owe nothing");
    advance(wait - Duration::from_millis(1)).await;
    assert!(!is_admitted(&quotas, "a", "c"));
    advance(Duration::from_millis(1)).await;
    assert!(is_admitted(&quotas, "a", "c"));
}

#[tokio::test(start_paused = true)]
async fn nobody_known_counts_as_one_user() {
    let quotas = quotas("{name: q, per: user, users: ['*'], clusters: ['*'], concurrentStreams: 1}");
    let question = Question::parse("{who: {}, where: {cluster: c}, what: {verb: get, path: /x}}").unwrap();
    let _held = question.with_access(|access| quotas.admit(access)).unwrap().unwrap();
    assert!(question.with_access(|access| quotas.admit(access)).unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn users_who_left_are_forgotten() {
    let quotas = quotas("{name: q, per: user, users: ['*'], clusters: ['*'], requestsPerSecond: 10}");
    let held = admit(&quotas, "held", "c").unwrap();
    for number in 0..MANY {
        drop(admit(&quotas, &format!("u{number}"), "c").unwrap());
        advance(Duration::from_millis(200)).await;
    }
    let entries = quotas.used.lock().entries.len();
    assert!(entries <= 3, "{entries}");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_forgotten_who_has_something_open_or_to_pay() {
    let limits = "requestsPerSecond: 1, burst: 2, concurrentStreams: 2, bytesPerSecond: 1KiB";
    let quotas = quotas(&format!("{{name: q, per: user, users: ['*'], clusters: ['*'], {limits}}}"));
    let _held = [admit(&quotas, "streams", "c").unwrap(), admit(&quotas, "streams", "c").unwrap()];
    advance(Duration::from_secs(60)).await;
    (0..2).for_each(|_| drop(admit(&quotas, "requests", "c").unwrap()));
    let _ = admit(&quotas, "bytes", "c").unwrap().take_bytes(1024 * 1024);
    for number in 0..=MANY {
        drop(admit(&quotas, &format!("u{number}"), "c").unwrap());
    }
    for what in ["streams", "requests", "bytes"] {
        let (rule, _) = admit(&quotas, what, "c").unwrap_err();
        assert!(rule.contains(what), "{what}: {rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_owed_under_a_limit_that_is_gone_is_owed_no_more() {
    let quota = |limit: &str| format!("{{name: q, per: user, users: ['*'], clusters: ['*'], {limit}}}");
    let quotas = quotas(&quota("bytesPerSecond: 1KiB"));
    let held = admit(&quotas, "a", "c").unwrap();
    assert_eq!(held.take_bytes(10 * 1024), Duration::from_secs(9));
    assert!(!is_admitted(&quotas, "a", "c"));
    quotas.replace(&policy(&quota("requestsPerSecond: 10")));
    assert!(is_admitted(&quotas, "a", "c"));
}

#[test]
fn a_quota_may_be_for_groups_alone() {
    let quotas = quotas("{name: q, per: user, groups: [dev], clusters: ['*'], requestsPerSecond: 1}");
    assert!(is_admitted(&quotas, "a", "c") && is_admitted(&quotas, "a", "c"), "who is in no such group is not counted");
}

#[test]
fn quotas_that_say_nothing_or_nonsense_are_errors() {
    let good = "name: q, per: user, users: ['*'], clusters: ['*']";
    for bad in [
        "{name: 'a b', per: user, users: ['*'], clusters: ['*'], requestsPerSecond: 1}".to_owned(),
        format!("{{{good}}}"),
        format!("{{{good}, burst: 3}}"),
        format!("{{{good}, requestsPerSecond: 0}}"),
        format!("{{{good}, requestsPerSecond: 1, burst: 0}}"),
        format!("{{{good}, requestsPerSecond: -1}}"),
        format!("{{{good}, requestsPerSecond: 1.5}}"),
        format!("{{{good}, requestsPerSecond: }}"),
        format!("{{{good}, concurrentStreams: 0}}"),
        format!("{{{good}, bytesPerSecond: 0}}"),
        format!("{{{good}, bytesPerSecond: 10MB}}"),
        format!("{{{good}, bytesPerSecond: 010}}"),
        format!("{{{good}, bytesPerSecond: 99999999999GiB}}"),
        format!("{{{good}, requestPerSecond: 1}}"),
        format!("{{{good}, concurrentStreams: 1}}, {{{good}, concurrentStreams: 1}}"),
        "{name: q, per: user, clusters: ['*'], concurrentStreams: 1}".to_owned(),
        "{name: q, per: user, users: ['*'], concurrentStreams: 1}".to_owned(),
        "{name: q, per: everyone, users: ['*'], clusters: ['*'], concurrentStreams: 1}".to_owned(),
        "{per: user, users: ['*'], clusters: ['*'], concurrentStreams: 1}".to_owned(),
    ] {
        let text = format!("{{version: 1, roles: {{}}, bindings: [], deny: [], quotas: [{bad}]}}");
        assert!(Policy::parse(&text).is_err(), "{bad}");
    }
}
