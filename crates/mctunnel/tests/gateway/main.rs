//! The gateway, the hub, agents and targets in one process, over real sockets: what HTTP clients see through the tunnel.

mod authority;
mod bodies;
mod end_to_end;
mod faults;
mod grpc;
mod prototype;
mod redirects;
mod rig;
mod upgrades;
