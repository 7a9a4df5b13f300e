//! The table of settings. Flags, environment variables, keys of the file, help and `--print-config` are all made from it.

use super::report_table::HUB_REPORTS;

/// One setting.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its key in the file. The flag has `-` for `_`, the variable is in capitals behind `MCTUNNEL_`.
    pub(crate) key: &'static str,
    /// What stands for its value in the help.
    pub(crate) value: &'static str,
    pub(crate) shape: Shape,
    pub(crate) default: Option<&'static str>,
    pub(crate) places: Places,
    /// Variables of other programs that also count, below our own.
    pub(crate) also: &'static [&'static str],
    /// What is between several values in one variable.
    pub(crate) separator: char,
    pub(crate) help: &'static str,
}

/// How many values a setting has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    Many,
    /// `true` or `false`; as a flag it has no value.
    Switch,
}

/// Where a setting may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    Anywhere,
    /// It says where the file is, so it cannot stand in it.
    NotInFile,
    FlagOnly,
    /// It may hold a password, and command lines can be read by every user of a machine.
    NotAsFlag,
}

impl Setting {
    pub(crate) fn flag(&self) -> String {
        format!("--{}", self.key.replace('_', "-"))
    }

    pub(crate) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.key.to_ascii_uppercase())
    }

    pub(crate) fn is_flag(&self) -> bool {
        self.places != Places::NotAsFlag
    }

    pub(crate) fn is_variable(&self) -> bool {
        self.places != Places::FlagOnly
    }

    pub(crate) fn is_file_key(&self) -> bool {
        matches!(self.places, Places::Anywhere | Places::NotAsFlag)
    }
}

/// What our environment variables begin with.
pub(crate) const PREFIX: &str = "MCTUNNEL_";

/// A command with settings.
pub(crate) trait Role {
    const SETTINGS: &'static [&'static [Setting]];
}

#[derive(Debug)]
pub(crate) struct HubRole;

impl Role for HubRole {
    const SETTINGS: &'static [&'static [Setting]] = &[HUB, HUB_REPORTS, EVERY_ROLE];
}

#[derive(Debug)]
pub(crate) struct AgentRole;

impl Role for AgentRole {
    const SETTINGS: &'static [&'static [Setting]] = &[AGENT, EVERY_ROLE];
}

/// The settings of all roles: a variable may be meant for another role that shares the environment.
pub(crate) const ALL: &[&[Setting]] = &[HUB, HUB_REPORTS, AGENT, EVERY_ROLE];

pub(super) const fn one(
    key: &'static str,
    value: &'static str,
    default: Option<&'static str>,
    help: &'static str,
) -> Setting {
    Setting { key, value, shape: Shape::One, default, places: Places::Anywhere, also: &[], separator: ',', help }
}

pub(super) const fn many(key: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { shape: Shape::Many, ..one(key, value, None, help) }
}

const fn switch(key: &'static str, help: &'static str) -> Setting {
    Setting { shape: Shape::Switch, ..one(key, "", Some("false"), help) }
}

const HUB: &[Setting] = &[
    one(
        "data_dir",
        "DIR",
        None,
        "The hub's CA, its certificate and the list of clusters; made on the first start with mode 0700. Required",
    ),
    one("tunnel_listen", "ADDR", Some("0.0.0.0:8443"), "Where agents connect"),
    one(
        "gateway_listen",
        "ADDR",
        Some("0.0.0.0:8080"),
        "Where HTTP and gRPC clients come in, as https://HUB:8080/CLUSTER/..., or 'off'",
    ),
    one(
        "sni_listen",
        "ADDR",
        Some("off"),
        "Where TLS clients come in that are passed through to a kube-apiserver by the name they ask for, or 'off'",
    ),
    one(
        "sni_suffix",
        "NAME",
        Some("mctunnel"),
        "What follows the cluster in such a name, as in CLUSTER.hub.example.com",
    ),
    switch("gateway_plain", "Serve the gateway without TLS, behind a proxy that has it"),
    one(
        "gateway_wait",
        "TIME",
        Some("5s"),
        "How long a request at the gateway waits for a cluster whose agent is just reconnecting, before it gets 503",
    ),
    switch("server_timing", "Tell clients the time of each hop, in the header server-timing"),
    one(
        "auth_config",
        "FILE",
        None,
        "Who clients are: a YAML file with providers (OIDC, certificates, API keys, TokenReview, a front proxy); watched. \
         Needs --policy. A hub with clients does not start without it",
    ),
    one(
        "policy",
        "FILE",
        None,
        "What clients may do: a YAML file with roles and bindings; watched. Needs --auth-config",
    ),
    one(
        "shadow_policy",
        "FILE",
        None,
        "A policy to try out: what it would decide otherwise is logged and changes nothing",
    ),
    one(
        "audit_log",
        "WHERE",
        Some("auto"),
        "Where every request is recorded: a file, 'stdout', 'off', or 'auto': the data directory once there is a policy",
    ),
    one(
        "audit_webhook",
        "URL",
        None,
        "Where every record is sent to as well: http[s]://..., by POST, as lines of JSON, in order, at least once",
    ),
    one(
        "audit_webhook_ca",
        "FILE",
        None,
        "Who signed the certificate of the webhook, as PEM; else the CAs of this system. Needs --audit-webhook",
    ),
    one(
        "audit_webhook_authorization_file",
        "FILE",
        None,
        "A file with what the webhook is shown in the header 'authorization', as in 'Bearer ...'. Needs --audit-webhook",
    ),
    one("audit_webhook_queue", "N", Some("65536"), "How many records may wait for the webhook"),
    one(
        "audit_on_full",
        "WHAT",
        Some("refuse"),
        "What happens to requests that cannot be recorded: 'refuse' them, or serve them: 'drop-and-count'",
    ),
    one("review_kubeconfig", "FILE", None, "How the hub asks its own cluster whose a token is; in a pod not needed"),
    switch(
        "insecure_no_auth",
        "Ask no client who it is, instead of --auth-config; for trying out only. All listeners for clients must be on loopback",
    ),
    one(
        "connect_listen",
        "ADDR",
        Some("127.0.0.1:8081"),
        "Where clients send HTTP CONNECT, or 'off'. It is without TLS, so only loopback is taken",
    ),
    one("connect_tls_listen", "ADDR", Some("off"), "Where clients send HTTP CONNECT over TLS, or 'off'"),
    one(
        "services",
        "FILE",
        None,
        "Services of the hub's side that clusters may reach through their tunnels: a YAML file, watched. Without it there are none",
    ),
    one("admin_listen", "ADDR", Some("127.0.0.1:9090"), "Where /metrics, /healthz and /readyz are, or 'off'"),
    many("hub_name", "NAME", "A further DNS name or IP address for the hub's certificate; may be given many times"),
    one(
        "agent_cert_ttl",
        "TIME",
        Some("24h"),
        "How long the certificates live that agents get by enrolling; they renew at two thirds. Longer than the longest outage of the hub",
    ),
    one(
        "agent_ca",
        "FILE",
        None,
        "Your own CA for agents, as PEM; watched. It counts for clusters added with 'mctunnel cluster add NAME --own-ca'",
    ),
    one(
        "tunnel_wait",
        "TIME",
        Some("0s"),
        "How long a CONNECT waits for a cluster that has no tunnel right now, before it gets 503",
    ),
    switch("reuse_port", "Share the listening ports with another hub on this machine, to hand over without a gap"),
    switch(
        "insecure_connect_anywhere",
        "Take CONNECT without TLS on an address that is not loopback: the network can read the tokens of clients",
    ),
];

const AGENT: &[Setting] = &[
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
            "Where the kube-apiserver is and how the agent watches endpoints; in a pod, its service account is used without it",
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
    many(
        "impersonate_user",
        "USER",
        "Speak for this user, shown with its groups that are listed; may be given many times. Without any list, for all but 'system:'",
    ),
    many("impersonate_group", "GROUP", "Speak for members of this group; may be given many times"),
    switch("deny_kube_api", "Do not let streams reach the kube-apiserver, only services"),
    many(
        "pin_service",
        "PIN",
        "Where a service is, as NAMESPACE/NAME[:PORT]=ADDRESS:PORT, before Kubernetes is asked; may be given many times",
    ),
    one("service_ca", "FILE", None, "Who signs the certificates of services, as PEM; else the cluster's own CA"),
    many(
        "insecure_service",
        "SERVICE",
        "A service whose certificate is not checked, as NAMESPACE/NAME; may be given many times",
    ),
    one("zone", "ZONE", None, "The zone the agent runs in: endpoints that Kubernetes meant for it are preferred"),
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

const EVERY_ROLE: &[Setting] = &[
    one("ready_file", "FILE", None, "Written as JSON once the process serves: the addresses chosen, the process id"),
    one("grace", "TIME", Some("30s"), "How long open streams may go on after the first SIGTERM or SIGINT"),
    one("congestion_control", "NAME", Some("auto"), "How tunnels' TCP sends: auto (cubic), system, or a name"),
    one("log_format", "FORMAT", Some("auto"), "human, json, or auto: human on a terminal, else json"),
    Setting {
        also: &["RUST_LOG"],
        ..one("log_level", "LEVEL", Some("info"), "error, warn, info, debug, or a filter such as info,h2=debug")
    },
    one("threads", "N", Some("auto"), "Worker threads; auto is one for every two cores"),
    Setting {
        places: Places::NotInFile,
        ..one("config", "FILE", None, "A YAML file with settings, keys as the flags with '_' for '-'")
    },
    Setting {
        places: Places::FlagOnly,
        ..switch("print_config", "Show the settings in effect and where each is from, and end")
    },
];
