//! A connection that takes the database out of WAL mode forgets the pages that it has read.
//!
//! # Why
//! SQLite tells by the change counter of page 1 whether a connection's pages are still those of the database. Commits in a
//! WAL do not always change the counter: there the header of the wal-index tells. A connection that leaves WAL mode has given
//! its wal-index back, looks at the counter, and may take old pages for new ones, page 1 among them. Then it writes page 1 back, and
//! committed changes are lost. Plain SQLite does so where a checkpoint has emptied the log before the connection's last
//! read. Our own checkpoints would make that happen more often.
//!
//! # Invariants
//! 1. The first look of a connection behind its leave of the wal-index finds the database changed: SQLite then drops all its pages.
//! 2. Only that answer is altered, and no byte of a file.

use crate::error::Result;
use crate::files::handle::Handle;
use crate::files::main_db::MainFile;

impl MainFile {
    /// Stops using the wal-index; its file is deleted where `delete`, and nobody else uses it.
    pub(super) fn leave_wal_index(&mut self, delete: bool) {
        if self.uses_wal_index {
            self.settle();
            self.unsettled = None;
            self.database.wal_index().leave(&mut self.slots, delete);
            if !self.connection.internal {
                self.database.wal_index().note_application(false);
            }
            self.uses_wal_index = false;
            self.connection.reader_slot.set_by_slots(false);
            // The look must come to `read`.
            self.connection_cache.leave_fast_path();
            self.left_wal_index = true;
        }
    }

    /// Reads what tells whether the database has changed, and says that it has.
    #[cold]
    pub(super) fn read_as_changed(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.left_wal_index = false;
        self.read(buf, offset)?;
        // Every bit is another one: so is the number of pages, whatever page 1 the connection has.
        buf.iter_mut().for_each(|byte| *byte = !*byte);
        Ok(())
    }
}
