//! Questions that people ask, and those that make no sense.

use mctunnel_policy::Question;

#[test]
fn a_question_reads_like_a_sentence() {
    for (what, shown) in [
        ("verb: get, resource: pods", "alice: get pods in kube-system, in cluster-prod"),
        ("verb: get, resource: pods/log, name: web", "alice: get pods/log web in kube-system, in cluster-prod"),
        ("verb: list, resource: deployments", "alice: list deployments.apps in kube-system, in cluster-prod"),
        ("verb: list, resource: things.example.com", "alice: list things.example.com in kube-system, in cluster-prod"),
        ("verb: get, resource: pods/exec", "alice: connect pods/exec in kube-system, in cluster-prod"),
        (
            "verb: get, resource: serviceaccounts/token",
            "alice: create serviceaccounts/token in kube-system, in cluster-prod",
        ),
        ("verb: get, path: /healthz", "alice: get /healthz, in cluster-prod"),
        ("service: 'm/p:1', path: /x", "alice: GET /x http://m/p:1, in cluster-prod"),
        ("bytes: kube-apiserver", "alice: plain bytes, in cluster-prod"),
    ] {
        let text = format!(
            "{{who: {{user: alice}}, where: {{cluster: cluster-prod, namespace: kube-system}}, what: {{{what}}}}}"
        );
        assert_eq!(Question::parse(&text).unwrap().to_string(), shown);
    }
}

#[test]
fn questions_without_sense_are_errors() {
    for what in [
        "",
        "verb: get",
        "resource: pods",
        "verb: gte, resource: pods",
        "verb: head, resource: pods",
        "verb: get, resource: pods, path: /x",
        "verb: get, resource: pods, service: 'a/b:1'",
        "verb: get, resource: a.b, apiGroup: c",
        "verb: list, path: /x",
        "service: 'a/b:1', verb: get",
        "service: a",
        "service: 'a/b:0'",
        "endpoint: a",
        "bytes: 'x'",
        "bytes: 'db:1', method: GET",
        "bytes: 'db:1', protocol: TCP",
    ] {
        let text = format!("{{who: {{user: alice}}, where: {{cluster: c}}, what: {{{what}}}}}");
        let question = Question::parse(&text).unwrap();
        let error = question.ask(&mctunnel_policy::Policy::deny_all()).unwrap_err();
        assert_eq!(error.code().code, "MCT-POLICY-QUESTION", "{what}");
    }
    for text in ["", "{}", "{who: {user: a}, where: {cluster: c}}", "{who: {usr: a}, where: {cluster: c}, what: {}}"] {
        assert!(Question::parse(text).is_err(), "{text}");
    }
    assert!(
        Question::resource("alice", "Not_A_Cluster", "get", "pods").ask(&mctunnel_policy::Policy::deny_all()).is_err()
    );
}
