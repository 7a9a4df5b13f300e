//! Reports: how many a second, at what price on the wire and in memory, and what they do to others on the tunnel.

mod backlog;
mod beside;
mod many;
mod rate;
mod stored;

use anyhow::Result;

use super::Bench;
use crate::verdict::Figures;

pub(crate) fn measure(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let Some(binary) = bench.mctunnel else { return Ok(()) };
    rate::measure(bench, binary, figures)?;
    backlog::measure(bench, binary, figures)?;
    beside::measure(bench, binary, figures)?;
    many::measure(bench, figures)
}
