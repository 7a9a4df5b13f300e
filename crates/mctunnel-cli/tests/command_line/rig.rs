//! Runs the real binary, to its end or until it is ready.

use crate::tls_servers::{Tls, serve_at};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::Instant;

/// No step of a healthy run takes longer, on a busy machine either.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The binary, without the settings of whoever runs the tests.
pub(crate) fn mctunnel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mctunnel"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_uppercase();
        if text.starts_with("MCTUNNEL_")
            || ["RUST_LOG", "HTTPS_PROXY", "NO_PROXY", "DEMO_ONCE", "KUBECONFIG"].contains(&text.as_str())
        {
            command.env_remove(name);
        }
    }
    command
}

/// What a command that ends printed, and its status.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn run(arguments: &[&str]) -> Ran {
    ran(&mut mctunnel(arguments))
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { status: status.code(), out: text(stdout), err: text(stderr) }
}

/// A role that was started; killed when dropped.
pub(crate) struct Role {
    child: Child,
    log: PathBuf,
    ready_file: PathBuf,
}

impl Role {
    /// Starts it with a ready file and a log in `dir`, both called by `name`.
    pub(crate) fn start(dir: &Path, name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = mctunnel(arguments);
        command.envs(variables.iter().copied());
        Self::spawn(dir, name, command)
    }

    /// The same, for a command that is made elsewhere.
    pub(crate) fn spawn(dir: &Path, name: &str, mut command: Command) -> Self {
        let (log, ready_file) = (dir.join(format!("{name}.log")), dir.join(format!("{name}.ready")));
        // One that was killed has left its file.
        let _ = fs::remove_file(&ready_file);
        command.arg("--ready-file").arg(&ready_file);
        command.stdout(Stdio::null()).stderr(File::create(&log).expect("a log"));
        Self { child: command.spawn().expect("the binary starts"), log, ready_file }
    }

    /// What the ready file says, once it is there.
    pub(crate) fn ready(&mut self) -> Value {
        let text = until("the ready file", || {
            if let Some(status) = self.child.try_wait().expect("it was ours") {
                panic!("it ended with {status} before it was ready: {}", self.log());
            }
            fs::read_to_string(&self.ready_file).ok()
        });
        serde_json::from_str(&text).expect("the ready file is JSON")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the log")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal as an operator would.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        until("the end of the process", || self.child.try_wait().expect("it was ours"))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A hub on free ports.
pub(crate) struct Hub {
    pub(crate) dir: TempDir,
    pub(crate) role: Role,
    pub(crate) ready: Value,
}

impl Hub {
    /// Nobody is asked who they are, unless there is something to ask by.
    pub(crate) fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let data_dir = dir.path().join("data");
        let mut arguments = vec!["hub", "--data-dir", data_dir.to_str().expect("UTF-8")];
        for listener in ["--tunnel-listen", "--gateway-listen", "--connect-listen", "--admin-listen"] {
            arguments.extend([listener, "127.0.0.1:0"]);
        }
        arguments.extend(more);
        if !more.contains(&"--auth-config") {
            arguments.push("--insecure-no-auth");
        }
        let mut role = Role::start(dir.path(), "hub", &arguments, &[]);
        let ready = role.ready();
        Self { dir, role, ready }
    }

    pub(crate) fn address(&self, listener: &str) -> &str {
        self.ready[listener].as_str().expect("an address")
    }

    /// Adds a cluster; gives the path of its bundle.
    pub(crate) fn add(&self, cluster: &str) -> String {
        let out = self.path(&format!("{cluster}.join"));
        let data_dir = self.path("data");
        let hub = self.address("tunnel");
        let added = run(&["cluster", "add", cluster, "--data-dir", &data_dir, "--hub", hub, "--out", &out]);
        assert_eq!(added.status, Some(0), "{added:?}");
        out
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("UTF-8").to_owned()
    }
}

/// A service that answers each request with the target it was asked for; it ends with the test.
pub(crate) struct Greeter {
    pub(crate) address: String,
}

impl Greeter {
    pub(crate) fn start() -> Self {
        Self::start_at(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// The same at this address of the machine.
    pub(crate) fn start_at(ip: IpAddr) -> Self {
        Self::serve(ip, None)
    }

    pub(crate) fn start_tls(tls: &Tls) -> Self {
        Self::serve(IpAddr::V4(Ipv4Addr::LOCALHOST), Some(tls))
    }

    fn serve(ip: IpAddr, tls: Option<&Tls>) -> Self {
        let address = serve_at(ip, tls, |connection| {
            let mut head = [0; 4096];
            let length = connection.read(&mut head).unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let asked = head.split(' ').nth(1).unwrap_or_default();
            // Whoever went away needs no answer.
            let _ = write!(
                connection,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{asked}",
                asked.len()
            );
        });
        Self { address }
    }
}

/// The status and the body of a GET.
pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    request(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

/// The status and the body of the answer to a request that closes its connection.
pub(crate) fn request(address: &str, request: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    (status, answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned())
}

/// Asks again and again until there is an answer.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited for {what} in vain");
        // tidy: sleep because another process gives no other sign
        thread::sleep(Duration::from_millis(10));
    }
}
