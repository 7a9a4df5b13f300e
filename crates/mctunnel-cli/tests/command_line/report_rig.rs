//! A hub with a policy, users with keys, and agents whose spools have reports already: what the agent's own kinds say is up to a test.

use crate::rig::{Hub, PATIENCE, Ran, Role, get, run, until};
use mctunnel::report::{Kind, LaneConfig, Record, Spool};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};
use tempfile::TempDir;

/// Who may see what.
pub(crate) const POLICY: &str = r#"version: 1
roles:
  all:
    rules: [{clusters: ["*"], namespaces: ["*"], apiGroups: ["*"], resources: ["*/*"], names: ["*"], verbs: ["*"]}]
  events-of-team-a:
    rules: [{clusters: [c1], namespaces: [team-a], apiGroups: [events.k8s.io], resources: [events], names: ["*"], verbs: [list]}]
  log-of-web:
    rules: [{clusters: [c1], namespaces: [team-a], apiGroups: [""], resources: [pods/log], names: [web], verbs: [get]}]
  deploys:
    rules: [{clusters: [c1], namespaces: ["*"], apiGroups: [reports.mctunnel.io], resources: [deploys], names: ["*"], verbs: [list]}]
  nodes:
    rules: [{clusters: [c1], namespaces: ["*"], apiGroups: [""], resources: [nodes], names: ["*"], verbs: [list]}]
bindings:
  - {name: ops, role: all, users: [ops, dora], providers: [keys]}
  - {name: alice, role: events-of-team-a, users: [alice], providers: [keys]}
  - {name: lily, role: log-of-web, users: [lily], providers: [keys]}
  - {name: carl, role: deploys, users: [carl], providers: [keys]}
  - {name: nina, role: nodes, users: [nina], providers: [keys]}
deny:
  - name: no-kube-system
    users: [dora]
    providers: ["*"]
    rules: [{clusters: ["*"], namespaces: [kube-system], apiGroups: ["*"], resources: ["*/*"], names: ["*"], verbs: ["*"]}]
"#;

/// The stage.
pub(crate) struct Stage {
    pub(crate) hub: Hub,
    files: TempDir,
    agents: BTreeMap<String, Role>,
}

/// Among the flags of a [`Stage`]: clients that nobody knows are let in, and policy allows them everything.
pub(crate) const OPEN: &str = "open";

impl Stage {
    pub(crate) fn new(users: &[&str], more: &[&str]) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let path = |name: &str| files.path().join(name).to_str().expect("UTF-8").to_owned();
        fs::write(path("auth.yaml"), "providers: [{name: keys, api_keys: {}}]\n").expect("a file");
        fs::write(path("policy.yaml"), POLICY).expect("a file");
        fs::write(
            path("open-auth.yaml"),
            "anonymous: {unknown_tokens: true}\nproviders: [{name: keys, api_keys: {}}]\n",
        )
        .expect("a file");
        let open = POLICY.replace("deny:\n", "  - {name: whoever, role: all, anonymous: true}\ndeny:\n");
        fs::write(path("open-policy.yaml"), open).expect("a file");
        let open = if more.contains(&OPEN) { "open-" } else { "" };
        let more: Vec<&str> = more.iter().copied().filter(|flag| *flag != OPEN).collect();
        let (auth, policy) = (path(&format!("{open}auth.yaml")), path(&format!("{open}policy.yaml")));
        let trust = ["--gateway-plain", "--auth-config", &auth, "--policy", &policy];
        let stage = Self { hub: Hub::start(&[&trust[..], &more].concat()), files, agents: BTreeMap::new() };
        for user in users {
            let made = run(&["api-key", "create", user, "--user", user, "--data-dir", &stage.hub.path("data")]);
            assert_eq!(made.status, Some(0), "{made:?}");
            fs::write(stage.path(user), made.out).expect("a file");
        }
        stage
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.files.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// As an editor does it: the whole file at once.
    pub(crate) fn edit(&self, text: &str) {
        fs::write(self.path("policy.new"), text).expect("a file");
        fs::rename(self.path("policy.new"), self.path("policy.yaml")).expect("a file");
    }

    /// Has the agent of a new cluster report these records; returns when the hub has them.
    pub(crate) fn reported(&mut self, cluster: &str, records: &[(&str, &[Said])]) {
        let bundle = self.hub.add(cluster);
        self.reported_more(cluster, &bundle, cluster, records);
    }

    /// The same for a cluster that is there, with a new agent and a spool of this name. The agent before it ends.
    pub(crate) fn reported_more(&mut self, cluster: &str, bundle: &str, name: &str, records: &[(&str, &[Said])]) {
        let stored = |stage: &Self, kind: &str| stage.stored(cluster, kind);
        let before: Vec<u64> = records.iter().map(|(kind, _)| stored(self, kind)).collect();
        let spool = self.path(&format!("spool-{name}"));
        fill(&spool, records);
        let more =
            ["agent", "--join", bundle, "--spool", &spool, "--admin-listen", "off", "--allow", "tcp://10.0.0.1:1"];
        drop(self.agents.remove(cluster));
        let agent = Role::start(self.files.path(), &format!("agent-{name}"), &more, &[]);
        self.agents.insert(cluster.to_owned(), agent);
        for ((kind, records), before) in records.iter().zip(before) {
            until("the reports", || (stored(self, kind) >= before + records.len() as u64).then_some(()));
        }
    }

    /// How many records the hub has on disk.
    pub(crate) fn stored(&self, cluster: &str, kind: &str) -> u64 {
        let metrics = get(self.hub.address("admin"), "/metrics").1;
        let line = format!("mctunnel_reports_stored_total{{cluster=\"{cluster}\",kind=\"{kind}\"}} ");
        metrics.lines().find_map(|one| one.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
    }

    fn head(&self, path: &str, user: Option<&str>, more: &str) -> String {
        let key = user.map(|user| fs::read_to_string(self.path(user)).expect("a key"));
        let shown = key.map(|key| format!("Authorization: Bearer {}\r\n", key.trim())).unwrap_or_default();
        format!("GET {path} HTTP/1.1\r\nHost: x\r\n{shown}{more}Connection: close\r\n\r\n")
    }

    /// Status and body of a page.
    pub(crate) fn page(&self, user: Option<&str>, path: &str) -> (u16, Vec<u8>) {
        let mut answer = Answer::open(self.hub.address("gateway"), &self.head(path, user, ""));
        let mut body = Vec::new();
        while let Some(piece) = answer.piece().expect("it ends in order") {
            body.extend(piece);
        }
        (answer.status, body)
    }

    /// The same as JSON.
    pub(crate) fn json(&self, user: &str, path: &str) -> (u16, Value) {
        let (status, body) = self.page(Some(user), path);
        (status, serde_json::from_slice(&body).expect("JSON"))
    }

    /// What the records of a list say that a user gets.
    pub(crate) fn bodies(&self, user: &str, path: &str) -> Vec<Value> {
        let (status, list) = self.json(user, path);
        assert_eq!(status, 200, "{user} {path}: {list}");
        list["items"].as_array().expect("a list").iter().map(|record| record["body"]["note"].clone()).collect()
    }

    /// An answer that goes on.
    pub(crate) fn follow(&self, user: &str, path: &str) -> Answer {
        let head = self.head(path, Some(user), "Accept: application/x-ndjson\r\n");
        Answer::open(self.hub.address("gateway"), &head)
    }

    /// A command that asks the hub.
    pub(crate) fn command(&self, user: &str, words: &str) -> Ran {
        let (hub, token) = (format!("http://{}", self.hub.address("gateway")), self.path(user));
        run(&[&words.split(' ').collect::<Vec<_>>()[..], &["--hub", &hub, "--token-file", &token]].concat())
    }

    /// The same command on the hub's files.
    pub(crate) fn on_files(&self, words: &str) -> Ran {
        run(&[&words.split(' ').collect::<Vec<_>>()[..], &["--data-dir", &self.hub.path("data")]].concat())
    }
}

/// A record: its time in microseconds, its source and its body.
pub(crate) type Said = (i64, String, Value);

/// An event of a namespace.
pub(crate) fn event(namespace: &str, note: &str) -> Said {
    let body = json!({"metadata": {"namespace": namespace, "name": note}, "type": "Normal", "note": note});
    (1_700_000_000_000_000, format!("{namespace}/Pod/web"), body)
}

/// A line of `team-a/POD/nginx`.
pub(crate) fn line(pod: &str, restart: u64, text: &str) -> Said {
    let body = json!({"uid": "u1", "restart": restart, "line": text});
    (1_700_000_000_000_000, format!("team-a/{pod}/nginx"), body)
}

/// Puts records into a spool as an agent would.
fn fill(spool: &str, records: &[(&str, &[Said])]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let spool = Spool::open(spool.as_ref(), LaneConfig::default(), BTreeMap::new()).expect("a spool");
        for (kind, records) in records {
            let record =
                |(time, source, body): &Said| Record::new(*time, source.as_str(), body.to_string()).expect("a record");
            let kind = Kind::parse(kind).expect("a kind");
            spool.append(&kind, records.iter().map(record).collect()).await.expect("it is taken");
        }
    });
}

/// An answer, read piece by piece.
pub(crate) struct Answer {
    pub(crate) status: u16,
    reader: BufReader<TcpStream>,
    /// None: it comes in chunks.
    length: Option<usize>,
}

impl Answer {
    fn open(address: &str, request: &str) -> Self {
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.write_all(request.as_bytes()).expect("it reads");
        let mut reader = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).expect("a head") > 0, "no answer: {head}");
        }
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        let fields = head.to_ascii_lowercase();
        let length = fields.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        assert!(length.is_some() || fields.contains("transfer-encoding: chunked"), "{head}");
        Self { status, reader, length }
    }

    /// The next piece; `None` at the end, and an error if it was cut.
    pub(crate) fn piece(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let size = match self.length.take() {
            Some(length) => {
                let mut body = vec![0; length];
                self.reader.read_exact(&mut body)?;
                self.length = Some(0);
                return Ok(Some(body).filter(|body| !body.is_empty()));
            }
            None => {
                let mut line = String::new();
                if self.reader.read_line(&mut line)? == 0 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                usize::from_str_radix(line.trim(), 16).expect("a size")
            }
        };
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk)?;
        chunk.truncate(size);
        Ok(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }

    /// The lines of the next piece, as JSON.
    pub(crate) fn lines(&mut self) -> Vec<Value> {
        let piece = self.piece().expect("it goes on").expect("more");
        let text = String::from_utf8(piece).expect("UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}
