//! Standard output for people and scripts. A reader that goes away (`| head`) is not an error.

use std::io::Write;

/// Prints a line.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Prints a line that is not part of the result.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints bytes as they are; says whether anybody still reads them.
pub(crate) fn raw(bytes: &[u8]) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).is_ok()
}
