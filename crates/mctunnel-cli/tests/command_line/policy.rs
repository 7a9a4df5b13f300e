//! `mctunnel policy` and `mctunnel can-i`: what they say, and the status they end with.

use crate::rig::{Ran, mctunnel, ran, run};
use serde_json::Value;
use std::{fs, path::Path};

const POLICY: &str = r#"version: 1
roles:
  developer:
    rules:
      - clusters: ["*"]
        namespaces: ["*"]
        apiGroups: [""]
        resources: [pods, pods/log]
        names: ["*"]
        verbs: [get, list, watch]
      - clusters: ["*"]
        services: ["monitoring/prometheus:9090"]
        methods: [GET]
        paths: ["/api/*"]
        protocols: [http]
bindings:
  - name: developers
    role: developer
    groups: [developers]
    providers: ["*"]
  - name: alice
    role: developer
    users: [alice]
    providers: [corp]
deny:
  - name: no-kube-system
    users: ["*"]
    providers: ["*"]
    when: "!('admins' in user.groups)"
    rules:
      - clusters: [cluster-prod]
        namespaces: [kube-system]
        apiGroups: ["*"]
        resources: ["*/*"]
        names: ["*"]
        verbs: ["*"]
"#;

fn can_i(file: &Path, arguments: &str) -> Ran {
    let words: Vec<&str> = arguments.split(' ').collect();
    run(&[&["can-i", "--policy", file.to_str().expect("UTF-8"), "--cluster", "cluster-prod"], &words[..]].concat())
}

fn written(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("policy.yaml");
    fs::write(&file, text).expect("a file");
    (dir, file)
}

/// "Does user Alice have permission to access the kube-system namespace in cluster-prod?"
#[test]
fn the_question_is_answered_with_the_rule() {
    let (_dir, file) = written(POLICY);
    for (asked, status, said) in [
        ("get pods -n kube-system --as alice --as-provider corp", 1, "no (deny no-kube-system, rule 1)\n"),
        ("get pods -n team-a --as alice --as-provider corp", 0, "yes (role developer, rule 1, binding alice)\n"),
        ("get pods -n team-a --as bob --as-group developers", 0, "yes (role developer, rule 1, binding developers)\n"),
        (
            "get pods --subresource log -n team-a --as bob --as-group developers",
            0,
            "yes (role developer, rule 1, binding developers)\n",
        ),
        ("get pods --subresource exec -n team-a --as bob --as-group developers", 1, "no (no rule allows it)\n"),
        (
            "get pods -n kube-system --as eve --as-group developers --as-group admins",
            0,
            "yes (role developer, rule 1, binding developers)\n",
        ),
        ("get pods -n team-a --as carol", 1, "no (no rule allows it)\n"),
        ("get pods -n team-a", 1, "no (no rule allows it)\n"),
        ("get /healthz --as bob --as-group developers", 1, "no (no rule allows it)\n"),
        (
            "GET --service monitoring/prometheus:9090 --path /api/v1 --as bob --as-group developers",
            0,
            "yes (role developer, rule 2, binding developers)\n",
        ),
        (
            "POST --service monitoring/prometheus:9090 --path /api/v1 --as bob --as-group developers",
            1,
            "no (no rule allows it)\n",
        ),
        ("--bytes kube-apiserver --as bob --as-group admins", 1, "no (no rule allows it)\n"),
    ] {
        let ran = can_i(&file, asked);
        assert_eq!((ran.status, ran.out.as_str()), (Some(status), said), "{asked}: {ran:?}");
    }
    fs::write(&file, POLICY.replace("[kube-system]", "[secrets]")).expect("a file");
    assert_eq!(
        can_i(&file, "get pods -n kube-system --as alice --as-provider corp").status,
        Some(0),
        "the policy was edited"
    );
}

#[test]
fn an_answer_that_depends_on_the_provider_says_so() {
    let (_dir, file) = written(POLICY);
    let ran = can_i(&file, "get pods -n team-a --as alice");
    assert_eq!((ran.status, ran.out.as_str()), (Some(1), "no (no rule allows it)\n"));
    assert!(ran.err.contains("--as-provider corp"), "{}", ran.err);
}

#[test]
fn scripts_get_json() {
    let (_dir, file) = written(POLICY);
    let ran = can_i(&file, "get pods -n kube-system --as alice -o json");
    let answer: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(
        (ran.status, &answer["allowed"], &answer["rule"]),
        (Some(1), &false.into(), &"deny no-kube-system, rule 1".into())
    );
    assert_eq!(answer["question"], "alice: get pods in kube-system, in cluster-prod");
}

#[test]
fn questions_without_sense_are_misuse() {
    let (_dir, file) = written(POLICY);
    for asked in
        ["gte pods --as alice", "get", "get pods --as-group x", "get pods --service a/b:1 --as a", "--bytes x --as a"]
    {
        assert_eq!(can_i(&file, asked).status, Some(2), "{asked}");
    }
    let file = file.to_str().expect("UTF-8");
    assert_eq!(run(&["can-i", "get", "pods", "--policy", file]).status, Some(2), "which cluster?");
    let nobody = run(&["can-i", "get", "pods", "--cluster", "c", "--as", "a"]);
    assert_eq!(nobody.status, Some(2), "which policy?");
    assert!(nobody.err.contains("--hub") && nobody.err.contains("--policy"), "{}", nobody.err);
    let bad = run(&["can-i", "get", "pods", "--cluster", "Bad_Name", "--as", "a", "--policy", file]);
    assert_eq!(bad.status, Some(2), "{bad:?}");
    assert!(bad.err.starts_with("error[MCT-POLICY-QUESTION]: "), "{}", bad.err);
}

#[test]
fn the_policy_may_come_from_the_environment() {
    let (_dir, file) = written(POLICY);
    let arguments = ["can-i", "get", "pods", "-n", "a", "--cluster", "c", "--as", "x", "--as-group", "developers"];
    assert_eq!(ran(mctunnel(&arguments).env("MCTUNNEL_POLICY", &file)).status, Some(0));
}

#[test]
fn a_check_lists_what_it_finds() {
    let (_dir, file) = written(POLICY);
    let path = file.to_str().expect("UTF-8");
    let sound = run(&["policy", "check", path]);
    assert_eq!((sound.status, sound.out), (Some(0), format!("{path}: 0 errors, 0 warnings\n")));

    fs::write(&file, POLICY.replace("pods/log", "pods/exec")).expect("a file");
    let odd = run(&["policy", "check", path]);
    assert_eq!(odd.status, Some(0));
    let told = "warning: line 5: role developer, rule 1: pods/exec is reached by the verb connect alone";
    assert!(odd.out.contains(told) && odd.out.ends_with("0 errors, 1 warnings\n"), "{}", odd.out);
    assert_eq!(run(&["policy", "check", "--strict", path]).status, Some(1));

    fs::write(&file, POLICY.replace("role: developer", "role: develper").replace("[get, list", "[gett, list"))
        .expect("a file");
    let broken = run(&["policy", "check", path]);
    assert_eq!(broken.status, Some(1));
    assert!(
        broken.out.contains("line 17: binding developers: there is no role \"develper\"; did you mean developer?"),
        "{}",
        broken.out
    );
    assert!(broken.out.ends_with("3 errors, 0 warnings\n"), "{}", broken.out);
    assert!(run(&["policy", "check", "/nowhere/policy.yaml"]).err.starts_with("error[MCT-POLICY-FILE]: "));
}

#[test]
fn a_check_names_providers_that_the_authentication_file_does_not_have() {
    let (dir, file) = written(&POLICY.replace("providers: [corp]", "providers: [crop]"));
    let path = file.to_str().expect("UTF-8");
    let auth = dir.path().join("auth.yaml");
    let check = |auth_text: &str| {
        fs::write(&auth, auth_text).expect("a file");
        run(&["policy", "check", "--strict", path, "--auth-config", auth.to_str().expect("UTF-8")])
    };
    let ran = check("providers: [{name: corp, client_certificates: {ca_file: not-read.pem}}]");
    let told = "warning: line 21: binding alice: there is no provider \"crop\"; did you mean corp?\n";
    assert!(ran.status == Some(1) && ran.out.contains(told), "{ran:?}");
    assert_eq!(check("providers: [{name: crop, api_keys: {}}]").status, Some(0));
    let broken = check("providers: [{nam: crop}]");
    assert!(broken.status == Some(2) && broken.err.starts_with("error[MCT-AUTHN-SYNTAX]: "), "{broken:?}");
    assert_eq!(run(&["policy", "check", "--strict", path]).status, Some(0), "nothing is known of providers without it");
}

#[test]
fn a_table_of_expectations_is_run() {
    let (dir, file) = written(POLICY);
    let table = dir.path().join("expectations.yaml");
    let row = |user: &str, namespace: &str, expect: &str| {
        format!(
            "  - {{who: {{user: {user}, groups: [developers]}}, where: {{cluster: cluster-prod, namespace: {namespace}}}, \
             what: {{verb: get, resource: pods}}, expect: {expect}}}\n"
        )
    };
    let rows = format!("tests:\n{}{}", row("bob", "team-a", "allow"), row("bob", "kube-system", "deny"));
    fs::write(&table, &rows).expect("a file");
    let arguments = ["policy", "test", table.to_str().expect("UTF-8"), "--policy", file.to_str().expect("UTF-8")];
    let met = run(&arguments);
    assert_eq!(met.status, Some(0), "{met:?}");
    let words: Vec<&str> = met.out.split_whitespace().collect();
    let expected = "ok 2 bob: get pods in team-a, in cluster-prod allow role developer, rule 1";
    assert!(words.join(" ").starts_with(expected), "{}", met.out);
    assert!(met.out.ends_with("2 of 2 as expected\n"), "{}", met.out);

    fs::write(&table, rows + &row("bob", "kube-system", "allow")).expect("a file");
    let unmet = run(&arguments);
    assert_eq!(unmet.status, Some(1));
    assert!(
        unmet.out.contains("FAIL     4  ") && unmet.out.contains("is: deny (deny no-kube-system, rule 1)"),
        "{}",
        unmet.out
    );
    assert!(unmet.out.ends_with("2 of 3 as expected\n"), "{}", unmet.out);
    fs::write(&table, "tests: []\n").expect("a file");
    assert!(run(&arguments).err.starts_with("error[MCT-POLICY-SYNTAX]: "));
}
