//! The settings of an agent. How a setting works is in `table.rs`.

use super::table::{Places, Setting, many, one, switch};

/// Names that others give, as a directory has them: with commas and semicolons in them, and never with an end of line.
const fn names(key: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { separator: '\n', ..many(key, value, help) }
}

pub(super) const AGENT: &[Setting] = &[
    one(
        "join_token",
        "TOKEN",
        None,
        "The join token from 'mctunnel join-token create', for the first start; needs --data-dir. Later it is not looked at",
    ),
    one("join_token_file", "FILE", None, "A file with the join token; it may be gone once the agent has enrolled"),
    one("join", "FILE", None, "The join bundle from 'mctunnel cluster add', instead of a token; mode 0600"),
    one(
        "certificate",
        "FILE",
        None,
        "The agent's certificate of your own CA, as PEM; watched. Needs --key, --hub-ca, --hub",
    ),
    one("key", "FILE", None, "The key of --certificate, as PEM"),
    one(
        "enrol_service_account_token",
        "FILE",
        None,
        "A file with a token of a ServiceAccount of the hub's own cluster, instead of a join token; read at each try. \
         Needs --data-dir, --hub-ca, --hub",
    ),
    one("hub_ca", "FILE", None, "Who signed the hub's certificate, as PEM: what 'mctunnel ca show' prints at the hub"),
    one(
        "hub",
        "HOST:PORT",
        None,
        "Where the hub is, instead of the address in token or bundle; resolved at each attempt",
    ),
    one("hub_server_name", "NAME", None, "The name the hub's certificate must have, instead of the usual one"),
    many(
        "allow",
        "RULE",
        "A target that may be dialled, as tcp://HOST:PORTS; may be given many times. Without it every target is refused",
    ),
    many(
        "allow_service",
        "RULE",
        "A service that may be reached, as NAMESPACE/NAME[:PORT] or NAMESPACE/*; may be given many times. Without it none is",
    ),
    one(
        "allow_service_file",
        "FILE",
        None,
        "A YAML file with further such rules under 'services:'; watched for changes",
    ),
    Setting {
        also: &["KUBECONFIG"],
        ..one(
            "kubeconfig",
            "FILE",
            None,
            "Where the kube-apiserver is and how the agent watches endpoints, or a list of such files as kubectl takes it; in a pod, its service account is used without it",
        )
    },
    one("kube_context", "NAME", None, "The context of the kubeconfig to use, instead of the current one"),
    one(
        "kube_api",
        "URL",
        None,
        "Where the kube-apiserver is, as http[s]://ADDRESS:PORT, for clusters without credentials",
    ),
    one("kube_api_ca", "FILE", None, "Who signed the certificate of --kube-api, as PEM"),
    switch(
        "impersonate",
        "Speak to the kube-apiserver for the users the hub verified, with a token that may impersonate and nothing else",
    ),
    one(
        "kube_token_file",
        "FILE",
        None,
        "That token; else the kubeconfig's, or in a pod its service account's. Read again every 10 s",
    ),
    names(
        "impersonate_user",
        "USER",
        "Speak for this user, shown with its groups that are listed; may be given many times, in the variable one a line. \
         Without any list, for all but 'system:', of which each has to be listed",
    ),
    names(
        "impersonate_group",
        "GROUP",
        "Speak for members of this group; may be given many times, in the variable one a line",
    ),
    switch("deny_kube_api", "Do not let streams reach the kube-apiserver, only services"),
    many(
        "pin_service",
        "PIN",
        "Where a service is, as NAMESPACE/NAME[:PORT]=ADDRESS:PORT, before Kubernetes is asked; may be given many times",
    ),
    many(
        "service_ca",
        "[SERVICE=]FILE",
        "Who signs the certificates of services, or of the one NAMESPACE/NAME, as PEM; else the cluster's own CA",
    ),
    many(
        "insecure_service",
        "SERVICE",
        "A service whose certificate is not checked, as NAMESPACE/NAME; may be given many times",
    ),
    one("zone", "ZONE", None, "The zone the agent runs in: endpoints that Kubernetes meant for it are preferred"),
    one("cluster_domain", "DOMAIN", Some("cluster.local"), "The cluster's DNS domain, for services found by DNS"),
    switch("allow_external_names", "Let services of type ExternalName lead out of the cluster"),
    one(
        "data_dir",
        "DIR",
        None,
        "Where the agent keeps its key and its certificate between starts, for itself alone; made with mode 0700",
    ),
    many(
        "expose",
        "NAME=ADDR",
        "Listen on ADDR and lead each connection to the hub's service NAME, as hub-apiserver=127.0.0.1:16443; may be given many times",
    ),
    one(
        "spool",
        "DIR",
        None,
        "Where reports wait for the hub, on a disk that lasts; made with mode 0700. Without it nothing is reported",
    ),
    many(
        "spool_limit",
        "LIMIT",
        "How much of a kind may wait, as KIND=SIZE, where the source then waits, or KIND=SIZE:drop-oldest; '*' is every other kind [default: *=256MiB]",
    ),
    many(
        "report_events",
        "NAMESPACE",
        "Report the Kubernetes events of this namespace, '*' for all; may be given many times. Needs --spool and --kubeconfig",
    ),
    many("report_event_type", "TYPE", "Only events of this type, Normal or Warning; may be given many times"),
    many("report_event_reason", "REASON", "Only events with this reason; may be given many times"),
    Setting {
        // A selector has commas itself.
        separator: ';',
        ..many(
            "report_logs",
            "NAMESPACE[=SELECTOR]",
            "Report the logs of all containers of the pods in this namespace, '*' for all, or of those with these labels, as default=app=web; \
             may be given many times. Needs --spool and --kubeconfig",
        )
    },
    one("report_log_containers", "N", Some("256"), "How many containers' logs are followed at once; further ones wait"),
    one(
        "report_listen",
        "ADDR",
        Some("off"),
        "Where programs in the cluster POST reports to /v1/reports/KIND, or 'off'; needs --spool",
    ),
    one("admin_listen", "ADDR", Some("off"), "Where /metrics, /healthz and /readyz are, or 'off'"),
    Setting {
        places: Places::NotAsFlag,
        also: &["HTTPS_PROXY", "https_proxy"],
        ..one("https_proxy", "URL", None, "The HTTP proxy through which the hub is reached")
    },
    Setting {
        places: Places::NotAsFlag,
        also: &["NO_PROXY", "no_proxy"],
        ..one("no_proxy", "LIST", None, "Hosts that are reached without the proxy")
    },
];
