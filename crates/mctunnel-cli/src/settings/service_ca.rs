//! `--service-ca`: files with CA certificates, for all services or for one.

use super::{ConfigError, effective::Effective};
use mctunnel::kube::ServiceName;
use std::{collections::BTreeMap, path::PathBuf};

/// Which files say who signs the certificates of services.
#[derive(Debug, Default)]
pub(crate) struct ServiceCa {
    /// For services without a file of their own; given twice, the last counts.
    pub(crate) of_others: Option<PathBuf>,
    pub(crate) of_one: BTreeMap<ServiceName, PathBuf>,
}

impl ServiceCa {
    pub(super) fn read(effective: &Effective) -> Result<Self, ConfigError> {
        let mut files = Self::default();
        for text in effective.texts("service_ca") {
            // A path has an empty label in front of its first slash, or is taken for a service.
            let named = text.split_once('=').and_then(|(name, file)| Some((ServiceName::parse(name).ok()?, file)));
            match named {
                Some((_, "")) => {
                    return Err(effective.bad_value("service_ca", format!("{text:?} names no file")));
                }
                Some((service, file)) => {
                    if let Some(first) = files.of_one.insert(service, file.into()) {
                        let problem = format!("{text:?} is the second file for its service, after {}", first.display());
                        return Err(effective.bad_value("service_ca", problem));
                    }
                }
                None => files.of_others = Some(text.into()),
            }
        }
        Ok(files)
    }
}
