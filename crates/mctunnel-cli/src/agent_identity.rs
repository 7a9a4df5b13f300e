//! Who the agent is: by a join bundle, by what it kept from enrolling, by a join token or a ServiceAccount's, or by files of the
//! operator's own CA.

use crate::settings::{AccountSettings, AgentSettings, JoinBy};
use mctunnel::{
    JoinBundle,
    agent::{Builder, enrol::Enroller, service_proxy::TokenFile},
    core::observe::SharedObserver,
    identity::{AgentStore, CaPin, EnrolledAgent, EnrolledBy, IdentityError, JoinToken, OwnCertificate},
};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};
use tracing::{info, warn};

/// The identity, and where the next certificate comes from.
pub(crate) enum AgentIdentity {
    Bundle(JoinBundle),
    Enrolled(AgentStore, Box<EnrolledAgent>),
    /// The same, by evidence that lasts.
    Lasting(AgentStore, Box<EnrolledAgent>, Arc<Enroller>),
    Own(OwnCertificate, JoinBundle),
}

impl AgentIdentity {
    pub(crate) fn bundle(&self) -> &JoinBundle {
        match self {
            Self::Bundle(bundle) | Self::Own(_, bundle) => bundle,
            Self::Enrolled(_, agent) | Self::Lasting(_, agent, _) => &agent.bundle,
        }
    }

    /// Tells the agent how to keep its certificate from ending.
    pub(crate) fn keep_current<'a>(&self, builder: Builder<'a>) -> Builder<'a> {
        match self {
            Self::Bundle(_) => builder,
            Self::Enrolled(store, agent) => builder.renewing(store.clone(), (**agent).clone()),
            Self::Lasting(store, agent, again) => {
                builder.renewing_or_enrolling(store.clone(), (**agent).clone(), Arc::clone(again))
            }
            Self::Own(files, _) => builder.following(files.clone()),
        }
    }
}

/// Reads or obtains the identity. To enrol it waits for the hub, for as long as it takes.
pub(crate) async fn obtain(settings: &AgentSettings, observer: &SharedObserver) -> anyhow::Result<AgentIdentity> {
    match &settings.join {
        JoinBy::Bundle(path) => Ok(AgentIdentity::Bundle(JoinBundle::read(path)?)),
        JoinBy::Own(files) => Ok(AgentIdentity::Own(files.clone(), files.read()?)),
        JoinBy::ServiceAccount(account) => by_account(settings, account, observer).await,
        JoinBy::Enrolment { data_dir, token, token_file } => {
            let token = match (token, token_file) {
                (Some(token), _) => Some(JoinToken::parse(token.expose())?),
                (None, Some(file)) => read_token(file)?,
                (None, None) => None,
            };
            let store = AgentStore::new(data_dir);
            let enrolled = enrolled(settings, &store, token, observer).await?;
            Ok(AgentIdentity::Enrolled(store, Box::new(enrolled)))
        }
    }
}

/// What the agent kept counts, unless it was given another token since, or has ended and was given one.
async fn enrolled(
    settings: &AgentSettings,
    store: &AgentStore,
    token: Option<JoinToken>,
    observer: &SharedObserver,
) -> anyhow::Result<EnrolledAgent> {
    let (kept, token) = match (store.load(), token) {
        (Ok(Some(kept)), Some(token)) if kept.by != EnrolledBy::JoinToken(token.id) => (Some(kept), token),
        (Ok(Some(kept)), _) => return Ok(kept),
        (Err(error), None) => return Err(error.into()),
        (Ok(None), None) => return Err(NotEnrolled.into()),
        (Ok(None), Some(token)) => (None, token),
        // It cannot be used any more; perhaps the token can.
        (Err(IdentityError::BundleExpired { .. } | IdentityError::StoreInvalid { .. }), Some(token)) => (None, token),
        (Err(error), Some(_)) => return Err(error.into()),
    };
    match (enrol(settings, store, token, observer).await, kept) {
        (Err(error), Some(kept)) => {
            warn!(%error, "The new token does not count; going on with the identity there is.");
            Ok(kept)
        }
        (enrolled, _) => enrolled,
    }
}

async fn enrol(
    settings: &AgentSettings,
    store: &AgentStore,
    token: JoinToken,
    observer: &SharedObserver,
) -> anyhow::Result<EnrolledAgent> {
    info!(token = %token.id, hub = token.hub, "Enrolling.");
    let enroller = told(Enroller::new(token)?, settings)?;
    let enrolled = enroller.enrol_patiently(store, observer).await?;
    info!(cluster = %enrolled.bundle.cluster, lifetime = ?enrolled.lifetime, "Enrolled.");
    Ok(enrolled)
}

/// What the settings say about the way to the hub.
fn told(enroller: Enroller, settings: &AgentSettings) -> anyhow::Result<Enroller> {
    let mut enroller = enroller.proxy(settings.proxy.clone());
    if let Some(hub) = &settings.hub {
        enroller = enroller.hub(hub)?;
    }
    if let Some(name) = &settings.hub_server_name {
        enroller = enroller.hub_server_name(name);
    }
    Ok(enroller)
}

/// What the agent kept counts for as long as it lives, whatever it was got with; after that the account has to vouch again.
async fn by_account(
    settings: &AgentSettings,
    account: &AccountSettings,
    observer: &SharedObserver,
) -> anyhow::Result<AgentIdentity> {
    let AccountSettings { data_dir, token_file, hub_ca, hub } = account;
    let enroller = Enroller::of_service_account(TokenFile::read_each_time(token_file), CaPin::read(hub_ca)?, hub)?;
    let enroller = told(enroller, settings)?;
    let store = AgentStore::new(data_dir);
    let enrolled = match store.load() {
        Ok(Some(kept)) => kept,
        Ok(None) | Err(IdentityError::BundleExpired { .. } | IdentityError::StoreInvalid { .. }) => {
            info!(token_file = %token_file.display(), hub, "Enrolling as a ServiceAccount.");
            let enrolled = enroller.enrol_patiently(&store, observer).await?;
            info!(cluster = %enrolled.bundle.cluster, lifetime = ?enrolled.lifetime, "Enrolled.");
            enrolled
        }
        Err(error) => return Err(error.into()),
    };
    Ok(AgentIdentity::Lasting(store, Box::new(enrolled), Arc::new(enroller)))
}

/// The token in a file. One that is gone is no token: it may be deleted once it was used.
fn read_token(path: &Path) -> anyhow::Result<Option<JoinToken>> {
    let failed = |source| IdentityError::File { action: "read", path: path.to_owned(), source };
    let mode = match fs::metadata(path) {
        Ok(metadata) => metadata.permissions().mode() & 0o7777,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error).into()),
    };
    if mode & 0o007 != 0 {
        return Err(IdentityError::FileExposed { path: path.to_owned(), mode }.into());
    }
    let text = mctunnel::Secret::new(fs::read_to_string(path).map_err(failed)?);
    Ok(Some(JoinToken::parse(text.expose())?))
}

/// The agent has nothing to prove who it is.
#[derive(Debug, thiserror::Error)]
#[error("this agent has not enrolled, and was given no join token")]
pub(crate) struct NotEnrolled;

impl NotEnrolled {
    pub(crate) fn code(&self) -> mctunnel::ErrorCode {
        mctunnel::ErrorCode {
            code: "MCT-AGENT-NOT-ENROLLED",
            remedy: "make a token at the hub with 'mctunnel join-token create --cluster NAME' and give it with --join-token",
        }
    }
}
