//! The accept loop when the process runs out of file descriptors: it waits, and goes on when there are some again.
//!
//! The limit is one of the whole process, so the gateway runs in a process of its own: this test, started by itself.

use crate::rig::Rig;
use mctunnel_core::OpenError;
use mctunnel_gateway::ConnectConfig;
use std::{
    future::ready,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

const ROLE: &str = "MCTUNNEL_TEST_GATEWAY";
const NAME: &str = "out_of_descriptors::t40_accepting_goes_on_after_descriptors_ran_out";
const FEW: &str = "32";
const MANY: usize = 64;

#[test]
fn t40_accepting_goes_on_after_descriptors_ran_out() {
    if std::env::var_os(ROLE).is_some() {
        return run_gateway();
    }
    let mut gateway = Gateway::start();
    let address = gateway.address();
    // Silent clients hold a descriptor each; the last ones stay in the queue of the system.
    let silent: Vec<_> = (0..MANY).map(|_| TcpStream::connect(&address).expect("queued")).collect();
    let mut last = TcpStream::connect(&address).expect("queued");
    last.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    last.set_read_timeout(Some(Duration::from_millis(300))).expect("an option");
    assert!(last.read(&mut [0; 16]).is_err(), "answered although there should be no descriptor left");
    drop(silent);
    last.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    let mut answer = String::new();
    last.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
}

struct Gateway(Child);

impl Gateway {
    fn start() -> Self {
        let this = std::env::current_exe().expect("this test");
        let child = Command::new("sh")
            .args(["-c", "ulimit -n \"$1\" && exec \"$0\" --nocapture --exact \"$2\""])
            .arg(this)
            .args([FEW, NAME])
            .env(ROLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        Self(child)
    }

    fn address(&mut self) -> String {
        let lines = BufReader::new(self.0.stdout.take().expect("piped")).lines();
        let mut lines = lines.map(|line| line.expect("text"));
        // The line may follow what the test harness prints.
        lines
            .find_map(|line| line.split_once("listening on ").map(|(_, address)| address.to_owned()))
            .expect("an address")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves until standard input ends, which it does when the test that started this is over.
fn run_gateway() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let rig = runtime.block_on(Rig::start(ConnectConfig::default(), |_| ready(Err(OpenError::UnknownCluster))));
    println!("listening on {}", rig.address);
    let stop = rig.stop.clone();
    let parent = std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        stop.cancel();
    });
    runtime.block_on(rig.serving.join_all());
    parent.join().expect("no panic");
}
