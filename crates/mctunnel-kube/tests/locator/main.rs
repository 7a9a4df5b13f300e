//! The locator against a kube-apiserver of the test's own: a real socket, scripted answers, and a record of what was asked.

mod api_server;
mod fake_api;
mod fake_names;
mod fallback;
mod following;
mod services;
mod setup;
