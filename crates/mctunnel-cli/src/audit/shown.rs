//! A record in one line for people. Nothing in it can steer the terminal: whatever is neither a letter nor plain is escaped.

use mctunnel_audit::Record;
use std::fmt::Write as _;

/// One line.
pub(super) fn human(record: &Record) -> String {
    if record.stage == "log" {
        return of_log(record);
    }
    let mut line = plain(&record.time);
    let mut add = |text: &str| {
        line.push_str("  ");
        line.push_str(text);
    };
    if let Some(gateway) = &record.gateway {
        add(&plain(gateway));
    }
    add(&who(record));
    if let Some(decision) = &record.decision {
        add(&plain(decision));
    }
    if record.action.is_some() {
        add(&what(record));
    }
    match (&record.cluster, &record.target) {
        _ if record.gateway.as_deref() == Some(ENROL) => add(&certificate(record)),
        (Some(cluster), Some(target)) => add(&format!("in {} ({})", plain(cluster), plain(target))),
        (Some(cluster), None) => add(&format!("in {}", plain(cluster))),
        (None, _) => {}
    }
    add(&ending(record));
    if let Some(rule) = &record.rule {
        add(&format!("rule: {}", plain(rule)));
    }
    if let Some(error) = &record.error {
        add(&format!("error: {}", plain(error)));
    }
    line
}

/// The way in of agents that ask for a certificate.
const ENROL: &str = "enrol";

/// Who, and from where.
fn who(record: &Record) -> String {
    let name = match (&record.user, record.identity.as_deref()) {
        (Some(user), _) => plain(user),
        (None, Some("anonymous")) => "(anonymous)".to_owned(),
        (None, _) => "(unknown)".to_owned(),
    };
    match &record.source {
        Some(source) => format!("{name} from {}", plain(source)),
        None => name,
    }
}

fn certificate(record: &Record) -> String {
    match &record.cluster {
        Some(cluster) => format!("a certificate for {}", plain(cluster)),
        None => "a certificate".to_owned(),
    }
}

fn what(record: &Record) -> String {
    let text = |field: &Option<String>| plain(field.as_deref().unwrap_or_default());
    if record.action.as_deref() == Some("bytes") {
        return "plain bytes".to_owned();
    }
    let Some(resource) = &record.resource else {
        let verb = record.verb.as_ref().or(record.method.as_ref());
        return format!("{} {}", plain(verb.map(String::as_str).unwrap_or_default()), text(&record.path));
    };
    let mut line = format!("{} {}", text(&record.verb), plain(resource));
    let dotted = record.api_group.as_deref().filter(|group| !group.is_empty());
    for (sign, part) in [(".", dotted), ("/", record.subresource.as_deref()), (" ", record.name.as_deref())] {
        if let Some(part) = part {
            line.push_str(sign);
            line.push_str(&plain(part));
        }
    }
    if let Some(namespace) = &record.namespace {
        let _ = write!(line, " in {}", plain(namespace));
    }
    line
}

fn ending(record: &Record) -> String {
    if record.stage == "started" {
        return "begins".to_owned();
    }
    let mut line = String::new();
    if record.stage == "ended" {
        line.push_str("ended ");
    }
    if record.end.as_deref() == Some("cut") {
        line.push_str("cut ");
    }
    if let Some(status) = record.status.filter(|status| *status != 0) {
        let _ = write!(line, "{status} ");
    }
    if let Some(duration) = record.duration_ms {
        let _ = write!(line, "{duration}ms ");
    }
    let moves_bytes = record.gateway.as_deref() != Some(ENROL);
    if let (Some(up), Some(down), true) = (record.bytes_up, record.bytes_down, moves_bytes) {
        let _ = write!(line, "{up}B up {down}B down ");
    }
    line.trim_end().to_owned()
}

fn of_log(record: &Record) -> String {
    let event = record.event.as_deref().unwrap_or_default();
    let what = match event {
        "start" => "the log was opened".to_owned(),
        "stop" => "the log was closed".to_owned(),
        "dropped" => format!("{} requests were not recorded", record.count.unwrap_or_default()),
        "strangers" => {
            let most = match (&record.source, record.from_source) {
                (Some(source), Some(count)) => format!(", {count} of them from {}", plain(source)),
                _ => String::new(),
            };
            let count = record.left_out.unwrap_or_default();
            format!("{count} requests of strangers have no record of their own: they were too many{most}")
        }
        "policy" | "authentication" | "shadow_policy" => file(event, record),
        "api_key_created" | "api_key_revoked" => {
            let [id, user] =
                [&record.credential, &record.user].map(|field| plain(field.as_deref().unwrap_or_default()));
            let done = if event == "api_key_created" { "made" } else { "revoked" };
            format!("the API key {id} of {user} was {done}")
        }
        "torn" => format!("a crash left {} bytes of an unfinished line", record.bytes.unwrap_or_default()),
        "lost" => "records are missing that were there".to_owned(),
        other => plain(other),
    };
    format!("{}  -- {what}", plain(&record.time))
}

/// Which file counts, or why it does not.
fn file(event: &str, record: &Record) -> String {
    let file = plain(record.file.as_deref().unwrap_or_default());
    match (&record.problem, &record.sha256) {
        (Some(problem), digest) => {
            let counts = digest.as_ref().map(|digest| format!("; what counts has SHA-256 {}", plain(digest)));
            format!("the {event} file {file} does not count: {}{}", plain(problem), counts.unwrap_or_default())
        }
        (None, Some(digest)) => format!("the {event} file {file} counts, SHA-256 {}", plain(digest)),
        (None, None) => format!("the {event} file {file} counts"),
    }
}

/// Text without what a terminal would take for an order.
fn plain(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || (' '..='~').contains(&letter);
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    let escaped =
        |letter: char| if is_plain(letter) { letter.to_string() } else { letter.escape_unicode().to_string() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> String {
        human(&Record::parse(json.as_bytes()).unwrap())
    }

    #[test]
    fn a_record_is_one_line() {
        for (json, line) in [
            (
                r#"{"time":"T","stage":"request","identity":"user","user":"alice","cluster":"a","target":"kube-apiserver","action":"kube",
                "verb":"get","api_group":"apps","resource":"deployments","subresource":"scale","name":"x","namespace":"n",
                "decision":"allowed","rule":"r","status":200,"bytes_up":1,"bytes_down":2,"duration_ms":3,"end":"clean"}"#,
                "T  alice  allowed  get deployments.apps/scale x in n  in a (kube-apiserver)  200 3ms 1B up 2B down  rule: r",
            ),
            (
                r#"{"time":"T","stage":"request","identity":"anonymous","action":"http","method":"GET","path":"/p","cluster":"a",
                "target":"http://d/s","status":502,"duration_ms":3,"end":"error","error":"MCT-X: no"}"#,
                "T  (anonymous)  GET /p  in a (http://d/s)  502 3ms  error: MCT-X: no",
            ),
            (
                r#"{"time":"T","stage":"started","identity":"user","user":"b","action":"bytes"}"#,
                "T  b  plain bytes  begins",
            ),
            (
                r#"{"time":"T","stage":"ended","identity":"unknown","end":"cut","duration_ms":9}"#,
                "T  (unknown)  ended cut 9ms",
            ),
            (
                r#"{"time":"T","stage":"request","gateway":"http","identity":"unknown","source":"10.0.0.9","status":401,"duration_ms":0}"#,
                "T  http  (unknown) from 10.0.0.9  401 0ms",
            ),
            (
                r#"{"time":"T","stage":"request","gateway":"enrol","identity":"user","user":"cluster:c1","source":"10.0.0.9",
                "cluster":"c1","decision":"allowed","rule":"join token 5f","status":0,"bytes_up":0,"bytes_down":0,"duration_ms":7,"end":"clean"}"#,
                "T  enrol  cluster:c1 from 10.0.0.9  allowed  a certificate for c1  7ms  rule: join token 5f",
            ),
            (
                r#"{"time":"T","stage":"request","gateway":"enrol","identity":"unknown","source":"10.0.0.9",
                "decision":"denied","rule":"join token 5f","status":0,"bytes_up":0,"bytes_down":0,"duration_ms":7,"end":"error","error":"MCT-E: no"}"#,
                "T  enrol  (unknown) from 10.0.0.9  denied  a certificate  7ms  rule: join token 5f  error: MCT-E: no",
            ),
            (
                r#"{"time":"T","stage":"log","event":"strangers","left_out":9,"sources":2,"source":"10.0.0.9","from_source":8}"#,
                "T  -- 9 requests of strangers have no record of their own: they were too many, 8 of them from 10.0.0.9",
            ),
            (r#"{"time":"T","stage":"log","event":"dropped","count":4}"#, "T  -- 4 requests were not recorded"),
        ] {
            assert_eq!(shown(json), line);
        }
    }

    #[test]
    fn t37_nothing_in_a_record_steers_the_terminal() {
        let line = shown(r#"{"time":"T","stage":"request","user":"a\u001b[2J\n\u009b\u2028\u202eé","end":"cut"}"#);
        assert_eq!(line, r"T  a\u{1b}[2J\u{a}\u{9b}\u{2028}\u{202e}é  cut");
    }
}
