//! Settings from made-up flags, environments and files.

use super::{
    AgentSettings, ConfigError, HubSettings,
    effective::Effective,
    flags::Flags,
    source::Source,
    table::{ALL, AgentRole, HubRole, Role, Setting, Shape},
};
use crate::trust::UnclearTrust;
use clap::{Args, Command};
use mctunnel::tunnel::CongestionControl;
use std::{ffi::OsString, path::Path};

fn flags<R: Role>(words: &[&str]) -> Source {
    let command = Flags::<R>::augment_args(Command::new("role"));
    let matches = command.get_matches_from(std::iter::once("role").chain(words.iter().copied()));
    Source::flags(R::SETTINGS, &matches)
}

fn environment<R: Role>(variables: &[(&str, &str)]) -> Result<Source, ConfigError> {
    let owned = variables.iter().map(|(name, text)| (OsString::from(name), OsString::from(text)));
    Source::environment(R::SETTINGS, owned)
}

fn file<R: Role>(text: &str) -> Result<Source, ConfigError> {
    Source::file(R::SETTINGS, Path::new("x.yaml"), text)
}

/// The settings that these three make together.
fn merged<R: Role>(file_text: &str, variables: &[(&str, &str)], words: &[&str]) -> Effective {
    let file = file::<R>(file_text).expect("a good file");
    let environment = environment::<R>(variables).expect("a good environment");
    Effective::merge(R::SETTINGS, [Source::defaults(R::SETTINGS), file, environment, flags::<R>(words)])
}

#[test]
fn the_file_is_below_the_environment_and_that_below_flags() {
    let (in_file, in_environment, as_flag) = ("grace: 2s", ("MCTUNNEL_GRACE", "3s"), ["--grace", "4s"]);
    for (file, environment, flag, expected, origin) in [
        (false, false, false, "30s", "--grace"),
        (true, false, false, "2s", "x.yaml: grace"),
        (false, true, false, "3s", "MCTUNNEL_GRACE"),
        (false, false, true, "4s", "--grace"),
        (true, true, false, "3s", "MCTUNNEL_GRACE"),
        (true, false, true, "4s", "--grace"),
        (false, true, true, "4s", "--grace"),
        (true, true, true, "4s", "--grace"),
    ] {
        let text = if file { in_file } else { "" };
        let variables = if environment { &[in_environment][..] } else { &[] };
        let words = if flag { &as_flag[..] } else { &[] };
        let effective = merged::<HubRole>(text, variables, words);
        assert_eq!((effective.text("grace"), effective.name_of("grace")), (Some(expected), origin.to_owned()));
    }
}

#[test]
fn a_list_is_replaced_and_not_added_to() {
    let variables = [("MCTUNNEL_ALLOW", "tcp://b:2, tcp://c:3,")];
    let effective = merged::<AgentRole>("allow: [tcp://a:1]", &variables, &[]);
    assert_eq!(effective.texts("allow"), ["tcp://b:2", "tcp://c:3"]);
    let effective =
        merged::<AgentRole>("allow: tcp://a:1", &variables, &["--allow", "tcp://d:4", "--allow", "tcp://e:5"]);
    assert_eq!(effective.texts("allow"), ["tcp://d:4", "tcp://e:5"]);
    assert_eq!(merged::<AgentRole>("allow: tcp://a:1", &[], &[]).texts("allow"), ["tcp://a:1"]);
}

#[test]
fn a_file_may_use_the_scalars_of_yaml() {
    let text = "# a comment\nthreads: 4\nreuse_port: true\nconnect_listen: off\nready_file: null\nadmin_listen: \"127.0.0.1:1\"\n";
    let effective = merged::<HubRole>(text, &[], &[]);
    assert_eq!(effective.text("threads"), Some("4"));
    assert_eq!(effective.switch("reuse_port").ok(), Some(true));
    assert_eq!(effective.listen("connect_listen").ok(), Some(None));
    assert_eq!(effective.path("ready_file"), None);
    assert_eq!(merged::<HubRole>("", &[], &[]).text("threads"), Some("auto"));
}

#[test]
fn a_misspelt_key_is_an_error_that_names_the_nearest() {
    let error = file::<HubRole>("tunel_listen: 0.0.0.0:1").expect_err("no such key").to_string();
    assert_eq!(error, "x.yaml: no setting is called \"tunel_listen\"; did you mean tunnel_listen?");
    let error = file::<HubRole>("allow: tcp://a:1").expect_err("an agent's key").to_string();
    assert!(error.starts_with("x.yaml: no setting is called \"allow\""), "{error}");
    for text in [
        "config: y.yaml",
        "print_config: true",
        "grace: {a: 1}",
        "grace: [1s, 2s]",
        "grace: 1s\ngrace: 2s",
        "just text",
        "a: [",
    ] {
        assert!(file::<HubRole>(text).is_err(), "{text}");
    }
}

#[test]
fn a_misspelt_variable_is_an_error_that_names_the_nearest() {
    let error = environment::<HubRole>(&[("MCTUNNEL_DATADIR", "x")]).expect_err("no such variable").to_string();
    assert_eq!(error, "no setting is called MCTUNNEL_DATADIR; did you mean MCTUNNEL_DATA_DIR?");
    assert!(environment::<HubRole>(&[("MCTUNNEL_PRINT_CONFIG", "true")]).is_err());
    for good in [
        "MCTUNNEL_JOIN",
        "MCTUNNEL_SERVICE_HOST",
        "MCTUNNEL_HUB_SERVICE_PORT_GRPC",
        "MCTUNNEL_HUB_PORT",
        "MCTUNNEL_HUB_PORT_8443_TCP_ADDR",
        "OTHER_THING",
    ] {
        assert!(environment::<HubRole>(&[(good, "x")]).is_ok(), "{good}");
    }
}

#[test]
fn an_empty_variable_is_none_and_ours_are_above_those_of_others() {
    assert_eq!(merged::<HubRole>("grace: 2s", &[("MCTUNNEL_GRACE", "")], &[]).text("grace"), Some("2s"));
    let both = [("RUST_LOG", "debug"), ("MCTUNNEL_LOG_LEVEL", "warn")];
    assert_eq!(merged::<HubRole>("log_level: error", &both, &[]).text("log_level"), Some("warn"));
    assert_eq!(merged::<HubRole>("log_level: error", &both[..1], &[]).text("log_level"), Some("debug"));
    let proxy = [("https_proxy", "http://low:1"), ("HTTPS_PROXY", "http://high:1")];
    assert_eq!(merged::<AgentRole>("", &proxy, &[]).text("https_proxy"), Some("http://high:1"));
    assert_eq!(merged::<AgentRole>("", &proxy[..1], &[]).text("https_proxy"), Some("http://low:1"));
}

#[test]
fn a_bad_value_is_told_with_the_name_under_which_it_was_given() {
    for (text, variables, words, told) in [
        ("grace: 3x", &[][..], &[][..], "x.yaml: grace: \"3x\" is not a time such as 250ms, 30s or 5m"),
        ("", &[("MCTUNNEL_THREADS", "0")], &[], "MCTUNNEL_THREADS: \"0\" is not a number of threads, nor 'auto'"),
        ("", &[], &["--log-format", "xml"], "--log-format: \"xml\" is not auto, human or json"),
        ("", &[], &["--tunnel-listen", "off"], "--tunnel-listen: a hub without tunnels is of no use"),
        ("reuse_port: maybe", &[], &[], "x.yaml: reuse_port: \"maybe\" is neither true nor false"),
    ] {
        let mut all = vec!["--data-dir", "d"];
        all.extend(words);
        let error = HubSettings::read(&merged::<HubRole>(text, variables, &all)).expect_err(told);
        assert_eq!(error.to_string(), told);
    }
}

#[test]
fn a_congestion_control_is_looked_up_in_the_kernel() {
    let read = |name: &str| {
        let words = ["--data-dir", "d", "--congestion-control", name];
        HubSettings::read(&merged::<HubRole>("", &[], &words)).map(|(_, settings)| settings.congestion_control)
    };
    assert_eq!(read("auto").unwrap(), CongestionControl::Auto);
    assert_eq!(read("system").unwrap(), CongestionControl::System);
    assert_eq!(read("reno").unwrap(), CongestionControl::Named("reno".to_owned()));
    let told = read("no-such-one").unwrap_err().to_string();
    assert!(told.starts_with("--congestion-control: the kernel does not let this process use it"), "{told}");
    assert!(told.contains("it offers: ") && told.contains("reno"), "{told}");
}

#[test]
fn connect_without_tls_is_taken_on_loopback_only_unless_told_otherwise() {
    let read =
        |words: &[&str]| HubSettings::read(&merged::<HubRole>("data_dir: d\nauth_config: a\npolicy: p", &[], words));
    for loopback in ["127.0.0.1:0", "127.9.9.9:1", "[::1]:0", "off"] {
        assert!(read(&["--connect-listen", loopback]).is_ok(), "{loopback}");
    }
    for exposed in ["0.0.0.0:0", "[::]:0", "10.0.0.1:8081"] {
        let error = read(&["--connect-listen", exposed]).expect_err(exposed);
        assert_eq!(error.downcast_ref::<ConfigError>().unwrap().code().code, "MCT-CONFIG-CONNECT-EXPOSED");
        assert!(error.to_string().starts_with("--connect-listen"), "{error}");
        assert!(read(&["--connect-listen", exposed, "--insecure-connect-anywhere"]).is_ok());
        assert!(read(&["--connect-tls-listen", exposed]).is_ok(), "its clients are asked, and nobody listens in");
    }
}

/// The code of the refusal, or that there is none. Reading is what `--print-config` does, too; only starting needs all of it.
fn trusted(words: &[&str]) -> Result<(), String> {
    let coded = |error: anyhow::Error| error.downcast_ref::<UnclearTrust>().map(|error| error.code().code.to_owned());
    let (_, settings) = HubSettings::read(&merged::<HubRole>("data_dir: d", &[], words))
        .map_err(|error| coded(error).expect("a refusal"))?;
    settings.asks_clients().map_err(|error| error.code().code.to_owned())
}

#[test]
fn t16_clients_are_asked_or_there_are_none_or_the_machine_is_alone() {
    let unclear = || Err("MCT-HUB-UNCLEAR-TRUST".to_owned());
    let nobody = || Err("MCT-HUB-NO-AUTH".to_owned());
    let off = ["--gateway-listen", "off", "--connect-listen", "off"];
    let here = ["--gateway-listen", "127.0.0.1:0", "--connect-listen", "[::1]:0"];
    let with = |first: &[&'static str], more: &[&'static str]| [first, more].concat();
    assert_eq!(trusted(&[]), nobody());
    assert_eq!(trusted(&here), nobody(), "loopback alone is no reason");
    assert_eq!(trusted(&off), Ok(()));
    assert_eq!(trusted(&["--auth-config", "a", "--policy", "p"]), Ok(()));
    assert_eq!(trusted(&["--auth-config", "a"]), unclear());
    assert_eq!(trusted(&["--policy", "p"]), unclear());
    assert_eq!(trusted(&["--shadow-policy", "p"]), unclear());
    assert_eq!(trusted(&["--review-kubeconfig", "k"]), unclear());
    assert_eq!(trusted(&with(&off, &["--review-kubeconfig", "k", "--enrol-audience", "a"])), Ok(()));
    assert_eq!(trusted(&["--review-kubeconfig", "k", "--enrol-audience", "a"]), nobody(), "it is about agents");
    assert_eq!(trusted(&["--auth-config", "a", "--policy", "p", "--insecure-no-auth"]), unclear());
    assert_eq!(trusted(&with(&here, &["--insecure-no-auth"])), Ok(()));
    assert_eq!(trusted(&["--insecure-no-auth"]), unclear(), "the gateway is on all addresses unless told otherwise");
    for way in ["--gateway-listen", "--sni-listen", "--connect-listen", "--connect-tls-listen"] {
        assert_eq!(trusted(&with(&off, &[way, "127.0.0.1:0"])), nobody(), "{way}");
        assert_eq!(trusted(&with(&off, &[way, "127.0.0.1:0", "--insecure-no-auth"])), Ok(()), "{way}");
        for exposed in ["0.0.0.0:0", "[::]:0", "10.0.0.1:1"] {
            let words = [way, exposed, "--insecure-no-auth", "--insecure-connect-anywhere"];
            assert_eq!(trusted(&with(&off, &words)), unclear(), "{way} {exposed}");
        }
    }
}

#[test]
fn what_is_printed_can_be_read_again_and_shows_no_password() {
    let words =
        ["--join", "a b: c.join", "--allow", "tcp://*.svc:443", "--allow", "tcp://[fd00::/8]:*", "--threads", "3"];
    let variables = [("HTTPS_PROXY", "http://user:hunter2@proxy:3128"), ("MCTUNNEL_LOG_LEVEL", "info,h2=debug")];
    let effective = merged::<AgentRole>("admin_listen: off\nno_proxy: \"a, b\"\n", &variables, &words);
    let yaml = effective.to_yaml();
    assert!(!yaml.contains("hunter2") && !yaml.contains("//user"), "{yaml}");
    for line in [
        "https_proxy: \"http://***@proxy:3128\" # HTTPS_PROXY",
        "grace: \"30s\" # default",
        "threads: 3 # --threads",
        "admin_listen: off # x.yaml: admin_listen",
        "hub: null # not set",
    ] {
        assert!(yaml.lines().any(|l| l == line), "{line}\n{yaml}");
    }
    let again = merged::<AgentRole>(&yaml, &[], &[]);
    for setting in AgentRole::SETTINGS.iter().copied().flatten().filter(|s| s.is_file_key() && s.key != "https_proxy") {
        assert_eq!(again.texts(setting.key), effective.texts(setting.key), "{}", setting.key);
    }
}

#[test]
fn the_webhook_is_printed_without_its_secrets() {
    for (url, printed) in [
        ("https://siem.example.com/in", "https://siem.example.com/in"),
        ("https://siem.example.com/in?key=hunter2", "https://siem.example.com/in?***"),
        ("https://user:hunter2@siem.example.com/in", "https://***@siem.example.com/in"),
        ("https://user:hunter2?x@siem.example.com/in?key=hunter2", "https://***@siem.example.com/in?***"),
    ] {
        let yaml = merged::<HubRole>("", &[("MCTUNNEL_AUDIT_WEBHOOK", url)], &[]).to_yaml();
        let line = format!("audit_webhook: {printed:?} # MCTUNNEL_AUDIT_WEBHOOK");
        assert!(yaml.lines().any(|one| one == line) && !yaml.contains("hunter2"), "{line}\n{yaml}");
    }
}

#[test]
fn no_error_shows_the_proxy_or_a_line_of_the_file() {
    let secret = "http://user:hunter2@[";
    let effective = merged::<AgentRole>("", &[("HTTPS_PROXY", secret)], &["--join", "j"]);
    let error = AgentSettings::read(&effective).expect_err("no such proxy");
    assert!(!format!("{error:#} {error:?}").contains("hunter2"));
    for text in [
        "https_proxy: \"http://user:hunter2",
        "https_proxy: {a: hunter2}",
        "- hunter2",
        "hunter2",
        "https_proxy: [[hunter2]]",
    ] {
        let error = file::<AgentRole>(text).expect_err(text);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

#[test]
fn t29_an_audience_has_a_name() {
    let audiences = |file: &str, variables: &[(&str, &str)], words: &[&str]| {
        let words = [&["--data-dir", "d"], words].concat();
        HubSettings::read(&merged::<HubRole>(file, variables, &words)).map(|(_, settings)| settings.enrol_audiences)
    };
    assert_eq!(audiences("", &[], &[]).expect("good"), Vec::<String>::new());
    let both = ["a".to_owned(), "b".to_owned()];
    assert_eq!(audiences("", &[], &["--enrol-audience", "a", "--enrol-audience", "b"]).expect("good"), both);
    assert_eq!(audiences("", &[("MCTUNNEL_ENROL_AUDIENCE", "a, b")], &[]).expect("good"), both);
    assert_eq!(audiences("enrol_audience: [a, b]", &[], &[]).expect("good"), both);
    for bad in ["", " "] {
        let error = audiences("", &[], &["--enrol-audience", "a", "--enrol-audience", bad]).expect_err("no name");
        assert!(error.to_string().starts_with("--enrol-audience: "), "{error}");
    }
}

#[test]
fn logs_are_chosen_by_namespace_and_labels() {
    let chosen = |variables: &[(&str, &str)], words: &[&str]| {
        let words = [&["--join", "j", "--spool", "s"], words].concat();
        let (_, settings) = AgentSettings::read(&merged::<AgentRole>("", variables, &words))?;
        let logs = settings.report.expect("reports").logs;
        let text = |selection: &mctunnel::kube::logs::LogSelection| {
            let namespace = selection.namespace.as_ref().map_or("*", |namespace| namespace.as_str());
            format!("{namespace} {}", selection.labels.as_ref().map_or("-", |labels| labels.as_str()))
        };
        anyhow::Ok((logs.selections.iter().map(text).collect::<Vec<_>>(), logs.containers))
    };
    let flags =
        ["--report-logs", "default", "--report-logs", "*=app=web,tier in (a,b)", "--report-log-containers", "9"];
    let expected = ["default -".to_owned(), "* app=web,tier in (a,b)".to_owned()];
    assert_eq!(chosen(&[], &flags).expect("good"), (expected.to_vec(), 9));
    // A selector has commas, so they do not part selections.
    let variable = [("MCTUNNEL_REPORT_LOGS", "default; *=app=web,tier in (a,b)")];
    assert_eq!(chosen(&variable, &[]).expect("good"), (expected.to_vec(), 256));
    for bad in ["", "Default", "a/b", "default=", "default=app=\"x\"", "=app=web"] {
        assert!(chosen(&[], &["--report-logs", bad]).is_err(), "{bad}");
    }
    for bad in ["0", "1025", "many"] {
        assert!(chosen(&[], &["--report-log-containers", bad]).is_err(), "{bad}");
    }
    let without = merged::<AgentRole>("", &[], &["--join", "j", "--report-logs", "default"]);
    assert!(AgentSettings::read(&without).is_err_and(|error| error.to_string().contains("--spool")));
}

#[test]
fn a_ca_is_for_all_services_or_for_one() {
    let read = |words: &[&str]| {
        let words: Vec<_> = ["--join", "j"].iter().chain(words).copied().collect();
        AgentSettings::read(&merged::<AgentRole>("", &[], &words)).map(|(_, agent)| agent.cluster.service_ca)
    };
    let one = read(&["--service-ca", "/a.pem", "--service-ca", "default/web=/w=1.pem", "--service-ca", "/b=c.pem"]);
    let one = one.expect("good");
    assert_eq!(one.of_others.as_deref(), Some(Path::new("/b=c.pem")));
    let of_one: Vec<_> = one.of_one.iter().map(|(name, path)| (name.to_string(), path.as_path())).collect();
    assert_eq!(of_one, [("default/web".to_owned(), Path::new("/w=1.pem"))]);
    for bad in [&["default/web="][..], &["default/web=a", "default/web=b"]] {
        let words: Vec<_> = bad.iter().flat_map(|text| ["--service-ca", *text]).collect();
        assert!(read(&words).is_err_and(|error| error.to_string().contains("--service-ca")), "{bad:?}");
    }
}

#[test]
fn the_domain_of_a_cluster_is_a_name() {
    let read = |words: &[&str]| {
        let words: Vec<_> = ["--join", "j"].iter().chain(words).copied().collect();
        AgentSettings::read(&merged::<AgentRole>("", &[], &words)).map(|(_, agent)| agent.cluster.cluster_domain)
    };
    assert_eq!(read(&[]).expect("the default"), "cluster.local");
    assert_eq!(read(&["--cluster-domain", "k8s.example"]).expect("good"), "k8s.example");
    for bad in ["", "10.0.0.1", "a b", "x/y"] {
        assert!(read(&["--cluster-domain", bad]).is_err(), "{bad:?}");
    }
}

#[test]
fn the_document_has_every_setting() {
    let document = include_str!("../../../../docs/config.md");
    for setting in ALL.iter().copied().flatten() {
        let Setting { key, default, shape, .. } = setting;
        if setting.is_flag() {
            assert!(document.contains(&format!("| `{}", setting.flag())), "the flag of {key}");
        }
        if setting.is_variable() {
            assert!(document.contains(&format!("`{}`", setting.variable())), "the variable of {key}");
        }
        if let (Some(default), true) = (default, *shape != Shape::Switch) {
            let row = |line: &str| {
                line.starts_with(&format!("| `{} ", setting.flag())) && line.contains(&format!("`{default}`"))
            };
            assert!(document.lines().any(row), "the default of {key}");
        }
    }
}

#[test]
fn t16_a_name_with_commas_stays_one_name() {
    for (key, variable) in
        [("impersonate_group", "MCTUNNEL_IMPERSONATE_GROUP"), ("impersonate_user", "MCTUNNEL_IMPERSONATE_USER")]
    {
        let given = |text: &str| merged::<AgentRole>("", &[(variable, text)], &[]).texts(key).to_vec();
        assert_eq!(given("CN=admins,OU=ops"), ["CN=admins,OU=ops"]);
        assert_eq!(given("CN=a,OU=ops\n\n CN=b;OU=ops \n"), ["CN=a,OU=ops", "CN=b;OU=ops"]);
    }
}
