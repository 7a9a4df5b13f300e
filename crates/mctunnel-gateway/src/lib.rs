//! mctunnel-gateway.
