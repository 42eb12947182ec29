//! Test kit of commits: a database and its logs, without SQLite.

use super::delta_encoding::DeltaEncoding;
use super::delta_start::DeltaStart;
use super::group_commit::{CommitPages, GroupCommit};
use super::page_one::COUNTERS;
use super::rollback_checkpoint::copy_in_place;
use crate::capture::encoding::{Captured, Settings, Text};
use crate::db::{Companion, Db, MAGIC};
use crate::memory::reservation::MemoryReservation;
use crate::memory::sqlite_cache::SqliteCacheReservation;
use crate::open::delta_recovery::WaitingDeltas;
use crate::open::recovery::{Facts, RecoveryDecision, decide};
use crate::options::PageCleaner;
use crate::txn::spill_policy::SpillPolicy;
use crate::txn::wal_bytes::tests::store;
use crate::txn::wal_frames::{Transaction, WalFrames, WalWritten};
use litefoot_sim::{Faults, Random, SimMedium, SyncSite};
use litefoot_storage::commit_log::{Base, CommitLog, Record, Writer};
use litefoot_storage::file::Medium;
use litefoot_storage::log_file::Durability;
use litefoot_storage::sync::RwLock;
use litefoot_storage::wal_file;
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, HEADER_BYTES, Header};
use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub(crate) const PAGE: usize = 512;

/// The header of SQLite's log, with pages of [`PAGE`] bytes.
pub(crate) fn wal_header() -> [u8; HEADER_BYTES] {
    Header::first(PAGE as u32, None).encode().0
}

/// The offset of a frame in SQLite's log.
pub(crate) fn frame_offset(frame: usize) -> usize {
    HEADER_BYTES + frame * (FRAME_HEADER_BYTES + PAGE)
}

/// The header of a frame; `database_pages` are above 0 at the end of a transaction.
pub(crate) fn frame_header(page_number: u32, database_pages: u32) -> [u8; FRAME_HEADER_BYTES] {
    let mut header = [0; FRAME_HEADER_BYTES];
    header[..4].copy_from_slice(&page_number.to_be_bytes());
    header[4..8].copy_from_slice(&database_pages.to_be_bytes());
    header
}

/// A captured statement.
pub(crate) fn captured(sql: &str) -> Captured {
    let mut captured = Captured::default();
    captured.begin_statement(Arc::new(Text { sql: sql.to_owned(), settings: Settings::default() }), 0);
    captured
}

/// The logs of a database, and the frames that SQLite has written.
pub(crate) struct Logs {
    pub db: Db,
    pub frames: RwLock<WalFrames>,
    pub group: GroupCommit,
}

impl Logs {
    /// Empty logs of a database that holds these bytes; the commit log takes `commit_log_size`.
    pub fn of_test(bytes: &[u8], commit_log_size: usize) -> Logs {
        Logs::of_test_on(&SimMedium::new(), bytes, commit_log_size)
    }

    /// The same on a medium that the test looks at.
    pub fn of_test_on(medium: &SimMedium, bytes: &[u8], commit_log_size: usize) -> Logs {
        let db = Db::of_test_on(medium, bytes);
        let (redo, commit_log) = (redo_log(&db), commit_log(&db));
        let policy = SpillPolicy::new(PageCleaner::Auto, 800);
        let cache = SqliteCacheReservation::uncounted();
        let frames = WalFrames::load(store(1 << 20), cache, policy, &[], &**db.data()).unwrap();
        let start = (Writer::default(), DeltaStart::new(true));
        let group = GroupCommit::new(
            redo,
            commit_log,
            0,
            commit_log_size,
            start,
            (db.latch().clone(), db.writer_queue().clone()),
        );
        let logs = Logs { db, frames: RwLock::new(frames), group };
        logs.frames.write().write(&wal_header(), 0, &**logs.db.data()).unwrap();
        logs
    }

    /// The same, whose commits can be deltas.
    pub fn with_deltas(bytes: &[u8]) -> Logs {
        Logs::of_test(bytes, 1 << 20)
    }

    /// SQLite writes a transaction, which is logged as deltas, durably.
    pub fn commit_deltas(&self, pages: &[(u32, u8)], database_pages: u32) {
        let lsn = self.queue_deltas(pages, database_pages, Durability::Durable);
        self.group.wait_durable(self.pages(), lsn).unwrap();
    }

    /// The same, without a sync; answers its LSN.
    pub fn commit_unsynced(&self, pages: &[(u32, u8)], database_pages: u32) -> u64 {
        let lsn = self.queue_deltas(pages, database_pages, Durability::Buffered);
        self.group.write_out(self.pages(), lsn).unwrap();
        lsn
    }

    fn queue_deltas(&self, pages: &[(u32, u8)], database_pages: u32, durability: Durability) -> u64 {
        let transaction = self.write_first_bytes(pages, database_pages);
        let data = &**self.db.data();
        let payload = DeltaEncoding::default().encode(&self.frames.read(), data, transaction).unwrap();
        let (bytes, wants_durability) = ((pages.len() * PAGE) as u64, durability == Durability::Durable);
        self.group.enqueue_deltas(&self.db, (payload, bytes), transaction, wants_durability).unwrap()
    }

    /// The pages of its commits.
    pub fn pages(&self) -> CommitPages<'_> {
        CommitPages { frames: &self.frames, data: &**self.db.data() }
    }

    /// SQLite writes a transaction: page numbers, and the byte that fills each page.
    pub fn write(&self, pages: &[(u32, u8)], database_pages: u32) -> Transaction {
        let pages: Vec<_> = pages.iter().map(|(number, filler)| (*number, [*filler; PAGE])).collect();
        self.write_pages(&pages, database_pages)
    }

    /// SQLite writes a transaction: page numbers, and the first byte of each page, which has 7 in all others.
    pub fn write_first_bytes(&self, pages: &[(u32, u8)], database_pages: u32) -> Transaction {
        let page = |first: u8| {
            let mut page = [7; PAGE];
            page[0] = first;
            page
        };
        let pages: Vec<_> = pages.iter().map(|(number, first)| (*number, page(*first))).collect();
        self.write_pages(&pages, database_pages)
    }

    fn write_pages(&self, pages: &[(u32, [u8; PAGE])], database_pages: u32) -> Transaction {
        let mut frames = self.frames.write();
        let first = frames.committed();
        for (index, (number, page)) in pages.iter().enumerate() {
            let size = if index + 1 == pages.len() { database_pages } else { 0 };
            let offset = frame_offset(first + index);
            let data = &**self.db.data();
            frames.write(&frame_header(*number, size), offset, data).unwrap();
            let written = frames.write(page, offset + FRAME_HEADER_BYTES, data).unwrap();
            if let WalWritten::Commit(transaction) = written {
                return transaction;
            }
        }
        panic!("a transaction ends");
    }

    /// SQLite's checkpoint, and its next log.
    pub fn checkpoint(&self) {
        let path = self.db.companion_path(Companion::Wal);
        let redo = RedoLog::look(self.db.medium().clone(), &path, None).unwrap();
        copy_in_place(&self.db, &redo, None, &redo.page_numbers().collect::<Vec<_>>()).unwrap();
        self.db.sync().unwrap();
        self.group.restart(&self.frames, &self.db).unwrap();
        self.frames.write().write(&wal_header(), 0, &**self.db.data()).unwrap();
    }

    /// The logs as the next owner finds them.
    pub fn reopened(self) -> (RedoLog, Vec<Record>) {
        let Logs { db, group, .. } = self;
        drop(group);
        (redo_log(&db), commit_log(&db).records().unwrap())
    }
}

/// The redo log of a database.
pub(crate) fn redo_log(db: &Db) -> RedoLog {
    let path = db.companion_path(Companion::Wal);
    RedoLog::open_of(db.medium().clone(), &path, db.latch().clone(), db.data_file()).unwrap()
}

fn commit_log(db: &Db) -> CommitLog {
    CommitLog::open(db.medium().clone(), &db.commit_log_path(), db.latch().clone()).unwrap()
}

/// The first byte of a page in a log, where the log has the page.
pub(crate) fn first_byte(redo: &RedoLog, number: u32) -> Option<u8> {
    let mut byte = [0];
    redo.read_page(number, 0, &mut byte).unwrap().then_some(byte[0])
}

/// The redo log of a database, with one transaction: page numbers, and the byte that fills each page.
pub(crate) fn append(db: &Db, pages: &[(u32, u8)], database_pages: u32) -> RedoLog {
    let mut redo = redo_log(db);
    let page_numbers: Vec<u32> = pages.iter().map(|(number, _)| *number).collect();
    let transaction = wal_file::Transaction {
        slots: &[],
        early: &[],
        page_numbers: &page_numbers,
        page_bytes: PAGE as u32,
        database_pages,
    };
    let mut copy = |index: usize, out: &mut [u8]| {
        out.fill(pages[index].1);
        Ok(())
    };
    redo.append(&transaction, &mut copy, Durability::Durable).unwrap();
    redo
}

/// A page 1 with that change counter; `filler` is in the bytes that are no counters.
pub(crate) fn page_one(counter: u32, filler: u8) -> Vec<u8> {
    let mut page = vec![filler; PAGE];
    page[..MAGIC.len()].copy_from_slice(MAGIC);
    page[16..18].copy_from_slice(&(PAGE as u16).to_be_bytes());
    page[18..24].copy_from_slice(&[1, 1, 0, 64, 32, 32]);
    for at in COUNTERS {
        page[at..at + 4].copy_from_slice(&counter.to_be_bytes());
    }
    page
}

/// The first byte of each page, which has 7 in all others, as opening finds it where deltas may wait; `None` where opening refuses.
/// Recovery keeps so many bytes of pages in memory.
pub(crate) fn recovered_deltas(image: &SimMedium, pages: usize, memory_bytes: usize) -> Option<Vec<u8>> {
    let db = Db::opened_on(image);
    let (mut redo, mut log) = (redo_log(&db), commit_log(&db));
    if let (Some(Base::Deltas(base)), false) = (log.base(), log.is_empty()) {
        let waiting = WaitingDeltas::of(&log).unwrap()?;
        let facts = waiting.facts(&log, &base, &redo, &db.data_file()).unwrap();
        match decide(&Facts::Deltas(facts)) {
            RecoveryDecision::Remove => {
                redo.sync().unwrap();
                db.sync().unwrap();
            }
            RecoveryDecision::Apply => {
                let memory = (MemoryReservation::fixed(memory_bytes), memory_bytes);
                waiting.recover(&log, &mut redo, &**db.data(), memory).ok()?;
            }
            _ => return None,
        }
        log.delete().unwrap();
    }
    let mut state = vec![0; pages];
    for (number, byte) in (1..).zip(&mut state) {
        let page = newest_page(&redo, &db, number);
        // A page is there as a whole.
        *byte = page.iter().skip(1).all(|rest| *rest == 7).then_some(page[0])?;
    }
    Some(state)
}

/// Stock SQLite opens the files, reads, and closes: it checkpoints frames that wait, and removes the log.
pub(crate) fn read_by_stock(image: &SimMedium) {
    let db = Db::opened_on(image);
    let redo = redo_log(&db);
    if !redo.is_empty() {
        copy_in_place(&db, &redo, None, &redo.page_numbers().collect::<Vec<_>>()).unwrap();
        db.sync().unwrap();
    }
    drop(redo);
    if image.info(Path::new("/app.db-wal")).unwrap().is_some() {
        image.delete(Path::new("/app.db-wal")).unwrap();
    }
}

/// The newest version of a page: of the redo log, or else of the data file.
pub(crate) fn newest_page(redo: &RedoLog, db: &Db, number: u32) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    if !redo.read_page(number, 0, &mut page).unwrap() {
        db.data().read_at(&mut page, u64::from(number - 1) * PAGE as u64).unwrap();
    }
    page
}

/// The syncs of these sites, without one of which no cut finds anything wrong. `syncs` says which of a site's are left out, by how
/// many a run has; `run` makes one.
pub(crate) fn needless_syncs(
    sites: &[SyncSite],
    run: impl Fn(&SimMedium),
    syncs: impl Fn(SyncSite, u64) -> Range<u64>,
    cut_with: impl Fn(Faults) -> Option<String>,
) -> Vec<(SyncSite, u64)> {
    let medium = SimMedium::new();
    run(&medium);
    let all = sites.iter().flat_map(|site| syncs(*site, medium.syncs(*site)).map(|number| (*site, number)));
    all.filter(|(site, number)| cut_with(Faults::ignoring(*site, Some(*number))).is_none()).collect()
}

/// Cuts a run at every operation from its first state on, `cuts` times each; answers the first failure. `history` has its
/// states and the operations at which they were acknowledged; `found` opens an image, the cut of that number.
pub(crate) fn cut_everywhere<S: Debug + PartialEq>(
    medium: &SimMedium,
    history: &[(usize, S)],
    (mut random, cuts): (Random, usize),
    mut found: impl FnMut(SimMedium, usize, &mut Random) -> Option<S>,
) -> Option<String> {
    let mut replay = medium.replay();
    for point in history[0].0..=medium.operations() {
        replay.advance(point);
        let acknowledged = history.iter().rposition(|(at, _)| *at <= point).unwrap();
        let allowed = &history[acknowledged..(acknowledged + 2).min(history.len())];
        for number in 0..cuts {
            let image = replay.cut(&mut random);
            let found = found(image, number, &mut random);
            if !allowed.iter().any(|(_, state)| Some(state) == found.as_ref()) {
                return Some(format!("cut {point}, {number}: found {found:?}, allowed {allowed:?}"));
            }
        }
    }
    None
}
