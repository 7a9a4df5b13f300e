//! `mctunnel demo`: a hub, two clusters and requests through the tunnel, step by step, with the commands a person would type.
//! The processes are real; only the services they reach are made up, by tasks of this one.

mod child;
mod sample;
mod visit;

use crate::{
    output::say,
    process::{self, ProcessError},
    signals::Signals,
};
use child::Child;
use mctunnel::ErrorCode;
use sample::Sample;
use std::{ffi::OsStr, path::PathBuf, process::ExitCode};
use tempfile::TempDir;
use visit::{Answer, Visit};

/// Runs the demo; with `once` it ends after the last step, else it waits for Ctrl-C.
pub(crate) fn run(once: bool) -> anyhow::Result<ExitCode> {
    process::block_on(async {
        let mut signals = Signals::listen().map_err(ProcessError::Signals)?;
        tokio::select! {
            shown = show(once) => shown.map(|()| ExitCode::SUCCESS),
            signal = signals.next() => {
                say("\nThe demo ends; its processes and its files go away.");
                // Ctrl-C is how a demo that waits is meant to end.
                Ok(if once { signal.status() } else { ExitCode::SUCCESS })
            }
        }
    })
}

async fn show(once: bool) -> anyhow::Result<()> {
    let place = Place::make()?;
    say(&format!(
        "A hub, two clusters and requests through the tunnel. All files are in {}.",
        place.dir.path().display()
    ));

    say(
        "\n1. Two clusters: each has an API and a service 'helloworld', made up by this program. Nobody outside can reach them.",
    );
    let samples = [Sample::start("cluster-a").await?, Sample::start("cluster-b").await?];
    for sample in &samples {
        say(&format!("     {} is at {}", sample.cluster, sample.address));
    }
    let own_cluster = std::env::var_os("KUBECONFIG").filter(|file| !file.is_empty());
    if let Some(file) = &own_cluster {
        say(&format!("     the API of cluster-a is your own, from KUBECONFIG={}", file.to_string_lossy()));
    }

    say("\n2. The hub. Port 0 means any free port.");
    say(
        "   INSECURE, and for this demo alone: --insecure-no-auth lets everybody on this machine in without asking who they are.",
    );
    say("   A hub for others is given --auth-config and --policy; without any of these it does not start.");
    let hub = place.start_hub().await?;
    let (tunnel, gateway, connect) = (hub.ready("tunnel")?, hub.ready("gateway")?, hub.ready("connect")?);
    say(&format!("     agents connect to {tunnel}, clients to {gateway} and, with CONNECT, to {connect}"));

    say("\n3. A join bundle for each cluster, made at the hub: its address, its CA, a certificate and a key.");
    for sample in &samples {
        place.add_cluster(sample, &tunnel).await?;
    }

    say("\n4. An agent in each cluster. It dials the hub; nothing connects to it. What it may reach, it is told here.");
    let mut agents = Vec::new();
    let [a, b] = &samples;
    agents.push(place.start_agent(a, own_cluster.as_deref()).await?);
    agents.push(place.start_agent(b, None).await?);

    say("\n5. A request to the API of each cluster, through the gateway. The first word of the path is the cluster.");
    let ca = place.path("hub").join("pki").join("ca.pem");
    for (sample, is_own) in [(a, own_cluster.is_some()), (b, false)] {
        let path = format!("/{}/version", sample.cluster);
        let visit = Visit::Gateway { address: &gateway, ca: &ca, path: &path };
        let greeting = format!("hello from {}", sample.cluster);
        request(&visit, |answer| answer.status == 200 && (is_own || answer.body.contains(&greeting))).await?;
    }

    say("\n6. A request to a service of each cluster. The query reaches it unchanged.");
    for sample in [a, b] {
        let path = format!("/{}{HELLOWORLD}/ping?time-out=32s", sample.cluster);
        let visit = Visit::Gateway { address: &gateway, ca: &ca, path: &path };
        let greeting = format!("hello from {}, for /ping?time-out=32s", sample.cluster);
        request(&visit, |answer| answer.status == 200 && answer.body.contains(&greeting)).await?;
    }

    say("\n7. Any TCP target, with HTTP CONNECT at the hub; and one that the agent of cluster-a does not allow.");
    let visit = Visit::Connect { address: &connect, cluster: a.cluster, target: &a.address };
    request(&visit, |answer| answer.status == 200 && answer.body.contains("hello from cluster-a")).await?;
    let visit = Visit::Connect { address: &connect, cluster: a.cluster, target: &b.address };
    request(&visit, |answer| answer.status == 403).await?;

    if once {
        say("\nEverything worked. The processes and the files go away.");
        return Ok(());
    }
    say(
        "\nEverything worked, and keeps running: try the commands of steps 5 to 7 in another terminal. Ctrl-C ends the demo.",
    );
    std::future::pending().await
}

/// The path of the service in each cluster.
const HELLOWORLD: &str = "/api/v1/namespaces/default/services/helloworld:8080/proxy-service";

/// Sends one request and shows what came back.
async fn request(visit: &Visit<'_>, is_right: impl Fn(&Answer) -> bool) -> anyhow::Result<()> {
    say(&format!("     $ {}", visit.as_curl()));
    let answer = visit.send().await?;
    say(&format!("     {} {}", answer.status, answer.to_line()));
    if !is_right(&answer) {
        return Err(DemoFailed(format!("{} was not the answer to expect", answer.status)).into());
    }
    Ok(())
}

// === Place ===

/// Where the demo keeps its files; they go away with it.
struct Place {
    dir: TempDir,
}

impl Place {
    fn make() -> anyhow::Result<Self> {
        Ok(Self { dir: tempfile::Builder::new().prefix("mctunnel-demo").tempdir()? })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn start_hub(&self) -> anyhow::Result<Child> {
        let data_dir = self.path("hub");
        let mut arguments = vec!["hub".into(), "--data-dir".into(), data_dir.into_os_string()];
        for listener in ["--tunnel-listen", "--gateway-listen", "--connect-listen", "--admin-listen"] {
            arguments.extend([listener.into(), "127.0.0.1:0".into()]);
        }
        arguments.push("--insecure-no-auth".into());
        Child::start("hub", arguments, self.dir.path()).await
    }

    async fn add_cluster(&self, sample: &Sample, tunnel: &str) -> anyhow::Result<()> {
        let arguments = vec![
            "cluster".into(),
            "add".into(),
            sample.cluster.into(),
            "--data-dir".into(),
            self.path("hub").into_os_string(),
            "--hub".into(),
            tunnel.into(),
            "--out".into(),
            self.bundle(sample).into_os_string(),
        ];
        child::run(arguments).await
    }

    async fn start_agent(&self, sample: &Sample, kubeconfig: Option<&OsStr>) -> anyhow::Result<Child> {
        let mut arguments = vec!["agent".into(), "--join".into(), self.bundle(sample).into_os_string()];
        let mut flag = |name: &str, value: String| arguments.extend([name.into(), value.into()]);
        flag("--allow", format!("tcp://{}", sample.address));
        flag("--allow-service", "default/helloworld".to_owned());
        flag("--pin-service", format!("default/helloworld:8080={}", sample.address));
        match kubeconfig {
            Some(file) => arguments.extend(["--kubeconfig".into(), file.to_owned()]),
            None => flag("--kube-api", format!("http://{}", sample.address)),
        }
        Child::start(sample.cluster, arguments, self.dir.path()).await
    }

    fn bundle(&self, sample: &Sample) -> PathBuf {
        self.path(&format!("{}.join", sample.cluster))
    }
}

// === DemoFailed ===

/// A step of the demo did not do what it should.
#[derive(Debug, thiserror::Error)]
#[error("the demo did not work: {0}")]
pub(crate) struct DemoFailed(String);

impl DemoFailed {
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode { code: "MCT-DEMO-FAILED", remedy: "report this with what was printed above" }
    }
}
