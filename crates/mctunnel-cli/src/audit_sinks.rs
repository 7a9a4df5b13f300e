//! Where the hub writes its audit log: what the settings say, turned into a log that is open.

#[cfg(test)]
mod tests;

use crate::{settings::ConfigError, tls_roots::client_config};
use mctunnel::Secret;
use mctunnel_audit::{AuditConfig, AuditLog, FileConfig, OnFull, WebhookConfig};
use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};

/// Where requests are written down, and what happens when they cannot be.
#[derive(Debug, Clone)]
pub(crate) struct AuditSettings {
    pub(crate) to: AuditTo,
    pub(crate) file: AuditFile,
    pub(crate) webhook: Option<WebhookSettings>,
    pub(crate) on_full: OnFull,
}

/// The first place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuditTo {
    Off,
    DataDir,
    Stdout,
    File(PathBuf),
}

/// If it is a file: when the next is begun, and how many full ones are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditFile {
    pub(crate) size: u64,
    pub(crate) keep: usize,
}

/// A receiver that gets every record as well.
#[derive(Debug, Clone)]
pub(crate) struct WebhookSettings {
    pub(crate) url: String,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) authorization_file: Option<PathBuf>,
    /// How many records may wait for it.
    pub(crate) queue: usize,
}

impl AuditSettings {
    /// Opens the log; `None` if nothing is to be written. With `shared`, another hub may write it too.
    pub(crate) fn open(&self, data_dir: &Path, shared: bool) -> anyhow::Result<Option<AuditLog>> {
        let mut config = AuditConfig::default();
        config.on_full = self.on_full;
        config.webhook = self.webhook.as_ref().map(|webhook| webhook.config(self.on_full)).transpose()?;
        match &self.to {
            AuditTo::Off if config.webhook.is_none() => return Ok(None),
            AuditTo::Off => {}
            AuditTo::DataDir => config.file = Some(FileConfig::in_data_dir(data_dir)),
            AuditTo::Stdout => config.stdout = true,
            AuditTo::File(path) => config.file = Some(FileConfig::new(path)),
        }
        if let Some(file) = &mut config.file {
            (file.shared, file.rotate_bytes, file.keep) = (shared, self.file.size, self.file.keep);
        }
        Ok(Some(AuditLog::open(config)?))
    }
}

impl WebhookSettings {
    fn config(&self, on_full: OnFull) -> anyhow::Result<WebhookConfig> {
        let mut config = WebhookConfig::new(&self.url);
        (config.on_full, config.queue) = (on_full, self.queue);
        config.authorization = self.authorization_file.as_deref().map(authorization).transpose()?;
        if self.url.starts_with("https://") {
            config.tls = Some(client_config(self.ca.as_deref())?);
        }
        Ok(config)
    }

    /// Whether what is shown to the receiver could be read on the way.
    pub(crate) fn shows_its_secret(&self) -> bool {
        self.authorization_file.is_some() && can_be_read(&self.url)
    }
}

/// Whether what is sent there could be read on the way: it is neither on this machine nor has it TLS.
pub(crate) fn can_be_read(url: &str) -> bool {
    let host = url.parse::<hyper::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
    let here = host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    !here && !url.starts_with("https://")
}

/// The value of the header, in a file because command lines and environments are read by others.
pub(crate) fn authorization(path: &Path) -> Result<Secret, ConfigError> {
    let unreadable = |source| ConfigError::SecretUnreadable { path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let value = text.trim();
    if value.is_empty() || !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidData, "it is not one line of plain text")));
    }
    Ok(Secret::new(value))
}
