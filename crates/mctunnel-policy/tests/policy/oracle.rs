//! T12: thousands of generated decisions equal those of an independent reading of the documents, written in Python.
//!
//! Where there is no Python, the hash of the decisions is compared with the hash of the answers that the oracle gave, which is kept
//! beside the hash of the questions it was asked: answers to other questions cannot pass. `MCTUNNEL_ORACLE=write` writes both anew.

use crate::generate::{Random, ask, policy, request};
use mctunnel_policy::Policy;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    process::{Command, Stdio},
};

const POLICIES: u64 = 150;
const REQUESTS: usize = 80;

const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.py");
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.sha256");

#[test]
fn t12_generated_decisions_equal_an_independent_oracle() {
    let cases: Vec<Value> = (0..POLICIES).map(case).collect();
    let questions = serde_json::to_string(&cases).expect("JSON");
    let decisions: Vec<Vec<String>> = cases.iter().map(decisions).collect();
    match oracle(&questions) {
        Some(answers) => {
            compare(&cases, &decisions, &answers);
            let hashes = hashes(&questions, &answers);
            if std::env::var("MCTUNNEL_ORACLE").is_ok_and(|value| value == "write") {
                fs::write(KEPT, &hashes).expect("the file can be written");
            }
            assert_eq!(kept(), hashes, "questions or answers have changed: run with MCTUNNEL_ORACLE=write");
        }
        None => {
            println!("python3 is not here: what the oracle said before is compared instead");
            assert_eq!(hashes(&questions, &decisions), kept());
        }
    }
    all_kinds_are_there(&decisions);
}

fn case(seed: u64) -> Value {
    let mut random = Random(seed);
    let policy = policy(&mut random);
    let requests: Vec<Value> = (0..REQUESTS).map(|_| request(&mut random)).collect();
    json!({"policy": policy, "requests": requests})
}

/// The rule that decided each request, with `+` in front if it allows.
fn decisions(case: &Value) -> Vec<String> {
    let policy =
        Policy::parse(&case["policy"].to_string()).unwrap_or_else(|error| panic!("{error}\n{}", case["policy"]));
    let requests = case["requests"].as_array().expect("a list").iter();
    let decisions = requests.map(|request| ask(&policy, request));
    decisions.map(|decision| format!("{}{}", if decision.is_allowed() { "+" } else { "" }, decision.rule())).collect()
}

/// What the oracle says; `None` where there is no Python to run it.
fn oracle(questions: &str) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("python3");
    let mut child = command.arg(ORACLE).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    child.stdin.take().expect("it was piped").write_all(questions.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "the oracle ended with {}", output.status);
    Some(serde_json::from_slice(&output.stdout).expect("lists of texts"))
}

fn compare(cases: &[Value], decisions: &[Vec<String>], answers: &[Vec<String>]) {
    for (case, (decisions, answers)) in cases.iter().zip(decisions.iter().zip(answers)) {
        for (at, (decision, answer)) in decisions.iter().zip(answers).enumerate() {
            assert_eq!(decision, answer, "{}\n{}", case["policy"], case["requests"][at]);
        }
    }
    assert_eq!(decisions, answers);
}

/// Enough decisions, and enough of each kind, that they show something.
fn all_kinds_are_there(decisions: &[Vec<String>]) {
    let mut kinds = BTreeMap::<&str, usize>::new();
    for decision in decisions.iter().flatten() {
        *kinds.entry(decision.split(' ').next().expect("a word")).or_default() += 1;
    }
    println!("decisions: {kinds:?}");
    assert!(kinds.values().sum::<usize>() >= 5000);
    for (kind, least) in [("+role", 500), ("deny", 500), ("no", 500), ("the", 50)] {
        assert!(kinds.get(kind).is_some_and(|count| *count >= least), "{kinds:?}");
    }
}

fn hashes(questions: &str, answers: &[Vec<String>]) -> String {
    let hash = |text: &str| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let answers = serde_json::to_string(answers).expect("JSON");
    format!("{} questions\n{} answers\n", hash(questions), hash(&answers))
}

fn kept() -> String {
    fs::read_to_string(KEPT).expect("what the oracle said before")
}
