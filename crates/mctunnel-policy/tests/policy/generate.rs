//! Policies and requests made from a seed: the same ones on every machine, small enough that most rules meet some request.

use mctunnel_core::{Access, Action, Decision, Destination, Endpoint, Identity, Protocol, ServiceTarget, Target, User};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A generator of numbers (splitmix64) that is never going to change under our feet.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.number() % u64::try_from(limit).expect("small")).expect("small")
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One to three different items, or `*` alone.
    fn some(&mut self, from: &[&str], star: usize) -> Value {
        if self.chance(star) {
            return json!(["*"]);
        }
        let mut picked = Vec::new();
        for _ in 0..=self.below(3) {
            let item = *self.pick(from);
            if !picked.contains(&item) {
                picked.push(item);
            }
        }
        json!(picked)
    }
}

const USERS: &[&str] = &["alice", "bob", "carol", "dave", "system:admin"];
const GROUPS: &[&str] = &["dev", "ops", "team-a", "team-b", "system:masters"];
const PROVIDERS: &[&str] = &["corp", "keys"];
const CLUSTERS: &[&str] = &["c-dev", "c-test", "c-prod", "c-edge"];
const NAMESPACES: &[&str] = &["team-a", "team-b", "kube-system"];
const RESOURCE_VERBS: &[&str] =
    &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "connect"];
const PATHS: &[&str] = &["/version", "/healthz", "/healthz/*", "/apis/*", "/api", "/metrics"];
const CONDITIONS: &[&str] = &[
    "user.name == 'alice'",
    "'ops' in user.groups",
    "user.groups.exists(g, g.startsWith('team-'))",
    "cluster.labels.env == 'prod'",
    "user.extra.level[0] == 'high'",
    "request.kind == 'resource' && request.verb in ['get', 'list']",
    "time.weekday <= 5 && time.hour >= 8",
    "!(request.namespace == 'kube-system')",
    "request.namespace == 'kube-system'",
    "has(request.namespace) && request.namespace == 'kube-system'",
    "request.resource == 'secrets' && request.name == 'a'",
    "request.path == '/a'",
    "protocol == 'grpc'",
];
const TIMES: &[&str] = &[
    "2026-11-16T07:59:00Z",
    "2026-11-16T08:00:00Z",
    "2026-11-15T23:30:00Z",
    "2026-11-16T05:30:00Z",
    "2026-11-21T12:00:00Z",
    "2026-12-01T12:00:00Z",
];

// === Policies ===

/// A policy, in the form of JSON, which is YAML as well.
pub(crate) fn policy(random: &mut Random) -> Value {
    let mut roles = Map::new();
    for number in 0..=random.below(4) {
        let rules: Vec<Value> = (0..=random.below(5)).map(|_| rule(random)).collect();
        roles.insert(format!("r{number}"), json!({"rules": rules}));
    }
    let names: Vec<String> = roles.keys().cloned().collect();
    let bindings: Vec<Value> = (0..3 + random.below(10)).map(|number| binding(random, number, &names)).collect();
    let deny: Vec<Value> = (0..random.below(6)).map(|number| deny(random, number)).collect();
    json!({
        "version": 1,
        "clusters": {
            "c-dev": {"env": "dev", "region": "eu"},
            "c-test": {"env": "test", "region": "eu"},
            "c-prod": {"env": "prod", "region": "us"},
        },
        "roles": roles,
        "bindings": bindings,
        "deny": deny,
    })
}

pub(crate) fn binding(random: &mut Random, number: usize, roles: &[String]) -> Value {
    let mut binding = subject(random);
    binding.insert("name".to_owned(), json!(format!("b{number}")));
    binding.insert("role".to_owned(), json!(random.pick(roles)));
    if random.chance(8) {
        binding.insert("anonymous".to_owned(), json!(true));
    }
    circumstances(random, &mut binding);
    Value::Object(binding)
}

pub(crate) fn deny(random: &mut Random, number: usize) -> Value {
    let mut deny = subject(random);
    deny.insert("name".to_owned(), json!(format!("d{number}")));
    let rules: Vec<Value> = (0..=random.below(2)).map(|_| rule(random)).collect();
    deny.insert("rules".to_owned(), json!(rules));
    circumstances(random, &mut deny);
    Value::Object(deny)
}

fn subject(random: &mut Random) -> Map<String, Value> {
    let mut subject = Map::new();
    let by_user = random.chance(50);
    if by_user {
        subject.insert("users".to_owned(), random.some(USERS, 25));
    }
    if !by_user || random.chance(20) {
        subject.insert("groups".to_owned(), random.some(GROUPS, 0));
    }
    subject.insert("providers".to_owned(), random.some(PROVIDERS, 70));
    subject
}

fn circumstances(random: &mut Random, part: &mut Map<String, Value>) {
    let mut add = |key: &str, value: Value| part.insert(key.to_owned(), value);
    if random.chance(20) {
        add("when", json!(random.pick(CONDITIONS)));
    }
    if random.chance(10) {
        add("sources", json!([random.pick(&["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"])]));
    }
    if random.chance(10) {
        let (from, to) = random.pick(&[("08:00", "18:00"), ("22:00", "06:00"), ("00:00", "24:00")]);
        let offset = random.pick(&["+00:00", "+02:00", "-05:30"]);
        add(
            "window",
            json!({"days": random.some(&["mon", "fri", "sat", "sun"], 40), "from": from, "to": to, "utcOffset": offset}),
        );
    }
    if random.chance(5) {
        add("notAfter", json!("2026-11-20T00:00:00Z"));
    }
    if random.chance(5) {
        add("notBefore", json!("2026-11-16T00:00:00Z"));
    }
}

pub(crate) fn rule(random: &mut Random) -> Value {
    let mut rule = match random.below(10) {
        0..=5 => json!({
            "namespaces": random.some(NAMESPACES, 55),
            "apiGroups": random.some(&["", "apps", "example.com"], 60),
            "resources": resources(random),
            "names": random.some(&["a", "b"], 80),
            "verbs": random.some(RESOURCE_VERBS, 55),
        }),
        6 => json!({"nonResourcePaths": random.some(PATHS, 20), "verbs": random.some(&["get", "head", "post"], 30)}),
        7 | 8 => json!({
            "services": services(random),
            "endpoints": random.some(&["db:5432", "*:443", "db:*"], 0),
            "methods": random.some(&["GET", "POST"], 40),
            "paths": random.some(&["/", "/a", "/a/*", "/b/*"], 40),
            "protocols": random.some(&["http", "grpc"], 50),
        }),
        _ => {
            let targets = ["kube-apiserver", "team-a/web:80", "*/web:*", "db:5432", "*:*"];
            json!({"bytes": random.some(&targets, 0), "protocols": random.some(&["tcp"], 50)})
        }
    };
    let clusters = if random.chance(20) {
        let labels = *random.pick(&["dev", "prod", "nowhere"]);
        ("clusterLabels", json!({"env": labels}))
    } else {
        ("clusters", random.some(CLUSTERS, 60))
    };
    rule.as_object_mut().expect("an object").insert(clusters.0.to_owned(), clusters.1);
    rule
}

fn resources(random: &mut Random) -> Value {
    if random.chance(25) {
        return json!(["*/*"]);
    }
    let all = [
        "pods",
        "pods/log",
        "pods/exec",
        "pods/*",
        "secrets",
        "deployments",
        "deployments/scale",
        "widgets",
        "nodes",
        "namespaces",
        "*/status",
        "serviceaccounts/token",
    ];
    random.some(&all, 30)
}

fn services(random: &mut Random) -> Value {
    random.some(&["team-a/web:80", "team-a/web:http", "team-b/web:*", "*/web:80", "team-a/*:*", "*/*:*"], 0)
}

// === Requests ===

/// A request, in the form that the oracle reads.
pub(crate) fn request(random: &mut Random) -> Value {
    let (user, groups): (Option<&str>, &[&str]) = match random.below(12) {
        0..=2 => (Some("alice"), &["dev", "team-a"]),
        3 | 4 => (Some("bob"), &["ops"]),
        5 | 6 => (Some("carol"), &["team-b", "ops", "dev"]),
        7 => (Some("dave"), &[]),
        8 => (Some("system:admin"), &["system:masters"]),
        9 => (Some("mallory"), &["system:masters", "team-a"]),
        10 => (Some("nobody"), &["nothing"]),
        _ => (None, &[]),
    };
    let extra = if random.chance(30) { json!({"level": [random.pick(&["high", "low"])]}) } else { json!({}) };
    let source = *random.pick(&[
        None,
        Some("10.1.2.3"),
        Some("::ffff:10.1.2.3"),
        Some("192.0.2.9"),
        Some("2001:db8::1"),
        Some("::1"),
    ]);
    let mut request = json!({
        "user": user,
        "groups": groups,
        "provider": if random.chance(70) { "corp" } else { "keys" },
        "extra": extra,
        "cluster": random.pick(&["c-dev", "c-test", "c-prod", "c-edge", "c-new"]),
        "source": source,
        "time": random.pick(TIMES),
    });
    let (kind, asked) = match random.below(12) {
        0..=7 => ("kube", about_an_object(random)),
        8 => {
            let method = *random.pick(&["GET", "HEAD", "POST", "TRACE"]);
            let paths = [
                "/version",
                "/version/",
                "/healthz",
                "/healthz/etcd",
                "/apis",
                "/apis/apps/v1",
                "/api/v1",
                "/metrics",
                "/x",
            ];
            ("kube", json!({"method": method, "path": random.pick(&paths), "upgrade": random.chance(20)}))
        }
        9 | 10 => {
            let targets = [
                "team-a/web:80",
                "team-a/web:http",
                "team-a/web",
                "team-b/web:81",
                "team-a/db:1",
                "db:5432",
                "db:443",
                "x:443",
            ];
            let paths = ["/", "/a", "/a/", "/a/b", "/b/c", "/c"];
            let (method, protocol) = (random.pick(&["GET", "POST", "PUT"]), random.pick(&["http", "grpc"]));
            (
                "http",
                json!({"target": random.pick(&targets), "method": method, "path": random.pick(&paths), "protocol": protocol}),
            )
        }
        _ => {
            let targets = ["kube-apiserver", "team-a/web:80", "team-b/web:http", "team-a/web", "db:5432", "x:1"];
            ("bytes", json!({"target": random.pick(&targets), "protocol": random.pick(&["tcp", "own"])}))
        }
    };
    request.as_object_mut().expect("an object").insert(kind.to_owned(), asked);
    request
}

/// A request to a kube-apiserver about objects, as it would be sent.
fn about_an_object(random: &mut Random) -> Value {
    let (root, resource, is_namespaced) = *random.pick(&[
        ("/api/v1", "pods", true),
        ("/api/v1", "pods", true),
        ("/api/v1", "secrets", true),
        ("/api/v1", "serviceaccounts", true),
        ("/api/v1", "nodes", false),
        ("/api/v1", "namespaces", false),
        ("/apis/apps/v1", "deployments", true),
        ("/apis/example.com/v1", "widgets", true),
    ]);
    let method = *random.pick(&[
        "GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "POST", "PUT", "PATCH", "DELETE", "DELETE", "OPTIONS",
    ]);
    let mut path = root.to_owned();
    if is_namespaced && random.chance(75) {
        path.push_str(&format!("/namespaces/{}", random.pick(NAMESPACES)));
    }
    path.push_str(&format!("/{resource}"));
    if random.chance(60) {
        path.push_str(&format!("/{}", random.pick(&["a", "b", "kube-system"])));
        // What follows the name of a namespace is inside of it.
        if resource != "namespaces" && random.chance(40) {
            let below = ["log", "exec", "attach", "portforward", "proxy", "scale", "status", "token", "console"];
            path.push_str(&format!("/{}", random.pick(&below)));
        }
    } else if random.chance(20) {
        path.push_str("?watch=true");
    }
    json!({"method": method, "path": path, "upgrade": random.chance(15)})
}

// === Asking ===

/// Decides a generated request as the hub would.
pub(crate) fn ask(policy: &mctunnel_policy::Policy, request: &Value) -> Decision {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let identity = match request["user"].as_str() {
        None => Identity::Anonymous,
        Some(name) => {
            let mut user = User::new(name, text(&request["provider"]));
            user.groups =
                request["groups"].as_array().expect("groups").iter().map(|group| Arc::from(text(group))).collect();
            user.extra = serde_json::from_value(request["extra"].clone()).expect("extra");
            user.into()
        }
    };
    let (target, action, protocol) = if let Some(kube) = request.get("kube") {
        let (method, path) = (text(&kube["method"]), text(&kube["path"]));
        let read = if kube["upgrade"] == json!(true) { Action::of_upgrade } else { Action::of_http };
        (Target::KubeApi, read(&Target::KubeApi, &method, &path).expect("a good target"), Protocol::http())
    } else if let Some(http) = request.get("http") {
        let target = target(&text(&http["target"]));
        let action = Action::of_http(&target, &text(&http["method"]), &text(&http["path"])).expect("a good target");
        (target, action, Protocol::parse(&text(&http["protocol"])).expect("a protocol"))
    } else {
        let protocol = Protocol::parse(&text(&request["bytes"]["protocol"])).expect("a protocol");
        (target(&text(&request["bytes"]["target"])), Action::Bytes, protocol)
    };
    let destination = Destination { cluster: text(&request["cluster"]).parse().expect("a cluster"), target };
    let access = Access {
        identity: &identity,
        destination: &destination,
        action: &action,
        protocol: &protocol,
        source: request["source"].as_str().map(|ip| ip.parse().expect("an address")),
    };
    let now = humantime::parse_rfc3339(&text(&request["time"])).expect("a time");
    policy.decide(&access, now)
}

fn target(text: &str) -> Target {
    if text == "kube-apiserver" {
        return Target::KubeApi;
    }
    match text.split_once('/') {
        Some((namespace, spec)) => ServiceTarget::parse(namespace, spec).expect("a service").into(),
        None => Endpoint::parse(text).expect("an endpoint").into(),
    }
}
