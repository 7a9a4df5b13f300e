//! Users by tokens that the hub's own Kubernetes cluster knows, above all those of its service accounts. What nobody else knows
//! comes here, so it stands last in a chain.

mod living;
mod review;
mod reviewer;

pub use review::{Review, ReviewToken, ReviewedUser, Reviewing};

use crate::{
    API_KEY_PREFIX, AuthnError, Clock, NameRules, Provider, Shown, Verdict, Verifying,
    attempts::{FailedAttempts, PER_MINUTE},
    digest::{self, Digest},
    names::BadName,
    shown::Bearer,
};
use futures_util::{StreamExt, stream};
use living::Living;
use mctunnel_core::{Unauthenticated, User};
use reviewer::{Answer, Reviewer};
use std::{
    num::NonZeroU32,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at},
};

/// What stands before the names of the hub cluster's service accounts: they are not those of a managed cluster.
pub const HUB_CLUSTER: &str = "cluster:hub:";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const EVERYBODY: &str = "system:authenticated";

/// Under this fact Kubernetes names the token itself.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// How often the cluster is asked again about tokens that have something open.
const AGAIN: Duration = Duration::from_secs(6);

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
    asking: Arc<Asking>,
    /// Begun by the first token that is accepted, because only then there is a runtime for certain.
    following: OnceLock<JoinSet<()>>,
}

#[derive(Debug)]
struct Asking {
    name: Arc<str>,
    reviewer: Reviewer,
    names: NameRules,
    extra: Vec<String>,
    attempts: FailedAttempts,
    living: Living,
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
        let reviewer = Reviewer::new(reviews, audiences, clock);
        let asking = Asking { name: name.into(), reviewer, names, extra, attempts, living: Living::default() };
        Ok(Self { asking: Arc::new(asking), following: OnceLock::new() })
    }

    async fn verify(&self, shown: &Shown<'_>) -> Verdict {
        let verdict = self.asking.judge(shown).await;
        if matches!(verdict, Verdict::Accepted(_)) {
            self.following.get_or_init(|| {
                let mut following = JoinSet::new();
                following.spawn(follow(Arc::downgrade(&self.asking)));
                following
            });
        }
        verdict
    }
}

/// Asks again about what is open, until the provider is dropped.
async fn follow(asking: Weak<Asking>) {
    let mut ticks = interval_at(Instant::now() + AGAIN, AGAIN);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(asking) = asking.upgrade() else { return };
        asking.ask_again().await;
    }
}

impl Asking {
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
        match self.reviewer.ask(bearer.digest(), bearer.expose(), shown.peer.map(|peer| peer.ip())).await {
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

    /// Asks about every token that has something open. One that cannot be asked about keeps what it has: that the cluster is away
    /// says nothing about the token, and what is new is refused meanwhile.
    async fn ask_again(&self) {
        let tokens = stream::iter(self.living.tokens());
        tokens
            .for_each_concurrent(None, |(digest, token)| async move {
                if let Ok(answer) = self.reviewer.ask_anew(&digest, token.expose()).await {
                    match self.judged(&digest, &answer) {
                        Ok(user) => self.living.hold_to(&digest, Some(&user)),
                        Err(_) => self.living.hold_to(&digest, None),
                    }
                }
            })
            .await;
    }

    fn verdict(&self, bearer: &Bearer<'_>, answer: &Answer) -> Verdict {
        let mut shared = answer.user.lock();
        if let Some(user) = shared.upgrade() {
            return Verdict::Accepted(user);
        }
        match self.judged(bearer.digest(), answer) {
            Ok(user) => {
                let user = Arc::new(user);
                *shared = Arc::downgrade(&user);
                self.living.add(bearer.digest(), bearer.expose(), &user);
                Verdict::Accepted(user)
            }
            Err(reason) => {
                self.living.hold_to(bearer.digest(), None);
                Verdict::rejected(reason)
            }
        }
    }

    /// The user that an answer means, or why it means nobody.
    fn judged(&self, digest: &Digest, answer: &Answer) -> Result<User, String> {
        let reviewed = answer.review.of_audience(self.reviewer.audiences())?;
        let bad = |bad: BadName| format!("the token's user or one of its groups cannot be used: {bad}");
        let mut user = self.user(reviewed).map_err(bad)?;
        let id = reviewed.extra.get(CREDENTIAL_ID).and_then(|ids| ids.first());
        user.credential = id.map_or_else(|| digest::short_name(digest), String::clone).into();
        user.expires = answer.expires;
        Ok(user)
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
        &self.asking.name
    }

    fn verify<'a>(&'a self, shown: &'a Shown<'a>) -> Verifying<'a> {
        Box::pin(self.verify(shown))
    }

    /// This user was accepted here, and its token has not been refused since.
    fn still_holds(&self, user: &User) -> bool {
        self.asking.living.has(user)
    }

    fn generation(&self) -> u64 {
        self.asking.living.generation()
    }
}
