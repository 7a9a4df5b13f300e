//! Who a client is. Several providers are asked in order, each by one kind of credential; exactly one credential per request counts.
//!
//! It is *not* about what a client may do (that is policy), and it opens no listener: what the gateway collected comes in as
//! [`Evidence`](mctunnel_core::Evidence). It dials nobody but the issuers of [`Oidc`].
//!
//! | credential | provider |
//! |---|---|
//! | a client certificate | [`ClientCertificates`] |
//! | `Authorization: Bearer mctk_...` | [`ApiKeys`] |
//! | `Authorization: Bearer JWT` of a configured issuer | [`Oidc`] |
//! | any other `Authorization: Bearer TOKEN` | [`TokenReviews`] |
//! | a front proxy's certificate with its fields | [`FrontProxy`] |
//!
//! A token may come as a WebSocket subprotocol too: [`websocket_bearer`] takes it out.
//!
//! # Example
//!
//! A chain by hand. From a file it is [`AuthConfig::load`], or [`SharedChain::watch`] for a file that may change.
//!
//! ```
//! use mctunnel_authn::{
//!     ApiKeySettings, ApiKeys, Chain, Clock, MemoryApiKeys, NewApiKey, create_api_key, revoke_api_key,
//! };
//! use mctunnel_core::{Authenticate, Authorization, Evidence, Unauthenticated};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mctunnel_authn::AuthnError> {
//! let (clock, store) = (Clock::system(), Arc::new(MemoryApiKeys::default()));
//! let keys = ApiKeys::new("keys", ApiKeySettings::default(), store.clone(), clock.clone())?;
//! let chain = Chain::new(vec![Arc::new(keys)])?;
//!
//! let new = NewApiKey { user: "ci".to_owned(), groups: vec!["builders".to_owned()], ..NewApiKey::default() };
//! let made = create_api_key(&*store, new, &clock)?;
//! let bearer = Authorization::new(format!("Bearer {}", made.key.expose()));
//! let evidence = Evidence { authorization: Some(bearer), ..Evidence::default() };
//!
//! let identity = chain.authenticate(&evidence).await.expect("the key is good");
//! assert_eq!(identity.to_string(), "ci");
//! assert!(chain.still_holds(&identity));
//!
//! revoke_api_key(&*store, &made.record.id, &clock)?;
//! assert!(!chain.still_holds(&identity));
//! assert!(matches!(chain.authenticate(&evidence).await, Err(Unauthenticated::Rejected(_))));
//! # Ok(())
//! # }
//! ```

pub mod api_keys;
pub mod chain;
pub mod client_certificates;
pub mod clock;
pub mod config;
pub mod error;
pub mod front_proxy;
pub mod names;
pub mod oidc;
pub mod provider;
pub mod shared_chain;
pub mod shown;
pub mod token_reviews;
pub mod websocket;

mod attempts;
mod digest;
mod pool;
mod recent;

pub use api_keys::{
    API_KEY_PREFIX, ApiKeyRecord, ApiKeySettings, ApiKeyStore, ApiKeys, CreatedApiKey, MemoryApiKeys, NewApiKey,
    create_api_key, list_api_keys, revoke_api_key,
};
pub use chain::{Anonymous, Chain};
pub use client_certificates::{ClientCertificateSettings, ClientCertificates, UserFrom};
pub use clock::Clock;
pub use config::{AuthConfig, AuthParts};
pub use error::AuthnError;
pub use front_proxy::{FrontProxy, FrontProxyFields, FrontProxySettings};
pub use names::NameRules;
pub use oidc::{
    Oidc, OidcSettings,
    algorithm::SigningAlgorithm,
    claims::ClaimRules,
    fetch::{FetchDocument, Fetching},
};
pub use provider::{Provider, Verdict, Verifying, Wants};
pub use shared_chain::{ChainStatus, SharedChain};
pub use shown::{Bearer, Credential, Shown};
pub use token_reviews::{HUB_CLUSTER, Review, ReviewToken, ReviewedUser, Reviewing, TokenReviewSettings, TokenReviews};
pub use websocket::{WebSocketBearer, websocket_bearer};
