//! What conditions can say, what is refused when they are read, and what hostile ones do. Holds the engine's behaviour still.

use super::*;
use crate::Question;
use std::collections::BTreeMap;

const ASKED: &str = r#"
who: {user: alice, groups: [dev, on-call], uid: u1, provider: corp, extra: {team: [red, blue]}}
where: {cluster: cluster-prod, namespace: team-a}
what: {verb: get, resource: deployments.apps/scale, name: web}
from: {source: "::ffff:10.1.2.3"}
"#;

fn compiled(text: &str) -> Result<Arc<Condition>, String> {
    Conditions::compile([text].into_iter()).compiled(text)
}

/// Evaluates at Monday, 2026-11-16 08:30.
fn evaluated(condition: &Condition, question: &str) -> Result<bool, ConditionError> {
    let labels = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
    let question = Question::parse(question).unwrap();
    question
        .with_access(|access| condition.holds(&Facts { access, labels: Some(&labels), seconds: 1_794_817_800 }))
        .unwrap()
}

fn holds(text: &str) -> Result<bool, ConditionError> {
    evaluated(&compiled(text).unwrap_or_else(|mistake| panic!("{text}: {mistake}")), ASKED)
}

#[test]
fn conditions_see_the_request() {
    for text in [
        "user.name == 'alice'",
        "user.uid == 'u1' && user.provider == 'corp'",
        "'dev' in user.groups",
        "!('admins' in user.groups)",
        "user.groups.exists(g, g.startsWith('on-'))",
        "user.groups.all(g, g != 'blocked')",
        "user.groups.exists_one(g, g == 'dev')",
        "size(user.groups) == 2 && user.groups.size() < 3",
        "user.extra.team[0] == 'red'",
        "user.extra['team'].exists(t, t == 'blue')",
        "has(user.extra.team) && !has(user.extra.other)",
        "'team' in user.extra",
        "cluster.name == 'cluster-prod' && cluster.labels.env == 'prod'",
        "cluster.labels['env'] in ['prod', 'staging']",
        "request.kind == 'resource' && request.verb == 'get'",
        "request.apiGroup == 'apps' && request.resource == 'deployments' && request.subresource == 'scale'",
        "request.namespace == 'team-a' && request.name == 'web'",
        "request.namespace.endsWith('-a') && request.namespace.contains('eam')",
        "request.path == '' && request.method == '' && target.host == '' && target.port == ''",
        "target.kind == 'kube-apiserver' && protocol == 'http'",
        "source.ip == '10.1.2.3'",
        "time.weekday == 1 && time.hour == 8 && time.minute == 30",
        "time.weekday in [1, 2, 3, 4, 5] && time.hour >= 8 && time.hour < 18",
        "request.verb in ['get', 'list'] ? user.name != '' : false",
        "'team-' + 'a' == request.namespace",
        "1 - 2 == -1",
        "true || user.extra.missing[0] == 'x'",
        "user.extra.missing[0] == 'x' || true",
        "user.groups.exists(g, g == 'dev') && user.groups.exists(g, g == 'on-call')",
        "user.groups.all(g, g.size() > 2) && [1, 2].exists(g, g == 2) && user.extra.exists(k, k == 'team')",
    ] {
        assert_eq!(holds(text), Ok(true), "{text}");
        assert_eq!(holds(&format!("!({text})")), Ok(false), "{text}");
    }
}

#[test]
fn services_and_bytes_have_their_fields() {
    let http = "{who: {user: a}, where: {cluster: c}, what: {service: 'm/p:web', method: POST, path: /x}}";
    let coded = "{who: {user: a}, where: {cluster: c}, what: {service: 'm/p:web', path: /%61dmin/%78}}";
    let bytes = "{where: {cluster: c}, who: {}, what: {bytes: 'db:5432'}}";
    for (text, question) in [
        ("request.kind == 'http' && request.method == 'POST' && request.path == '/x' && request.verb == ''", http),
        ("request.path == '/admin/x' && request.path.startsWith('/admin/')", coded),
        ("target.kind == 'service' && target.namespace == 'm' && target.service == 'p' && target.port == 'web'", http),
        ("request.kind == 'bytes' && target.kind == 'endpoint' && target.host == 'db' && target.port == '5432'", bytes),
        ("user.name == '' && size(user.groups) == 0 && size(user.extra) == 0 && source.ip == ''", bytes),
    ] {
        assert_eq!(evaluated(&compiled(text).unwrap(), question), Ok(true), "{text}");
    }
}

#[test]
fn a_failing_condition_is_an_error_and_not_an_answer() {
    for text in [
        "user.extra.missing[0] == 'x'",
        "user.extra['missing'].exists(t, true)",
        "cluster.labels.missing == 'x'",
        "user.groups[7] == 'x'",
        "user.groups[-1] == 'x'",
        "false || user.extra.missing[0] == 'x'",
        "9223372036854775807 + 1 == 0",
        "-9223372036854775807 - 2 == 0",
    ] {
        assert!(matches!(holds(text), Err(ConditionError::Failed(_))), "{text}");
    }
}

#[test]
fn the_time_is_noted() {
    assert!(compiled("time.hour > 8").unwrap().reads_time());
    assert!(!compiled("user.name == 'time.hour'").unwrap().reads_time());
}

#[test]
fn what_is_misspelt_or_cannot_be_true_is_refused() {
    for (text, part) in [
        ("", ""),
        ("user.name ==", ""),
        ("user.name = 'a'", ""),
        ("user.nam == 'a'", "did you mean user.name?"),
        ("user == 'a'", "no variable \"user\""),
        ("users.name == 'a'", "no variable"),
        ("request.user.name == 'a'", "no variable"),
        ("has(user.name)", "always there"),
        ("has(user.nam)", "no variable"),
        ("user.groups == 'admins'", "does not work with"),
        ("user.groups != 'admins'", "does not work with"),
        ("user.name", "true or false"),
        ("'yes'", "true or false"),
        ("1", "true or false"),
        ("user.name == 1", "does not work with"),
        ("user.name in 'alice'", "does not work with"),
        ("1 in user.groups", "does not work with"),
        ("time.hour == '8'", "does not work with"),
        ("user.name && true", "does not work with"),
        ("user.name.matches('a.*')", "does not work with"),
        ("user.name.foo()", "does not work with"),
        ("foo(user.name)", "does not work with"),
        ("user.groups.map(g, g) == user.groups", "all, exists and exists_one"),
        ("size(user.groups.filter(g, true)) == 1", "all, exists and exists_one"),
        ("user.groups.exists(g, user.groups.exists(h, h == g))", "loop inside a loop"),
        ("user.groups.exists(user, true)", "another name"),
        ("user.name.exists(g, true)", "over a list or a map"),
        ("user.groups.exists(g, g)", ""),
        ("user.groups.exists(g, g.x == 'a')", ".x is asked of a text"),
        ("user.groups.exists(g, users.name == g)", "no variable \"users.name\""),
        ("user.groups.exists(g, true) && g == 'a'", "no variable \"g\""),
        ("user.groups", "this is a list of texts"),
        ("user.extra", "this is a map of lists"),
        ("cluster.labels", "this is a map of texts"),
        ("time.hour", "this is a number"),
        ("[1]", "this is a list of numbers"),
        ("user.name + true == 'a'", "a text and true or false"),
        ("(user.name == 'a' ? 'a' : 1) == 'a'", "does not work with"),
        ("'a' in ['a', 'b', 1]", "texts or numbers"),
        ("1 in [1, 'a']", "texts or numbers"),
        ("1 in [1, 2, 'a']", "texts or numbers"),
        ("['a', 1] == ['a', 1]", "texts or numbers"),
        ("[] == user.groups", "texts or numbers"),
        ("{'a': 1} == {'a': 1}", "cannot be written"),
        ("1.0 < 2.0", "whole numbers"),
        ("null == null", "whole numbers"),
        ("b'a' == b'a'", "whole numbers"),
        ("2 * 3 == 6", "does not work with"),
        ("user.?name == 'a'", ""),
        ("user.name in [?'alice']", ""),
        ("int == int", "no variable"),
        ("user.name == 'a'; true", ""),
        ("user.name == 'a' // and more", "OK"),
    ] {
        match compiled(text) {
            Ok(_) => assert_eq!(part, "OK", "{text}"),
            Err(mistake) => assert!(mistake.contains(part), "{text}: {mistake}"),
        }
    }
}

/// Expressions that are as deep or as long as they come.
fn hostile() -> Vec<String> {
    let nested = |open: &str, close: &str, count: usize| format!("{}1{} == 1", open.repeat(count), close.repeat(count));
    let mut texts = Vec::new();
    for count in [16, 17, 48, 96, 97, 400, 511] {
        texts.extend([
            nested("(", ")", count),
            nested("[", "]", count),
            nested("-(", ")", count),
            nested("size([", "])", count),
        ]);
        texts.push(format!("{}true", "!".repeat(count)));
        texts.push(format!("{}1 == 1", "-".repeat(count)));
        texts.push(format!("true{}", " ? true : true".repeat(count)));
        texts.push(format!("{}true", "true ? ".repeat(count)));
        texts.push(format!("1{} == 1", "+1".repeat(count)));
        texts.push(format!("'a'{} == 'a'", "+'a'".repeat(count)));
        texts.push(format!("true{}", "||true".repeat(count)));
        texts.push(format!("true{}", "&&true".repeat(count)));
        texts.push(format!("user{}", ".a".repeat(count)));
        texts.push(format!("user.extra{}", "[0]".repeat(count)));
        texts.push(format!("1{}", "<1".repeat(count)));
        texts.push(format!("user.name{}", ".size()".repeat(count)));
        texts.push(format!("{}x", "{".repeat(count)));
        texts.push(format!(">{}?[{}{}l\0?(-", "{".repeat(count), "(".repeat(11), "{".repeat(26)));
        texts.push("a ? b ((?)) ".repeat(count));
        texts.push(format!("user.groups{}", ".exists(g, user.groups".repeat(count)));
    }
    texts
}

#[test]
fn hostile_expressions_are_refused_or_answered_and_never_break_anything() {
    let texts = hostile();
    let conditions = Conditions::compile(texts.iter().map(String::as_str));
    let mut accepted = 0;
    for text in &texts {
        let Ok(condition) = conditions.compiled(text) else { continue };
        accepted += 1;
        assert!(text.len() <= LONGEST);
        // As little stack as a request could find.
        let evaluating = thread::Builder::new().stack_size(256 << 10).spawn(move || evaluated(&condition, ASKED));
        assert!(evaluating.unwrap().join().unwrap().is_ok(), "{text}");
    }
    assert!(accepted > 10, "{accepted}");
}

#[test]
fn many_groups_cost_one_step_each() {
    let groups = (0..5000).map(|number| format!("g{number}")).collect::<Vec<_>>().join(", ");
    let question =
        format!("{{who: {{user: a, groups: [{groups}]}}, where: {{cluster: c}}, what: {{path: /x, verb: get}}}}");
    for text in
        ["user.groups.exists(g, g == 'g4999')", "'g4999' in user.groups", "user.groups.all(g, g.startsWith('g'))"]
    {
        assert_eq!(evaluated(&compiled(text).unwrap(), &question), Ok(true), "{text}");
    }
}

#[test]
fn a_panic_of_the_engine_is_an_error() {
    // The engine panics on a node that its parser never makes.
    let condition = Condition { text: "".into(), expression: IdedExpr::default(), reads: Reads::default() };
    assert_eq!(evaluated(&condition, ASKED), Err(ConditionError::Broken));
}

#[test]
fn nothing_too_long_or_too_deep_is_parsed() {
    let long = |length: usize| format!("'{}'", "a".repeat(length - 2));
    assert!(check_length(&long(LONGEST)).is_ok() && check_length(&long(LONGEST + 1)).is_err());
    for (open, close) in [("(", ")"), ("[", "]"), ("{", "}")] {
        let nested = |count: usize| format!("{}{}", open.repeat(count), close.repeat(count));
        assert!(check_length(&nested(DEEPEST)).is_ok() && check_length(&nested(DEEPEST + 1)).is_err(), "{open}");
        let one_closed = format!("{}{close}{open}", open.repeat(DEEPEST));
        assert!(check_length(&one_closed).is_ok() && check_length(&format!("{one_closed}{open}")).is_err(), "{open}");
        // What is closed is not open any more.
        assert!(check_length(&nested(DEEPEST).repeat(2)).is_ok(), "{open}");
        assert!(check_length(&format!("{}{}", close, nested(DEEPEST))).is_ok(), "{close}");
    }
    assert!(check_length(&"?".repeat(DEEPEST)).is_ok() && check_length(&"?".repeat(DEEPEST + 1)).is_err());
}

#[test]
fn an_expression_has_so_many_operators_inside_each_other() {
    let added = |count: usize| format!("1{} == 0", " + 1".repeat(count));
    assert_eq!(compiled(&added(31)).map(drop), Ok(()));
    assert!(compiled(&added(32)).unwrap_err().contains("32 operators deep"));
}

#[test]
fn a_mistake_is_told_on_one_line() {
    for text in ["user.name ==", "(", "user.name = 'a'"] {
        let mistake = compiled(text).unwrap_err();
        assert!(mistake.contains("Syntax error") && !mistake.contains('\n') && !mistake.contains("ERROR"), "{mistake}");
    }
    assert_eq!(compiled("user.name == 'a'").unwrap().text(), "user.name == 'a'");
}
