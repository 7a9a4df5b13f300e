//! What a record says: the subject and the outcome as members of a JSON object. Each field has a bound, and one that was cut says
//! so in `cut`.

use crate::{json::Members, redact};
use mctunnel_core::{
    Action, AuditOutcome, AuditSubject, Decision, Destination, Identity, KubeRequest, ResourceRequest,
};
use std::time::{Duration, SystemTime};

/// Names, ids and rules.
const MOST_NAME_BYTES: usize = 512;
/// Paths.
const MOST_PATH_BYTES: usize = 2_048;
/// Groups of a user.
const MOST_GROUPS: usize = 64;
/// What most records need.
const USUAL_BYTES: usize = 640;

/// A record of a request, or of the end of a stream whose beginning was recorded.
pub(crate) fn finished(now: SystemTime, streamed: bool, subject: &AuditSubject, outcome: &AuditOutcome) -> Members {
    let mut record = Record::new(now, if streamed { "ended" } else { "request" });
    record.subject(subject);
    let members = &mut record.members;
    members.number("status", outcome.status);
    members.number("bytes_up", outcome.bytes_up);
    members.number("bytes_down", outcome.bytes_down);
    members.number("duration_ms", outcome.lasted.as_millis());
    members.plain("end", if outcome.error.is_some() { "error" } else { "clean" });
    if let Some(error) = &outcome.error {
        record.text("error", &redact::message(error), MOST_NAME_BYTES);
    }
    record.end()
}

/// The record of a stream's beginning; also what of it is repeated should it never be told how the stream ended.
pub(crate) fn started(now: SystemTime, subject: &AuditSubject) -> (Members, Members) {
    let mut about = Record { members: Members::with_capacity(USUAL_BYTES), cut: false };
    about.subject(subject);
    let about = about.end();
    let mut record = Record::new(now, "started");
    record.members.append(&about);
    (record.end(), about)
}

/// The record of a slot that was dropped: nobody said how it ended, and without a beginning nothing else is known of it.
pub(crate) fn cut_off(now: SystemTime, started: Option<&Members>, lasted: Duration) -> Members {
    let mut record = Record::new(now, if started.is_some() { "ended" } else { "request" });
    if let Some(about) = started {
        record.members.append(about);
    }
    record.members.number("duration_ms", lasted.as_millis());
    record.members.plain("end", "cut");
    record.end()
}

/// A record of the log about itself: an event, and what belongs to it.
pub(crate) fn of_log(now: SystemTime, event: &'static str, facts: &[(&'static str, Fact<'_>)]) -> Members {
    let mut record = Record::new(now, "log");
    record.members.plain("event", event);
    for (key, fact) in facts {
        match fact {
            Fact::Number(number) => record.members.number(key, number),
            Fact::Text(text) => record.text(key, text, MOST_PATH_BYTES),
        }
    }
    record.end()
}

/// Something that belongs to an event.
#[derive(Debug, Clone, Copy)]
pub enum Fact<'a> {
    /// A number.
    Number(u64),
    /// A text; nothing secret.
    Text(&'a str),
}

/// A record that is being written.
struct Record {
    members: Members,
    /// Whether a field was longer than its bound.
    cut: bool,
}

impl Record {
    fn new(now: SystemTime, stage: &'static str) -> Self {
        let mut members = Members::with_capacity(USUAL_BYTES);
        members.plain("time", humantime::format_rfc3339_micros(now));
        members.plain("stage", stage);
        Self { members, cut: false }
    }

    fn end(mut self) -> Members {
        if self.cut {
            self.members.number("cut", true);
        }
        self.members
    }

    fn subject(&mut self, subject: &AuditSubject) {
        self.text("id", &subject.request_id, MOST_NAME_BYTES);
        self.text("gateway", subject.gateway, MOST_NAME_BYTES);
        self.identity(subject.identity.as_ref());
        if let Some(source) = subject.source {
            self.members.plain("source", source);
        }
        if let Some(Destination { cluster, target }) = &subject.destination {
            self.members.plain("cluster", cluster);
            self.text("target", &target.to_string(), MOST_NAME_BYTES);
        } else if let Some(cluster) = &subject.cluster {
            self.members.plain("cluster", cluster);
        }
        if let Some(action) = &subject.action {
            self.action(action);
        }
        if let Some(decision) = &subject.decision {
            self.decision(decision);
        }
    }

    /// Who, and by which credential. Further facts about a user (`extra`) may be anything and are left out.
    fn identity(&mut self, identity: Option<&Identity>) {
        match identity {
            None => self.members.plain("identity", "unknown"),
            Some(identity) => match identity.user() {
                None => self.members.plain("identity", "anonymous"),
                Some(user) => {
                    self.members.plain("identity", "user");
                    self.text("user", &user.name, MOST_NAME_BYTES);
                    if let Some(uid) = &user.uid {
                        self.text("uid", uid, MOST_NAME_BYTES);
                    }
                    self.cut |= user.groups.len() > MOST_GROUPS;
                    let groups = user.groups.iter().take(MOST_GROUPS);
                    let groups: Vec<_> = groups.map(|group| bounded(group, MOST_NAME_BYTES, &mut self.cut)).collect();
                    self.members.texts("groups", &groups);
                    self.text("provider", &user.provider, MOST_NAME_BYTES);
                    self.text("credential", &user.credential, MOST_NAME_BYTES);
                }
            },
        }
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::Kube(KubeRequest::Resource(request)) => {
                self.members.plain("action", "kube");
                self.resource(request);
            }
            Action::Kube(KubeRequest::NonResource { path, verb }) => {
                self.members.plain("action", "kube");
                self.members.plain("verb", verb);
                self.text("path", &redact::path(path), MOST_PATH_BYTES);
            }
            Action::Http { method, path } => {
                self.members.plain("action", "http");
                self.text("method", method, MOST_NAME_BYTES);
                self.text("path", &redact::path(path), MOST_PATH_BYTES);
            }
            Action::Bytes => self.members.plain("action", "bytes"),
        }
    }

    fn resource(&mut self, request: &ResourceRequest) {
        self.members.plain("verb", request.verb);
        let texts = [
            ("api_group", Some(&request.api_group)),
            ("api_version", Some(&request.api_version)),
            ("resource", Some(&request.resource)),
            ("subresource", request.subresource.as_ref()),
            ("namespace", request.namespace.as_ref()),
            ("name", request.name.as_ref()),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                self.text(key, &redact::path(text), MOST_NAME_BYTES);
            }
        }
    }

    fn decision(&mut self, decision: &Decision) {
        let word = match decision {
            Decision::Allowed { .. } => "allowed",
            Decision::Denied { .. } => "denied",
            Decision::Limited { .. } => "limited",
        };
        self.members.plain("decision", word);
        self.text("rule", decision.rule(), MOST_NAME_BYTES);
    }

    fn text(&mut self, key: &'static str, text: &str, most: usize) {
        let text = bounded(text, most, &mut self.cut);
        self.members.text(key, text);
    }
}

/// The beginning of a text, at most so many bytes of it.
fn bounded<'a>(text: &'a str, most: usize, cut: &mut bool) -> &'a str {
    if text.len() <= most {
        return text;
    }
    *cut = true;
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
