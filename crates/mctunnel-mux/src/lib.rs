//! mctunnel-mux.
