//! Groups of commits on their way to the medium, while the next one begins.

use super::{GroupCommit, PANICKED};
use crate::commit::commit_queue::Pending;
use crate::error::Result;
use litefoot_storage::commit_log::StagedRecords;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl GroupCommit {
    /// Gives the deltas of a batch their place in the commit log, and a sync of their own; `None` where another way of writing
    /// them is needed.
    pub(super) fn take_off(&self, batch: &mut Vec<Pending>, up_to: u64) -> Result<Option<InFlight<'_>>> {
        let mut writer = self.busy_writer();
        self.latch.check(&self.path)?;
        writer.retain_unwritten(batch);
        let own_blocks = self.queue.lock().syncs.is_flying();
        let Some((records, end)) = writer.stage_deltas(batch, own_blocks) else { return Ok(None) };
        let mut queue = self.queue.lock();
        queue.note_written(end, writer.commit_log.bytes());
        let number = queue.syncs.begin(up_to);
        Ok(Some(InFlight { group: self, number, records: Some(records), begun: Instant::now() }))
    }
}

/// Records on their way to the medium. Its end wakes the followers; where it did not land, the database is latched.
pub(super) struct InFlight<'a> {
    group: &'a GroupCommit,
    number: u64,
    records: Option<StagedRecords>,
    begun: Instant,
}

impl InFlight<'_> {
    /// Writes the records, which `written` transactions wait for. They are durable once all before them are, too.
    pub fn land(mut self, written: usize) -> Result<()> {
        let Some(records) = self.records.take() else { return Ok(()) };
        let result = records.write();
        if let Err(error) = &result {
            self.group.latch.close(&error.to_string());
        }
        let mut queue = self.group.queue.lock();
        if result.is_ok() {
            let time = self.begun.elapsed();
            self.group.note_sync(&mut queue, written, time);
            queue.syncs.note_sync(self.number, written, time);
            if let Some(lsn) = queue.syncs.end(self.number) {
                self.group.note_durable(lsn, &queue);
            }
        }
        drop(queue);
        Ok(result?)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.group.latch.close(PANICKED);
        }
        let mut queue = self.group.queue.lock();
        if self.group.latch.reason().is_some() {
            // Nothing behind it counts, whether it reached the medium or not.
            queue.syncs.ground();
            queue.wake();
        } else {
            queue.wake_durable(self.group.durable_lsn.load(Ordering::Acquire));
        }
    }
}
