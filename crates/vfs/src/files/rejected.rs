//! A main database file whose open was refused.
//!
//! SQLite turns an error of `xOpen` into "unable to open database file" and drops the reason. So a refused open hands
//! out this handle instead, which holds no file, and whose every use fails. The hook that runs on every new connection
//! (`connection.rs`) finds the reason, and fails the open with the full message.

use crate::error::{Error, Result};
use crate::files::handle::Handle;
use crate::sync::lock_table::Level;

/// A handle that only knows why it is none.
pub struct RefusedFile {
    reason: Error,
}

impl RefusedFile {
    /// A handle in place of a file that could not be opened.
    pub fn new(reason: Error) -> RefusedFile {
        RefusedFile { reason }
    }

    fn refuse<T>(&self) -> Result<T> {
        Err(Error::Unopened(self.reason.to_string()))
    }
}

impl Handle for RefusedFile {
    fn read(&mut self, buf: &mut [u8], _offset: u64) -> Result<()> {
        buf.fill(0);
        Err(Error::ShortRead)
    }

    fn write(&mut self, _buf: &[u8], _offset: u64) -> Result<()> {
        self.refuse()
    }

    fn truncate(&mut self, _len: u64) -> Result<()> {
        self.refuse()
    }

    fn sync(&mut self) -> Result<()> {
        self.refuse()
    }

    fn size(&mut self) -> Result<u64> {
        self.refuse()
    }

    fn lock(&mut self, _to: Level) -> Result<()> {
        self.refuse()
    }

    fn refusal(&self) -> Option<&Error> {
        Some(&self.reason)
    }
}
