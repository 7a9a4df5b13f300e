//! Whether the time that a guess takes tells how near it came (T30), as dudect asks: two classes of guesses in turn, Welch's t-test
//! over what is left without the slowest, and a comparison that does tell as the control.

use super::{ApiKeyRecord, ApiKeySettings, ApiKeys, MemoryApiKeys, NewApiKey, create_api_key};
use crate::{Clock, api_keys::ApiKeyStore};
use mctunnel_core::Secret;
use std::{hint::black_box, sync::Arc, time::Instant};

/// Guesses in one measurement: many times what a clock can tell apart, and so many that it does not matter where in memory each lies.
const BATCH: usize = 64;
/// Measurements of each class.
const MEASUREMENTS: usize = 8_000;
/// dudect calls a function leaky from 4.5 on; other tests run beside this one.
const LEAKY: f64 = 10.0;
/// The leak is there each time; a neighbour that starts in the middle is not.
const TRIES: usize = 5;

/// Student's t between the times of two ways to run, in turn.
fn t_between(first: &dyn Fn(), second: &dyn Fn()) -> f64 {
    let ways = [first, second];
    let mut times = [const { Vec::new() }; 2];
    for turn in 0..2 * MEASUREMENTS {
        // By turns, and each as often behind itself as behind the other.
        let class = turn / 2 % 2 ^ turn % 2;
        let begun = Instant::now();
        ways[class]();
        times[class].push(begun.elapsed().as_secs_f64());
    }
    let [first, second] = times.map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        times.truncate(MEASUREMENTS / 2);
        mean_and_error(&times)
    });
    (first.0 - second.0) / (first.1 + second.1).sqrt()
}

/// The mean, and the square of its error.
#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
fn mean_and_error(times: &[f64]) -> (f64, f64) {
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, variance / count)
}

/// The one nearest to nought of several tries.
fn least_t(first: &dyn Fn(), second: &dyn Fn()) -> f64 {
    let tries = (0..TRIES).map(|_| t_between(first, second).abs());
    tries.min_by(f64::total_cmp).expect("several")
}

#[test]
fn t30_a_guess_takes_the_same_time_however_near_it_comes() {
    let store = Arc::new(MemoryApiKeys::default());
    // A guess cannot choose its hash. Here the record is made to fit the guess, but for the first byte, or but for the last.
    let guess_that_misses = |byte: usize| {
        let new = NewApiKey { user: "ci".to_owned(), ..NewApiKey::default() };
        let made = create_api_key(&*store, new, &Clock::system()).unwrap();
        let mut hash = made.record.hash;
        hash[byte] ^= 1;
        store.put(ApiKeyRecord { hash, ..made.record }).unwrap();
        made.key
    };
    let (near, far): (Vec<_>, Vec<_>) = (0..BATCH).map(|_| (guess_that_misses(31), guess_that_misses(0))).unzip();
    let keys = ApiKeys::new("keys", ApiKeySettings::default(), store, Clock::system()).unwrap();
    let look_up = |guess: &Secret| assert!(black_box(keys.record(black_box(guess.expose()))).is_none());
    let t = least_t(&|| near.iter().for_each(look_up), &|| far.iter().for_each(look_up));

    let secret = [7; 32];
    let naive =
        |guess: &[u8; 32]| assert!(black_box(black_box(guess).iter().zip(black_box(&secret)).any(|(a, b)| a != b)));
    let missing = |byte: usize| {
        let mut guess = secret;
        guess[byte] ^= 1;
        [guess; BATCH]
    };
    let (near, far) = (missing(31), missing(0));
    let control = least_t(&|| near.iter().for_each(naive), &|| far.iter().for_each(naive));
    println!("t = {t:.1}, and {control:.1} where it tells");
    assert!(control > LEAKY, "this machine could not tell: {control}");
    assert!(t < LEAKY, "{t}");
}
