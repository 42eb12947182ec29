//! The redo log of a rollback-journal database.
//!
//! # Page 1
//! Every transaction changes page 1, if only its change counter. Its image is logged once per generation of
//! the log, and again only when more than the counter has changed. So that a database recovered from the
//! log never shows a counter that some connection may have seen with other content, the logged image has
//! its counter advanced by [`COUNTER_JUMP`], far more than a generation has transactions.
//!
//! # Beginning anew
//! When the log has grown to [`RESET_BYTES`], a thread of its own syncs the database file while commits go
//! on; then, while they wait, it syncs the few pages written since and voids the log.

use super::held::Held;
use crate::error::Result;
use crate::stats::Stats;
use crate::vfs::database::Database;
use crate::vfs::registry::Companion;
use litefoot_engine::log::RedoLog;
use litefoot_engine::log::redo::{Durability, Transaction};
use litefoot_engine::sync::{Condvar, Mutex};
use std::sync::Arc;

/// Bytes of the log at which it is begun anew.
const RESET_BYTES: u64 = 4 << 20;
/// What the change counter of a logged page 1 is ahead by.
const COUNTER_JUMP: u32 = 1 << 20;
/// Bytes written in place at a time.
const IN_PLACE_BYTES: usize = 256 << 10;
/// Where page 1 has the change counter, and its copy that vouches for the database size.
const COUNTERS: [usize; 2] = [24, 92];
/// Where page 1 says whether the database is in WAL mode (2).
const READ_VERSION: usize = 19;

/// The log, and who works on it.
#[derive(Default)]
pub struct AtomicLog {
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    redo: Option<RedoLog>,
    /// Page 1 as it was logged last in this generation, its counters blank.
    page_one: Option<Vec<u8>>,
    /// Whether a thread is about to void the log.
    resetting: bool,
}

impl AtomicLog {
    /// Finishes what a crash left: copies the log's pages to the database file. A log of a database in WAL
    /// mode is left to SQLite.
    pub fn recover(&self, database: &Database) -> Result<()> {
        let path = database.companion_path(Companion::Wal);
        if database.medium().info(&path)?.is_none_or(|info| !info.is_file) {
            return Ok(());
        }
        let mut redo = RedoLog::open(database.medium().clone(), &path, database.latch().clone())?;
        if is_wal_mode(database, &redo)? || database.has_real_journal()? {
            return Ok(());
        }
        if !redo.is_empty() {
            let page_bytes = redo.page_bytes() as usize;
            let size = u64::from(redo.database_pages()) * page_bytes as u64;
            let numbers: Vec<u32> =
                redo.page_numbers().filter(|number| *number <= redo.database_pages()).collect();
            let mut copy = |number: u32, page: &mut [u8]| redo.read_page(number, 0, page).map(drop);
            write_in_place(database, &numbers, page_bytes, &mut copy)?;
            if database.file_len()? != size {
                database.set_len(size)?;
            }
        }
        // Also where the log was void: whoever voided it may have left the database file unsynced.
        database.sync()?;
        Ok(redo.delete()?)
    }

    /// Whether there is a log on the medium, which SQLite must not take for a write-ahead log.
    pub fn is_live(&self) -> bool {
        self.state.lock().redo.is_some()
    }

    /// Commits what is held: to the log, and then in place.
    pub fn commit(&self, database: &Database, held: &Held, durability: Durability) -> Result<()> {
        let mut state = self.state.lock();
        let State { redo, page_one, .. } = &mut *state;
        let redo = match redo {
            Some(redo) => redo,
            None => {
                let path = database.companion_path(Companion::Wal);
                let opened = RedoLog::open(database.medium().clone(), &path, database.latch().clone())?;
                redo.insert(opened)
            }
        };
        if held.len() > held.file_len() && held.file_len() > 0 {
            database.reserve(held.len())?;
        }
        log(redo, page_one, held, durability)?;
        Stats::add(&database.counters().commits_pages, 1);
        in_place(database, held).inspect_err(|error| {
            database.latch().close(&format!("{error}; the transaction is in the log and will be recovered"));
        })
    }

    /// Whether the log should be begun anew; if so, the caller lets [`AtomicLog::reset`] do it.
    pub fn wants_reset(&self) -> bool {
        let mut state = self.state.lock();
        let wants = !state.resetting && state.redo.as_ref().is_some_and(|redo| redo.bytes() >= RESET_BYTES);
        state.resetting |= wants;
        wants
    }

    /// Voids the log after [`AtomicLog::wants_reset`] said so. Most of the work is done while commits go on.
    pub fn reset(&self, database: &Database) {
        // A failed sync is latched; the next commit reports it.
        let synced = database.sync();
        let mut state = self.state.lock();
        if synced.is_ok() && database.sync_if_written().is_ok() {
            state.void();
        }
        state.resetting = false;
        self.idle.notify_all();
    }

    /// Prepares for writes in place that are not logged: nothing in the log counts any more, durably.
    pub fn clear(&self, database: &Database) -> Result<()> {
        let mut state = self.state.lock();
        self.idle.wait_while(&mut state, |state| state.resetting);
        if state.redo.as_ref().is_none_or(RedoLog::is_empty) {
            return Ok(());
        }
        database.sync_if_written()?;
        state.void();
        if let Some(redo) = &mut state.redo {
            redo.begin_anew()?;
        }
        Ok(())
    }

    /// Leaves the database file alone and complete: syncs it and removes the log.
    pub fn retire(&self, database: &Database) -> Result<()> {
        let mut state = self.state.lock();
        self.idle.wait_while(&mut state, |state| state.resetting);
        state.page_one = None;
        let Some(mut redo) = state.redo.take() else { return Ok(()) };
        let removed = database.sync_if_written().and_then(|()| Ok(redo.delete()?));
        if removed.is_err() {
            state.redo = Some(redo);
        }
        removed
    }
}

impl State {
    fn void(&mut self) {
        self.page_one = None;
        if let Some(redo) = &mut self.redo {
            redo.reset();
        }
    }
}

/// Appends what is held to the log, page 1 only where it must be.
fn log(
    redo: &mut RedoLog,
    page_one: &mut Option<Vec<u8>>,
    held: &Held,
    durability: Durability,
) -> Result<()> {
    let mut numbers: Vec<u32> = held.page_numbers().collect();
    let mut new_page_one = None;
    if numbers.first() == Some(&1) {
        let mut page = vec![0; held.page_bytes()];
        held.copy(1, &mut page)?;
        let blank = without_counters(&page);
        if redo.contains(1) && page_one.as_ref() == Some(&blank) {
            numbers.remove(0);
        } else {
            advance_counters(&mut page);
            new_page_one = Some((page, blank));
        }
    }
    let transaction = Transaction {
        page_numbers: &numbers,
        page_bytes: held.page_bytes() as u32,
        database_pages: held.database_pages(),
    };
    let mut copy = |index: usize, out: &mut [u8]| match (&new_page_one, numbers[index]) {
        (Some((page, _)), 1) => {
            out.copy_from_slice(page);
            Ok(())
        }
        (_, number) => held.copy(number, out),
    };
    redo.append(&transaction, &mut copy, durability)?;
    if let Some((_, blank)) = new_page_one {
        *page_one = Some(blank);
    }
    Ok(())
}

/// Writes what is held to the database file.
fn in_place(database: &Database, held: &Held) -> Result<()> {
    let numbers: Vec<u32> = held.page_numbers().collect();
    let mut copy = |number: u32, page: &mut [u8]| held.copy(number, page);
    write_in_place(database, &numbers, held.page_bytes(), &mut copy)?;
    if held.len() < held.file_len() {
        database.set_len(held.len())?;
    }
    // SQLite takes an empty file with a log beside it for a new database, and removes the log.
    if held.file_len() == 0 { database.sync() } else { Ok(()) }
}

/// Writes pages, sorted by number, adjacent ones together.
fn write_in_place(
    database: &Database,
    numbers: &[u32],
    page_bytes: usize,
    copy: &mut dyn FnMut(u32, &mut [u8]) -> litefoot_engine::device::Result<()>,
) -> Result<()> {
    let most = (IN_PLACE_BYTES / page_bytes).max(1);
    let mut buffer = Vec::new();
    let mut rest = numbers;
    while let Some(first) = rest.first() {
        let adjacent =
            (*first..).zip(rest).take(most).take_while(|(wanted, number)| wanted == *number).count();
        let (run, behind) = rest.split_at(adjacent);
        buffer.resize(run.len() * page_bytes, 0);
        for (number, page) in run.iter().zip(buffer.chunks_exact_mut(page_bytes)) {
            copy(*number, page)?;
        }
        database.write(&buffer, u64::from(first - 1) * page_bytes as u64)?;
        rest = behind;
    }
    Ok(())
}

/// Whether the newest page 1 says that the database is in WAL mode.
fn is_wal_mode(database: &Database, redo: &RedoLog) -> Result<bool> {
    let mut version = [0];
    if !redo.read_page(1, READ_VERSION, &mut version)? {
        database.file().read_at(&mut version, READ_VERSION as u64)?;
    }
    Ok(version[0] == 2)
}

fn without_counters(page: &[u8]) -> Vec<u8> {
    let mut blank = page.to_vec();
    for at in COUNTERS {
        blank[at..at + 4].fill(0);
    }
    blank
}

fn advance_counters(page: &mut [u8]) {
    for at in COUNTERS {
        let counter = u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        page[at..at + 4].copy_from_slice(&counter.wrapping_add(COUNTER_JUMP).to_be_bytes());
    }
}

/// Begins the log anew where it has grown large, in a thread of its own.
pub(super) fn reset_in_background(database: &Arc<Database>) {
    if !database.atomic().wants_reset() {
        return;
    }
    let worker = database.clone();
    let spawned = std::thread::Builder::new()
        .name("litefoot-log".to_owned())
        .spawn(move || worker.atomic().reset(&worker));
    if spawned.is_err() {
        // No thread to be had: the commit waits.
        database.atomic().reset(database);
    }
}
