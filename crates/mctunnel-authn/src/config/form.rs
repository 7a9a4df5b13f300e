//! The form of the authentication file, key by key. A key that is not known is an error: a misspelt one must not pass for a
//! default.

use serde::Deserialize;
use std::{collections::BTreeMap, num::NonZeroU32, path::PathBuf};

/// The authentication file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// The providers, in the order in which they are asked.
    // An `Option`, because the parser would take a key without a value for an empty list.
    pub(super) providers: Option<Vec<ProviderForm>>,
    /// Clients that nobody knows; without this key there are none.
    pub(super) anonymous: Option<AnonymousForm>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnonymousForm {
    /// Has bearer tokens that no provider knows go on to the target.
    #[serde(default)]
    pub(super) unknown_tokens: bool,
}

impl AuthConfig {
    /// Reads the text of a file; `Err` says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
    }

    /// What its providers are called, in their order.
    pub fn provider_names(&self) -> impl Iterator<Item = &str> {
        self.providers.iter().flatten().map(|provider| provider.name.as_str())
    }

    /// The files it names.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let providers = self.providers.iter().flatten();
        providers.flat_map(|provider| {
            let certificates = provider.client_certificates.as_ref().map(|form| &form.ca_file);
            let proxy = provider.front_proxy.as_ref().map(|form| &form.ca_file);
            let oidc = provider.oidc.as_ref().and_then(|form| form.ca_file.as_ref());
            [certificates, proxy, oidc].into_iter().flatten()
        })
    }
}

/// One provider: a name, and exactly one kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderForm {
    pub(super) name: String,
    pub(super) client_certificates: Option<ClientCertificatesForm>,
    pub(super) front_proxy: Option<FrontProxyForm>,
    pub(super) oidc: Option<OidcForm>,
    pub(super) api_keys: Option<ApiKeysForm>,
    pub(super) token_review: Option<TokenReviewForm>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClientCertificatesForm {
    pub(super) ca_file: PathBuf,
    #[serde(default)]
    pub(super) user_from: UserFromForm,
    #[serde(default)]
    pub(super) user_prefix: String,
    #[serde(default)]
    pub(super) group_prefix: String,
    #[serde(default)]
    pub(super) map_users: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) map_groups: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UserFromForm {
    #[default]
    CommonName,
    UriSan,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FrontProxyForm {
    pub(super) ca_file: PathBuf,
    pub(super) allowed_names: Vec<String>,
    pub(super) user_header: Option<String>,
    pub(super) group_header: Option<String>,
    pub(super) uid_header: Option<String>,
    pub(super) extra_header_prefix: Option<String>,
    #[serde(default)]
    pub(super) user_prefix: String,
    #[serde(default)]
    pub(super) group_prefix: String,
    #[serde(default)]
    pub(super) map_users: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) map_groups: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OidcForm {
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
    #[serde(default)]
    pub(super) other_audiences: Vec<String>,
    pub(super) algorithms: Option<Vec<String>>,
    pub(super) ca_file: Option<PathBuf>,
    #[serde(default)]
    pub(super) insecure_plain_loopback: bool,
    pub(super) user_claim: Option<String>,
    /// To be said, even if it is nothing: without it, users of this issuer may have names of others.
    pub(super) user_prefix: String,
    pub(super) groups_claim: Option<String>,
    pub(super) group_prefix: Option<String>,
    /// Facts for policy, by what they are called there.
    #[serde(default)]
    pub(super) extra_claims: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) required_claims: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) map_users: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) map_groups: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApiKeysForm {
    pub(super) failures_per_minute: Option<NonZeroU32>,
    #[serde(default)]
    pub(super) user_prefix: String,
    #[serde(default)]
    pub(super) group_prefix: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenReviewForm {
    pub(super) audiences: Vec<String>,
    pub(super) failures_per_minute: Option<NonZeroU32>,
    #[serde(default)]
    pub(super) extra: Vec<String>,
    #[serde(default)]
    pub(super) user_prefix: String,
    #[serde(default)]
    pub(super) group_prefix: String,
    #[serde(default)]
    pub(super) map_users: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) map_groups: BTreeMap<String, String>,
}
