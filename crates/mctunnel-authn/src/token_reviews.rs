//! Users by tokens that the hub's own Kubernetes cluster knows, above all those of its service accounts. What nobody else knows
//! comes here, so it stands last in a chain.

mod review;
mod reviewer;

pub use review::{Review, ReviewToken, ReviewedUser, Reviewing};

use crate::{
    API_KEY_PREFIX, AuthnError, Clock, NameRules, Provider, Shown, Verdict, Verifying,
    attempts::{FailedAttempts, PER_MINUTE},
    digest,
    names::BadName,
    shown::Bearer,
};
use mctunnel_core::{Unauthenticated, User};
use reviewer::{Answer, Reviewer};
use std::{num::NonZeroU32, sync::Arc};

/// What stands before the names of the hub cluster's service accounts: they are not those of a managed cluster.
pub const HUB_CLUSTER: &str = "cluster:hub:";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const EVERYBODY: &str = "system:authenticated";

/// Under this fact Kubernetes names the token itself.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// For whom tokens must be, and how users are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenReviewSettings {
    /// The audiences that mean us; sent with each question, at least one.
    pub audiences: Vec<String>,
    /// How users and groups are called. Service accounts that are not mapped get [`HUB_CLUSTER`] and not the prefixes.
    pub names: NameRules,
    /// Which further facts of the cluster are kept.
    pub extra: Vec<String>,
    /// How many attempts an address may fail in a minute before all of them are refused.
    pub failures_per_minute: NonZeroU32,
}

impl TokenReviewSettings {
    /// With the audiences, and nothing else said.
    #[must_use]
    pub fn new(audiences: Vec<String>) -> Self {
        Self { audiences, names: NameRules::default(), extra: Vec::new(), failures_per_minute: PER_MINUTE }
    }
}

/// Knows users by tokens of a cluster.
#[derive(Debug)]
pub struct TokenReviews {
    name: Arc<str>,
    reviewer: Reviewer,
    names: NameRules,
    extra: Vec<String>,
    attempts: FailedAttempts,
}

impl TokenReviews {
    /// A provider that asks `reviews`.
    pub fn new(
        name: &str,
        settings: TokenReviewSettings,
        reviews: Arc<dyn ReviewToken>,
        clock: Clock,
    ) -> Result<Self, AuthnError> {
        let TokenReviewSettings { audiences, names, extra, failures_per_minute } = settings;
        if let Some(problem) = names.problem() {
            return Err(AuthnError::provider(name, problem));
        }
        if audiences.is_empty() || audiences.iter().any(String::is_empty) {
            return Err(AuthnError::provider(name, "say which audience its tokens must have"));
        }
        let attempts = FailedAttempts::per_minute(failures_per_minute);
        Ok(Self { name: name.into(), reviewer: Reviewer::new(reviews, audiences, clock), names, extra, attempts })
    }

    async fn judge(&self, shown: &Shown<'_>) -> Verdict {
        let Some(bearer) = shown.bearer() else { return Verdict::NotMine };
        // An API key is nobody else's business, whether we know API keys or not.
        if bearer.expose().starts_with(API_KEY_PREFIX) {
            return Verdict::NotMine;
        }
        if let Some(answer) = self.reviewer.remembered(bearer.digest()) {
            return self.verdict(bearer, &answer);
        }
        if let Err(too_many) = self.attempts.check(shown.peer) {
            return Verdict::Refused(too_many);
        }
        match self.reviewer.ask(bearer.digest(), bearer.expose()).await {
            Ok(answer) => {
                let verdict = self.verdict(bearer, &answer);
                if !matches!(verdict, Verdict::Accepted(_)) {
                    self.attempts.failed(shown.peer);
                }
                verdict
            }
            Err(why) => Verdict::Refused(Unauthenticated::Unavailable(format!(
                "the cluster of the provider '{}' cannot be asked: {why}",
                self.name
            ))),
        }
    }

    fn verdict(&self, bearer: &Bearer<'_>, answer: &Answer) -> Verdict {
        let Review::Authenticated(reviewed) = &answer.review else {
            return Verdict::rejected("the cluster does not know the token, or it is not for this hub");
        };
        // A cluster that does not understand audiences says nothing of them, and then nothing is known.
        if !reviewed.audiences.iter().any(|one| self.reviewer.audiences().contains(one)) {
            return Verdict::rejected("the token is not for this hub");
        }
        match self.user(reviewed) {
            Err(bad) => Verdict::rejected(format!("the token's user or one of its groups cannot be used: {bad}")),
            Ok(mut user) => {
                let id = reviewed.extra.get(CREDENTIAL_ID).and_then(|ids| ids.first());
                user.credential = id.map_or_else(|| digest::short_name(bearer.digest()), String::clone).into();
                user.expires = answer.expires;
                Verdict::Accepted(Arc::new(user))
            }
        }
    }

    fn user(&self, reviewed: &ReviewedUser) -> Result<User, BadName> {
        let is_account = reviewed.name.starts_with(SERVICE_ACCOUNT) && !self.names.users.contains_key(&reviewed.name);
        let name = if is_account { of_hub(&reviewed.name)? } else { self.names.user(&reviewed.name)? };
        let mut user = User::new(name, Arc::clone(&self.name));
        for group in &reviewed.groups {
            let is_accounts = group == SERVICE_ACCOUNTS
                || group.strip_prefix(SERVICE_ACCOUNTS).is_some_and(|namespace| namespace.starts_with(':'));
            if self.names.groups.contains_key(group) {
                user.groups.push(self.names.group(group)?);
            } else if is_account && is_accounts {
                user.groups.push(of_hub(group)?);
            } else if group != EVERYBODY {
                // Every cluster puts everybody it knows into that group itself.
                user.groups.push(self.names.group(group)?);
            }
        }
        user.uid = reviewed.uid.as_deref().filter(|uid| !uid.is_empty()).map(Into::into);
        let kept = reviewed.extra.iter().filter(|(key, _)| self.extra.contains(key));
        user.extra = kept.map(|(key, values)| (key.to_lowercase(), values.clone())).collect();
        Ok(user)
    }
}

fn of_hub(name: &str) -> Result<Arc<str>, BadName> {
    let prefixed = NameRules { user_prefix: HUB_CLUSTER.to_owned(), ..NameRules::default() };
    prefixed.user(name)
}

impl Provider for TokenReviews {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn verify<'a>(&'a self, shown: &'a Shown<'a>) -> Verifying<'a> {
        Box::pin(self.judge(shown))
    }
}
