//! What an agent is told about reports: where they wait, how many, and what is reported.

use super::{
    ConfigError,
    effective::{Effective, parse_size},
};
use crate::{
    event_reports::EventSettings,
    log_reports::{LogSettings, MOST_CONTAINERS},
};
use mctunnel::{
    core::target::Label,
    kube::logs::{LabelSelector, LogSelection},
    report::{AtLimit, Kind, LaneConfig},
};
use std::{collections::BTreeMap, path::PathBuf};

/// What an agent is told about reports.
#[derive(Debug)]
pub(crate) struct ReportSettings {
    pub(crate) spool: PathBuf,
    /// The limit of kinds that have none of their own.
    pub(crate) usual: LaneConfig,
    pub(crate) limits: BTreeMap<Kind, LaneConfig>,
    pub(crate) events: EventSettings,
    pub(crate) logs: LogSettings,
}

impl ReportSettings {
    pub(super) fn read(effective: &Effective) -> Result<Option<Self>, ConfigError> {
        let limits = effective.texts("spool_limit");
        let Some(spool) = effective.path("spool") else {
            let listens = effective.listen("report_listen")?.map(|_| "report_listen");
            let given = |key: &'static str| (!effective.texts(key).is_empty()).then_some(key);
            let needs = ["spool_limit", "report_events", "report_logs"].into_iter().find_map(given);
            return match listens.or(needs) {
                Some(key) => Err(effective.bad_value(key, "it needs --spool, where reports wait")),
                None => Ok(None),
            };
        };
        let (events, logs) = (events(effective)?, logs(effective)?);
        let mut settings = Self { spool, usual: LaneConfig::default(), limits: BTreeMap::new(), events, logs };
        for text in limits {
            let forms = "is not a limit such as logs=512MiB:drop-oldest or *=64MiB";
            let (kind, limit) =
                limit(text).ok_or_else(|| effective.bad_value("spool_limit", format!("{text:?} {forms}")))?;
            match kind {
                Some(kind) => drop(settings.limits.insert(kind, limit)),
                None => settings.usual = limit,
            }
        }
        Ok(Some(settings))
    }
}

/// Which Kubernetes events are reported.
fn events(effective: &Effective) -> Result<EventSettings, ConfigError> {
    let namespace = |text: &String| match text.as_str() {
        "*" => Ok(None),
        name => Label::parse(name).map(Some).map_err(|_| {
            effective.bad_value("report_events", format!("{name:?} is neither the name of a namespace nor '*'"))
        }),
    };
    let namespaces: Vec<_> = effective.texts("report_events").iter().map(namespace).collect::<Result<_, _>>()?;
    let (types, reasons) = (effective.texts("report_event_type"), effective.texts("report_event_reason"));
    if namespaces.contains(&None) && namespaces.len() > 1 {
        return Err(effective.bad_value("report_events", "'*' has the others already"));
    }
    Ok(EventSettings { namespaces, types: types.to_vec(), reasons: reasons.to_vec() })
}

/// Whose logs are reported.
fn logs(effective: &Effective) -> Result<LogSettings, ConfigError> {
    let bad = |text: &str| {
        let forms = "is not a namespace or '*', alone or with a label selector as in default=app=web";
        effective.bad_value("report_logs", format!("{text:?} {forms}"))
    };
    let selection = |text: &String| {
        let (namespace, labels) = text.split_once('=').map_or((text.as_str(), None), |(name, rest)| (name, Some(rest)));
        let namespace = match namespace {
            "*" => None,
            name => Some(Label::parse(name).map_err(|_| bad(text))?),
        };
        let labels = labels.map(LabelSelector::parse).transpose().map_err(|_| bad(text))?;
        Ok(LogSelection { namespace, labels })
    };
    let selections = effective.texts("report_logs").iter().map(selection).collect::<Result<_, _>>()?;
    let most = effective.required("report_log_containers")?;
    let containers = most.parse().ok().filter(|containers| (1..=MOST_CONTAINERS).contains(containers));
    let range = || format!("{most:?} is not a number of containers from 1 to {MOST_CONTAINERS}");
    let containers = containers.ok_or_else(|| effective.bad_value("report_log_containers", range()))?;
    Ok(LogSettings { selections, containers })
}

/// `KIND=SIZE[:drop-oldest|:block]`; no kind for `*`.
fn limit(text: &str) -> Option<(Option<Kind>, LaneConfig)> {
    let (kind, rest) = text.split_once('=')?;
    let kind = if kind == "*" { None } else { Some(Kind::parse(kind).ok()?) };
    let (size, at_limit) = match rest.split_once(':') {
        None | Some((_, "block")) => (rest.trim_end_matches(":block"), AtLimit::Block),
        Some((size, "drop-oldest")) => (size, AtLimit::DropOldest),
        Some(_) => return None,
    };
    Some((kind, LaneConfig { limit: parse_size(size)?, at_limit }))
}
