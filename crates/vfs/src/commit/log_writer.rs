//! What is on the medium of a log: the redo log and the commit log, and what of the commits goes where.
//!
//! Transactions reach the commit log as records; or they are materialized into the redo log, as one transaction that has the
//! newest version of each page. Of these, pages that went to slots of the redo log are there already and get their
//! headers (see `large`); new pages may be in the database file already, or go there now where they are many (see `ahead`),
//! and the file is synced first; the others are appended.
//!
//! # Folding
//! ```text
//! commit log:  announces the materialization: frames and checksum that the redo log will have       synced
//! redo log:       the newest version of each page, as one transaction                       synced
//! commit log:  its header says that it is of no more use          synced before it is used again, and
//!                                                                    before the redo log is voided
//! ```
//! Whatever is found after a crash is therefore one of three things: the redo log as the statements build upon
//! it; the redo log with the materialization that was announced; or a database that somebody else has changed.
//!
//! # Invariants
//! 1. `logged` only grows until SQLite restarts its log, and then `generation` does.
//! 2. Records are given up when what they did is in the redo log for good, or all of it in the database file.
//! 3. Where pages are in slots or in the file already, at least one is appended: it says that they count.

use crate::capture::encoding;
use crate::capture::encoding::{Captured, Text};
use crate::db::Companion;
use crate::db::{Db, tier};
use crate::error::Result;
use crate::txn::wal_bytes::Spilled;
use crate::txn::wal_frames::{Frames, Transaction};
use crate::txn::wal_spill_state::Leaving;
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::commit_log::{Base, Record, Writer};
use litefoot_storage::log_file::Durability;
use litefoot_storage::wal_file;
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::format::PageSum;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Frames for which space is claimed at a time.
const FRAMES_CLAIMED: usize = 256;

/// What is on the medium.
pub(crate) struct Media {
    pub redo: RedoLog,
    pub statements: CommitLog,
    /// Frames whose pages have reached the redo log.
    pub logged: usize,
    /// Counts how often SQLite began its log anew.
    pub generation: u64,
    /// Whose statements these are.
    writer: Writer,
    /// The texts in the commit log, numbered.
    pub texts: HashMap<Arc<Text>, u64>,
}

/// Where a page is that is appended to the redo log.
enum Source {
    Frame(usize),
    /// As it was before the transaction.
    Before(Vec<u8>),
}

/// A transaction that waits to be written.
pub(crate) struct Pending {
    pub number: u64,
    pub generation: u64,
    pub end: usize,
    pub captured: Captured,
}

impl Media {
    /// The logs as they were found; `logged` frames are in the redo log.
    pub fn new(mut redo: RedoLog, statements: CommitLog, logged: usize, writer: Writer) -> Media {
        if !statements.is_empty() && statements.base().map(|base| base.salts) == redo.salts() {
            redo.build_upon();
        }
        Media { redo, statements, logged, generation: 0, writer, texts: HashMap::new() }
    }

    /// Everything is in the database file, and that is synced: removes both logs, and begins them anew beside the tier
    /// device as soon as they can lie there.
    pub fn move_to_tier(&mut self, db: &Db) -> Result<()> {
        self.statements.delete()?;
        self.redo.delete()?;
        tier::mark(db)?;
        self.statements.relocate(&db.commit_log_path());
        self.redo.relocate(&db.companion_path(Companion::Wal));
        Ok(())
    }

    /// Makes the commit log ready for records up to `room` bytes.
    pub fn ready(&mut self, page_bytes: usize, room: u64) -> litefoot_storage::file::Result<()> {
        self.statements.reserve(room)?;
        if self.statements.base().is_some() {
            return Ok(());
        }
        let header = self.redo.begin(page_bytes as u32)?;
        self.redo.sync()?;
        self.redo.build_upon();
        self.statements.begin(Base { salts: header.salts, frames: self.redo.frames(), writer: self.writer });
        self.texts.clear();
        Ok(())
    }

    /// Claims the space in the redo log that all frames up to `end` need, and for some more if there is room; answers up to
    /// which.
    pub fn claim(
        &mut self,
        page_bytes: usize,
        end: usize,
        needed: usize,
    ) -> litefoot_storage::file::Result<usize> {
        let mut claim = |frames: usize| self.redo.claim(page_bytes as u32, frames as u32);
        if claim(needed + FRAMES_CLAIMED).is_ok() {
            return Ok(end + FRAMES_CLAIMED);
        }
        claim(needed).map(|()| end)
    }

    /// The records of transactions, and of the texts that are new.
    pub fn append(&mut self, batch: &[Pending]) -> litefoot_storage::file::Result<Vec<Record>> {
        let Some(page_bytes) = (!batch.is_empty()).then(|| self.redo.page_bytes()) else {
            return Ok(Vec::new());
        };
        // After a materialization, what was queued meanwhile begins the next generation.
        self.ready(page_bytes as usize, 0)?;
        let mut records = Vec::with_capacity(batch.len() + 1);
        for pending in batch {
            let payload = pending.captured.encode(pending.number, |text| {
                let next = self.texts.len() as u64;
                *self.texts.entry(text.clone()).or_insert_with(|| {
                    records.push(Record { kind: encoding::TEXT, payload: text.encode(next) });
                    next
                })
            });
            records.push(Record { kind: encoding::TRANSACTION, payload });
        }
        Ok(records)
    }

    /// Brings all committed frames into the redo log, or, as far as they are new, into the database file; answers how many
    /// there are, which of them went into the file just now, and whether there were slots.
    pub fn materialize(
        &mut self,
        frames: &Frames,
        db: &Db,
        durability: Durability,
        commit: Option<Transaction>,
    ) -> Result<(usize, Vec<Leaving>, bool)> {
        let mut newest = frames.newest(self.logged);
        let slots = frames.slots();
        let given_up = self.given_up(frames, db, &slots, &newest)?;
        let is_there = |frame: &usize| matches!(frames.away(*frame), Some(Spilled::Database(_)));
        let there: Vec<u32> =
            newest.iter().filter(|(_, frame)| is_there(frame)).map(|(number, _)| *number).collect();
        newest.retain(|_, frame| frames.away(*frame).is_none());
        let late = match commit {
            // Where nothing else is to be synced, a sync of the file would be one more.
            Some(transaction)
                if slots.is_empty() && there.is_empty() && durability == Durability::Durable =>
            {
                self.late(frames, db, transaction, &newest)?
            }
            _ => Vec::new(),
        };
        if !late.is_empty() {
            frames.late_job(&late).run(db)?;
            late.iter().for_each(|leaving| {
                newest.remove(&leaving.page_number);
            });
        }
        if !there.is_empty() || !late.is_empty() {
            db.sync()?;
        }
        let pages = newest.into_iter().map(|(number, frame)| (number, Source::Frame(frame)));
        let pages = pages.chain(given_up.into_iter().map(|(number, page)| (number, Source::Before(page))));
        let end = self.append_pages(frames, db, &slots, pages.collect(), durability)?;
        // Pages that the database has no more count for nothing.
        let numbers = there.into_iter().chain(late.iter().map(|leaving| leaving.page_number));
        if let Some(last) = numbers.filter(|number| *number <= frames.database_pages()).max() {
            db.file_end().keep_behind(u64::from(last) * frames.page_bytes() as u64);
        }
        Ok((end, late, !slots.is_empty()))
    }

    /// The pages in slots that the transaction has given up, as they were before.
    fn given_up(
        &self,
        frames: &Frames,
        db: &Db,
        slots: &[(u32, PageSum)],
        newest: &BTreeMap<u32, usize>,
    ) -> Result<Vec<(u32, Vec<u8>)>> {
        let numbers = slots.iter().map(|(number, _)| *number);
        let given_up =
            numbers.filter(|number| !newest.contains_key(number) && *number <= frames.database_pages());
        let read = |number: u32| {
            let mut page = vec![0; frames.page_bytes()];
            if !self.redo.read_page(number, 0, &mut page)? {
                let offset = u64::from(number - 1) * page.len() as u64;
                let read = db.data().read_at(&mut page, offset)?;
                page[read..].fill(0);
            }
            Ok((number, page))
        };
        given_up.map(read).collect()
    }

    /// The pages that a transaction of which none was written early can still write so, by number. They are many.
    fn late(
        &self,
        frames: &Frames,
        db: &Db,
        transaction: Transaction,
        newest: &BTreeMap<u32, usize>,
    ) -> Result<Vec<Leaving>> {
        let many = db.memory().many_new_bytes();
        let is_many = |pages: usize| pages * frames.page_bytes() > many;
        // Something must be left that says that the transaction counts, and page 1 always is.
        if !is_many(newest.len()) || !newest.contains_key(&1) {
            return Ok(Vec::new());
        }
        let new = frames.new_pages(transaction.first, db.file_len()?);
        let pages = newest.range(..=frames.database_pages()).filter(|(number, frame)| {
            new.contains(**number) && **frame >= transaction.first && frames.is_in_memory(**frame)
        });
        let late: Vec<Leaving> =
            pages.map(|(number, frame)| Leaving { page_number: *number, frame: *frame }).collect();
        Ok(if is_many(late.len()) { late } else { Vec::new() })
    }

    /// Appends a transaction to the redo log: pages that are in slots of it, and others.
    fn append_pages(
        &mut self,
        frames: &Frames,
        db: &Db,
        slots: &[(u32, PageSum)],
        pages: BTreeMap<u32, Source>,
        durability: Durability,
    ) -> litefoot_storage::file::Result<usize> {
        let (page_numbers, sources): (Vec<u32>, Vec<Source>) = pages.into_iter().unzip();
        let transaction = wal_file::Transaction {
            slots,
            page_numbers: &page_numbers,
            page_bytes: frames.page_bytes() as u32,
            database_pages: frames.database_pages(),
        };
        let data = &**db.data();
        let mut copy = |index: usize, page: &mut [u8]| match &sources[index] {
            Source::Frame(frame) => frames.copy_page(*frame, page, data),
            Source::Before(before) => {
                page.copy_from_slice(before);
                Ok(())
            }
        };
        // Where there are slots, the records were materialized before the first was given.
        let has_records = !self.statements.is_empty() && !page_numbers.is_empty();
        debug_assert!(!has_records || slots.is_empty(), "records behind slots");
        // The records are given up for what must then be there for good.
        let durability = if has_records { Durability::Durable } else { durability };
        if has_records {
            let (frames, checksum) = self.redo.predict(&transaction, &mut copy)?;
            let payload = encoding::encode_materialization(frames, checksum);
            self.statements
                .append(&[Record { kind: encoding::MATERIALIZATION, payload }], Durability::Durable)?;
        }
        self.redo.append(&transaction, &mut copy, durability)?;
        self.logged = frames.committed();
        if !page_numbers.is_empty() {
            self.statements.retire();
        }
        Ok(self.logged)
    }
}
