//! From the authentication file to a chain. A provider whose part of the file did not change is taken over as it is, with the keys it
//! has fetched and the failures it has counted.

use super::{
    AuthConfig, AuthParts,
    form::{
        AnonymousForm, ApiKeysForm, ClientCertificatesForm, FrontProxyForm, OidcForm, ProviderForm, TokenReviewForm,
        UserFromForm,
    },
};
use crate::{
    Anonymous, ApiKeySettings, ApiKeys, AuthnError, Chain, ClientCertificateSettings, ClientCertificates, FrontProxy,
    FrontProxyFields, FrontProxySettings, HUB_CLUSTER, NameRules, Oidc, OidcSettings, Provider, SigningAlgorithm,
    TokenReviewSettings, TokenReviews, UserFrom,
    oidc::{claims::ClaimRules, key_source::KeySource},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

type NamedFiles = BTreeMap<PathBuf, Vec<u8>>;

/// What was built, and from what, so that it can be taken over.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) chain: Chain,
    pub(crate) reuse: Reuse,
}

/// Providers that were built before.
#[derive(Debug)]
pub(crate) struct Reuse(Vec<Made>);

impl Reuse {
    pub(crate) fn nothing() -> Self {
        Self(Vec::new())
    }

    fn of(&self, plan: &Plan) -> Option<Made> {
        self.0.iter().find(|made| made.plan == *plan).cloned()
    }

    /// The keys of an issuer that is asked as before: other names for its users are no reason to be without them.
    fn keys(&self, settings: &OidcSettings) -> Option<Arc<KeySource>> {
        let is_same = |made: &&Made| {
            let Settings::Oidc(known) = &made.plan.settings else { return false };
            let OidcSettings { issuer, ca_pem, plain_loopback, algorithms: _, claims: _ } = known;
            (issuer, ca_pem, plain_loopback) == (&settings.issuer, &settings.ca_pem, &settings.plain_loopback)
        };
        self.0.iter().find(is_same)?.keys.clone()
    }
}

/// A provider, and what it was made from.
#[derive(Debug, Clone)]
struct Made {
    plan: Plan,
    provider: Arc<dyn Provider>,
    /// Of an issuer.
    keys: Option<Arc<KeySource>>,
}

/// A provider before it is made: everything it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Plan {
    name: String,
    settings: Settings,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Settings {
    ClientCertificates(ClientCertificateSettings),
    FrontProxy(FrontProxySettings),
    Oidc(OidcSettings),
    ApiKeys(ApiKeySettings),
    TokenReviews(TokenReviewSettings),
}

pub(super) fn build(
    config: AuthConfig,
    files: &NamedFiles,
    parts: &AuthParts,
    reuse: &Reuse,
) -> Result<Built, AuthnError> {
    let anonymous = config.anonymous.map(|AnonymousForm { unknown_tokens }| Anonymous { unknown_tokens });
    let mut plans = Vec::new();
    for form in config.providers.unwrap_or_default() {
        plans.push(plan(form, files)?);
    }
    check_together(&plans)?;
    reserve_prefixes(&mut plans);
    let mut built = Vec::new();
    for plan in plans {
        built.push(reuse.of(&plan).map_or_else(|| make(plan, parts, reuse), Ok)?);
    }
    let providers = built.iter().map(|made| Arc::clone(&made.provider)).collect();
    let chain = Chain::new(providers)?.with_anonymous(anonymous);
    Ok(Built { chain, reuse: Reuse(built) })
}

fn plan(form: ProviderForm, files: &NamedFiles) -> Result<Plan, AuthnError> {
    let ProviderForm { name, client_certificates, front_proxy, oidc, api_keys, token_review } = form;
    let refuse = |reason: String| AuthnError::provider(&name, reason);
    if name.is_empty()
        || name.len() > 63
        || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        return Err(refuse("a name is 1 to 63 of the letters a-z, digits and '-'".to_owned()));
    }
    let settings = match (client_certificates, front_proxy, oidc, api_keys, token_review) {
        (Some(form), None, None, None, None) => client_certificate_settings(form, files),
        (None, Some(form), None, None, None) => front_proxy_settings(form, files),
        (None, None, Some(form), None, None) => oidc_settings(form, files).map_err(refuse)?,
        (None, None, None, Some(form), None) => api_key_settings(form),
        (None, None, None, None, Some(form)) => token_review_settings(form),
        _ => {
            return Err(refuse(
                "give it exactly one of client_certificates, front_proxy, oidc, api_keys and token_review".to_owned(),
            ));
        }
    };
    Ok(Plan { name, settings })
}

fn client_certificate_settings(form: ClientCertificatesForm, files: &NamedFiles) -> Settings {
    let ClientCertificatesForm { ca_file, user_from, user_prefix, group_prefix, map_users, map_groups } = form;
    Settings::ClientCertificates(ClientCertificateSettings {
        ca_pem: content(files, &ca_file),
        user_from: match user_from {
            UserFromForm::CommonName => UserFrom::CommonName,
            UserFromForm::UriSan => UserFrom::UriSan,
        },
        names: names(user_prefix, group_prefix, map_users, map_groups),
    })
}

fn front_proxy_settings(form: FrontProxyForm, files: &NamedFiles) -> Settings {
    let usual = FrontProxyFields::default();
    Settings::FrontProxy(FrontProxySettings {
        ca_pem: content(files, &form.ca_file),
        allowed_names: form.allowed_names,
        fields: FrontProxyFields {
            user: form.user_header.unwrap_or(usual.user),
            group: form.group_header.unwrap_or(usual.group),
            uid: form.uid_header.unwrap_or(usual.uid),
            extra_prefix: form.extra_header_prefix.unwrap_or(usual.extra_prefix),
        },
        names: names(form.user_prefix, form.group_prefix, form.map_users, form.map_groups),
    })
}

fn oidc_settings(form: OidcForm, files: &NamedFiles) -> Result<Settings, String> {
    if form.groups_claim.is_some() != form.group_prefix.is_some() {
        return Err("groups_claim and group_prefix belong together; the prefix may be \"\"".to_owned());
    }
    let algorithms = match form.algorithms {
        None => vec![SigningAlgorithm::Rs256, SigningAlgorithm::Es256],
        Some(names) => names
            .iter()
            .map(|name| {
                SigningAlgorithm::parse(name)
                    .ok_or_else(|| format!("'{}' is no algorithm we take", name.escape_debug()))
            })
            .collect::<Result<_, _>>()?,
    };
    Ok(Settings::Oidc(OidcSettings {
        issuer: form.issuer,
        algorithms,
        claims: ClaimRules {
            audiences: form.audiences,
            other_audiences: form.other_audiences,
            user: form.user_claim.unwrap_or_else(|| "sub".to_owned()),
            groups: form.groups_claim,
            facts: form.extra_claims,
            required: form.required_claims,
            names: names(form.user_prefix, form.group_prefix.unwrap_or_default(), form.map_users, form.map_groups),
        },
        ca_pem: form.ca_file.map(|file| content(files, &file)),
        plain_loopback: form.insecure_plain_loopback,
    }))
}

fn api_key_settings(form: ApiKeysForm) -> Settings {
    let usual = ApiKeySettings::default();
    Settings::ApiKeys(ApiKeySettings {
        names: names(form.user_prefix, form.group_prefix, BTreeMap::new(), BTreeMap::new()),
        failures_per_minute: form.failures_per_minute.unwrap_or(usual.failures_per_minute),
    })
}

fn token_review_settings(form: TokenReviewForm) -> Settings {
    let usual = TokenReviewSettings::new(form.audiences);
    Settings::TokenReviews(TokenReviewSettings {
        names: names(form.user_prefix, form.group_prefix, form.map_users, form.map_groups),
        extra: form.extra,
        failures_per_minute: form.failures_per_minute.unwrap_or(usual.failures_per_minute),
        ..usual
    })
}

fn names(
    user_prefix: String,
    group_prefix: String,
    users: BTreeMap<String, String>,
    groups: BTreeMap<String, String>,
) -> NameRules {
    NameRules { user_prefix, group_prefix, users, groups, reserved: Vec::new() }
}

fn content(files: &NamedFiles, file: &Path) -> Vec<u8> {
    files.get(file).cloned().unwrap_or_default()
}

// === all providers together ===

/// No provider makes names that begin with the prefix of another.
fn reserve_prefixes(plans: &mut [Plan]) {
    let mut prefixes = BTreeSet::from([HUB_CLUSTER.to_owned()]);
    for plan in &mut *plans {
        let NameRules { user_prefix, group_prefix, .. } = plan.settings.names();
        prefixes.extend([user_prefix.clone(), group_prefix.clone()]);
    }
    prefixes.remove("");
    plans.iter_mut().for_each(|plan| plan.settings.names().reserve(&prefixes));
}

impl Settings {
    fn names(&mut self) -> &mut NameRules {
        match self {
            Self::ClientCertificates(settings) => &mut settings.names,
            Self::FrontProxy(settings) => &mut settings.names,
            Self::Oidc(settings) => &mut settings.claims.names,
            Self::ApiKeys(settings) => &mut settings.names,
            Self::TokenReviews(settings) => &mut settings.names,
        }
    }
}

fn check_together(plans: &[Plan]) -> Result<(), AuthnError> {
    for (index, plan) in plans.iter().enumerate() {
        for earlier in plans.iter().take(index) {
            if let Some(reason) = clash(&plan.settings, &earlier.settings) {
                return Err(AuthnError::provider(&plan.name, format!("{reason} '{}'", earlier.name)));
            }
        }
    }
    Ok(())
}

/// What keeps two providers from standing in one file, the first one behind the other.
fn clash(one: &Settings, other: &Settings) -> Option<&'static str> {
    match (one, other) {
        (Settings::Oidc(one), Settings::Oidc(other)) if one.issuer == other.issuer => Some("it has the same issuer as"),
        (Settings::Oidc(_), Settings::TokenReviews(_)) => Some("its tokens would go to the cluster; put it before"),
        (Settings::ApiKeys(_), Settings::ApiKeys(_)) => Some("API keys are known already by"),
        (Settings::TokenReviews(_), Settings::TokenReviews(_)) => Some("the hub's cluster is asked already by"),
        // A CA that signs for users as well would let a user be the proxy, and the proxy a user.
        (Settings::FrontProxy(proxy), Settings::ClientCertificates(users))
        | (Settings::ClientCertificates(users), Settings::FrontProxy(proxy)) => {
            share_a_ca(&proxy.ca_pem, &users.ca_pem)
                .then_some("a front proxy needs a CA of its own, and shares one with")
        }
        _ => None,
    }
}

fn share_a_ca(one: &[u8], other: &[u8]) -> bool {
    use rustls_pki_types::{CertificateDer, pem::PemObject};
    let all = |pem: &[u8]| -> Vec<CertificateDer<'static>> { CertificateDer::pem_slice_iter(pem).flatten().collect() };
    let other = all(other);
    all(one).iter().any(|authority| other.contains(authority))
}

fn make(plan: Plan, parts: &AuthParts, reuse: &Reuse) -> Result<Made, AuthnError> {
    let Plan { name, settings } = plan.clone();
    let clock = parts.clock.clone();
    let missing = |missing| AuthnError::MissingPart { name: name.clone(), missing };
    let mut keys = None;
    let provider: Arc<dyn Provider> = match settings {
        Settings::ClientCertificates(settings) => Arc::new(ClientCertificates::new(&name, settings, clock)?),
        Settings::FrontProxy(settings) => Arc::new(FrontProxy::new(&name, settings, clock)?),
        Settings::Oidc(settings) => {
            let oidc = match reuse.keys(&settings) {
                Some(known) => Oidc::with_keys(&name, settings, clock, known)?,
                None => Oidc::new(&name, settings, clock)?,
            };
            keys = Some(Arc::clone(oidc.keys()));
            Arc::new(oidc)
        }
        Settings::ApiKeys(settings) => {
            let store = parts.api_keys.clone().ok_or_else(|| missing("there is no store of API keys"))?;
            Arc::new(ApiKeys::new(&name, settings, store, clock)?)
        }
        Settings::TokenReviews(settings) => {
            let reviews = parts.reviews.clone().ok_or_else(|| missing("there is no cluster that could be asked"))?;
            Arc::new(TokenReviews::new(&name, settings, reviews, clock)?)
        }
    };
    Ok(Made { plan, provider, keys })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(text: &str, reuse: &Reuse) -> Built {
        let config: AuthConfig = AuthConfig::parse(text).unwrap();
        let parts = AuthParts { api_keys: Some(Arc::new(crate::MemoryApiKeys::default())), ..AuthParts::default() };
        build(config, &NamedFiles::new(), &parts, reuse).unwrap()
    }

    fn keys(built: &Built) -> &Arc<KeySource> {
        built.reuse.0.iter().find_map(|made| made.keys.as_ref()).unwrap()
    }

    #[tokio::test]
    async fn an_issuers_keys_stay_while_it_is_asked_in_the_same_way() {
        let oidc = |prefix: &str| {
            let form = format!("issuer: 'https://a.example', audiences: [a], user_prefix: '{prefix}'");
            format!("providers:\n- {{name: corp, oidc: {{{form}}}}}\n")
        };
        let first = built(&oidc(""), &Reuse::nothing());
        let beside = format!("{}- {{name: ci, api_keys: {{user_prefix: 'ci:'}}}}\n", oidc(""));
        let second = built(&beside, &first.reuse);
        let provider = |built: &Built| Arc::clone(&built.reuse.0.first().unwrap().provider);
        assert!(!Arc::ptr_eq(&provider(&first), &provider(&second)), "its users must not be called ci:... any more");
        assert!(Arc::ptr_eq(keys(&first), keys(&second)));
        let third = built(&oidc("a:"), &second.reuse);
        assert!(Arc::ptr_eq(keys(&first), keys(&third)));
        let elsewhere = built(&oidc("").replace("a.example", "b.example"), &third.reuse);
        assert!(!Arc::ptr_eq(keys(&first), keys(&elsewhere)), "another issuer has other keys");
    }
}
