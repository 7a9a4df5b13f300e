//! What has arrived goes together: whoever hands it on pays once for many pieces, where each alone would cost a sync of a disk.

/// How often the connection gets a turn to hand over what it has.
const TURNS: usize = 3;

/// Looks for a piece that is there already, and waits for none. A connection hands over one piece at a time, and needs a turn of its own
/// before there is another: a look alone would always find nothing behind the first.
pub(crate) async fn if_there<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..TURNS {
        if let Some(found) = look() {
            return Some(found);
        }
        tokio::task::yield_now().await;
    }
    look()
}
