//! The pages of a database that this process owns, while nobody writes.
//!
//! # Invariants
//! 1. No handle is at EXCLUSIVE, and none holds a slot of the wal-index exclusively: what was written is committed, and published. None
//!    gets a lock or a slot meanwhile; it waits (`OpenDatabase::was_in_the_way`).
//! 2. A fork of the process waits until the locks of a moment are free again: a child could not free them.
//! 3. Pages that were taken from the marks are told, or everything is marked again.

use super::{MOST_BYTES, Part};
use crate::cache::read_committed;
use crate::db::{HEADER_BYTES, is_wal_mode, page_bytes_in};
use crate::error::{Error, Result};
use crate::open::OpenDatabase;
use crate::open::committed_pages::CommittedPages;
use crate::sync::forks::InSqlite;
use crate::sync::page_marks::{Marks, Transactions};
use std::time::{Duration, Instant};

/// Most bytes where everything counts as changed: the pages may have to come from the device.
const MOST_UNREAD_BYTES: usize = 256 << 10;
/// How long a transaction that writes is waited for, and the time between two attempts.
const PATIENCE: Duration = Duration::from_millis(100);
const GLANCE: Duration = Duration::from_micros(200);

/// What came of an attempt to look.
#[derive(Debug)]
pub(super) enum Found<T> {
    /// What was looked for.
    Here(T),
    /// Other processes have the database open.
    Company,
    /// A transaction is in the way, or the database is not ready.
    Busy,
}

/// One moment.
struct Moment {
    committed: CommittedPages,
    pages: u32,
    /// The commits for which a reader of it would wait: of the log, and of rollback journals.
    unsettled: (Option<u64>, Option<u64>),
}

impl OpenDatabase {
    /// The first part of what may have changed by these marks.
    pub(super) fn look(&self, marks: &Marks) -> Result<Found<Part>> {
        let most = match marks.all_from(u32::MAX) {
            Some(from) => {
                self.read_into_systems_cache(from);
                MOST_UNREAD_BYTES
            }
            None => MOST_BYTES,
        };
        self.at_moment(|moment| {
            let page_bytes = moment.committed.page_bytes;
            if page_bytes == 0 {
                return Ok(Part { is_last: true, ..Part::default() });
            }
            let (numbers, is_last) = marks.take((most / page_bytes).max(1), moment.pages);
            let mut data = vec![0; numbers.len() * page_bytes];
            let runs = numbers.chunk_by(|one, next| one + 1 == *next);
            let mut place = &mut data[..];
            for run in runs {
                let (these, behind) = place.split_at_mut(run.len() * page_bytes);
                if !moment.committed.read(self, run[0], these) {
                    marks.note_all();
                    return Err(self.unreadable(run[0]));
                }
                place = behind;
            }
            let page_bytes = page_bytes as u32;
            Ok(Part { page_bytes, pages: moment.pages, numbers, data, is_last, committed_ms: None })
        })
    }

    /// The transactions that were committed since everything was told, and the part that says that nothing comes behind them; `None` where they are
    /// not known.
    pub(super) fn look_at_transactions(&self, marks: &Marks) -> Result<Found<Option<(Transactions, Part)>>> {
        self.at_moment(|moment| {
            let page_bytes = moment.committed.page_bytes;
            let present = |number, page: &mut [u8]| moment.committed.read(self, number, page);
            let taken = marks.take_transactions(page_bytes, moment.pages, present);
            let end =
                Part { page_bytes: page_bytes as u32, pages: moment.pages, is_last: true, ..Part::default() };
            Ok(taken.map(|taken| (taken, end)))
        })
    }

    /// A page that has not changed; `None` where it may have.
    pub(super) fn look_at_page(&self, marks: &Marks, number: u32) -> Result<Found<Option<Vec<u8>>>> {
        self.at_moment(|moment| {
            let page_bytes = moment.committed.page_bytes;
            if page_bytes == 0 || number == 0 || number > moment.pages || marks.has(number) {
                return Ok(None);
            }
            let mut page = vec![0; page_bytes];
            if moment.committed.read(self, number, &mut page) {
                Ok(Some(page))
            } else {
                Err(self.unreadable(number))
            }
        })
    }

    fn unreadable(&self, number: u32) -> Error {
        Error::Io(format!("{}: page {number} cannot be read", self.db.path().display()))
    }

    /// Where everything counts as changed, transactions are not to wait for the device.
    fn read_into_systems_cache(&self, from: u32) {
        let db = &self.db;
        let page_bytes = db.shared().is_owned().then(|| db.file_len().and_then(|len| db.page_bytes(len)));
        if let Some(Ok(page_bytes)) = page_bytes {
            let mut unused = vec![0; MOST_UNREAD_BYTES];
            let _ = db.data().read_at(&mut unused, u64::from(from - 1) * page_bytes as u64);
        }
    }

    /// Calls `then` at a moment at which nobody writes, and waits until that is durable.
    fn at_moment<T>(&self, then: impl Fn(&Moment) -> Result<T>) -> Result<Found<T>> {
        let begun = Instant::now();
        let mut is_ready = false;
        loop {
            let attempt = self.while_nobody_writes(|| {
                let Some(moment) = self.moment()? else { return Ok(None) };
                then(&moment).map(|found| Some((found, moment.unsettled)))
            });
            match attempt? {
                Found::Here(Some((found, unsettled))) => {
                    self.await_settled(unsettled)?;
                    return Ok(Found::Here(found));
                }
                Found::Company => return Ok(Found::Company),
                Found::Here(None) if is_ready => return Ok(Found::Busy),
                Found::Here(None) => {
                    is_ready = true;
                    if self.make_ready().is_err() {
                        return Ok(Found::Busy);
                    }
                }
                Found::Busy => {}
            }
            if begun.elapsed() >= PATIENCE {
                return Ok(Found::Busy);
            }
            std::thread::sleep(GLANCE);
        }
    }

    fn while_nobody_writes<T>(&self, then: impl FnOnce() -> Result<Option<T>>) -> Result<Found<Option<T>>> {
        let _no_fork = InSqlite::enter();
        let _one = self.ownership.becoming.lock();
        if self.is_multi_process() {
            return Ok(Found::Company);
        }
        if !self.is_recovered() {
            return Ok(Found::Here(None));
        }
        // Who meets the closed gates tries again once this is over.
        self.sharing().note_attempt();
        let found = self.locks.while_unwritten(|_| self.wal_index.while_nobody_writes(|_| then()));
        self.sharing().note_attempt();
        found.flatten().map_or(Ok(Found::Busy), |found| found.map(Found::Here))
    }

    /// The present; `None` where it is not known yet what was committed.
    fn moment(&self) -> Result<Option<Moment>> {
        let (db, wal) = (&self.db, self.wal());
        let mut header = [0; HEADER_BYTES];
        let log = &**self.rollback_log();
        let len = db.file_len()?;
        if len > 0 {
            read_committed(db, log, &mut header, 0)?;
        }
        let page_bytes = page_bytes_in(&header) as usize;
        if page_bytes == 0 && len > 0 {
            return Err(self.unreadable(1));
        }
        let mut pages = u32::try_from(len / page_bytes.max(1) as u64).unwrap_or(u32::MAX);
        let mut frames = Vec::new();
        if is_wal_mode(&header) || wal.is_some() {
            // Nobody has read since the log was opened, or a connection has it to itself.
            let Some(logged) = wal.as_ref().and_then(|_| self.wal_index.published_frames()) else {
                return Ok(None);
            };
            (frames, pages) = (logged.frames, logged.pages.unwrap_or(pages));
        }
        let unsettled = (wal.as_ref().and_then(|wal| wal.not_durable()), log.syncs().unsettled());
        // Of several frames of a page, the last one stays.
        let frames = frames.into_iter().map(|(frame, page)| (page, frame)).collect();
        Ok(Some(Moment { committed: CommittedPages { wal, frames, page_bytes }, pages, unsettled }))
    }

    /// The database is this process's, and its log has an index, from now on. Where it was shared, no connection may have come since.
    fn make_ready(&self) -> Result<()> {
        self.own()?;
        let is_known = matches!(self.while_nobody_writes(|| self.moment()), Ok(Found::Here(Some(_))));
        if is_known {
            return Ok(());
        }
        // A reader makes the index.
        let _no_fork = InSqlite::enter();
        self.internal_connection().map(drop)
    }

    /// Waits as a reader would.
    fn await_settled(&self, (logged, shared): (Option<u64>, Option<u64>)) -> Result<()> {
        if let (Some(number), Some(wal)) = (logged, self.wal()) {
            wal.wait_durable_at_once(number)?;
        }
        match shared {
            Some(number) => self.rollback_log.syncs().await_durable(&self.rollback_log, &self.db, number),
            None => Ok(()),
        }
    }
}
