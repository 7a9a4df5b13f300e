//! The tests of the crate as its users see it, in one program so that it links once.

#[cfg(test)]
mod agent_identity;
#[cfg(test)]
mod authority;
#[cfg(test)]
mod cluster_files;
#[cfg(test)]
mod forge;
#[cfg(test)]
mod handshake;
#[cfg(test)]
mod join_bundle;
#[cfg(test)]
mod join_tokens;
#[cfg(test)]
mod office;
#[cfg(test)]
mod owners;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod rotation;
#[cfg(test)]
mod service_accounts;
#[cfg(test)]
mod wire;
