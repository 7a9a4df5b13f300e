//! The allow-list as tables: what is opened, what is not, and how bad rules are named.

use super::*;

fn list(rules: &[&str]) -> AllowList {
    AllowList::parse(rules).expect("rules of a test are good")
}

fn target(text: &str) -> Endpoint {
    Endpoint::parse(text).expect("targets of a test are good")
}

/// Whether the target may be dialled at the address: both checks, as `dial` makes them.
fn opens(rules: &[&str], to: &str, address: &str) -> bool {
    let (list, to) = (list(rules), target(to));
    let address = address.parse().expect("addresses of a test are good");
    list.check_target(&to) != Verdict::Denied && list.check_address(&to, address)
}

#[track_caller]
fn check(rules: &[&str], to: &str, address: &str, expected: bool) {
    assert_eq!(opens(rules, to, address), expected, "{rules:?} {to} at {address}");
}

#[test]
fn rules_print_as_they_are_written() {
    for rule in [
        "tcp://db.default.svc:5432",
        "tcp://*.svc.cluster.local:443",
        "tcp://10.1.2.3:7001-7010",
        "tcp://[fd00::1]:1",
        "tcp://10.0.0.0/8:*",
        "tcp://[fd00::/8]:65535",
        "tcp://0.0.0.0/0:443",
    ] {
        assert_eq!(list(&[rule]).to_string(), rule);
    }
    assert_eq!(list(&["tcp://DB.svc.:1-1", "tcp://a:1-65535"]).to_string(), "tcp://db.svc:1, tcp://a:*");
    assert_eq!(list(&["tcp://[::ffff:127.0.0.1]:1"]).to_string(), "tcp://127.0.0.1:1");
    assert_eq!(list(&["tcp://[::ffff:10.0.0.0/104]:1"]).to_string(), "tcp://10.0.0.0/8:1");
    assert_eq!(list(&[]).to_string(), "(none)");
}

#[test]
fn bad_rules_are_named_with_the_reason() {
    use RuleProblem as P;
    let trunc = "10.0.0.0/8".parse().expect("a net");
    for (rule, problem) in [
        ("", P::NoScheme),
        ("db:5432", P::NoScheme),
        ("http://db:5432", P::NoScheme),
        ("TCP://db:5432", P::NoScheme),
        ("tcp://db", P::NoPorts),
        ("tcp://[fd00::1]", P::NoPorts),
        ("tcp://db:", P::BadPorts),
        ("tcp://db:0", P::BadPorts),
        ("tcp://db:0443", P::BadPorts),
        ("tcp://db:65536", P::BadPorts),
        ("tcp://db:1-", P::BadPorts),
        ("tcp://db:1-2-3", P::BadPorts),
        ("tcp://db:443 ", P::BadPorts),
        ("tcp://db:443/x", P::BadPorts),
        ("tcp://db:2-1", P::BackwardPorts),
        ("tcp://:1", P::BadHost),
        ("tcp://user@db:1", P::BadHost),
        ("tcp://0x7f.1:1", P::BadHost),
        ("tcp://127.1:1", P::BadHost),
        ("tcp://[fe80::1%eth0]:1", P::BadHost),
        ("tcp://*:1", P::BadSuffix),
        ("tcp://*.:1", P::BadSuffix),
        ("tcp://*.10.0.0.1:1", P::BadSuffix),
        ("tcp://a.*.b:1", P::BadSuffix),
        ("tcp://*b:1", P::BadSuffix),
        ("tcp://fd00::1:443", P::NoBrackets),
        ("tcp://fd00::/8:443", P::NoBrackets),
        ("tcp://10.0.0.0/33:1", P::BadNet),
        ("tcp://10.0.0/8:1", P::BadNet),
        ("tcp://[10.0.0.0/8]:1", P::BadNet),
        ("tcp://db/8:1", P::BadNet),
        ("tcp://10.1.2.3/8:1", P::HostBits(trunc)),
    ] {
        let error = AllowList::parse([rule]).expect_err(rule);
        assert_eq!(error.problem, problem, "{rule}");
        let text = error.to_string();
        assert!(text.contains(&format!("{rule:?}")) && text.contains("write it like tcp://"), "{text}");
    }
}

#[test]
fn every_example_in_an_error_is_a_good_rule() {
    for bad in ["x", "tcp://a", "tcp://a:x", "tcp://a:2-1", "tcp://*:1", "tcp://::1:1", "tcp://1/2:1"] {
        let text = AllowList::parse([bad]).expect_err(bad).to_string();
        let (_, examples) = text.split_once("write it like ").expect("an example");
        let rules = examples.split([' ', ',']).filter(|word| word.starts_with("tcp://"));
        AllowList::parse(rules).expect("examples are good");
    }
}

#[test]
fn an_empty_list_denies_everything() {
    assert!(list(&[]).is_empty() && !list(&["tcp://db:1"]).is_empty());
    for to in ["db:1", "127.0.0.1:1", "localhost:1", "[::1]:1"] {
        assert_eq!(list(&[]).check_target(&target(to)), Verdict::Denied);
        check(&[], to, "127.0.0.1", false);
        check(&[], to, "10.0.0.1", false);
    }
}

#[test]
fn verdicts_say_what_the_addresses_still_need() {
    let list = list(&["tcp://db:1", "tcp://10.0.0.0/8:2", "tcp://*.svc:3"]);
    for (to, verdict) in [
        ("db:1", Verdict::AllowedByName),
        ("x.svc:3", Verdict::AllowedByName),
        ("db:2", Verdict::IfAddressAllowed),
        ("10.9.9.9:2", Verdict::IfAddressAllowed),
        ("11.0.0.1:2", Verdict::Denied),
        ("db:3", Verdict::Denied),
        ("db:4", Verdict::Denied),
        ("10.0.0.1:1", Verdict::Denied),
    ] {
        assert_eq!(list.check_target(&target(to)), verdict, "{to}");
    }
}

#[test]
fn names_match_whole_labels_and_their_ports() {
    let rules = &["tcp://db.default.svc:5432", "tcp://*.apps.example:7001-7003"];
    check(rules, "db.default.svc:5432", "10.0.0.1", true);
    check(rules, "DB.default.svc.:5432", "10.0.0.1", true);
    check(rules, "db.default.svc:5433", "10.0.0.1", false);
    check(rules, "xdb.default.svc:5432", "10.0.0.1", false);
    check(rules, "a.db.default.svc:5432", "10.0.0.1", false);
    check(rules, "a.apps.example:7001", "10.0.0.1", true);
    check(rules, "a.b.apps.example:7003", "10.0.0.1", true);
    check(rules, "apps.example:7001", "10.0.0.1", false);
    check(rules, "evilapps.example:7001", "10.0.0.1", false);
    check(rules, "a.apps.example.evil:7001", "10.0.0.1", false);
    check(rules, "a.apps.example:7000", "10.0.0.1", false);
    check(rules, "a.apps.example:7004", "10.0.0.1", false);
}

#[test]
fn names_without_a_rule_go_by_their_addresses() {
    let rules = &["tcp://10.0.0.0/8:443", "tcp://[fd00::/8]:443"];
    check(rules, "any.name:443", "10.200.0.1", true);
    check(rules, "any.name:443", "::ffff:10.200.0.1", true);
    check(rules, "any.name:443", "fd12::1", true);
    check(rules, "any.name:443", "11.0.0.1", false);
    check(rules, "any.name:444", "10.0.0.1", false);
    check(rules, "10.0.0.1:443", "10.0.0.1", true);
    // An address that was given is not exchanged for another, even an allowed one.
    check(rules, "10.0.0.1:443", "10.0.0.2", false);
}

#[test]
fn t20_special_addresses_are_not_reached_through_wide_rules() {
    let wide = &["tcp://*.example:*", "tcp://0.0.0.0/0:*", "tcp://[::/0]:*", "tcp://localhost:*"];
    for address in [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.0.1",
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "169.254.170.2",
        "224.0.0.1",
        "239.255.255.255",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "febf::1",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "ff02::1",
        "64:ff9b::a83f:8110",
        "2002:c000:c0::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "2002:0:1::",
    ] {
        check(wide, "rebound.example:80", address, false);
        check(wide, "other.name:80", address, false);
        let bracketed = if address.contains(':') { format!("[{address}]:80") } else { format!("{address}:80") };
        assert_eq!(list(wide).check_target(&target(&bracketed)), Verdict::Denied, "{address}");
    }
    for address in
        ["10.0.0.1", "8.8.8.8", "64:ff9b::a00:1", "2002:a00:1::1", "fd00::1", "2001:db8::1", "126.255.255.255"]
    {
        check(wide, "rebound.example:80", address, true);
    }
}

#[test]
fn special_addresses_open_to_rules_inside_their_range() {
    check(&["tcp://127.0.0.1:7001"], "127.0.0.1:7001", "127.0.0.1", true);
    check(&["tcp://127.0.0.1:7001"], "127.0.0.1:7002", "127.0.0.1", false);
    check(&["tcp://127.0.0.1:7001"], "127.0.0.2:7001", "127.0.0.2", false);
    check(&["tcp://127.0.0.1:7001"], "some.name:7001", "127.0.0.1", true);
    check(&["tcp://127.0.0.0/8:1"], "127.0.0.2:1", "127.0.0.2", true);
    check(&["tcp://126.0.0.0/7:1"], "127.0.0.2:1", "127.0.0.2", false);
    check(&["tcp://127.0.0.1:1"], "[::1]:1", "::1", false);
    check(&["tcp://[::1]:1"], "[::1]:1", "::1", true);
    check(&["tcp://127.0.0.1:1"], "[::ffff:127.0.0.1]:1", "127.0.0.1", true);
}

#[test]
fn special_ranges_are_as_narrow_as_they_can_be() {
    // Loopback of the translator at the other end is not loopback here.
    check(&["tcp://127.0.0.1:1"], "[64:ff9b::7f00:1]:1", "64:ff9b::7f00:1", false);
    check(&["tcp://[64:ff9b::7f00:0/104]:1"], "[64:ff9b::7f00:1]:1", "64:ff9b::7f00:1", true);
    check(&["tcp://[64:ff9b::/96]:1"], "[64:ff9b::7f00:1]:1", "64:ff9b::7f00:1", false);
    check(&["tcp://[2002:7f00::/24]:1"], "[2002:7f00:1::]:1", "2002:7f00:1::", true);
    // A rule for the link does not open the metadata service on it.
    check(&["tcp://169.254.0.0/16:80"], "169.254.1.1:80", "169.254.1.1", true);
    check(&["tcp://169.254.0.0/16:80"], "169.254.169.254:80", "169.254.169.254", false);
    check(&["tcp://169.254.169.254:80"], "169.254.169.254:80", "169.254.169.254", true);
}

#[test]
fn localhost_opens_loopback_and_nothing_else() {
    let rules = &["tcp://localhost:80"];
    check(rules, "localhost:80", "127.0.0.1", true);
    check(rules, "localhost:80", "::1", true);
    check(rules, "localhost:80", "169.254.169.254", false);
    check(rules, "localhost:80", "0.0.0.0", false);
    check(rules, "localhost:81", "127.0.0.1", false);
    check(rules, "a.localhost:80", "127.0.0.1", false);
    check(&["tcp://*.localhost:80"], "a.localhost:80", "127.0.0.1", false);
    check(&["tcp://name:80"], "name:80", "127.0.0.1", false);
}

#[test]
fn a_rule_for_addresses_does_not_make_localhost_loopback() {
    for rules in [&["tcp://10.0.0.0/8:80"][..], &["tcp://10.0.0.0/8:80", "tcp://db:80", "tcp://localhost:81"]] {
        check(rules, "localhost:80", "10.0.0.1", true);
        check(rules, "localhost:80", "127.0.0.1", false);
        check(rules, "localhost:80", "::1", false);
    }
    // Nor does a rule for `localhost` any other name, though it may have ordinary addresses.
    check(&["tcp://localhost:80", "tcp://10.0.0.0/8:80"], "db:80", "127.0.0.1", false);
    check(&["tcp://localhost:80"], "localhost:80", "10.0.0.1", true);
    check(&["tcp://db:80", "tcp://localhost:80"], "localhost:80", "127.0.0.1", true);
}

#[test]
fn special_is_what_is_the_agents_own_and_nothing_else() {
    for (address, expected) in [
        ("127.0.0.1", true),
        ("::ffff:169.254.169.254", true),
        ("fe80::1", true),
        ("10.0.0.1", false),
        ("fd00::1", false),
    ] {
        assert_eq!(is_special(address.parse().unwrap()), expected, "{address}");
    }
}
