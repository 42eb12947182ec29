//! Statements in a database's log: which transactions are queued as statements, and what a replay is told.

use crate::capture::changed_pages::ChangedPages;
use crate::capture::encoding::Captured;
use crate::capture::{Capture, Host};
use crate::commit::page_vouching::{changed_pages, difference};
use crate::commit::wal::Wal;
use crate::db::Db;
use crate::error::Result;
use crate::stats::{FallbackCause, Stats};
use crate::txn::wal_frames::Transaction;
use litefoot_storage::log_file::Durability;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Wal {
    /// Queues a transaction as deltas or statements, under the write lock, and answers its LSN. `None` for a transaction that
    /// must be logged as pages. `wants_durability` raises the committed LSN.
    pub(crate) fn queue<H: Host>(
        &self,
        db: &Db,
        capture: Option<&Arc<Capture<H>>>,
        transaction: Transaction,
        wants_durability: bool,
    ) -> Option<u64> {
        if self.replaying.load(Ordering::Acquire) {
            return None;
        }
        if !db.options().logs_statements() {
            return self.queue_deltas(db, transaction, wants_durability);
        }
        match self.queue_statements(capture, transaction, wants_durability) {
            Ok(lsn) => {
                if wants_durability {
                    // After the committed LSN, and before SQLite publishes the commit.
                    db.shared().note_durability_wanted();
                }
                Stats::add(&db.counters().commits_statements, 1);
                Some(lsn)
            }
            Err(cause) => {
                if !matches!(cause, FallbackCause::Mixed | FallbackCause::LogFull) {
                    self.commits.note_pages();
                }
                db.counters().add_fallback(cause);
                None
            }
        }
    }

    fn queue_statements<H: Host>(
        &self,
        capture: Option<&Arc<Capture<H>>>,
        transaction: Transaction,
        wants_durability: bool,
    ) -> std::result::Result<u64, FallbackCause> {
        if self.frames.read().has_spilled_pages(transaction) {
            // Some of its pages are not in memory.
            return Err(FallbackCause::Large);
        }
        let capture = capture.ok_or(FallbackCause::Untracked)?;
        // No lock is held meanwhile: capture may read the database.
        let captured = capture.take(self.commits.next_lsn())?;
        let (pages, page_bytes) = {
            let frames = self.frames.read();
            let pages = changed_pages(&frames, &*self.data, transaction);
            (pages.map_err(|_| FallbackCause::Unavailable)?, frames.page_bytes())
        };
        self.commits.enqueue(Captured { pages, ..captured }, transaction, page_bytes, wants_durability)
    }

    /// Begins or ends a replay. Its end materializes everything that was replayed.
    pub(crate) fn set_replaying(&self, db: &Db, replaying: bool) -> Result<()> {
        self.replaying.store(replaying, Ordering::Release);
        *self.replayed.lock() = None;
        if replaying {
            return Ok(());
        }
        self.commits.make_spare_room()?;
        self.log(db, Durability::Durable)
    }

    /// Compares the transaction that was replayed last with the pages that were logged for it; answers the difference in words.
    pub(crate) fn difference_to(&self, logged: &ChangedPages) -> Result<Option<String>> {
        let frames = self.frames.read();
        let end = frames.committed();
        let replayed = self.replayed.lock().take().unwrap_or(Transaction { first: end, end });
        if logged.is_empty() {
            return Ok(None);
        }
        Ok(difference(&frames, &*self.data, replayed, logged)?)
    }
}
