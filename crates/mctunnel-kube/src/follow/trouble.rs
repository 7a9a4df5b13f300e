//! Why a list or a watch did not go on, sorted by what to do about it.

use kube::core::Status;
use std::{error::Error, fmt::Write as _};

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The watch ended, as each does after a while: resume.
    Ended,
    /// The server has forgotten the version: list anew.
    Gone,
    /// The agent may not ask, or there is no such kind of object: do without.
    Denied(String),
    /// Anything else: try again.
    Failed(String),
}

impl Trouble {
    pub(crate) fn from_status(status: &Status) -> Self {
        match status.code {
            410 => Self::Gone,
            403 | 404 => Self::Denied(told(status)),
            _ => Self::Failed(told(status)),
        }
    }
}

impl From<kube::Error> for Trouble {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = &error {
            return Self::from_status(status);
        }
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            let said = next.to_string();
            // The client repeats some causes in the text above them.
            if !text.contains(&said) {
                let _ = write!(text, ": {said}");
            }
            cause = next.source();
        }
        Self::Failed(text)
    }
}

fn told(status: &Status) -> String {
    if status.message.is_empty() { format!("status {}", status.code) } else { status.message.clone() }
}
