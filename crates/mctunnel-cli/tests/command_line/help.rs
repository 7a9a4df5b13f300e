//! Help, version, completion, explanations: what a newcomer meets first.

use crate::rig::run;

#[test]
#[expect(clippy::too_many_lines, reason = "it is one table")]
fn the_help_of_every_command_has_its_flags_and_an_example() {
    for (command, flags) in [
        (
            &["hub"][..],
            &[
                "--data-dir",
                "--tunnel-listen",
                "--gateway-listen",
                "--gateway-plain",
                "--gateway-wait",
                "--server-timing",
                "--connect-listen",
                "--connect-tls-listen",
                "--sni-listen",
                "--sni-suffix",
                "--services",
                "--report-keep",
                "--report-size",
                "--report-file",
                "--report-webhook",
                "--report-webhook-kind",
                "--report-otlp",
                "--admin-listen",
                "--hub-name",
                "--agent-cert-ttl",
                "--agent-ca",
                "--enrol-audience",
                "--tunnel-wait",
                "--reuse-port",
                "--insecure-connect-anywhere",
                "--ready-file",
                "--grace",
                "--log-format",
                "--log-level",
                "--threads",
                "--config",
                "--print-config",
                "MCTUNNEL_DATA_DIR",
            ][..],
        ),
        (
            &["agent"],
            &[
                "--join-token",
                "--join-token-file",
                "--enrol-service-account-token",
                "--join",
                "--certificate",
                "--key",
                "--hub-ca",
                "--hub",
                "--hub-server-name",
                "--data-dir",
                "--expose",
                "--spool",
                "--spool-limit",
                "--report-listen",
                "--report-events",
                "--report-event-type",
                "--report-event-reason",
                "--report-logs",
                "--report-log-containers",
                "--admin-listen",
                "--allow",
                "--allow-service",
                "--allow-service-file",
                "--kubeconfig",
                "--kube-context",
                "--kube-api",
                "--kube-api-ca",
                "--deny-kube-api",
                "--pin-service",
                "--service-ca",
                "--insecure-service",
                "--zone",
                "--cluster-domain",
                "--allow-external-names",
                "--ready-file",
                "--grace",
            ],
        ),
        (&["cluster", "add"], &["--data-dir", "--hub", "--out", "--ttl", "--reissue", "--own-ca", "--service-account"]),
        (&["cluster", "list"], &["--data-dir", "--output"]),
        (&["cluster", "remove"], &["--data-dir"]),
        (&["cluster", "revoke"], &["--data-dir"]),
        (
            &["join-token", "create"],
            &["--cluster", "--data-dir", "--hub", "--ttl", "--uses", "--label", "--output", "--namespace", "--image"],
        ),
        (&["join-token", "list"], &["--data-dir", "--output"]),
        (&["join-token", "revoke"], &["--data-dir"]),
        (&["ca", "status"], &["--data-dir"]),
        (&["ca", "rotate"], &["--data-dir"]),
        (&["ca", "retire"], &["--data-dir", "--force"]),
        (&["api-key", "create"], &["--data-dir", "--user", "--group", "--ttl"]),
        (&["api-key", "list"], &["--data-dir", "--output"]),
        (&["api-key", "revoke"], &["--data-dir"]),
        (&["audit", "verify"], &["--data-dir", "--checkpoint"]),
        (&["audit", "tail"], &["--data-dir", "--cluster", "--user", "--follow", "--lines", "--output"]),
        (&["policy", "check"], &["FILE", "--strict"]),
        (&["policy", "test"], &["FILE", "--policy", "MCTUNNEL_POLICY"]),
        (
            &["can-i"],
            &[
                "--cluster",
                "--as",
                "--as-group",
                "--service",
                "--subresource",
                "--policy",
                "--hub",
                "--hub-ca",
                "--token-file",
                "--output",
            ],
        ),
        (&["reports"], &["--data-dir", "--hub", "--kind", "--cluster", "--source", "--since", "--watch", "--output"]),
        (&["events"], &["--data-dir", "--hub", "--cluster", "--source", "--since", "--watch", "--output"]),
        (&["clusters"], &["--data-dir", "--hub", "--hub-ca", "--token-file", "--watch", "--output"]),
        (&["logs"], &["--data-dir", "--hub", "--container", "--follow", "--previous", "--timestamps"]),
        (&["demo"], &["--once"]),
        (&["explain"], &["[CODE]"]),
        (&["completion"], &["bash", "zsh", "fish"]),
    ] {
        let help = run(&[command, &["--help"]].concat());
        assert_eq!(help.status, Some(0), "{command:?}");
        for flag in flags {
            assert!(help.out.contains(flag), "{command:?} {flag}\n{}", help.out);
        }
        assert!(help.out.contains("Example") && help.out.contains("  mctunnel "), "{command:?}\n{}", help.out);
    }
}

#[test]
fn without_a_command_the_help_is_shown_and_the_status_is_that_of_misuse() {
    let bare = run(&[]);
    assert_eq!(bare.status, Some(2));
    assert!(bare.err.contains("Usage: mctunnel") && bare.err.contains("Start here"), "{}", bare.err);
    let wrong = run(&["hub", "--data-dirr", "x"]);
    assert_eq!(wrong.status, Some(2));
    assert!(wrong.err.contains("'--data-dir'"), "{}", wrong.err);
}

#[test]
fn the_version_has_one_form() {
    let version = concat!("mctunnel ", env!("CARGO_PKG_VERSION"), "\n");
    for arguments in [&["version"][..], &["--version"], &["-V"]] {
        assert_eq!(run(arguments).out, version);
    }
}

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completion", shell]);
        assert_eq!(script.status, Some(0), "{shell}");
        assert!(script.out.contains("tunnel-listen") && script.out.contains("cluster"), "{shell}");
    }
    assert_eq!(run(&["completion", "tcsh"]).status, Some(2));
}

#[test]
fn a_code_is_explained_with_its_remedy() {
    let explained = run(&["explain", "mct-open-not-allowed"]);
    assert_eq!(explained.status, Some(0));
    assert!(explained.out.starts_with("MCT-OPEN-NOT-ALLOWED\n  what happened: "), "{}", explained.out);
    assert!(explained.out.contains("  what to do: allow it at the agent: '--allow tcp"), "{}", explained.out);
    let all = run(&["explain"]);
    for code in ["MCT-OPEN-NO-TUNNEL", "MCT-IDENTITY-FILE", "MCT-CONFIG-UNKNOWN-KEY", "MCT-ADMIT-TLS"] {
        assert!(all.out.contains(code), "{code}");
    }
}

#[test]
fn an_unknown_code_is_an_error_that_names_the_nearest() {
    let unknown = run(&["explain", "MCT-OPEN-NOTUNNEL"]);
    assert_eq!(unknown.status, Some(2));
    assert!(unknown.err.starts_with("error[MCT-EXPLAIN-UNKNOWN-CODE]: "), "{}", unknown.err);
    assert!(unknown.err.contains("did you mean MCT-OPEN-NO-TUNNEL?\n  remedy: "), "{}", unknown.err);
}
