//! The copy, by SQLite's backup interface.
//!
//! **WAL mode.** One read transaction lasts for the whole copy: it is a snapshot, in which nobody waits.
//!
//! **Rollback journals.** A reader keeps writers from committing. So pages are copied in steps, each under a lock of its own, with a
//! pause behind it in which writers get their turn. SQLite begins anew when the database was changed meanwhile. Once the size of
//! the database was copied in vain [`VAIN_COPIES_MAX`] times, its bytes are copied, and writers wait for the end of that.

use super::bytes;
use super::source::Source;
use super::target::Unfinished;
use crate::open::locked;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt;
use litefoot_terminal::progress::Bar;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode};
use std::time::{Duration, Instant};

/// The time that a step should take, and writers wait for at most.
const STEP: Duration = Duration::from_millis(5);
/// The pause behind a step. SQLite's own busy handler looks again after 1, 2, 5 and 10 ms, and keeps readers out as soon as
/// it has looked once.
const PAUSE: Duration = Duration::from_millis(5);
/// Pages of the first step, and of steps for which nobody waits.
const FIRST_PAGES: i32 = 64;
const SNAPSHOT_PAGES: i32 = 512;
/// Most pages of a step. A Ctrl-C is heard between two steps.
const PAGES_MAX: i32 = 16_384;
/// How often the size of the database is copied in vain before writers have to wait.
const VAIN_COPIES_MAX: u64 = 1;
/// The pause before a lock is asked for again.
const RETRY: Duration = Duration::from_millis(5);
/// Copies that take longer are shown as a bar.
const SILENCE: Duration = Duration::from_millis(500);

/// What a copy came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// How long programs that write were kept waiting, where the database changed too often for steps.
    pub held: Option<Duration>,
}

/// The pages of the next step: those that the last one would have copied in its time.
fn next_pages(pages: i32, took: Duration) -> i32 {
    let took = took.max(Duration::from_micros(1));
    let fitting = f64::from(pages) * STEP.as_secs_f64() / took.as_secs_f64();
    // A step that was quick by chance does not make the next one four times as long as it should be.
    let most = pages.saturating_mul(2).min(PAGES_MAX);
    (fitting as i32).clamp(1, most.max(1))
}

/// Pages that were copied in vain.
#[derive(Debug, Default)]
struct Progress {
    done: u64,
    vain: u64,
}

impl Progress {
    /// Notes how far the copy is behind a step of so many pages. It is less far than it should be where it began anew.
    fn note(&mut self, done: u64, pages: u64) {
        if done < self.done + pages {
            self.vain += self.done;
        }
        self.done = done;
    }

    /// True once waiting for a quiet time costs more than it spares.
    fn gives_up(&self, all: u64) -> bool {
        self.vain > all.saturating_mul(VAIN_COPIES_MAX)
    }
}

/// Copies a database into an unfinished file; `None` where the program that had it open has died meanwhile.
///
/// Somebody who keeps the database for himself is waited for, each time, for `patience`.
pub fn run(source: &Source, unfinished: &Unfinished, patience: Duration) -> Result<Option<Copied>, Failure> {
    let mut copy = unfinished.connect()?;
    let from = &source.database.connection;
    let mut work = Work { source, unfinished, patience, began: Instant::now(), bar: None };
    work.begin(from)?;
    let is_wal = work.is_wal(from)?;
    if !source.is_complete(is_wal)? {
        return Ok(None);
    }
    if is_wal || source.is_through_litefoot() {
        work.snapshot(from, &mut copy)?;
        return Ok(Some(Copied::default()));
    }
    work.end(from)?;
    if work.steps(from, &mut copy)? {
        return Ok(Some(Copied::default()));
    }
    drop(copy);
    bytes::copy(&source.file, &source.path, unfinished)?;
    work.begin(from)?;
    let is_wal = work.is_wal(from)?;
    if !source.is_complete(is_wal)? {
        return Ok(None);
    }
    if is_wal {
        // The mode was changed meanwhile: a snapshot costs nobody anything.
        work.snapshot(from, &mut unfinished.connect()?)?;
        return Ok(Some(Copied::default()));
    }
    let began = Instant::now();
    let [pages, page_bytes] = ["page_count", "page_size"].map(|pragma| work.number(from, pragma));
    bytes::catch_up(&source.file, &source.path, unfinished, pages? * page_bytes?)?;
    work.end(from)?;
    Ok(Some(Copied { held: Some(began.elapsed()) }))
}

/// A copy in progress.
struct Work<'a> {
    source: &'a Source,
    unfinished: &'a Unfinished,
    patience: Duration,
    began: Instant,
    bar: Option<Bar>,
}

impl Work<'_> {
    /// Begins a read transaction.
    fn begin(&self, from: &Connection) -> Result<(), Failure> {
        let explain = |error| self.source.database.explain(&error);
        from.execute_batch("BEGIN").map_err(explain)?;
        let mut wait = None;
        loop {
            match from.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
                Err(error) if is_locked(&error) => self.wait(&mut wait)?,
                other => return other.map_err(explain),
            }
        }
    }

    fn end(&self, from: &Connection) -> Result<(), Failure> {
        from.execute_batch("COMMIT").map_err(|error| self.source.database.explain(&error))
    }

    fn is_wal(&self, from: &Connection) -> Result<bool, Failure> {
        let mode = from.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
        Ok(mode.map_err(|error| self.source.database.explain(&error))? == "wal")
    }

    fn number(&self, from: &Connection, pragma: &str) -> Result<u64, Failure> {
        let number = from.pragma_query_value(None, pragma, |row| row.get::<_, u32>(0));
        Ok(u64::from(number.map_err(|error| self.source.database.explain(&error))?))
    }

    /// Copies within the read transaction, and ends it.
    fn snapshot(&mut self, from: &Connection, copy: &mut Connection) -> Result<(), Failure> {
        let backup = Backup::new(from, copy).map_err(|error| self.unfinished.explain(&error))?;
        let mut wait = None;
        loop {
            interrupt::check()?;
            match self.step(&backup, SNAPSHOT_PAGES)? {
                StepResult::Done => break,
                StepResult::More => wait = None,
                _ => self.wait(&mut wait)?,
            }
        }
        drop(backup);
        self.end(from)
    }

    /// Copies in steps that writers can come between; `false` where they come too often.
    fn steps(&mut self, from: &Connection, copy: &mut Connection) -> Result<bool, Failure> {
        let backup = Backup::new(from, copy).map_err(|error| self.unfinished.explain(&error))?;
        let (mut pages, mut progress, mut wait) = (FIRST_PAGES, Progress::default(), None);
        loop {
            interrupt::check()?;
            let began = Instant::now();
            match self.step(&backup, pages)? {
                StepResult::Done => return Ok(true),
                StepResult::More => {
                    let now = backup.progress();
                    progress.note((now.pagecount - now.remaining) as u64, pages as u64);
                    pages = next_pages(pages, began.elapsed());
                    if progress.gives_up(now.pagecount as u64) {
                        return Ok(false);
                    }
                    wait = None;
                    std::thread::sleep(PAUSE);
                }
                _ => self.wait(&mut wait)?,
            }
        }
    }

    /// Waits for a lock, with an ear for Ctrl-C. `since` is when that began.
    fn wait(&self, since: &mut Option<Instant>) -> Result<(), Failure> {
        interrupt::check()?;
        if since.get_or_insert_with(Instant::now).elapsed() > self.patience {
            return Err(locked(&self.source.path, "database is locked"));
        }
        std::thread::sleep(RETRY);
        Ok(())
    }

    fn step(&mut self, backup: &Backup<'_, '_>, pages: i32) -> Result<StepResult, Failure> {
        let result = backup.step(pages).map_err(|error| match error.sqlite_error_code() {
            // The database is only read: it is the copy that has no room.
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => self.unfinished.explain(&error),
            _ => self.source.database.explain(&error),
        })?;
        let now = backup.progress();
        if self.bar.is_none() && self.began.elapsed() > SILENCE {
            let label = format!("copying {}", self.source.path.display());
            self.bar = Some(Bar::new(&label, now.pagecount as u64));
        }
        if let Some(bar) = &self.bar {
            bar.at((now.pagecount - now.remaining) as u64);
        }
        Ok(result)
    }
}

fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_becomes_as_long_as_it_may() {
        for (pages, took_us, next) in [
            (64, 5000, 64),
            (64, 2500, 128),
            (64, 1, 128),
            (64, 50_000, 6),
            (1, 1_000_000, 1),
            (16_000, 1, 16_384),
        ] {
            assert_eq!(
                next_pages(pages, Duration::from_micros(took_us)),
                next,
                "{pages} pages in {took_us} us"
            );
        }
    }

    #[test]
    fn a_copy_that_always_begins_anew_gives_up_in_the_end() {
        let mut quiet = Progress::default();
        (1..=10).for_each(|done| quiet.note(done * 10, 10));
        assert!(!quiet.gives_up(100) && quiet.vain == 0);
        let mut busy = Progress::default();
        for begin in 0..3 {
            assert!(!busy.gives_up(100), "{begin}");
            busy.note(25, 25);
            busy.note(50, 25);
        }
        busy.note(25, 25);
        assert!(busy.gives_up(100), "150 pages were copied in vain");
    }
}
