//! Joins a socket and a stream.
