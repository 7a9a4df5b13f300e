//! The data directory of a hub as commands find it. Who asks about a hub, or changes what it has, makes no other one of a mistyped name.

use crate::{control::ControlError, output};
use mctunnel::{HubAuthority, IdentityError};
use std::path::Path;

/// An error if there is none.
pub(crate) fn existing(data_dir: &Path) -> Result<(), ControlError> {
    if data_dir.is_dir() {
        return Ok(());
    }
    Err(ControlError::NoDataDirectory { data_dir: data_dir.to_owned() })
}

/// The CA of a hub that there is.
pub(crate) fn authority(data_dir: &Path) -> anyhow::Result<HubAuthority> {
    existing(data_dir)?;
    Ok(HubAuthority::at(data_dir).open()?)
}

/// The CA of a hub, or of one that is to be: whoever made it is told.
pub(crate) fn authority_or_new(data_dir: &Path) -> anyhow::Result<HubAuthority> {
    let opening = HubAuthority::at(data_dir);
    let is_new = opening.is_new()?;
    let authority = opening.open_or_create()?;
    if is_new {
        output::note(&format!(
            "note: there was no CA of a hub in {}, so a new one was made. If your hub has another data directory, give that.",
            data_dir.display()
        ));
    }
    Ok(authority)
}

/// Says that a directory is new, for what needs no CA.
pub(crate) fn mention_new(data_dir: &Path) {
    if !data_dir.is_dir() {
        output::note(&format!(
            "note: there was no data directory {}, so a new one is made. If your hub has another one, give that.",
            data_dir.display()
        ));
    }
}

/// Says which records do not count because they cannot be read.
pub(crate) fn warn_unread(unread: impl IntoIterator<Item = IdentityError>) {
    for error in unread {
        let remedy = error.code().remedy;
        output::note(&format!("warning: {:#}; it counts for nobody\n  remedy: {remedy}", anyhow::Error::from(error)));
    }
}
