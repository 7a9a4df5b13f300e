//! Flags, environment and file, through the real binary. The rules themselves are tested in `settings/tests.rs`.

use crate::rig::{mctunnel, ran, run};
use std::fs;

#[test]
fn mistakes_have_a_code_a_remedy_and_the_status_of_misuse() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("hub.yaml");
    fs::write(&path, "data_dir: d\ntunel_listen: 127.0.0.1:0\n").expect("a file");
    let file = path.to_str().expect("UTF-8");
    for (arguments, error) in [
        (&["hub", "--config", file][..], "error[MCT-CONFIG-UNKNOWN-KEY]: "),
        (&["hub", "--config", "/no/such/file"], "error[MCT-CONFIG-FILE]: "),
        (&["hub"], "error[MCT-CONFIG-MISSING]: --data-dir is required\n"),
        (&["agent"], "error[MCT-CONFIG-MISSING]: --join-token with --data-dir, or --join, is required\n"),
        (&["hub", "--data-dir", "d", "--grace", "long"], "error[MCT-CONFIG-BAD-VALUE]: --grace: "),
        (&["hub", "--data-dir", "d"], "error[MCT-HUB-NO-AUTH]: nothing says who clients are that come in at --gateway"),
        (&["hub", "--data-dir", "d", "--policy", "p"], "error[MCT-HUB-UNCLEAR-TRUST]: --policy is given without "),
        (&["hub", "--data-dir", "d", "--insecure-no-auth"], "error[MCT-HUB-UNCLEAR-TRUST]: --insecure-no-auth is for "),
        (
            &["hub", "--data-dir", "d", "--auth-config", "a", "--policy", "p", "--connect-listen", "0.0.0.0:0"],
            "error[MCT-CONFIG-CONNECT-EXPOSED]: --connect-listen: ",
        ),
        (&["agent", "--join", "j", "--allow", "udp://a:1"], "error[MCT-AGENT-BAD-ALLOW-RULE]: "),
    ] {
        let wrong = run(arguments);
        assert_eq!(wrong.status, Some(2), "{arguments:?} {wrong:?}");
        assert!(wrong.err.starts_with(error), "{arguments:?}\n{}", wrong.err);
        assert!(wrong.err.lines().nth(1).is_some_and(|line| line.starts_with("  remedy: ")), "{}", wrong.err);
    }
    let nobody = run(&["hub", "--data-dir", "d"]);
    for advice in ["--auth-config FILE and --policy FILE", "--insecure-no-auth with --gateway-listen 127.0.0.1:8080"] {
        assert!(nobody.err.contains(advice), "{}", nobody.err);
    }
}

#[test]
fn an_unknown_variable_is_an_error() {
    let wrong = ran(mctunnel(&["hub", "--data-dir", "d"]).env("MCTUNNEL_GRAC", "1s"));
    assert_eq!(wrong.status, Some(2));
    assert!(wrong.err.starts_with("error[MCT-CONFIG-UNKNOWN-VARIABLE]: "), "{}", wrong.err);
    assert!(wrong.err.contains("did you mean MCTUNNEL_GRACE?"), "{}", wrong.err);
}

#[test]
fn what_is_in_effect_is_printed_with_its_origin_and_nothing_is_started() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("hub.yaml");
    fs::write(&path, "data_dir: /nowhere\ngrace: 2s\ntunnel_wait: 1s\nhub_name: [a.example, b.example]\n")
        .expect("a file");
    let mut command = mctunnel(&["hub", "--grace", "4s", "--print-config"]);
    let printed = ran(command.env("MCTUNNEL_CONFIG", &path).env("MCTUNNEL_TUNNEL_WAIT", "3s"));
    assert_eq!((printed.status, printed.err.as_str()), (Some(0), ""));
    let from_file = format!("data_dir: /nowhere # {}: data_dir", path.display());
    for line in [
        from_file.as_str(),
        "grace: \"4s\" # --grace",
        "tunnel_wait: \"3s\" # MCTUNNEL_TUNNEL_WAIT",
        "connect_listen: \"127.0.0.1:8081\" # default",
        "  - a.example",
    ] {
        assert!(printed.out.lines().any(|l| l == line), "{line}\n{}", printed.out);
    }
}

#[test]
fn a_port_that_is_taken_is_told_with_its_flag() {
    let dir = tempfile::tempdir().expect("a directory");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let data_dir = dir.path().to_str().expect("UTF-8");
    let quiet = ["--gateway-listen", "off", "--connect-listen", "off"];
    let failed = run(&[&["hub", "--data-dir", data_dir, "--tunnel-listen", &address][..], &quiet].concat());
    assert_eq!(failed.status, Some(1), "{failed:?}");
    let error = format!("error[MCT-LISTEN]: --tunnel-listen: cannot listen on {address}: ");
    assert!(failed.err.contains(&error), "{}", failed.err);
}

#[test]
fn a_bundle_that_is_not_there_is_told() {
    let failed = run(&["agent", "--join", "/no/such.join", "--allow", "tcp://a:1"]);
    assert_eq!(failed.status, Some(1));
    assert!(failed.err.contains("error[MCT-IDENTITY-FILE]: cannot read /no/such.join: "), "{}", failed.err);
}
