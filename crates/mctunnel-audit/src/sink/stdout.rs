//! Standard output: for a container platform that collects it.

use super::{Batch, Sink};
use std::io::{self, Write as _};

/// Standard output. What was written of a batch before an error is remembered, so that no line is written twice.
#[derive(Debug, Default)]
pub(crate) struct Stdout {
    written: usize,
}

impl Sink for Stdout {
    fn name(&self) -> &'static str {
        "stdout"
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let mut out = io::stdout().lock();
        write_rest(&mut out, &batch.lines, &mut self.written)?;
        out.flush()?;
        self.written = 0;
        Ok(())
    }
}

/// Writes what of the lines was not written yet, and keeps count.
pub(super) fn write_rest(out: &mut impl io::Write, lines: &[u8], written: &mut usize) -> io::Result<()> {
    while let Some(rest) = lines.get(*written..).filter(|rest| !rest.is_empty()) {
        match out.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a few bytes, then fails once, and so on.
    struct Stubborn {
        taken: Vec<u8>,
        fails: bool,
    }

    impl io::Write for Stubborn {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.fails = !self.fails;
            if self.fails {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let count = bytes.len().min(3);
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn after_an_error_it_goes_on_where_it_was() {
        let (mut out, mut written) = (Stubborn { taken: Vec::new(), fails: false }, 0);
        let mut tries = 0;
        while write_rest(&mut out, b"hello world\n", &mut written).is_err() {
            tries += 1;
            assert!(tries < 100);
        }
        assert_eq!(out.taken, b"hello world\n");
        assert!(tries > 1);
    }
}
