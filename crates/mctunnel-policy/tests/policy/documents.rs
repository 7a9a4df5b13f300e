//! The examples of docs/security/policy.md are what they say they are.

use mctunnel_policy::{Policy, Question, Table, check};

const DOCUMENT: &str = include_str!("../../../../docs/security/policy.md");

/// The block of YAML behind a marker.
fn example(name: &str) -> &str {
    let (_, rest) = DOCUMENT.split_once(&format!("<!-- example: {name} -->\n```yaml\n")).expect("the marker");
    rest.split_once("\n```").expect("the end of the block").0
}

#[test]
fn the_policy_of_the_document_is_sound_and_its_expectations_are_met() {
    let policy = Policy::parse(example("policy")).unwrap();
    assert_eq!(check(example("policy")), []);
    for outcome in Table::parse(example("expectations")).unwrap().run(&policy) {
        assert!(outcome.is_met, "{outcome:?}");
    }
}

/// "Does user Alice have permission to access the kube-system namespace in cluster-prod?"
#[test]
fn the_question_of_the_document_has_its_answer() {
    let policy = Policy::parse(example("policy")).unwrap();
    let mut question = Question::resource("alice", "cluster-prod", "get", "pods");
    question.place.namespace = Some("kube-system".to_owned());
    question.who.groups = vec!["developers".to_owned()];
    question.who.provider = Some("corp".to_owned());
    let decision = question.ask(&policy).unwrap();
    assert!(!decision.is_allowed() && DOCUMENT.contains(&format!("no ({})", decision.rule())), "{decision:?}");
    question.place.namespace = Some("team-a".to_owned());
    let decision = question.ask(&policy).unwrap();
    assert!(decision.is_allowed() && DOCUMENT.replace('\n', " ").contains(&**decision.rule()), "{decision:?}");
}

#[test]
fn every_variable_of_the_document_is_one() {
    let table =
        DOCUMENT.split_once("| variable | type | is |").expect("the table").1.split_once("\n\n").expect("its end").0;
    let variables: Vec<&str> = table.split('`').filter(|word| word.contains('.') || *word == "protocol").collect();
    assert_eq!(variables.len(), 26, "{variables:?}");
    for variable in variables {
        let when = format!("{variable} == {variable}");
        let policy = format!(
            "{{version: 1, roles: {{r: {{rules: [{{clusters: ['*'], nonResourcePaths: ['*'], verbs: ['*']}}]}}}}, bindings: \
             [{{name: b, role: r, users: [a], providers: ['*'], when: {when:?}}}], deny: []}}"
        );
        Policy::parse(&policy).unwrap_or_else(|error| panic!("{variable}: {error}"));
    }
}
