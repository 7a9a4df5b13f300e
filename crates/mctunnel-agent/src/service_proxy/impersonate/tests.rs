//! Whom the agent speaks for, and what it writes.

use super::*;
use proptest::prelude::*;

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.into(), groups: groups.iter().map(|group| (*group).into()).collect(), ..User::default() }
}

fn agent() -> Impersonate {
    Impersonate::new(Secret::new("agent-token"))
}

fn written(impersonate: &Impersonate, user: &User, mut fields: HeaderMap) -> Vec<String> {
    let speaker = impersonate.judge(Some(user)).unwrap();
    impersonate.write(&speaker, &mut fields).unwrap();
    fields.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))).collect()
}

#[test]
fn t06_without_a_user_it_speaks_for_nobody() {
    assert!(agent().judge(None).unwrap_err().contains("names no user"));
    assert!(agent().judge(Some(&user("", &[]))).is_err());
}

#[test]
fn t05_names_of_kubernetes_own_are_refused() {
    for name in ["system:admin", "system:node:x", "system:serviceaccount:kube-system:default", "system:"] {
        assert!(agent().judge(Some(&user(name, &[]))).is_err(), "{name}");
    }
    for group in ["system:masters", "system:nodes", "system:serviceaccounts", "system:unauthenticated"] {
        assert!(agent().judge(Some(&user("alice", &["dev", group]))).is_err(), "{group}");
    }
    assert!(agent().judge(Some(&user("cluster:hub:system:serviceaccount:ns:ci", &[]))).is_ok());
    assert_eq!(
        written(&agent(), &user("alice", &["system:authenticated"]), HeaderMap::new()),
        ["authorization: Bearer agent-token", "impersonate-user: alice"]
    );
}

#[test]
fn t05_a_name_of_kubernetes_own_that_the_list_has_is_spoken_for_and_no_other() {
    let named = || agent().only(["system:admin".to_owned()], ["system:masters".to_owned()]);
    assert_eq!(
        written(&named(), &user("breakglass", &["system:masters", "dev", "system:authenticated"]), HeaderMap::new()),
        ["authorization: Bearer agent-token", "impersonate-user: breakglass", "impersonate-group: system:masters"]
    );
    assert_eq!(
        written(&named(), &user("system:admin", &[]), HeaderMap::new()),
        ["authorization: Bearer agent-token", "impersonate-user: system:admin"]
    );
    for name in ["system:admin2", "system:", "system:masters", "system:admin "] {
        assert!(named().judge(Some(&user(name, &["system:masters"]))).is_err(), "{name}");
    }
    for group in ["system:nodes", "system:master", "system:masters:x", "system:admin", "system:*"] {
        assert!(named().judge(Some(&user("breakglass", &["system:masters", group]))).is_err(), "{group}");
    }
    // There are no patterns, and a list of the one kind says nothing of the other.
    let star = agent().only(["system:*".to_owned(), "*".to_owned()], ["system:*".to_owned(), "*".to_owned()]);
    assert!(star.judge(Some(&user("system:admin", &[]))).is_err());
    assert!(star.judge(Some(&user("breakglass", &["*", "system:masters"]))).is_err());
    let groups_alone = agent().only([], ["system:masters".to_owned()]);
    assert!(groups_alone.judge(Some(&user("system:admin", &["system:masters"]))).is_err());
    let users_alone = agent().only(["system:admin".to_owned()], []);
    assert!(users_alone.judge(Some(&user("system:admin", &["system:masters"]))).is_err());
}

#[test]
fn everything_about_a_user_is_written() {
    let mut alice = user("oidc:alice@example.com", &["dev", "ops"]);
    alice.uid = "42".into();
    alice.extra = vec![("example.com/Team".into(), vec!["a b".into(), "c".into()])];
    let fields = written(&agent(), &alice, HeaderMap::new());
    assert_eq!(
        fields,
        [
            "authorization: Bearer agent-token",
            "impersonate-user: oidc:alice@example.com",
            "impersonate-group: dev",
            "impersonate-group: ops",
            "impersonate-uid: 42",
            "impersonate-extra-example.com%2f%54eam: a b",
            "impersonate-extra-example.com%2f%54eam: c",
        ]
    );
}

#[test]
fn what_a_header_cannot_carry_whole_is_refused() {
    // The last is a control character in UTF-8, which a header could carry.
    for name in ["a\nb", "a\r\nImpersonate-Group: system:masters", " alice", "alice ", "a\0", "\u{7f}", "a\u{85}b"] {
        assert!(agent().judge(Some(&user(name, &[]))).is_err(), "{name:?}");
        assert!(agent().judge(Some(&user("alice", &[name]))).is_err(), "{name:?}");
    }
    assert!(agent().judge(Some(&user("alice", &[""]))).is_err());
    assert!(agent().judge(Some(&user("alïce", &[]))).is_ok());
}

#[test]
fn t05_a_list_limits_users_and_the_groups_that_are_shown() {
    let limited = agent().only(["root@corp".to_owned()], ["dev".to_owned()]);
    assert!(limited.judge(Some(&user("mallory", &["ops"]))).unwrap_err().contains("does not speak for"));
    assert_eq!(
        written(&limited, &user("alice", &["dev", "admins"]), HeaderMap::new()),
        ["authorization: Bearer agent-token", "impersonate-user: alice", "impersonate-group: dev"]
    );
    // Whoever named the user did not name its groups: the hub could say any.
    let root = user("root@corp", &["admins", "dev"]);
    assert_eq!(
        written(&limited, &root, HeaderMap::new()),
        ["authorization: Bearer agent-token", "impersonate-user: root@corp", "impersonate-group: dev"]
    );
    assert_eq!(
        written(&agent().only(["root@corp".to_owned()], []), &root, HeaderMap::new()),
        ["authorization: Bearer agent-token", "impersonate-user: root@corp"]
    );
    // A list of the one kind alone is a list.
    let mallory = user("mallory", &["ops"]);
    assert!(agent().only([], ["dev".to_owned()]).judge(Some(&mallory)).is_err());
    assert!(agent().only(["root@corp".to_owned()], []).judge(Some(&mallory)).is_err());
}

#[test]
fn t36_what_else_a_request_has_stays_and_the_token_does_not_print() {
    let mut fields = HeaderMap::new();
    fields.insert("accept", HeaderValue::from_static("text/plain"));
    let speaker = agent().judge(Some(&user("alice", &[]))).unwrap();
    agent().write(&speaker, &mut fields).unwrap();
    assert_eq!(fields["accept"], "text/plain");
    assert!(fields[header::AUTHORIZATION].is_sensitive() && !format!("{fields:?}").contains("agent-token"));
}

#[test]
fn keys_of_extra_facts_are_written_as_kubernetes_reads_them() {
    assert_eq!(percent_encoded("a-b_c.d9"), "a-b_c.d9");
    assert_eq!(percent_encoded("A/b c:\u{e9}"), "%41%2fb%20c%3a%c3%a9");
}

#[test]
fn the_token_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (file, each_time) = (TokenFile::new(&path), TokenFile::read_each_time(&path));
        assert!(file.token().unwrap_err().contains("cannot be read"));
        fs::write(&path, "one\n").unwrap();
        assert_eq!(file.token().unwrap().expose(), "one");
        assert_eq!(each_time.token().unwrap().expose(), "one");
        fs::write(&path, "two\n").unwrap();
        assert_eq!(each_time.token().unwrap().expose(), "two");
        // Not at once: a request does not cost a look at the disk.
        tokio::time::advance(TokenFile::FRESH - Duration::from_millis(1)).await;
        assert_eq!(file.token().unwrap().expose(), "one");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(file.token().unwrap().expose(), "two");
        fs::write(&path, "\n").unwrap();
        tokio::time::advance(TokenFile::FRESH).await;
        assert!(file.token().unwrap_err().contains("empty"));
    });
}

#[test]
fn t02_no_user_is_written_where_another_says_what_is_taken_off() {
    let speaker = agent().judge(Some(&user("alice", &["dev"]))).unwrap();
    for named in ["impersonate-user", "Impersonate-Group, x", "close", "upgrade, impersonate-user", "", "Upgrade "] {
        let mut fields = HeaderMap::new();
        fields.append("connection", HeaderValue::from_static("upgrade"));
        fields.append("connection", HeaderValue::from_static(named));
        let why = agent().write(&speaker, &mut fields).unwrap_err();
        assert!(why.contains("Connection"), "{why}");
        assert!(!fields.contains_key("authorization"), "{named}: the token is in a request that has no user");
    }
    let mut own = HeaderMap::new();
    own.insert("connection", HeaderValue::from_static("upgrade"));
    agent().write(&speaker, &mut own).unwrap();
    assert!(own["connection"] == "upgrade" && own["impersonate-user"] == "alice", "{own:?}");
}

#[test]
fn t01_names_that_say_who_somebody_is_are_known_by_their_beginnings() {
    for name in
        ["impersonate-user", "impersonate-future", "impersonate-", "impersonate_user", "x-remote-user", "x_remote_user"]
    {
        assert!(names_a_user(name), "{name}");
    }
    for name in ["impersonate", "impersonated", "x-remote", "x-remot-user", "remote-user", "", "x"] {
        assert!(!names_a_user(name), "{name}");
    }
}

/// What readers of a request take off behind whoever wrote it: `Connection`, and every field that it names.
fn without_what_connection_names(mut fields: HeaderMap) -> HeaderMap {
    let named: Vec<String> = fields
        .get_all("connection")
        .iter()
        .flat_map(|named| named.to_str().unwrap().split(',').map(|name| name.trim().to_owned()))
        .collect();
    for name in named {
        fields.remove(name);
    }
    fields.remove("connection");
    fields
}

/// Whether the agent takes a head with these fields at all.
fn is_let_in(fields: &HeaderMap, upgrade: bool) -> bool {
    let path = http::uri::PathAndQuery::from_static("/");
    let (method, authority, body) = (http::Method::GET, bytes::Bytes::new(), mctunnel_http::BodyKind::None);
    let head = mctunnel_http::RequestHead { method, path, authority, fields: fields.clone(), body, upgrade };
    super::super::forged::forged(&head).is_none()
}

const NAMES: &str = "impersonate-(user|group|extra-x|future)|x-remote-(user|group)|authorization|accept|connection|keep-alive|te|upgrade";
const OTHERS: &str = "(impersonate-(user|group|uid|extra-x|future)|x-remote-(user|group)|authorization|accept)";
const VALUES: &str = "mallory|upgrade|close|(, )?[iI]mpersonate-([uU]ser|group)\
    (, ?(authorization|impersonate-user|upgrade|X-Remote-User)){0,2}";

proptest! {
    /// Whatever the head of a request held, the target sees the user of the OPEN and nobody else, exactly once, also behind readers
    /// that take off what `Connection` names. Else no user is written, and nothing is sent.
    #[test]
    fn t02_no_head_changes_who_it_is(
        held in proptest::collection::vec((NAMES, VALUES), 0..12),
        upgrade: bool,
    ) {
        let mut fields = HeaderMap::new();
        for (name, value) in held {
            fields.append(HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
        }
        let let_in = is_let_in(&fields, upgrade);
        let is_named = fields.contains_key("connection");
        prop_assert!(!(let_in && is_named), "the hub says what is taken off");
        if let_in && upgrade {
            fields.insert("connection", HeaderValue::from_static("upgrade"));
        }
        let foreign = fields.get_all("connection").iter().any(|named| named != "upgrade");
        let speaker = agent().judge(Some(&user("alice", &["dev"]))).unwrap();
        let outcome = agent().write(&speaker, &mut fields);
        prop_assert_eq!(outcome.is_err(), foreign, "{:?}", &outcome);
        if outcome.is_err() {
            return Ok(());
        }
        let seen = without_what_connection_names(fields);
        let mut told: Vec<String> =
            seen.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        told.sort_unstable();
        let about: Vec<&String> = told.iter().filter(|f| names_a_user(f) || f.starts_with("authorization")).collect();
        prop_assert_eq!(
            about,
            ["authorization: Bearer agent-token", "impersonate-group: dev", "impersonate-user: alice"]
        );
    }

    /// The same without a `Connection` of the hub's making: whatever else the head held, a user is written.
    #[test]
    fn t02_no_other_field_keeps_the_user_from_being_written(
        names in proptest::collection::vec(OTHERS, 0..12),
    ) {
        let mut fields = HeaderMap::new();
        for name in names {
            fields.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_static("mallory"));
        }
        let told = written(&agent(), &user("alice", &["dev"]), fields);
        let about: Vec<&String> = told.iter().filter(|f| names_a_user(f) || f.starts_with("authorization")).collect();
        prop_assert_eq!(about.len(), 3);
        prop_assert!(told.iter().all(|f| f.starts_with("accept") || !f.contains("mallory")));
    }
}
