//! Log writer: writes transactions to the commit log as records, or to the redo log as pages.
//!
//! # Why
//! Statements take fewer bytes than the pages that they change, so transactions go to the commit log first. The log
//! writer materializes them when the commit log is full, or when a transaction can only be logged as pages. Then the
//! redo log gets the newest version of each page, as one transaction. [`page_placement`](super::page_placement) says
//! which pages are appended.
//!
//! # Materialization
//! ```text
//! commit log:  a record with the frames and the checksum that the redo log will have        synced
//! redo log:    the newest version of each page, as one transaction                          synced
//! commit log:  a header that retires the records         synced before the commit log is used again, and
//!                                                        before the redo log is restarted
//! ```
//! So recovery finds one of three things: the redo log that the statements build upon; that log with the announced
//! materialization; or a database that another process has changed.
//!
//! # Invariants
//! 1. `logged` only grows until SQLite restarts its log. Then `generation` grows.
//! 2. Pages ahead are taken, or dropped, before anything is appended to the redo log.
//! 3. Records are retired when their changes are durable in the redo log, or all of them in the database file.

use super::commit_queue::{LogPositions, Pending, PendingForm};
use super::page_placement::{ManyPages, place};
use super::pages_ahead::AheadPlace;
use crate::capture::encoding;
use crate::capture::encoding::Text;
use crate::db::Companion;
use crate::db::{Db, tier};
use crate::error::Result;
use crate::txn::wal_frames::{Transaction, WalFrames};
use crate::txn::wal_spill_state::FramePage;
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::commit_log::{Base, Record, StatementBase, Writer};
use litefoot_storage::file;
use litefoot_storage::log_file::Durability;
use litefoot_storage::wal_file;
use litefoot_storage::wal_file::format::PageSum;
use litefoot_storage::wal_file::{EarlyPage, RedoLog, early_pages};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Frames for which space is claimed at a time.
const FRAMES_CLAIMED: usize = 256;

/// The logs on the medium, and how far they reach.
pub(crate) struct LogWriter {
    pub redo: RedoLog,
    pub commit_log: CommitLog,
    /// Frames whose pages have reached the redo log.
    pub logged: usize,
    /// Restarts of SQLite's log.
    pub generation: u64,
    /// The build of SQLite that runs the statements.
    writer: Writer,
    /// The texts in the commit log, numbered.
    pub texts: HashMap<Arc<Text>, u64>,
    /// Frames whose deltas are in the commit log.
    pub(super) delta_end: usize,
    /// The pages of the deltas that are in the redo log already.
    pub(super) ahead: Arc<AheadPlace>,
}

/// A page that is appended to the redo log.
enum AppendedPage {
    Frame(usize),
    /// As it was before the transaction.
    Before(Vec<u8>),
}

/// The result of a materialization.
pub(crate) struct Materialized {
    /// Frames that are in the redo log, or in the database file.
    pub end: usize,
    /// Pages that went into the database file at commit.
    pub early: Vec<FramePage>,
    /// True where pages in slots of the redo log count now.
    pub has_slots: bool,
}

impl LogWriter {
    /// A writer behind what was found in the logs; `logged` frames are in the redo log.
    pub fn new(mut redo: RedoLog, commit_log: CommitLog, logged: usize, writer: Writer) -> LogWriter {
        if !commit_log.is_empty() && commit_log.statement_base().map(|base| base.salts) == redo.salts() {
            redo.build_upon();
        }
        LogWriter {
            redo,
            commit_log,
            logged,
            generation: 0,
            writer,
            texts: HashMap::new(),
            delta_end: 0,
            ahead: Arc::default(),
        }
    }

    /// The positions of both logs.
    pub fn positions(&self) -> LogPositions {
        LogPositions {
            redo_synced: self.redo.is_synced(),
            redo_bytes: if self.redo.is_empty() { 0 } else { self.redo.bytes() },
            commit_log_bytes: self.commit_log.bytes(),
        }
    }

    /// Removes both logs, whose pages are all in the synced database file. The next ones are created next to the tier's
    /// device, as soon as they can lie there.
    pub fn move_to_tier(&mut self, db: &Db) -> Result<()> {
        self.commit_log.delete()?;
        self.redo.delete()?;
        tier::mark(db)?;
        self.commit_log.relocate(&db.commit_log_path());
        self.redo.relocate(&db.companion_path(Companion::Wal));
        Ok(())
    }

    /// Makes the commit log ready for records up to `room` bytes.
    pub fn prepare(&mut self, page_bytes: usize, room: u64) -> file::Result<()> {
        self.commit_log.reserve(room)?;
        if self.commit_log.base().is_some() {
            return Ok(());
        }
        let header = self.redo.begin(page_bytes as u32)?;
        self.redo.sync()?;
        self.redo.build_upon();
        let base = StatementBase { salts: header.salts, frames: self.redo.frames(), writer: self.writer };
        self.commit_log.begin(Base::Statements(base));
        self.texts.clear();
        Ok(())
    }

    /// Claims space in the redo log for the `needed` frames up to `end`, and for more where the medium has room. Answers the
    /// last frame that has space.
    pub fn claim(&mut self, page_bytes: usize, end: usize, needed: usize) -> file::Result<usize> {
        let mut claim = |frames: usize| self.redo.claim(page_bytes as u32, frames as u32);
        if claim(needed + FRAMES_CLAIMED).is_ok() {
            return Ok(end + FRAMES_CLAIMED);
        }
        claim(needed).map(|()| end)
    }

    /// The records of transactions, and of the texts that are new.
    pub fn encode(&mut self, batch: &[Pending]) -> file::Result<Vec<Record>> {
        let Some(page_bytes) = (!batch.is_empty()).then(|| self.redo.page_bytes()) else {
            return Ok(Vec::new());
        };
        // Transactions that were queued during a materialization begin the next generation of the commit log.
        self.prepare(page_bytes as usize, 0)?;
        let mut records = Vec::with_capacity(batch.len() + 1);
        for pending in batch {
            let PendingForm::Statements(captured) = &pending.form else { continue };
            let payload = captured.encode(pending.lsn, |text| {
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

    /// Writes the newest version of each committed page to the redo log, or, where new pages are many, to the database file.
    /// `commit` is the last transaction, where its new pages may be written to the file now.
    pub fn materialize(
        &mut self,
        frames: &WalFrames,
        db: &Db,
        durability: Durability,
        commit: Option<Transaction>,
    ) -> Result<Materialized> {
        self.fold(frames, &**db.data())?;
        let slots = frames.spill.slots();
        let slot_pages = slots.iter().map(|(number, _)| *number);
        let spilled = |frame: usize| frames.spill_place(frame);
        let mut placement = place(frames.newest(self.logged), slot_pages, frames.database_pages(), spilled);
        let given_up = self.pages_before(&placement.given_up, frames, db)?;
        let early = match commit {
            // Early writes cost a sync of the file, so they pay only for a commit that is synced anyway.
            Some(transaction)
                if slots.is_empty() && placement.in_file.is_empty() && durability == Durability::Durable =>
            {
                early_writes(frames, db, transaction, &placement.pages)?
            }
            _ => Vec::new(),
        };
        if !early.is_empty() {
            frames.early_write_job(&early).run(db)?;
            early.iter().for_each(|leaving| {
                placement.pages.remove(&leaving.page_number);
            });
        }
        if !placement.in_file.is_empty() || !early.is_empty() {
            db.sync()?;
        }
        let pages = placement.pages.into_iter().map(|(number, frame)| (number, AppendedPage::Frame(frame)));
        let mut pages: Vec<(u32, AppendedPage)> = pages.collect();
        // They are in order already, but for pages that the transaction has taken back.
        if !given_up.is_empty() {
            pages.extend(given_up.into_iter().map(|(number, page)| (number, AppendedPage::Before(page))));
            pages.sort_unstable_by_key(|(number, _)| *number);
        }
        // Pages that the database has no more count for nothing.
        let numbers = placement.in_file.into_iter().chain(early.iter().map(|leaving| leaving.page_number));
        let mut in_file: Vec<u32> = numbers.filter(|number| *number <= frames.database_pages()).collect();
        in_file.sort_unstable();
        let in_file = early_pages(&**db.data(), &in_file, frames.page_bytes() as u32)?;
        let end = self.append_pages(frames, db, (&slots, &in_file), pages, durability)?;
        if let Some(EarlyPage { number: last, .. }) = in_file.last() {
            db.file_end().keep_behind(u64::from(*last) * frames.page_bytes() as u64);
        }
        Ok(Materialized { end, early, has_slots: !slots.is_empty() })
    }

    /// Pages as they were before the transaction.
    fn pages_before(&self, numbers: &[u32], frames: &WalFrames, db: &Db) -> Result<Vec<(u32, Vec<u8>)>> {
        let read = |number: &u32| {
            let mut page = vec![0; frames.page_bytes()];
            if !self.redo.read_page(*number, 0, &mut page)? {
                let offset = u64::from(number - 1) * page.len() as u64;
                let read = db.data().read_at(&mut page, offset)?;
                page[read..].fill(0);
            }
            Ok((*number, page))
        };
        numbers.iter().map(read).collect()
    }

    /// Appends a transaction to the redo log: pages that are in slots of it, or in the data file, and others.
    fn append_pages(
        &mut self,
        frames: &WalFrames,
        db: &Db,
        (slots, early): (&[(u32, PageSum)], &[EarlyPage]),
        pages: Vec<(u32, AppendedPage)>,
        durability: Durability,
    ) -> file::Result<usize> {
        let (page_numbers, sources): (Vec<u32>, Vec<AppendedPage>) = pages.into_iter().unzip();
        let transaction = wal_file::Transaction {
            slots,
            early,
            page_numbers: &page_numbers,
            page_bytes: frames.page_bytes() as u32,
            database_pages: frames.database_pages(),
        };
        let data = &**db.data();
        let mut copy = |index: usize, page: &mut [u8]| match &sources[index] {
            AppendedPage::Frame(frame) => frames.copy_page(*frame, page, data),
            AppendedPage::Before(before) => {
                page.copy_from_slice(before);
                Ok(())
            }
        };
        // The records were materialized before the first slot was given.
        let has_records = !self.commit_log.is_empty() && !page_numbers.is_empty();
        debug_assert!(!has_records || slots.is_empty(), "records behind slots");
        // The records are retired for pages that must be durable then.
        let durability = if has_records { Durability::Durable } else { durability };
        if has_records {
            let (frames, checksum) = self.redo.predict(&transaction, &mut copy)?;
            let payload = encoding::encode_materialization(frames, checksum);
            self.commit_log
                .append(&[Record { kind: encoding::MATERIALIZATION, payload }], Durability::Durable)?;
        }
        self.redo.append(&transaction, &mut copy, durability)?;
        self.logged = frames.committed();
        if !page_numbers.is_empty() {
            self.commit_log.retire();
        }
        Ok(self.logged)
    }
}

/// The new pages of a commit that are written into the database file now. They are many, and none was written early.
fn early_writes(
    frames: &WalFrames,
    db: &Db,
    transaction: Transaction,
    pages: &BTreeMap<u32, usize>,
) -> Result<Vec<FramePage>> {
    let many = ManyPages { page_bytes: frames.page_bytes(), limit_bytes: db.memory().many_new_bytes() };
    if !many.may_be_early(pages) {
        return Ok(Vec::new());
    }
    let new = frames.new_pages(transaction.first, db.file_len()?);
    let can_be_early = |number: u32, frame: usize| {
        new.contains(number) && frame >= transaction.first && frames.is_in_memory(frame)
    };
    Ok(many.early(pages, frames.database_pages(), can_be_early))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{Logs, PAGE, captured, first_byte};
    use crate::db::Db;
    use litefoot_storage::file::SyncLatch;
    use litefoot_storage::wal_file::early_frames;

    /// A writer of empty logs, and the frames of a database in WAL mode.
    fn writer(db: &Db) -> LogWriter {
        let latch = Arc::<SyncLatch>::default();
        let (redo, commit_log) = (db.path().with_extension("r"), db.path().with_extension("c"));
        let redo = RedoLog::open(db.medium().clone(), &redo, latch.clone()).unwrap();
        let commit_log = CommitLog::open(db.medium().clone(), &commit_log, latch).unwrap();
        LogWriter::new(redo, commit_log, 0, Writer::default())
    }

    fn pending(lsn: u64, sql: &str) -> Pending {
        Pending { lsn, generation: 0, end: lsn as usize, form: PendingForm::Statements(captured(sql)) }
    }

    #[test]
    fn a_text_is_logged_once_in_a_generation() {
        let logs = Logs::of_test(&[7; 4 * PAGE], 1 << 20);
        logs.write(&[(1, 1)], 4);
        let mut writer = writer(&logs.db);
        writer.prepare(PAGE, 4_096).unwrap();
        let kinds = |records: Vec<Record>| records.iter().map(|record| record.kind).collect::<Vec<u32>>();
        let (text, transaction) = (encoding::TEXT, encoding::TRANSACTION);
        let records = writer.encode(&[pending(1, "a"), pending(2, "b"), pending(3, "a")]).unwrap();
        assert_eq!(kinds(records), [text, transaction, text, transaction, transaction]);
        let records = writer.encode(&[pending(4, "b")]).unwrap();
        assert_eq!(kinds(records), [transaction]);
        writer.commit_log.append(&[Record { kind: text, payload: vec![0] }], Durability::Durable).unwrap();
        writer.materialize(&logs.frames.read(), &logs.db, Durability::Buffered, None).unwrap();
        // The records are retired: the next generation has none of their texts.
        let records = writer.encode(&[pending(5, "b")]).unwrap();
        assert_eq!(kinds(records), [text, transaction]);
        assert!(writer.encode(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_materialization_is_announced_where_records_count() {
        for has_records in [false, true] {
            let logs = Logs::of_test(&[7; 4 * PAGE], 1 << 20);
            logs.write(&[(2, 1), (3, 1)], 4);
            logs.write(&[(2, 5)], 4);
            let mut writer = writer(&logs.db);
            if has_records {
                writer.prepare(PAGE, 4_096).unwrap();
                let records = writer.encode(&[pending(1, "a")]).unwrap();
                writer.commit_log.append(&records, Durability::Durable).unwrap();
            }
            let done = writer.materialize(&logs.frames.read(), &logs.db, Durability::Buffered, None).unwrap();
            assert_eq!((done.end, done.early.len(), done.has_slots), (3, 0, false));
            assert_eq!([2, 3, 4].map(|number| first_byte(&writer.redo, number)), [Some(5), Some(1), None]);
            // Records are retired only for pages that are durable.
            assert_eq!((writer.redo.is_synced(), writer.logged), (has_records, 3));
            assert!(writer.commit_log.is_empty());
        }
    }

    #[test]
    fn many_new_pages_of_a_commit_go_into_the_database_file() {
        let logs = Logs::of_test(&[7; 4 * PAGE], 1 << 20);
        let many = logs.db.memory().many_new_bytes() / PAGE + 2;
        let last = 4 + many as u32;
        let pages: Vec<(u32, u8)> =
            std::iter::once((1, 9)).chain((5..=last).map(|number| (number, number as u8))).collect();
        let transaction = logs.write(&pages, last);
        let mut writer = writer(&logs.db);
        let done = writer.materialize(&logs.frames.read(), &logs.db, Durability::Durable, Some(transaction));
        let done = done.unwrap();
        assert_eq!((done.end, done.early.len()), (pages.len(), many));
        // The redo log says that they count, and what they are, and has none of them.
        let frames = 1 + early_frames(many, PAGE as u32) as u32;
        assert_eq!((writer.redo.frames(), writer.redo.database_pages()), (frames, last));
        assert!(writer.redo.awaits(last) && !writer.redo.contains(last));
        let mut page = [0; PAGE];
        logs.db.data().read_at(&mut page, u64::from(last - 1) * PAGE as u64).unwrap();
        assert_eq!(page, [last as u8; PAGE]);
        // The commit keeps them.
        assert_eq!(logs.db.file_len().unwrap(), u64::from(last) * PAGE as u64);
        assert!(!logs.db.file_end().is_written_behind());
    }

    #[test]
    fn space_is_claimed_for_more_frames_than_needed() {
        let logs = Logs::of_test(&[7; 4 * PAGE], 1 << 20);
        assert_eq!(writer(&logs.db).claim(PAGE, 10, 3).unwrap(), 10 + FRAMES_CLAIMED);
    }
}
