//! The gateway, the hub, agents and targets in one process, over real sockets: what HTTP clients see through the tunnel.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that goes wrong should panic; its tasks are held by handles that abort on drop"
)]

mod authority;
mod bodies;
mod broken_bodies;
mod browser;
mod connect_tls;
mod cookies;
mod counted;
mod cut;
mod drain;
mod end_to_end;
mod endpoints;
mod faults;
mod forward;
mod grpc;
mod held;
mod http2_heads;
mod lengths;
mod pooled;
mod prototype;
mod redirects;
mod resets;
mod rig;
mod round_trips;
mod slow;
mod target_tls;
mod trust;
mod upgrades;
mod websocket_http2;
mod whole_origin;
