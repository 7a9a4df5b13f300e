//! Where clients come in: the gateway reads a request, finds out which cluster and target it means, has a stream opened and
//! joins the two.
//!
//! It is *not* the hub: it sees tunnels only through the port [`Open`](mctunnel_core::Open), so it can be embedded alone.
//!
//! | adapter | who comes in |
//! |---|---|
//! | [`HttpAdapter`] | HTTP and gRPC clients, `https://hub:8080/<cluster>/...` |
//! | [`ConnectAdapter`] | programs with a proxy setting, by HTTP CONNECT |
//! | [`SniAdapter`] | TLS clients by the name they ask for, end to end |
//! | your own [`HubAdapter`] | any other protocol |
//!
//! A program that has an HTTP server already needs no adapter: it forwards single requests with [`HttpForward`].
//!
//! ```text
//! client -> gateway   1 authenticate  2 route  3 authorise  4 open  5 splice
//! ```
//!
//! ```
//! use mctunnel_core::{Open, Unobserved};
//! use mctunnel_gateway::{ConnectAdapter, ConnectConfig, Gateway};
//! use std::sync::Arc;
//! use tokio_util::sync::CancellationToken;
//!
//! async fn run(hub: impl Open, stop: CancellationToken) -> std::io::Result<()> {
//!     let gateway = Gateway::new(ConnectAdapter::new(hub, ConnectConfig::default(), Arc::new(Unobserved)));
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:8081").await?;
//!     gateway.serve(listener, stop).await; // until `stop` is cancelled
//!     gateway.drained().await; // until the last client is done
//!     Ok(())
//! }
//! ```

mod accept;
mod adapter;
mod checkpoint;
mod connect;
mod connections;
mod meter;
mod open_stream;
mod shares;
mod sni;
mod tls;

pub mod http;

pub use adapter::{Client, Gateway, HubAdapter};
pub use checkpoint::{Admitted, Checkpoint, Identified, Permit, Recording};
pub use connect::{ConnectAdapter, ConnectConfig, Refusal};
pub use http::{ForwardError, ForwardedBody, HttpAdapter, HttpConfig, HttpForward, Onward};
pub use open_stream::OpenStream;
pub use sni::{SniAdapter, SniConfig};
pub use tls::SharedTls;
