//! Flush: makes durable what the operating system has, while commits that wait for no sync go on.
//!
//! # Promises
//! 1. A flush makes durable what was written before it began, in both logs.
//! 2. A commit that waits for no sync never waits for a flush, unless it begins or ends a generation of the commit log.
//! 3. Every other thread that writes or syncs the logs waits for the flush first, and learns of its failure.

use super::{GroupCommit, PANICKED, WriterGuard};
use crate::commit::log_writer::LogWriter;
use crate::commit::syncs_in_flight::SyncsInFlight;
use crate::error::Result;
use litefoot_storage::log_file::{Durability, Flush};
use std::sync::atomic::Ordering;

impl GroupCommit {
    /// The log writer, locked, for a write of that durability, which ends or begins no generation of records where it `appends`.
    pub(super) fn writer_for(
        &self,
        durability: Durability,
        appends: impl FnOnce(&LogWriter) -> bool,
    ) -> WriterGuard<'_> {
        let writer = self.busy_writer();
        let is_append = durability == Durability::Buffered && appends(&writer);
        self.await_syncs(if is_append { SyncsInFlight::has_groups } else { SyncsInFlight::is_flying });
        writer
    }

    /// Makes everything that was written durable. A failure latches the database.
    pub fn flush(&self) -> Result<()> {
        self.begin_flush()?.land()
    }

    /// Looks how far both logs were written.
    fn begin_flush(&self) -> Result<FlushInFlight<'_>> {
        let mut writer = self.writer();
        self.latch.check(&self.path)?;
        let flushes = writer.commit_log.flush().and_then(|commit_log| Ok([commit_log, writer.redo.flush()?]));
        let flushes = flushes.inspect_err(|error| self.latch.close(&error.to_string()))?;
        let mut queue = self.queue.lock();
        queue.syncs.set_flush(true);
        Ok(FlushInFlight { group: self, up_to: queue.written_lsn(), flushes })
    }
}

/// A flush on its way to the medium. Its end wakes the threads that wait for it; where it did not land, the database is latched.
struct FlushInFlight<'a> {
    group: &'a GroupCommit,
    /// The last transaction that it makes durable.
    up_to: u64,
    flushes: [Option<Flush>; 2],
}

impl FlushInFlight<'_> {
    fn land(mut self) -> Result<()> {
        for flush in self.flushes.iter_mut().filter_map(Option::take) {
            flush.run().inspect_err(|error| self.group.latch.close(&error.to_string()))?;
        }
        self.group.note_durable(self.up_to, &self.group.queue.lock());
        Ok(())
    }
}

impl Drop for FlushInFlight<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.group.latch.close(PANICKED);
        }
        let mut queue = self.group.queue.lock();
        queue.syncs.set_flush(false);
        if self.group.latch.reason().is_some() {
            queue.wake();
        } else {
            queue.wake_durable(self.group.durable_lsn.load(Ordering::Acquire));
        }
    }
}

#[cfg(test)]
mod tests;
