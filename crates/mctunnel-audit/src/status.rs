//! How the record fares, for metrics and health.

/// The state of the record at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditStatus {
    /// Records written so far, by this process.
    pub written: u64,
    /// Requests refused because they could not be recorded.
    pub refused: u64,
    /// Requests served although they could not be recorded.
    pub dropped: u64,
    /// Records that the webhook's receiver did not get although the record has them.
    pub left_out: u64,
    /// Requests of strangers, refused like all of them, of which the record has the number alone.
    pub strangers: u64,
    /// Full files that were deleted because there were newer ones enough.
    pub files_deleted: u64,
    /// Slots taken: requests and streams that are open or not written yet.
    pub slots_taken: usize,
    /// Why records cannot be written now; `None` when they can.
    pub blocked: Option<String>,
}
