//! Panics as lines of the log: one line each, and nothing in it that a peer may have sent. A panic is a bug of ours; it ends the task it
//! happens in, and everything else goes on.

use std::panic::{self, PanicHookInfo};
use tracing::error;

/// Sends panics to the log from now on, in place of standard error.
pub(super) fn log() {
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        error!(%place, what = said(panic), "mctunnel has panicked; what was served there has ended. Please report this.");
    }));
}

/// What the code says is told. What was put together while it ran may have secrets and other texts of peers in it.
fn said<'a>(panic: &PanicHookInfo<'a>) -> &'a str {
    panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("(withheld)")
}

#[cfg(test)]
mod tests {
    use crate::{logging, settings::LogFormat};
    use std::{env, process::Command};
    use tracing_subscriber::EnvFilter;

    /// Set in the process that is to panic.
    const TO_PANIC: &str = "MCTUNNEL_TEST_TO_PANIC";

    #[tokio::test]
    async fn child() {
        if env::var_os(TO_PANIC).is_none() {
            return;
        }
        logging::start(LogFormat::Json, EnvFilter::new("info"));
        let token = format!("token{}\nof a peer", "-canary");
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { panic!("cannot read {token}") });
        tasks.spawn(async { panic!("said") });
        while let Some(ended) = tasks.join_next().await {
            assert!(ended.unwrap_err().is_panic());
        }
    }

    #[test]
    fn t36_a_panic_is_one_line_without_what_a_peer_has_sent() {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "logging::panics::tests::child", "--nocapture"]).env(TO_PANIC, "1");
        let output = child.env("RUST_BACKTRACE", "1").output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "the others go on: {log}");
        let lines: Vec<serde_json::Value> =
            log.lines().map(|line| serde_json::from_str(line).expect("a line of the log")).collect();
        let mut said: Vec<&str> = lines.iter().map(|line| line["what"].as_str().unwrap()).collect();
        said.sort_unstable();
        assert_eq!(said, ["(withheld)", "said"], "{log}");
        assert!(lines.iter().all(|line| line["place"].as_str().is_some_and(|place| place.contains("panics.rs:"))));
        assert!(!log.contains("canary"), "{log}");
    }

    #[test]
    fn t36_a_panic_ends_its_task_alone_though_the_log_is_full() {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "logging::panics::tests::child", "--nocapture"]).env(TO_PANIC, "1");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = child.stderr(full).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
