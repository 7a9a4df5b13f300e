//! mctunnel.
