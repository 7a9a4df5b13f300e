//! `mctunnel clusters`: every cluster of a hub, with what it reported of itself last; from the hub's files, or from the hub.

use crate::{
    cluster_line::{ClusterLine, LatestStatus, table},
    data_dir,
    hub_client::HubClient,
    hub_reports::DIRECTORY,
    output,
    report_place::{Place, ReportPlace},
};
use clap::{Args, ValueEnum};
use mctunnel::{ClusterFiles, report::StoreReader};
use serde::Deserialize;
use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

/// Until the next look at files, and until a hub is asked again.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_FOR_A_HUB: Duration = Duration::from_secs(5);

/// What `mctunnel clusters` takes.
#[derive(Debug, Args)]
pub(crate) struct Clusters {
    #[command(flatten)]
    place: ReportPlace,
    /// The form of the list
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: ClustersForm,
    /// Go on: show the list again when it is another
    #[arg(short, long)]
    watch: bool,
}

/// The form of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClustersForm {
    /// Columns for people
    Table,
    /// More columns
    Wide,
    /// One JSON array
    Json,
    /// The same in YAML
    Yaml,
}

impl Clusters {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (mut source, pause) = match self.place.place()? {
            Place::Hub(hub) => (Source::Hub(hub), PAUSE_FOR_A_HUB),
            Place::Files(dir) => (Source::files(dir)?, PAUSE),
        };
        let mut said = String::new();
        loop {
            let shown = self.output.show(&source.lines()?)?;
            if shown != said {
                output::say(&shown);
                said = shown;
            }
            if !self.watch {
                return Ok(());
            }
            thread::sleep(pause);
        }
    }
}

impl ClustersForm {
    fn show(self, lines: &[ClusterLine]) -> anyhow::Result<String> {
        Ok(match self {
            Self::Json => serde_json::to_string(lines)?,
            Self::Yaml => serde_saphyr::to_string(&lines)?.trim_end().to_owned(),
            Self::Table => table(lines, false),
            Self::Wide => table(lines, true),
        })
    }
}

/// Where lines come from.
enum Source {
    Hub(HubClient),
    Files { dir: PathBuf, reader: Box<StoreReader>, latest: LatestStatus },
}

/// The answer of a hub.
#[derive(Deserialize)]
struct Listed {
    items: Vec<ClusterLine>,
}

impl Source {
    fn files(dir: PathBuf) -> anyhow::Result<Self> {
        data_dir::warn_unread(ClusterFiles::new(&dir).list_readable()?.unread.into_iter().map(|(_, error)| error));
        let reader = StoreReader::new(&dir.join(DIRECTORY), LatestStatus::query()?);
        Ok(Self::Files { dir, reader: Box::new(reader), latest: LatestStatus::default() })
    }

    fn lines(&mut self) -> anyhow::Result<Vec<ClusterLine>> {
        match self {
            Self::Hub(hub) => Ok(serde_json::from_str::<Listed>(&hub.get("/-/v1/clusters")?)?.items),
            Self::Files { dir, reader, latest } => {
                reader.last_of_each()?.iter().for_each(|found| latest.note(found));
                known(dir, latest)
            }
        }
    }
}

fn known(dir: &Path, latest: &LatestStatus) -> anyhow::Result<Vec<ClusterLine>> {
    let clusters = ClusterFiles::new(dir).list_readable()?.clusters;
    let line = |name: &str| ClusterLine::of(name, latest.of(name), None, SystemTime::now());
    Ok(clusters.iter().map(|record| line(record.cluster.as_str())).collect())
}
