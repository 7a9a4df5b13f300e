//! `mctunnel logs`: what a container wrote, as `kubectl logs` would print it; from the hub's files, or from the hub.

use crate::{
    container_log::{LogPrinter, LogWanted, Next, Runs},
    hub_client::HubClient,
    hub_reports::DIRECTORY,
    output,
    report_place::{Place, ReportPlace, encoded, query},
};
use clap::Args;
use mctunnel::{
    ClusterName, ErrorCode,
    report::{Kind, Query, StoreReader},
};
use std::{path::Path, thread, time::Duration};

/// Until the next look for more.
const PAUSE: Duration = Duration::from_millis(100);

/// What `mctunnel logs` takes.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The cluster
    cluster: String,
    /// The pod, as NAMESPACE/POD
    #[arg(value_name = "NAMESPACE/POD")]
    pod: String,
    /// The container; needed where the pod has several
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Go on with what it writes, until it ends
    #[arg(short, long)]
    follow: bool,
    /// The run before the last restart
    #[arg(short, long)]
    previous: bool,
    /// The time in front of each line
    #[arg(long)]
    timestamps: bool,
    #[command(flatten)]
    place: ReportPlace,
}

impl Logs {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let cluster = ClusterName::parse(&self.cluster)?;
        let named = self.pod.split_once('/').filter(|(namespace, pod)| !namespace.is_empty() && !pod.is_empty());
        let (namespace, pod) = named.ok_or_else(|| NotAPod(self.pod.clone()))?;
        let wanted = LogWanted {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: self.container,
            previous: self.previous,
            timestamps: self.timestamps,
            follow: self.follow,
        };
        match self.place.place()? {
            Place::Hub(hub) => from_hub(&hub, &cluster, &wanted),
            Place::Files(dir) => from_files(&dir.join(DIRECTORY), cluster, wanted),
        }
    }
}

fn from_hub(hub: &HubClient, cluster: &ClusterName, wanted: &LogWanted) -> anyhow::Result<()> {
    let switch = |on: bool| on.then(|| "true".to_owned());
    let asked = query(&[
        ("container", wanted.container.clone()),
        ("follow", switch(wanted.follow)),
        ("previous", switch(wanted.previous)),
        ("timestamps", switch(wanted.timestamps)),
    ]);
    let LogWanted { namespace, pod, .. } = wanted;
    let path = format!("/-/v1/logs/{cluster}/{}/{}{asked}", encoded(namespace), encoded(pod));
    hub.follow(&path, output::raw)
}

fn from_files(dir: &Path, cluster: ClusterName, wanted: LogWanted) -> anyhow::Result<()> {
    let query = Query { cluster: Some(cluster), ..Query::new(Kind::parse("logs")?) };
    let (mut runs, mut reader) = (Runs::default(), StoreReader::new(dir, query.clone()));
    while let Some(records) = reader.next_records()? {
        records.iter().for_each(|found| runs.note(&wanted, found));
    }
    let run = runs.choose(&wanted)?;
    let mut reader = StoreReader::new(dir, Query { from: run.first, ..query });
    let mut printer = LogPrinter::new(run, wanted);
    loop {
        while let Some(records) = reader.next_records()? {
            let mut bytes = Vec::new();
            let is_over = records.iter().any(|found| printer.print(found, &mut bytes) == Next::Over);
            if !output::raw(&bytes) || is_over {
                return Ok(());
            }
        }
        if !printer.goes_on() {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
}

/// The text does not name a pod.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} does not name a pod")]
pub(crate) struct NotAPod(String);

impl NotAPod {
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode { code: "MCT-LOGS-BAD-POD", remedy: "name namespace and pod, as in default/web-0" }
    }
}

/// Shown below the help of `mctunnel logs`.
pub(crate) const EXAMPLE: &str = "\
Examples:
  mctunnel logs cluster-a default/web-0 -f --hub https://hub.example.com:8080 --hub-ca ca.pem --token-file token
  mctunnel logs cluster-a default/web-0 -c sidecar --previous --data-dir /var/lib/mctunnel

What is printed are the bytes that kubectl logs would print, of the newest run of the container, as far as its agent has reported them.
With -f it ends when the container has been restarted or replaced.";
