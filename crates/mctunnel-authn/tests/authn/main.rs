//! Authentication as the gateway sees it: a chain of real providers, an issuer of the test's own, a cluster that answers as told.

#[cfg(test)]
mod api_keys;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod forge;
#[cfg(test)]
mod issuer;
#[cfg(test)]
mod issuer_life;
#[cfg(test)]
mod issuer_tls;
#[cfg(test)]
mod jwt_battery;
#[cfg(test)]
mod log_canaries;
#[cfg(test)]
mod reserved_names;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod token_reviews;
#[cfg(test)]
mod two_credentials;
