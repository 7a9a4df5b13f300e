//! Where clients come in: the gateway reads a request, finds out which cluster and target it means, has a stream opened and
//! joins the two.
//!
//! It is *not* the hub: it sees tunnels only through the port [`Open`](mctunnel_core::Open), so it can be embedded alone.
//! The first way in is HTTP CONNECT. It does not authenticate clients yet; listen on loopback.
//!
//! ```text
//! client -> gateway   1 authenticate  2 route  3 authorise  4 open  5 splice
//! ```
//!
//! ```
//! use mctunnel_core::{Open, Unobserved};
//! use mctunnel_gateway::{ConnectConfig, ConnectGateway};
//! use std::sync::Arc;
//! use tokio_util::sync::CancellationToken;
//!
//! async fn run(hub: impl Open, stop: CancellationToken) -> std::io::Result<()> {
//!     let gateway = ConnectGateway::new(hub, ConnectConfig::default(), Arc::new(Unobserved));
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:8081").await?;
//!     gateway.serve(listener, stop).await; // until `stop` is cancelled
//!     gateway.drained().await; // until the last client is done
//!     Ok(())
//! }
//! ```

mod connect;
pub mod http;

pub use connect::{ConnectConfig, ConnectGateway, Refusal};
