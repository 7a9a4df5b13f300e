//! Renewing in virtual time.
