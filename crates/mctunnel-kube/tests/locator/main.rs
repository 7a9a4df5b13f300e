//! The locator against a kube-apiserver of the test's own: a real socket, scripted answers, and a record of what was asked.

#[cfg(test)]
mod api_server;
#[cfg(test)]
mod cluster_state;
#[cfg(test)]
mod events;
#[cfg(test)]
mod fake_api;
#[cfg(test)]
mod fake_names;
#[cfg(test)]
mod fallback;
#[cfg(test)]
mod following;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod services;
#[cfg(test)]
mod setup;
