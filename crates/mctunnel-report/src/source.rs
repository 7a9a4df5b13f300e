//! Port: where records come from. A source is asked for what follows its place, and its place is on disk with the records: after a crash it
//! goes on without gap or duplicate, and while the spool is full it is not asked.

use crate::{Kind, Record, ReportError, Spool};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};

const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Gives records of one kind.
///
/// Obligations: 1. the same place gives the same records, or later ones if those are gone; 2. it waits while there is nothing new; 3. a place
/// is never empty, and what is given at once fits into one batch (1 MiB, 4,096 records).
pub trait Source: Send + 'static {
    /// What is reported.
    fn kind(&self) -> &Kind;

    /// What its place is kept under; of all sources of this kind in one spool it is the only one of this name.
    fn name(&self) -> &Arc<str>;

    /// The next records behind a place that it gave before; from the beginning for `None`. `Ok(None)` when nothing will ever come again.
    /// An error is tried again after a pause.
    fn next(&mut self, place: Option<&Bytes>) -> impl Future<Output = Result<Option<Found>, String>> + Send;
}

/// What a source has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// In order. None at all moves the place on.
    pub records: Vec<Record>,
    /// Where the source is behind them, in words of its own.
    pub place: Bytes,
}

/// Takes what a source gives into the spool until the source has ended. The error is the spool's, or a source that breaks its word.
pub async fn collect<S: Source>(spool: &Spool, mut source: S) -> Result<(), ReportError> {
    let (kind, name) = (source.kind().clone(), Arc::clone(source.name()));
    let mut place = spool.checkpoint(&kind, &name)?;
    let mut pause = SHORTEST_PAUSE;
    loop {
        match source.next(place.as_ref()).await {
            Ok(Some(found)) => {
                if !found.records.is_empty() {
                    spool.append_up_to(&kind, found.records, &name, found.place.clone()).await?;
                }
                place = Some(found.place);
                pause = SHORTEST_PAUSE;
            }
            Ok(None) => return Ok(()),
            Err(reason) => {
                tracing::warn!(source = &*name, %kind, reason, "A source gave no reports; trying again.");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}
