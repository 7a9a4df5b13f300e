//! What is known of a request besides the rules: for conditions, hours and networks.

use super::window::local;
use mctunnel_core::Access;
use std::{collections::BTreeMap, net::IpAddr};

/// A request and when it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) access: &'a Access<'a>,
    /// The labels of the cluster; none if it has none that are known.
    pub(crate) labels: Option<&'a BTreeMap<String, String>>,
    /// Seconds since 1970.
    pub(crate) seconds: u64,
}

impl Facts<'_> {
    /// Seconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        self.seconds
    }

    /// Where the client comes from.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        self.access.source
    }

    /// The day of the week, 1 for Monday, the hour and the minute, in UTC.
    pub(crate) fn clock(&self) -> (u32, u32, u32) {
        let (day, minute) = local(self.seconds, 0);
        (day + 1, minute / 60, minute % 60)
    }
}
