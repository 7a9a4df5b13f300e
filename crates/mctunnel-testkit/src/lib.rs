//! mctunnel-testkit.
