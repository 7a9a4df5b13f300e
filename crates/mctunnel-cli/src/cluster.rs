//! `mctunnel cluster`: which clusters a hub knows. Works on the hub's data directory; a running hub takes note at once.

use crate::{
    cli::{Add, ListForm},
    data_dir, output,
};
use mctunnel::{
    ClusterFiles, ClusterName, JoinBundle,
    agent::hub_address::HubAddress,
    identity::{ClusterRecord, HUB_SERVER_NAME},
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Where an agent on the same machine finds the hub.
const LOCAL_HUB: &str = "127.0.0.1:8443";

/// Adds a cluster and writes its join bundle.
pub(crate) fn add(add: &Add) -> anyhow::Result<()> {
    let cluster = ClusterName::parse(&add.name)?;
    let hub = HubAddress::parse(add.hub.as_deref().unwrap_or(LOCAL_HUB))?;
    let data_dir = &add.data.data_dir;
    let clusters = ClusterFiles::new(data_dir);
    if add.own_ca {
        data_dir::mention_new(data_dir);
        clusters.allow_own_ca(&cluster)?;
        output::say(&format!(
            "Cluster {cluster} may come with certificates of your own CA (--agent-ca at the hub) for \
             spiffe://mctunnel/cluster/{cluster}."
        ));
        return Ok(());
    }
    if let Some(account) = &add.service_account {
        data_dir::mention_new(data_dir);
        clusters.allow_service_account(&cluster, account)?;
        output::say(&format!(
            "ServiceAccount {account} of the hub's own cluster may vouch for the agent of {cluster} (--enrol-audience at the hub).\n\n\
             Next, where the agent runs:\n  mctunnel agent --enrol-service-account-token FILE --hub-ca FILE --hub HOST:PORT --data-dir DIR"
        ));
        return Ok(());
    }
    let authority = data_dir::authority_or_new(data_dir)?;
    let issued = authority.issue_agent(&cluster, add.ttl.into())?;
    let bundle = JoinBundle {
        version: JoinBundle::VERSION,
        cluster: cluster.clone(),
        hub: hub.to_string(),
        hub_server_name: HUB_SERVER_NAME.to_owned(),
        ca_pem: authority.ca_pem().to_owned(),
        certificate_pem: issued.certificate_pem,
        key_pem: issued.key_pem,
    };
    let out = add.out.clone().unwrap_or_else(|| PathBuf::from(format!("{cluster}.join")));
    if add.reissue {
        // The bundle first: if it cannot be written, the old certificate still counts.
        bundle.write(&out, true)?;
        clusters.add_issued(&cluster, &issued.recorded, true)?;
    } else {
        // The record first: of two who add the same cluster, one is told so before it writes anything.
        clusters.add_issued(&cluster, &issued.recorded, false)?;
        if let Err(error) = bundle.write(&out, false) {
            clusters.remove(&cluster)?;
            return Err(error.into());
        }
    }
    tell(add, &out, issued.not_after_unix);
    Ok(())
}

fn tell(add: &Add, out: &Path, not_after_unix: i64) {
    let (name, out) = (&add.name, out.display());
    let until = date(not_after_unix);
    output::say(&format!(
        "Cluster {name} was {} the hub in {}.\n\
         Its join bundle is {out}, valid until {until}. It holds a private key: treat it like a password.\n\n\
         Next, where the agent runs:\n  mctunnel agent --join {out} --allow tcp://HOST:PORT",
        if add.reissue { "reissued at" } else { "added to" },
        add.data.data_dir.display(),
    ));
    if add.hub.is_none() {
        output::note(&format!(
            "note: the bundle says that the hub is at {LOCAL_HUB}; for an agent on another machine give --hub HOST:PORT"
        ));
    }
}

/// Revokes a cluster.
pub(crate) fn revoke(name: &str, data_dir: &Path) -> anyhow::Result<()> {
    let cluster = ClusterName::parse(name)?;
    data_dir::existing(data_dir)?;
    let clusters = ClusterFiles::new(data_dir);
    // Only for the message: a list that cannot be read is no reason not to revoke.
    let account = clusters.list_readable().ok().and_then(|list| {
        let record = list.clusters.into_iter().find(|record| record.cluster == cluster)?;
        record.service_account
    });
    clusters.revoke(&cluster)?;
    output::say(&format!(
        "Cluster {cluster} is revoked: none of its certificates and join tokens counts any more, and a tunnel that is up ends \
         within 5 seconds.\nTo let it in again: mctunnel join-token create --cluster {cluster}"
    ));
    if let Some(account) = account {
        output::say(&format!(
            "ServiceAccount {account} does not vouch for it any more. To let it again: mctunnel cluster add {cluster} \
             --service-account {account}"
        ));
    }
    Ok(())
}

/// Removes a cluster.
pub(crate) fn remove(name: &str, data_dir: &Path) -> anyhow::Result<()> {
    let cluster = ClusterName::parse(name)?;
    data_dir::existing(data_dir)?;
    ClusterFiles::new(data_dir).remove(&cluster)?;
    output::say(&format!(
        "Cluster {cluster} was removed: its agent is refused from now on, and a tunnel that is up ends within seconds."
    ));
    Ok(())
}

/// Lists the clusters.
pub(crate) fn list(data_dir: &Path, form: ListForm) -> anyhow::Result<()> {
    data_dir::existing(data_dir)?;
    let list = ClusterFiles::new(data_dir).list_readable()?;
    let lines: Vec<_> = list.clusters.iter().map(Line::from).collect();
    match form {
        ListForm::Json => output::say(&serde_json::to_string_pretty(&lines)?),
        ListForm::Table => table(&lines).iter().for_each(|line| output::say(line)),
    }
    data_dir::warn_unread(list.unread.into_iter().map(|(_, error)| error));
    Ok(())
}

fn table(lines: &[Line<'_>]) -> Vec<String> {
    let labels: Vec<_> = lines.iter().map(|line| labels(line.labels)).collect();
    let width = |title: &str, texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or_default().max(title.len());
    let name = width("NAME", &mut lines.iter().map(|line| line.name.len()));
    let said = width("LABELS", &mut labels.iter().map(String::len));
    let row = |parts: [&str; 5]| {
        let [cluster, added, state, labels, serials] = parts;
        let row = format!("{cluster:<name$}  {added:<20}  {state:<8}  {labels:<said$}  {serials}");
        row.trim_end().to_owned()
    };
    let head = row(["NAME", "ADDED", "STATE", "LABELS", "CERTIFICATE"]);
    let rows = lines
        .iter()
        .zip(&labels)
        .map(|(line, labels)| row([line.name, &line.added, line.state, labels, &line.serials.join(" ")]));
    std::iter::once(head).chain(rows).collect()
}

/// Labels as people write them.
pub(crate) fn labels(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Whether an agent of the cluster can get in.
fn state(record: &ClusterRecord) -> &'static str {
    if record.revoked_unix.is_some() {
        "revoked"
    } else if record.serials.is_empty() && !record.own_ca {
        // It has to enrol first.
        "waiting"
    } else {
        "allowed"
    }
}

/// One cluster in a list. Its names are a promise to scripts.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    added: String,
    /// `allowed`, `waiting` for an agent that enrols, or `revoked`.
    state: &'static str,
    serials: &'a [String],
    /// Since when it is out, if it was revoked.
    revoked: Option<String>,
    own_ca: bool,
    /// The ServiceAccount that may vouch for its agent, `namespace/name`.
    service_account: Option<String>,
    labels: &'a BTreeMap<String, String>,
}

impl<'a> From<&'a ClusterRecord> for Line<'a> {
    fn from(record: &'a ClusterRecord) -> Self {
        Self {
            name: record.cluster.as_str(),
            added: date(record.added_unix),
            state: state(record),
            serials: &record.serials,
            revoked: record.revoked_unix.map(date),
            own_ca: record.own_ca,
            service_account: record.service_account.as_ref().map(ToString::to_string),
            labels: &record.labels,
        }
    }
}

/// Seconds since 1970 as `2026-11-15T10:00:00Z`.
pub(crate) fn date(unix: i64) -> String {
    /// The end of the year 9999, after which the format has no room.
    const LAST: u64 = 253_402_300_799;
    let since = Duration::from_secs(u64::try_from(unix).unwrap_or_default().min(LAST));
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since).to_string()
}
