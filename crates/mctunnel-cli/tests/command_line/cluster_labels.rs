//! What a join token says about its cluster, as the policy of a running hub sees it.

use crate::{
    enrolment::token,
    rig::{Hub, Role, run, until},
};
use std::fs;

/// A deny rule by a label counts from the first request on, and through a restart.
#[test]
fn the_labels_of_a_join_token_are_labels_for_the_policy() {
    let files = tempfile::tempdir().expect("a directory");
    let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("auth.yaml"), "anonymous: {}\nproviders: [{name: keys, api_keys: {}}]\n").expect("a file");
    fs::write(path("policy.yaml"), LABELLED).expect("a file");
    let (auth, policy) = (path("auth.yaml"), path("policy.yaml"));
    let trust = ["--auth-config", &auth, "--policy", &policy, "--gateway-plain"];
    let mut hub = Hub::start(&trust);
    let get = |hub: &Hub, cluster: &str| {
        let head = format!("GET /{cluster}/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let (status, body) = crate::rig::request(hub.address("gateway"), &head);
        (status, body.contains("deny production, rule 1"), body.contains("no rule allows it"))
    };
    assert_eq!(get(&hub, "cluster-a"), (403, false, true), "no label is known yet");
    let mut agents = Vec::new();
    for (cluster, labels) in
        [("cluster-a", &["--label", "env=prod", "--label", "reach=yes"][..]), ("cluster-b", &["--label", "reach=yes"])]
    {
        let (token, home) = (token(&hub, cluster, labels), hub.path(cluster));
        let arguments = ["agent", "--join-token", &token, "--data-dir", &home];
        let mut agent = Role::start(hub.dir.path(), cluster, &arguments, &[]);
        agent.ready();
        agents.push(agent);
    }
    let decided = [(403, true, false), (403, false, false)];
    assert_eq!([get(&hub, "cluster-a"), get(&hub, "cluster-b")], decided, "the second is refused by its agent alone");

    hub.role.signal("TERM");
    assert_eq!(hub.role.wait().code(), Some(0));
    let tunnel = hub.address("tunnel").to_owned();
    let data_dir = hub.path("data");
    let mut arguments = vec!["hub", "--data-dir", &data_dir, "--tunnel-listen", &tunnel, "--connect-listen", "off"];
    arguments.extend(["--admin-listen", "off", "--gateway-listen", "127.0.0.1:0"]);
    arguments.extend(trust);
    hub.role = Role::start(hub.dir.path(), "again", &arguments, &[]);
    hub.ready = hub.role.ready();
    assert!(get(&hub, "cluster-a").1, "a restart forgets no label");

    // Another process takes the cluster away, and with it what was said about it.
    assert_eq!(run(&["cluster", "remove", "cluster-a", "--data-dir", &data_dir]).status, Some(0));
    until("the label to be forgotten", || (get(&hub, "cluster-a") == (403, false, true)).then_some(()));
}

const LABELLED: &str = "version: 1
roles:
  all: {rules: [{clusterLabels: {reach: 'yes'}, nonResourcePaths: ['*'], verbs: ['*']}]}
bindings: [{name: b, role: all, anonymous: true}]
deny:
  - name: production
    users: ['*']
    providers: ['*']
    rules: [{clusterLabels: {env: prod}, nonResourcePaths: ['*'], verbs: ['*']}]
";
