//! What is broken, and by which tests that must be noticed.

use anyhow::{Result, bail};

/// Files of one crate, and the tests that are to notice.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// The directory of the crate.
    pub(crate) package: &'static str,
    /// Below its `src`.
    pub(crate) files: &'static [&'static str],
    /// Package and test target; `lib` is the tests in the source. In the order they are run.
    pub(crate) tests: &'static [(&'static str, &'static str)],
}

const PLAN: &[Part] = &[
    Part {
        name: "targets",
        package: "mctunnel-core",
        files: &[
            "access.rs",
            "bad_target.rs",
            "endpoint.rs",
            "kube_request.rs",
            "kube_request/query.rs",
            "name.rs",
            "routing.rs",
            "target.rs",
        ],
        tests: &[("mctunnel-core", "lib"), ("mctunnel-gateway", "lib")],
    },
    Part {
        name: "routes",
        package: "mctunnel-gateway",
        files: &["http/route.rs", "connect/request.rs", "connect/head.rs", "sni/hello.rs"],
        tests: &[("mctunnel-gateway", "lib"), ("mctunnel-gateway", "connect")],
    },
    Part {
        name: "headers",
        package: "mctunnel-gateway",
        files: &[
            "http/browser.rs",
            "http/cookies.rs",
            "http/credential.rs",
            "http/credential/last_shown.rs",
            "http/fields.rs",
            "http/guard/config.rs",
            "http/guard/fields.rs",
            "http/guard/h2.rs",
            "http/guard/head.rs",
            "http/guard/machine.rs",
            "http/own_paths.rs",
            "http/redirect.rs",
        ],
        tests: &[("mctunnel-gateway", "lib"), ("mctunnel-gateway", "guard")],
    },
    Part {
        name: "identity",
        package: "mctunnel-agent",
        files: &["service_proxy/forged.rs", "service_proxy/impersonate.rs", "service_proxy/listed.rs"],
        tests: &[("mctunnel-agent", "lib"), ("mctunnel-agent", "own_rules")],
    },
    Part {
        name: "allow",
        package: "mctunnel-agent",
        files: &["allow.rs", "allow/rule.rs", "allow/special.rs"],
        tests: &[("mctunnel-agent", "lib")],
    },
    Part {
        name: "services",
        package: "mctunnel-kube",
        files: &["service_allow.rs"],
        tests: &[("mctunnel-kube", "lib")],
    },
    Part {
        name: "checkpoint",
        package: "mctunnel-gateway",
        files: &["checkpoint.rs", "checkpoint/permit.rs"],
        tests: &[("mctunnel-gateway", "lib"), ("mctunnel-gateway", "connect")],
    },
    Part {
        name: "names",
        package: "mctunnel-authn",
        files: &[
            "names.rs",
            "attempts.rs",
            "chain.rs",
            "client_certificates.rs",
            "front_proxy.rs",
            "shown.rs",
            "oidc/claims.rs",
        ],
        tests: &[("mctunnel-authn", "lib"), ("mctunnel-authn", "authn")],
    },
    Part {
        name: "policy",
        package: "mctunnel-policy",
        files: &[
            "circumstance.rs",
            "circumstance/facts.rs",
            "circumstance/window.rs",
            "compile.rs",
            "condition.rs",
            "condition/subset.rs",
            "condition/variables.rs",
            "doubt.rs",
            "names.rs",
            "policy.rs",
            "quota.rs",
            "quota/bucket.rs",
            "quota/rules.rs",
            "rule.rs",
            "rule/asked.rs",
            "rule/cover.rs",
            "rule/path.rs",
            "rule/read.rs",
            "rule/resource.rs",
            "rule/target.rs",
            "subject.rs",
            "verbs.rs",
        ],
        tests: &[("mctunnel-policy", "lib"), ("mctunnel-policy", "policy")],
    },
];

/// The parts with these names; all of them if there are none.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Part>> {
    if let Some(unknown) = names.iter().find(|name| !PLAN.iter().any(|part| part.name == **name)) {
        let known: Vec<&str> = PLAN.iter().map(|part| part.name).collect();
        bail!("there is no part {unknown}; there are {}", known.join(", "));
    }
    Ok(PLAN.iter().filter(|part| names.is_empty() || names.iter().any(|name| name == part.name)).collect())
}
