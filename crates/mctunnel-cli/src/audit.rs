//! `mctunnel audit`: verifies the audit log, and shows it to people. It works on the files alone, whether a hub runs or not.

mod follow;
mod shown;
mod tail;

use crate::output;
use clap::{Args, Subcommand, ValueEnum};
use mctunnel::ErrorCode;
use mctunnel_audit::{AuditError, FileConfig, Head, Layout, Verified, VerifyError, verify};
use std::path::{Path, PathBuf};

/// What `mctunnel audit` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check that nothing in the log was changed, removed or put in between
    #[command(after_help = VERIFY_EXAMPLE)]
    Verify(Verify),
    /// Show the newest records, and those that come
    #[command(after_help = TAIL_EXAMPLE)]
    Tail(Tail),
}

/// What `mctunnel audit verify` takes.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The files of one log, in any order
    #[arg(required_unless_present = "data_dir", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Verify the log in the data directory of a hub
    #[arg(long, value_name = "DIR", conflicts_with = "files")]
    data_dir: Option<PathBuf>,
    /// A record that is known from elsewhere, as this command printed it earlier; may be given many times
    #[arg(long, value_name = "SEQ:HASH", value_parser = checkpoint)]
    checkpoint: Vec<Head>,
}

/// What `mctunnel audit tail` takes.
#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// The log
    #[arg(required_unless_present = "data_dir", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show the log in the data directory of a hub
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    data_dir: Option<PathBuf>,
    /// Only records about this cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Only records about this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Wait for more records and show them as they come
    #[arg(short, long)]
    follow: bool,
    /// How many of the newest records to show
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20)]
    lines: usize,
    /// The form of the records
    #[arg(short, long, value_name = "FORM", default_value = "human")]
    output: Form,
}

/// The form of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// One line for people
    Human,
    /// The line of the log
    Json,
}

impl Command {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Verify(verify) => Ok(verify.run()?),
            Self::Tail(tail) => tail.run(),
        }
    }
}

impl Verify {
    fn run(&self) -> Result<(), AuditFailed> {
        let mut known = self.checkpoint.clone();
        // The checkpoints first: a log that is being written only grows.
        let files = match &self.data_dir {
            Some(data_dir) => {
                let layout = in_data_dir(data_dir);
                known.extend(layout.read_head()?);
                let files = layout.files()?;
                if files.is_empty() && known.is_empty() {
                    return Err(AuditFailed::NoLog { path: layout.active().to_owned() });
                }
                files
            }
            None => {
                for file in &self.files {
                    known.extend(Layout::of(file).read_head()?);
                }
                self.files.clone()
            }
        };
        tell(&verify(&files, &known)?, files.len());
        Ok(())
    }
}

fn tell(verified: &Verified, files: usize) {
    let Some(head) = verified.head else {
        return output::say("The log is empty.");
    };
    let (records, first) = (verified.records, verified.first);
    output::say(&format!("The log holds: {records} records in {files} files, from {first} to {}.", head.seq));
    if first > 1 {
        output::say(&format!("Records before {first} are not in these files; whether they were is not known."));
    }
    if verified.torn > 0 {
        output::say(&format!("A crash left unfinished lines {} times; each is accounted for.", verified.torn));
    }
    if verified.unfinished > 0 {
        output::say(&format!("The last line is not finished ({} bytes).", verified.unfinished));
    }
    for unused in &verified.unused {
        output::say(&format!("The checkpoint {} is older than these files and was not used.", unused.seq));
    }
    output::say(&format!("Keep this elsewhere to check it later with --checkpoint:\n  {head}"));
}

fn in_data_dir(data_dir: &Path) -> Layout {
    Layout::of(&data_dir.join(FileConfig::IN_DATA_DIR))
}

fn checkpoint(text: &str) -> Result<Head, String> {
    Head::parse(text).ok_or_else(|| "a checkpoint is SEQ:HASH, as 'mctunnel audit verify' prints it".to_owned())
}

/// The log does not hold, or cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditFailed {
    /// The audit log was changed.
    #[error("the log does not hold")]
    Broken(#[source] VerifyError),
    /// There is no audit log.
    #[error("there is no audit log at {}", path.display())]
    NoLog { path: PathBuf },
    /// The audit log could not be read.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

impl From<VerifyError> for AuditFailed {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Audit(error) => Self::Audit(error),
            VerifyError::Broken(_) => Self::Broken(error),
        }
    }
}

impl AuditFailed {
    pub(crate) fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::Broken(_) => (
                "MCT-AUDIT-BROKEN",
                "keep all files as they are, compare them with copies elsewhere, and find out who could write them",
            ),
            Self::NoLog { .. } => ("MCT-AUDIT-NO-LOG", "check the path, and that the hub writes an audit log"),
            Self::Audit(error) => return error.code(),
        };
        ErrorCode { code, remedy }
    }
}

const VERIFY_EXAMPLE: &str = "\
Examples:
  mctunnel audit verify --data-dir /var/lib/mctunnel
  mctunnel audit verify audit-*.log audit.log --checkpoint 1042:3c9f...

The status is 1 if the log does not hold. The file audit.head beside the log, if it is there, shows that the end is not missing.";

const TAIL_EXAMPLE: &str = "\
Examples:
  mctunnel audit tail --data-dir /var/lib/mctunnel --cluster cluster-a -f
  mctunnel audit tail audit.log --user alice -n 100 -o json";
