//! `mctunnel api-key`: keys for programs that use the gateway. A running hub is asked to do it; without one it is done here.

use crate::{
    cli::{DataDir, ListForm},
    control::{self, ApiKeyLine, Command as Ask, ControlError, Reply},
    output,
};
use clap::{Args, Subcommand};
use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// What `mctunnel api-key` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a key; it is printed once and kept nowhere
    #[command(after_help = CREATE_EXAMPLE)]
    Create(Create),
    /// List the keys, those that were revoked too
    #[command(after_help = "Example:\n  mctunnel api-key list --data-dir /var/lib/mctunnel -o json")]
    List {
        #[command(flatten)]
        hub: DataDir,
        /// The form of the list
        #[arg(short, long, value_name = "FORM", default_value = "table")]
        output: ListForm,
    },
    /// Revoke a key for good, at once
    #[command(after_help = "Example:\n  mctunnel api-key revoke k3x7q2ab --data-dir /var/lib/mctunnel")]
    Revoke {
        /// The key's id, as in the list
        id: String,
        #[command(flatten)]
        hub: DataDir,
    },
}

/// What `mctunnel api-key create` takes.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// What the key is for, for the list
    name: String,
    #[command(flatten)]
    hub: DataDir,
    /// The user that whoever has the key is
    #[arg(long, value_name = "NAME")]
    user: String,
    /// A group of that user; may be given many times
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// How long the key counts [default: until it is revoked]
    #[arg(long, value_name = "TIME")]
    ttl: Option<humantime::Duration>,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Create(create) => Ok(create.run()?),
            Self::List { hub, output } => list(&hub.data_dir, output),
            Self::Revoke { id, hub } => Ok(revoke(id, &hub.data_dir)?),
        }
    }
}

impl Create {
    fn run(self) -> Result<(), ControlError> {
        let Self { name, hub, user, groups, ttl } = self;
        let lifetime = ttl.map(|ttl| ttl.as_secs());
        let ask = Ask::ApiKeyCreate { name, user, groups, lifetime };
        let Reply::ApiKeyCreated { key, record } = control::call(&hub.data_dir, &ask)? else {
            return Err(unexpected());
        };
        let until = record.expires.map_or_else(|| "it is revoked".to_owned(), date);
        output::note(&format!(
            "The API key {} of user {} counts until {until}. It is shown this once and kept nowhere:",
            record.id, record.user
        ));
        output::say(key.expose());
        Ok(())
    }
}

fn revoke(id: String, data_dir: &Path) -> Result<(), ControlError> {
    let Reply::ApiKeyRevoked { record } = control::call(data_dir, &Ask::ApiKeyRevoke { id })? else {
        return Err(unexpected());
    };
    output::say(&format!("The API key {} of user {} is revoked.", record.id, record.user));
    Ok(())
}

fn list(data_dir: &Path, form: ListForm) -> anyhow::Result<()> {
    let Reply::ApiKeys { keys } = control::call(data_dir, &Ask::ApiKeyList)? else {
        return Err(unexpected().into());
    };
    match form {
        ListForm::Json => output::say(&serde_json::to_string_pretty(&keys)?),
        ListForm::Table => table(&keys).iter().for_each(|line| output::say(line)),
    }
    Ok(())
}

fn table(keys: &[ApiKeyLine]) -> Vec<String> {
    let width = |title: &str, field: fn(&ApiKeyLine) -> &str| {
        keys.iter().map(|key| field(key).chars().count()).max().unwrap_or_default().max(title.len())
    };
    let (name, user) = (width("NAME", |key| &key.name), width("USER", |key| &key.user));
    let mut lines =
        vec![format!("{:<8}  {:<name$}  {:<user$}  {:<20}  {:<20}  GROUPS", "ID", "NAME", "USER", "CREATED", "ENDS")];
    for key in keys {
        let ends = match (key.revoked, key.expires) {
            (Some(_), _) => "revoked".to_owned(),
            (None, Some(expires)) if expires <= now() => "expired".to_owned(),
            (None, Some(expires)) => date(expires),
            (None, None) => "never".to_owned(),
        };
        let line = format!(
            "{:<8}  {:<name$}  {:<user$}  {:<20}  {ends:<20}  {}",
            key.id,
            key.name,
            key.user,
            date(key.created),
            key.groups.join(",")
        );
        lines.push(line.trim_end().to_owned());
    }
    lines
}

fn unexpected() -> ControlError {
    ControlError::BadAnswer("it is the answer to another question".to_owned())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Seconds since 1970 as `2026-11-15T10:00:00Z`.
fn date(unix: u64) -> String {
    /// The end of the year 9999, after which the format has no room.
    const LAST: u64 = 253_402_300_799;
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(unix.min(LAST))).to_string()
}

const CREATE_EXAMPLE: &str = "\
Examples:
  mctunnel api-key create ci-runner --user ci --group builders --ttl 90d --data-dir /var/lib/mctunnel
  KEY=$(mctunnel api-key create ci-runner --user ci --data-dir /var/lib/mctunnel)

Programs send it as 'Authorization: Bearer KEY'. A running hub takes note at once.";
