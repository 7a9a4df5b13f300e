//! How the files of trust and of services, the next policy and the record fare, as metrics: read at the scrape from those who watch them.

use crate::{admin::Kept, hub_services::ServicesStatus};
use mctunnel_audit::AuditLog;
use mctunnel_authn::SharedChain;
use mctunnel_policy::{ReloadingPolicy, Shadow};
use std::sync::Arc;

/// Two policies, of which the second is tried out.
pub(crate) type Compared = Shadow<ReloadingPolicy, ReloadingPolicy>;

/// What there is to watch; all of it lives as long as the hub.
#[derive(Default, Clone)]
pub(crate) struct Watched {
    pub(crate) chain: Option<SharedChain>,
    pub(crate) policy: Option<ReloadingPolicy>,
    pub(crate) next: Option<(ReloadingPolicy, Arc<Compared>)>,
    pub(crate) audit: Option<Arc<AuditLog>>,
    pub(crate) services: Option<Arc<ServicesStatus>>,
}

impl Watched {
    pub(crate) fn kept(&self) -> Vec<Kept> {
        [self.files(), self.compared(), self.recorded()].concat()
    }

    fn files(&self) -> Vec<Kept> {
        let chain = self.chain.as_ref().map(SharedChain::status);
        let policy = self.policy.as_ref().map(ReloadingPolicy::status);
        let next = self.next.as_ref().map(|(next, _)| next.status());
        let services = self.services.as_ref();
        files([
            ("authentication", chain.map(|status| (status.problem.is_some(), status.replaced))),
            ("policy", policy.map(|status| (status.problem.is_some(), status.replaced))),
            ("shadow_policy", next.map(|status| (status.problem.is_some(), status.replaced))),
            ("services", services.map(|status| (status.is_broken(), status.replaced()))),
        ])
    }

    fn compared(&self) -> Vec<Kept> {
        let Some((_, shadow)) = &self.next else { return Vec::new() };
        let counts = shadow.counts();
        let outcomes =
            [("same", counts.same), ("would_refuse", counts.would_refuse), ("would_allow", counts.would_allow)];
        vec![Kept {
            name: "mctunnel_shadow_decisions_total",
            help: "Decisions by what the policy of --shadow-policy would have said",
            form: "counter",
            values: outcomes.map(|(outcome, count)| (label("outcome", outcome), count)).to_vec(),
        }]
    }

    fn recorded(&self) -> Vec<Kept> {
        let Some(log) = &self.audit else { return Vec::new() };
        let status = log.status();
        let outcomes = [
            ("written", status.written),
            ("refused", status.refused),
            ("dropped", status.dropped),
            ("left_out", status.left_out),
            ("strangers", status.strangers),
        ];
        let gauge = |name, help, value| Kept { name, help, form: "gauge", values: vec![(String::new(), value)] };
        vec![
            Kept {
                name: "mctunnel_audit_records_total",
                help: "Records written, requests refused or served without one, records the webhook did not get, strangers of whom the number alone is recorded",
                form: "counter",
                values: outcomes.map(|(outcome, count)| (label("outcome", outcome), count)).to_vec(),
            },
            gauge(
                "mctunnel_audit_slots",
                "Requests and streams that are open or not written yet",
                u64::try_from(status.slots_taken).unwrap_or(u64::MAX),
            ),
            Kept {
                name: "mctunnel_audit_files_deleted_total",
                help: "Full files of the audit log that were deleted because there were newer ones enough",
                form: "counter",
                values: vec![(String::new(), status.files_deleted)],
            },
            gauge("mctunnel_audit_blocked", "1 while records cannot be written", u64::from(status.blocked.is_some())),
        ]
    }
}

/// The metrics of files that are watched: for each that there is, whether it does not count as it is now, and how often what it says was
/// replaced.
pub(crate) fn files<const N: usize>(files: [(&str, Option<(bool, u64)>); N]) -> Vec<Kept> {
    let files: Vec<_> = files.into_iter().filter_map(|(file, state)| Some((label("file", file), state?))).collect();
    if files.is_empty() {
        return Vec::new();
    }
    let broken = files.iter().map(|(label, (broken, _))| (label.clone(), u64::from(*broken))).collect();
    let replaced = files.into_iter().map(|(label, (_, replaced))| (label, replaced)).collect();
    vec![
        Kept {
            name: "mctunnel_file_broken",
            help: "1 while the file as it is now does not count",
            form: "gauge",
            values: broken,
        },
        Kept {
            name: "mctunnel_file_replaced_total",
            help: "How often what the file says was replaced",
            form: "counter",
            values: replaced,
        },
    ]
}

fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{value}\"")
}
