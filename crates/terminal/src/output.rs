//! Standard output.
//!
//! Everything a command prints passes [`Output`], which buffers. It turns a write error into a [`Failure`], so that a
//! pipe without a reader ends the command instead of panicking it.
//!
//! Names, statements and values come from files and processes of others. A terminal never gets a control character of
//! theirs; a pipe or a file gets everything as it is.

use crate::failure::Failure;
use crate::table::{Columns, left, right};
use crate::text::harmless;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// Buffered standard output.
pub struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    terminal: bool,
}

impl Output {
    /// Takes standard output for as long as this lives.
    pub fn lock() -> Output {
        let stdout = io::stdout().lock();
        Output { terminal: stdout.is_terminal(), writer: BufWriter::new(stdout) }
    }

    /// Writes text: to a terminal, harmlessly.
    pub fn text(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        if self.terminal { self.raw(&harmless(text.as_ref())) } else { self.raw(text.as_ref()) }
    }

    /// Writes text as it is, also what moves a terminal's cursor.
    pub fn raw(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Writes bytes that are no text.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    /// Writes a line.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.text(text)?;
        self.text("\n")
    }

    /// Writes names and values, the values aligned right.
    pub fn pairs(&mut self, rows: impl IntoIterator<Item = (&'static str, String)>) -> Result<(), Failure> {
        let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![left(name), right(value)]).collect();
        let columns = Columns::fit(rows.iter().map(Vec::as_slice));
        rows.iter().try_for_each(|row| self.line(columns.row(row)))
    }

    /// Hands everything to the reader.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| Failure::output(&error))
    }
}
