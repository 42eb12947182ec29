//! Lines of two numbers: what the texts of graphs consist of.

use crate::ops::{Error, Result};
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// Longest line; two numbers of 64 bits and a good deal of white space.
const LONGEST_LINE: u64 = 1024;

/// Reads lines of two numbers; lines that are empty or begin with `#` count for nothing.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    path: PathBuf,
    line: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// Reads nothing yet. `path` is for messages.
    pub fn new(reader: R, path: &Path) -> Lines<R> {
        Lines { reader, path: path.to_owned(), line: 0, buffer: Vec::new() }
    }

    /// The two numbers of the next line that has any; `None` at the end.
    pub fn pair(&mut self) -> Result<Option<(u64, u64)>> {
        while self.next_line()? {
            let line = self.buffer.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let mut numbers = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(number);
            let pair = (numbers.next().flatten(), numbers.next().flatten(), numbers.next());
            let (Some(first), Some(second), None) = pair else {
                let line = String::from_utf8_lossy(line).chars().take(40).collect::<String>();
                return Err(self.wrong(format!("two whole numbers are expected, found {line:?}")));
            };
            return Ok(Some((first, second)));
        }
        Ok(None)
    }

    /// Reads a line into the buffer; `false` at the end.
    fn next_line(&mut self) -> Result<bool> {
        self.buffer.clear();
        let mut limited = std::io::Read::take(&mut self.reader, LONGEST_LINE);
        let read = limited.read_until(b'\n', &mut self.buffer);
        let bytes = read.map_err(|source| Error::Input { path: self.path.clone(), source })?;
        self.line += u64::from(bytes > 0);
        if bytes as u64 == LONGEST_LINE && !self.buffer.ends_with(b"\n") {
            return Err(self.wrong(format!("longer than {LONGEST_LINE} bytes")));
        }
        Ok(bytes > 0)
    }

    /// A fault of the last line.
    pub fn wrong(&self, what: impl Into<String>) -> Error {
        Error::Line { path: self.path.clone(), line: self.line.max(1), what: what.into() }
    }
}

/// A whole number in decimal digits, and nothing else.
fn number(word: &[u8]) -> Option<u64> {
    let digits = word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| digits)?.parse().ok()
}
