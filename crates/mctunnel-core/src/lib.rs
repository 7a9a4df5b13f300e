//! mctunnel-core.
