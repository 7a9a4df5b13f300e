//! Finds where a head ends, however its bytes arrive, and refuses the line ends that only some parsers take for one.

use super::BadHead;

/// Looks for the empty line.
#[derive(Debug, Default)]
pub(super) struct HeadScan {
    scanned: usize,
    after_cr: bool,
    /// Bytes on this line, up to its CR.
    line: usize,
    first_line_ended: bool,
}

impl HeadScan {
    /// Scans what is new in `text`, which begins where the head does; gives the head's length once it is complete.
    pub(super) fn scan(&mut self, text: &[u8], limit: usize) -> Result<Option<usize>, BadHead> {
        while let Some(byte) = text.get(self.scanned) {
            if self.scanned == limit {
                return Err(BadHead::TooLong { limit });
            }
            if self.skip_plain(text, limit) {
                continue;
            }
            self.scanned += 1;
            match (byte, self.after_cr) {
                (b'\n', true) => {
                    if self.line == 0 {
                        return Ok(Some(self.scanned));
                    }
                    (self.line, self.first_line_ended) = (0, true);
                }
                (_, true) => return Err(BadHead::Malformed("a CR without LF")),
                (b'\n', false) => return Err(BadHead::Malformed("a LF without CR")),
                (b'\r', false) if self.line == 0 && !self.first_line_ended => {
                    return Err(BadHead::Malformed("it begins with an empty line"));
                }
                (b'\r', false) => {}
                (byte, false) => self.begin_or_go_on(*byte)?,
            }
            self.after_cr = *byte == b'\r';
        }
        Ok(None)
    }

    /// Goes over bytes in the middle of a line, all at once: tokens are long.
    fn skip_plain(&mut self, text: &[u8], limit: usize) -> bool {
        if self.line == 0 || self.after_cr {
            return false;
        }
        let rest = text.get(self.scanned..text.len().min(limit)).unwrap_or_default();
        let plain = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
        self.scanned += plain;
        self.line += plain;
        plain > 0
    }

    fn begin_or_go_on(&mut self, byte: u8) -> Result<(), BadHead> {
        if self.line == 0 {
            if !self.first_line_ended && !byte.is_ascii_alphabetic() {
                // Told at once to who speaks TLS here, and not when as many bytes have come as a head may have.
                return Err(BadHead::Malformed("it does not begin with a method"));
            }
            if matches!(byte, b' ' | b'\t') {
                return Err(BadHead::Malformed("a folded header line"));
            }
        }
        self.line += 1;
        Ok(())
    }
}
