//! The guide for those who build on the tunnel. Its code is compiled by the doc tests; the programs it names are run by `tests/examples.rs`.

#[doc = include_str!("guide/adapters.md")]
///
/// [`HubAdapter`]: crate::HubAdapter
/// [`ProxyAdapter`]: crate::ProxyAdapter
/// [`Protocol`]: crate::Protocol
/// [`OpenRequest`]: crate::OpenRequest
/// [`OpenStream`]: crate::OpenStream
/// [`Gateway`]: crate::Gateway
/// [`Destination`]: crate::Destination
/// [`HttpForward`]: crate::HttpForward
pub mod adapters {}

#[doc = include_str!("guide/reports.md")]
///
/// [`Spool`]: crate::report::Spool
/// [`Spool::append_numbered`]: crate::report::Spool::append_numbered
/// [`Source`]: crate::report::Source
/// [`collect`]: crate::report::collect()
/// [`Store`]: crate::report::Store
/// [`Sink`]: crate::report::Sink
/// [`send`]: crate::report::send()
/// [`feed`]: crate::report::feed()
/// [`NotTaken::Never`]: crate::report::NotTaken::Never
/// [`Receiver`]: crate::report::Receiver
pub mod reports {}
