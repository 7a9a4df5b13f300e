//! mctunnel-identity.
