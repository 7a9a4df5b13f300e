//! mctunnel-hub.
