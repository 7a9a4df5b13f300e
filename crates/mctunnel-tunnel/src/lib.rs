//! mctunnel-tunnel.
