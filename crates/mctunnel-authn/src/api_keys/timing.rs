//! Whether the time that a guess takes tells how near it came (T30), as dudect asks: two classes of guesses in turn, Welch's t-test
//! over what is left without the slowest, and a comparison that does tell as the control.

use super::{ApiKeyRecord, ApiKeySettings, ApiKeys, MemoryApiKeys, NewApiKey, create_api_key, key_text};
use crate::{Clock, api_keys::ApiKeyStore, digest};
use std::{hint::black_box, sync::Arc};
use tokio::time::Instant;

/// Guesses in one measurement: many times what a clock can tell apart, and so many that it does not matter where in memory each lies.
const BATCH: usize = 64;
/// Measurements of each class.
const MEASUREMENTS: usize = 4_000;
/// dudect calls a function leaky from 4.5 on; other tests run beside this one.
const LEAKY: f64 = 10.0;
/// The leak is there each time; a neighbour that starts in the middle is not.
const TRIES: usize = 5;

/// Student's t between the times of something after two ways to prepare it, in turn.
fn t_between(prepare: &dyn Fn(usize), run: &dyn Fn()) -> f64 {
    let mut times = [const { Vec::new() }; 2];
    for turn in 0..2 * MEASUREMENTS {
        // By turns, and each as often behind itself as behind the other: whatever alternates meets both alike.
        let class = (turn / 2 % 2) ^ (turn % 2);
        prepare(class);
        let begun = Instant::now();
        run();
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

/// The one nearest to nought of several tries; one that is near is enough.
fn least_t(prepare: &dyn Fn(usize), run: &dyn Fn()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..TRIES {
        least = least.min(t_between(prepare, run).abs());
        if least < LEAKY {
            break;
        }
    }
    least
}

/// The one farthest from nought of several tries; one that tells is enough.
fn greatest_t(prepare: &dyn Fn(usize), run: &dyn Fn()) -> f64 {
    let mut greatest: f64 = 0.0;
    for _ in 0..TRIES {
        greatest = greatest.max(t_between(prepare, run).abs());
        if greatest > LEAKY {
            break;
        }
    }
    greatest
}

#[test]
fn t30_a_guess_takes_the_same_time_however_near_it_comes() {
    let store = Arc::new(MemoryApiKeys::default());
    let new = NewApiKey { user: "ci".to_owned(), ..NewApiKey::default() };
    let made: Vec<_> = (0..BATCH).map(|_| create_api_key(&*store, new.clone(), &Clock::system()).unwrap()).collect();
    // A guess cannot choose its hash. Here the records are made to fit the guesses, but for the last byte, or but for the first.
    let prepare = |class: usize| {
        for made in &made {
            let mut hash = made.record.hash;
            hash[[31, 0][class]] ^= 1;
            store.put(ApiKeyRecord { hash, ..made.record.clone() }).unwrap();
        }
    };
    let keys = ApiKeys::new("keys", ApiKeySettings::default(), store.clone(), Clock::system()).unwrap();
    let each = |look_up: &dyn Fn(&str) -> bool| {
        for made in &made {
            assert!(!look_up(black_box(made.key.expose())));
        }
    };
    let t = least_t(&prepare, &|| each(&|guess| black_box(keys.record(guess)).is_some()));
    // The same way, up to the comparison.
    let naive = |guess: &str| {
        let hash = digest::of(guess.as_bytes());
        let record = store.find(key_text::id(guess).unwrap()).unwrap();
        !black_box(&hash).iter().zip(black_box(&record.hash)).any(|(a, b)| a != b)
    };
    let control = greatest_t(&prepare, &|| each(&|guess| black_box(naive(guess))));
    println!("t = {t:.1}, and {control:.1} where it tells");
    assert!(control > LEAKY, "this machine could not tell: {control}");
    assert!(t < LEAKY, "{t}");
}
