//! Log lines on standard error: for people on a terminal, one JSON object per line otherwise.

mod one_line;
mod panics;

use crate::settings::LogFormat;
use one_line::OneLine;
use std::io::{self, IsTerminal};
use tracing::Dispatch;
use tracing_subscriber::{EnvFilter, fmt, fmt::MakeWriter, util::SubscriberInitExt};

/// Sends the process's log to standard error from now on.
pub(crate) fn start(format: LogFormat, filter: EnvFilter) {
    let terminal = io::stderr().is_terminal();
    let human = match format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => terminal,
    };
    let colours = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let shape = if human { Shape::Human { colours } } else { Shape::Json };
    // Fails only when a log was started before, which then goes on.
    let _ = log_to(io::stderr, shape, filter).try_init();
    panics::log();
}

#[derive(Clone, Copy)]
enum Shape {
    Human { colours: bool },
    Json,
}

fn log_to<W>(writer: W, shape: Shape, filter: EnvFilter) -> Dispatch
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let colours = matches!(shape, Shape::Human { colours: true });
    // A line that cannot be written is lost. It would be told to standard error, where telling fails again, by a panic in the hook that
    // tells of panics, and that ends the process.
    let builder = fmt().with_env_filter(filter).log_internal_errors(false).with_writer(OneLine { writer, colours });
    match shape {
        Shape::Human { colours } => builder.with_ansi(colours).with_target(false).compact().finish().into(),
        Shape::Json => {
            builder.json().flatten_event(true).with_current_span(false).with_span_list(false).finish().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::{io::Write, sync::Arc};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(shape: Shape, text: &str) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let log = log_to(move || writer.clone(), shape, EnvFilter::new("info"));
        tracing::dispatcher::with_default(&log, || {
            tracing::warn!(reason = text, shown = %text, debugged = ?text, "A peer was turned away.");
        });
        String::from_utf8(kept.0.lock().clone()).unwrap()
    }

    /// What a peer may put into a reason, a name or a path.
    const HOSTILE: &str =
        "a\nb\r\n{\"level\":\"ERROR\"}\u{2028}c\u{2029}d\u{85}e\u{1b}[31mf\u{9b}2Jg\u{202e}h\u{2066}i\u{b}j\u{c}k é";

    #[test]
    fn t37_a_json_line_is_one_line_and_reads_back() {
        let line = logged(Shape::Json, HOSTILE);
        let unescaped = |c: char| c != '\n' && (c.is_control() || one_line::deceives(c));
        assert_eq!(line.matches('\n').count(), 1, "{line:?}");
        assert!(!line.contains(unescaped), "{line:?}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((read["reason"].as_str(), read["shown"].as_str()), (Some(HOSTILE), Some(HOSTILE)));
        assert!(line.contains('é'), "other letters stay as they are: {line}");
    }

    #[test]
    fn t37_a_line_for_people_is_one_line_without_commands_to_the_terminal() {
        let line = logged(Shape::Human { colours: false }, HOSTILE);
        let unescaped = |c: char| c != '\n' && (c.is_control() || one_line::deceives(c));
        assert_eq!(line.matches('\n').count(), 1, "{line:?}");
        assert!(!line.contains(unescaped), "{line:?}");
    }
}
