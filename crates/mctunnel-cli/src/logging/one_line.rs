//! Writes each event as one line, whatever is in it: letters that end a line for some readers or turn its direction are escaped.
//!
//! The formatters escape what ends a line in JSON and on most terminals. They leave line separators of Unicode, C1 controls and
//! marks of direction, which a peer can send and which make one line look like two, or like another. In lines for people, a value
//! that is shown as it is may have line ends in it; there every end but the last is escaped as well.

use std::{
    fmt::Write as _,
    io::{self, Write},
};
use tracing_subscriber::fmt::MakeWriter;

/// Makes writers for whole events.
#[derive(Debug)]
pub(super) struct OneLine<M> {
    pub(super) writer: M,
    /// Colours are the formatter's own; then it escapes those of others.
    pub(super) colours: bool,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for OneLine<M> {
    type Writer = Event<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Event { writer: self.writer.make_writer(), colours: self.colours }
    }
}

/// Takes one event in one write, as the formatters give it.
#[derive(Debug)]
pub(super) struct Event<W> {
    writer: W,
    colours: bool,
}

impl<W: Write> Write for Event<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        match str::from_utf8(body) {
            Ok(text) if text.contains(|letter| must_not_stand(letter, self.colours)) => {
                let mut line = String::with_capacity(bytes.len() + 16);
                text.chars().for_each(|letter| escape(&mut line, letter, self.colours));
                line.push('\n');
                self.writer.write_all(line.as_bytes())?;
            }
            _ => self.writer.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

fn must_not_stand(letter: char, colours: bool) -> bool {
    (letter.is_control() && !(colours && letter == '\u{1b}')) || deceives(letter)
}

/// Whether the letter ends a line for some reader, or turns the direction of what follows.
pub(super) fn deceives(letter: char) -> bool {
    matches!(
        letter,
        '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// As JSON writes it, which people can read too.
fn escape(line: &mut String, letter: char, colours: bool) {
    if must_not_stand(letter, colours) {
        // Writing to a string does not fail; all of them are in the first plane.
        let _ = write!(line, "\\u{:04x}", u32::from(letter));
    } else {
        line.push(letter);
    }
}
