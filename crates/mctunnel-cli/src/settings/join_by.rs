//! How an agent comes to its identity, as the settings say it: one way of several.

use super::{ConfigError, effective::Effective};
use mctunnel::{Secret, identity::OwnCertificate};
use std::path::PathBuf;

/// How an agent comes to its identity.
#[derive(Debug)]
pub(crate) enum JoinBy {
    /// By a join bundle.
    Bundle(PathBuf),
    /// By enrolling, or by what it kept when it did.
    Enrolment { data_dir: PathBuf, token: Option<Secret>, token_file: Option<PathBuf> },
    /// By enrolling as a ServiceAccount, as often as it takes, or by what it kept when it did.
    ServiceAccount(AccountSettings),
    /// By files of the operator's own CA.
    Own(OwnCertificate),
}

/// How an agent enrols as a ServiceAccount.
#[derive(Debug)]
pub(crate) struct AccountSettings {
    pub(crate) data_dir: PathBuf,
    pub(crate) token_file: PathBuf,
    pub(crate) hub_ca: PathBuf,
    pub(crate) hub: String,
}

const BY_ACCOUNT: &str = "enrol_service_account_token";

impl JoinBy {
    pub(super) fn read(effective: &Effective) -> Result<Self, ConfigError> {
        let token = effective.text("join_token").map(Secret::new);
        let token_file = effective.path("join_token_file");
        let by_token =
            if token.is_some() { Some("join_token") } else { token_file.is_some().then_some("join_token_file") };
        let is_given = |key: &'static str| effective.text(key).map(|_| key);
        let ways = [is_given("join"), by_token, is_given(BY_ACCOUNT), is_given("certificate")];
        let given: Vec<_> = ways.into_iter().flatten().collect();
        if let [first, second, ..] = given.as_slice() {
            let problem = format!("{} is given, too; one of them says who the agent is", effective.name_of(first));
            return Err(effective.bad_value(second, problem));
        }
        match (given.first(), effective.path("data_dir")) {
            (Some(&"join"), _) => Ok(Self::Bundle(effective.required("join")?.into())),
            (Some(&"certificate"), _) => Ok(Self::Own(OwnCertificate {
                certificate: effective.required("certificate")?.into(),
                key: effective.required("key")?.into(),
                hub_ca: effective.required("hub_ca")?.into(),
                hub: effective.required("hub")?.to_owned(),
            })),
            (Some(&BY_ACCOUNT), Some(data_dir)) => Ok(Self::ServiceAccount(AccountSettings {
                data_dir,
                token_file: effective.required(BY_ACCOUNT)?.into(),
                hub_ca: effective.required("hub_ca")?.into(),
                hub: effective.required("hub")?.to_owned(),
            })),
            (_, Some(data_dir)) => Ok(Self::Enrolment { data_dir, token, token_file }),
            (Some(_), None) => {
                Err(ConfigError::Missing { flag: "--data-dir, for what the agent gets for its token,".to_owned() })
            }
            (None, None) => Err(ConfigError::Missing { flag: "--join-token with --data-dir, or --join,".to_owned() }),
        }
    }
}
