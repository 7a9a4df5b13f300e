//! Starts hubs, agents and targets, and talks CONNECT to them.

use serde_json::Value;
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    sync::{Mutex, MutexGuard},
    task::JoinSet,
    time::Instant,
};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_mctunnel");
/// No step of a healthy run takes longer, on a busy machine either.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// These tests hold processes to times, so they run one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A hub and its data directory.
pub(crate) struct Rig {
    _turn: MutexGuard<'static, ()>,
    pub(crate) dir: TempDir,
    pub(crate) hub: Process,
    pub(crate) tunnel: String,
    pub(crate) connect: String,
    pub(crate) admin: String,
}

/// A running `mctunnel`; killed when dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) ready: Value,
}

impl Process {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id().expect("it runs")).expect("a pid")
    }

    /// Sends a signal with the system's own `kill`, as an operator would.
    pub(crate) async fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status().await;
        assert!(status.expect("kill runs").success());
    }

    pub(crate) async fn wait(&mut self) -> std::process::ExitStatus {
        tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends in time").expect("it was ours")
    }

    /// Files and sockets that it has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it runs").count()
    }

    /// Resident memory in KiB.
    pub(crate) fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most that it ever was.
    pub(crate) fn most_resident(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find(|l| l.starts_with(field)).expect(field);
        line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    }
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::start_with("127.0.0.1:0", "127.0.0.1:0", &[]).await
    }

    pub(crate) async fn start_with(tunnel: &str, connect: &str, more: &[&str]) -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let only_ours = std::fs::Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().permissions(only_ours).tempdir().expect("a directory");
        let hub = start_hub(dir.path(), "hub.ready", tunnel, connect, more).await;
        Self::around(turn, dir, hub)
    }

    /// A hub that may have so many files and sockets open.
    pub(crate) async fn start_limited(descriptors: usize) -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let dir = tempfile::tempdir().expect("a directory");
        let hub = hub_command(dir.path(), "127.0.0.1:0", "127.0.0.1:0", &[]);
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &descriptors.to_string()]);
        command.arg(hub.as_std().get_program()).args(hub.as_std().get_args());
        let hub = start(command, &dir.path().join("hub.ready")).await;
        Self::around(turn, dir, hub)
    }

    fn around(turn: MutexGuard<'static, ()>, dir: TempDir, hub: Process) -> Self {
        Self {
            _turn: turn,
            tunnel: text(&hub.ready, "tunnel"),
            connect: text(&hub.ready, "connect"),
            admin: text(&hub.ready, "admin"),
            hub,
            dir,
        }
    }

    /// Adds a cluster and gives its join bundle.
    pub(crate) async fn add(&self, cluster: &str) -> PathBuf {
        let out = self.dir.path().join(format!("{cluster}.join"));
        let status = Command::new(BINARY)
            .args(["cluster", "add", cluster, "--hub", &self.tunnel, "--data-dir"])
            .arg(self.dir.path())
            .arg("--out")
            .arg(&out)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .await;
        assert!(status.expect("it runs").success(), "{cluster} was added");
        out
    }

    /// Starts an agent and waits until its tunnel is up.
    pub(crate) async fn agent(&self, join: &Path, allow: &[&str]) -> Process {
        let rules: Vec<_> = allow.iter().map(|rule| format!("--allow=tcp://{rule}")).collect();
        self.agent_with(join, &rules.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    /// As [`Rig::agent`], with these flags.
    pub(crate) async fn agent_with(&self, join: &Path, flags: &[&str]) -> Process {
        self.agent_from(agent_command(join, flags)).await
    }

    /// As [`Rig::agent`], by this command.
    pub(crate) async fn agent_from(&self, command: Command) -> Process {
        start(command, &self.dir.path().join(format!("agent-{}.ready", unique()))).await
    }

    pub(crate) async fn open(&self, cluster: &str, target: &str) -> Result<TcpStream, String> {
        connect(&self.connect, cluster, target).await
    }

    /// One value of the hub's metrics.
    pub(crate) async fn metric(&self, line: &str) -> Option<f64> {
        metric(&self.admin, line).await
    }
}

pub(crate) fn agent_command(join: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.arg("agent").arg("--join").arg(join).args(["--admin-listen", "127.0.0.1:0", "--log-level", "warn"]);
    command.args(flags);
    command
}

pub(crate) async fn start_hub(dir: &Path, ready: &str, tunnel: &str, connect: &str, more: &[&str]) -> Process {
    start(hub_command(dir, tunnel, connect, more), &dir.join(ready)).await
}

fn hub_command(dir: &Path, tunnel: &str, connect: &str, more: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.arg("hub").arg("--data-dir").arg(dir);
    command.args(["--tunnel-listen", tunnel, "--connect-listen", connect, "--gateway-listen", "127.0.0.1:0"]);
    if !more.contains(&"--auth-config") {
        command.arg("--insecure-no-auth");
    }
    command.args(["--admin-listen", "127.0.0.1:0", "--log-level", "warn"]).args(more);
    command
}

pub(crate) async fn start(mut command: Command, ready: &Path) -> Process {
    command.arg("--ready-file").arg(ready).kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().expect("the binary starts");
    let content = until("the ready file", async || {
        if let Ok(Some(status)) = child.try_wait() {
            panic!("it ended before it was ready: {status}");
        }
        std::fs::read_to_string(ready).ok()
    })
    .await;
    Process { child, ready: serde_json::from_str(&content).expect("the ready file is JSON") }
}

pub(crate) fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}")).to_owned()
}

/// Opens a connection through the hub's CONNECT listener; an error is the status line.
pub(crate) async fn connect(proxy: &str, cluster: &str, target: &str) -> Result<TcpStream, String> {
    connect_with(proxy, cluster, target, "").await
}

/// As [`connect`], with these lines in the head.
async fn connect_with(proxy: &str, cluster: &str, target: &str, lines: &str) -> Result<TcpStream, String> {
    let mut socket = TcpStream::connect(proxy).await.map_err(|e| e.to_string())?;
    socket.set_nodelay(true).map_err(|e| e.to_string())?;
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nx-mctunnel-cluster: {cluster}\r\n{lines}\r\n");
    socket.write_all(head.as_bytes()).await.map_err(|e| e.to_string())?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(socket.read_u8().await.map_err(|e| e.to_string())?);
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let line = answer.lines().next().unwrap_or_default().to_owned();
    if line.starts_with("HTTP/1.1 200 ") { Ok(socket) } else { Err(line) }
}

/// What an admin listener answers, head and all.
pub(crate) async fn admin_page(admin: &str, path: &str) -> Option<String> {
    let mut socket = TcpStream::connect(admin).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.ok()?;
    let mut all = String::new();
    socket.read_to_string(&mut all).await.ok()?;
    Some(all)
}

pub(crate) async fn metric(admin: &str, line: &str) -> Option<f64> {
    let all = admin_page(admin, "/metrics").await?;
    let found = all.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' '))?;
    found.trim().parse().ok()
}

/// Asks again and again until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited for {what} in vain");
        // tidy: sleep because another process gives no other sign
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A target inside the cluster: each connection is served by `serve`.
pub(crate) struct Target {
    pub(crate) address: String,
    _tasks: JoinSet<()>,
}

impl Target {
    pub(crate) async fn start<F: Future<Output = ()> + Send + 'static>(
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let _ = socket.set_nodelay(true);
                connections.spawn(serve(socket));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, _tasks: tasks }
    }
}

/// Sends everything back, and ends when the client does.
pub(crate) async fn echo(mut socket: TcpStream) {
    let (mut read, mut write) = socket.split();
    let _ = tokio::io::copy(&mut read, &mut write).await;
    let _ = write.shutdown().await;
}

/// One short exchange over a new connection.
pub(crate) async fn exchange(proxy: &str, cluster: &str, target: &str, text: &[u8]) -> Result<(), String> {
    exchange_with(proxy, cluster, target, text, "").await
}

/// As [`exchange`], with these lines in the head of the CONNECT.
pub(crate) async fn exchange_with(
    proxy: &str,
    cluster: &str,
    target: &str,
    text: &[u8],
    lines: &str,
) -> Result<(), String> {
    let mut socket = connect_with(proxy, cluster, target, lines).await?;
    socket.write_all(text).await.map_err(|e| format!("write: {e}"))?;
    socket.shutdown().await.map_err(|e| format!("shutdown: {e}"))?;
    let mut back = Vec::new();
    socket.read_to_end(&mut back).await.map_err(|e| format!("read: {e}"))?;
    if back == text { Ok(()) } else { Err(format!("{} of {} bytes came back", back.len(), text.len())) }
}
