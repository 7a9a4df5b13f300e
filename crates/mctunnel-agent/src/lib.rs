//! mctunnel-agent.
