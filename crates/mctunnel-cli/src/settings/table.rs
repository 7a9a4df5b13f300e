//! The table of settings. Flags, environment variables, keys of the file, help and `--print-config` are all made from it.

use super::{agent_table::AGENT, report_table::HUB_REPORTS};

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

pub(super) const fn switch(key: &'static str, help: &'static str) -> Setting {
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
    one("audit_file_size", "SIZE", Some("100MiB"), "The size at which the next file of the audit log is begun"),
    one(
        "audit_keep",
        "N",
        Some("10"),
        "How many full files of the audit log are kept; with one more, the oldest is deleted, and its records are gone",
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
    many(
        "hub_name",
        "NAME",
        "A DNS name or IP address under which clients reach the hub, for its certificate; may be given many times. \
         Browsers that come in as nobody are served under these, 'localhost' and addresses alone",
    ),
    one(
        "agent_cert_ttl",
        "TIME",
        Some("24h"),
        "How long the certificates live that agents get by enrolling; they renew at two thirds. Longer than the longest outage of the hub",
    ),
    many(
        "enrol_audience",
        "AUDIENCE",
        "Let ServiceAccounts of the hub's own cluster vouch for agents, by tokens for this audience; may be given many times. \
         Each counts for the cluster of 'mctunnel cluster add NAME --service-account NAMESPACE/ACCOUNT'",
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
