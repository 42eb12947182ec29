//! Reads and writes at any offset and of any length, against a plain array of bytes.

use crate::error::Error;
use crate::files::handle::{Control, Handle};
use crate::files::main_db::MainFile;
use crate::open::OpenDatabase;
use crate::open::database::DatabaseSetup;
use crate::options::Options;
use crate::sync::lock_table::Level;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

const PAGE: usize = 512;

/// Page 1 of a database with pages of [`PAGE`] bytes, and what lies behind it.
fn content(pages: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..pages * PAGE).map(|at| (at / 7) as u8).collect();
    bytes[..16].copy_from_slice(b"SQLite format 3\0");
    bytes[16..18].copy_from_slice(&(PAGE as u16).to_be_bytes());
    bytes
}

fn open(medium: &SimMedium, pooled: bool) -> MainFile {
    let options = Options { max_wal_size: 20 * PAGE, buffer_pool_size: Some(1 << 20), ..Options::default() };
    let setup = DatabaseSetup::of_test(Arc::new(medium.clone()), Path::new("/app.db"));
    let database = OpenDatabase::new(DatabaseSetup { options, pooled, ..setup });
    let mut file = MainFile::new(Arc::new(database), false, true, false);
    file.control(Control::Connected).unwrap();
    file
}

#[derive(Clone, Debug)]
enum Step {
    Read(usize, usize),
    Write(usize, usize, u8),
    /// Cuts the database, by so many pages.
    Cut(usize),
    Commit,
    RollBack,
    /// Writes an impossible page size.
    Damage,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..40 * PAGE, 0..9 * PAGE).prop_map(|(at, bytes)| Step::Read(at, bytes)),
        // SQLite writes whole pages; others may not.
        3 => (1..24_usize, 1..4_usize, any::<u8>()).prop_map(|(at, pages, byte)| Step::Write(at * PAGE, pages * PAGE, byte)),
        1 => (100..24 * PAGE, 1..3 * PAGE, any::<u8>()).prop_map(|(at, bytes, byte)| Step::Write(at, bytes, byte)),
        1 => (1..4_usize).prop_map(Step::Cut),
        2 => Just(Step::Commit),
        1 => Just(Step::RollBack),
        1 => Just(Step::Damage),
    ];
    prop::collection::vec(step, 1..60)
}

/// One connection, and what it should see.
struct Run {
    file: MainFile,
    /// The committed content; `seen` has the transaction's changes, too.
    committed: Vec<u8>,
    seen: Vec<u8>,
    writing: bool,
    counter: u32,
}

impl Run {
    fn begin(&mut self) {
        if !self.writing {
            self.file.lock(Level::Reserved).unwrap();
            self.writing = true;
            // The first write is a whole page: it tells the size of one where page 1 does not.
            let page = self.seen[..PAGE].to_vec();
            self.file.write(&page, 0).unwrap();
        }
    }

    fn check(&mut self, at: usize, bytes: usize) {
        let mut buf = vec![0xee; bytes];
        let mut expected = vec![0; bytes];
        let there = self.seen.len().saturating_sub(at).min(bytes);
        expected[..there].copy_from_slice(&self.seen[at.min(self.seen.len())..][..there]);
        match self.file.read(&mut buf, at as u64) {
            Ok(()) => assert_eq!(there, bytes, "{bytes} bytes at {at} of {}", self.seen.len()),
            Err(Error::ShortRead) => assert!(there < bytes, "{bytes} bytes at {at} of {}", self.seen.len()),
            Err(error) => panic!("{error}"),
        }
        let wrong = (0..bytes).find(|index| buf[*index] != expected[*index]);
        assert_eq!(wrong.map(|index| at + index), None, "{bytes} bytes at {at} of {}", self.seen.len());
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Read(at, bytes) => self.check(at, bytes),
            Step::Write(at, bytes, byte) => {
                self.begin();
                // Whole pages at the end, as SQLite has it; no gaps.
                let at = at.min(self.seen.len());
                let bytes = if at + bytes > self.seen.len() {
                    bytes.next_multiple_of(PAGE) - at % PAGE
                } else {
                    bytes
                };
                let new: Vec<u8> = (0..bytes).map(|index| byte.wrapping_add((index / 5) as u8)).collect();
                self.seen.resize(self.seen.len().max(at + bytes), 0);
                self.seen[at..at + bytes].copy_from_slice(&new);
                self.file.write(&new, at as u64).unwrap();
            }
            Step::Cut(pages) => {
                self.begin();
                let len = (self.seen.len() - pages * PAGE.min(self.seen.len() / 8)).max(PAGE) / PAGE * PAGE;
                self.seen.truncate(len);
                self.file.truncate(len as u64).unwrap();
            }
            Step::Damage => {
                self.begin();
                self.seen[16..18].copy_from_slice(&[0, 0]);
                let page = self.seen[..PAGE].to_vec();
                self.file.write(&page, 0).unwrap();
            }
            Step::Commit => {
                if self.writing {
                    // SQLite counts every transaction on page 1.
                    self.seen[24..28].copy_from_slice(&self.counter.to_be_bytes());
                    self.counter += 1;
                    let page = self.seen[..PAGE].to_vec();
                    self.file.write(&page, 0).unwrap();
                    self.file.lock(Level::Exclusive).unwrap();
                    self.file.sync().unwrap();
                    self.file.control(Control::CommitDone).unwrap();
                    self.committed = self.seen.clone();
                }
                self.end();
            }
            Step::RollBack => self.end(),
        }
    }

    fn end(&mut self) {
        self.file.unlock(Level::Shared).unwrap();
        self.seen = self.committed.clone();
        self.writing = false;
        assert_eq!(self.file.size().unwrap(), self.seen.len() as u64);
        self.check(0, self.seen.len() + 3);
    }
}

fn run(steps: &[Step], pooled: bool) {
    let medium = SimMedium::new();
    let before = content(16);
    let file = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap();
    file.write_at(&before, 0).unwrap();
    let mut file_handle = open(&medium, pooled);
    file_handle.lock(Level::Shared).unwrap();
    let mut run =
        Run { file: file_handle, committed: before.clone(), seen: before, writing: false, counter: 1 };
    for step in steps {
        run.step(step);
    }
    run.end();
    run.file.unlock(Level::None).unwrap();
    Box::new(run.file).close().unwrap();
    let mut left = vec![0; run.committed.len() + 1];
    let read = file.read_at(&mut left, 0).unwrap();
    assert_eq!(read, run.committed.len());
    assert_eq!(left[..read], run.committed);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn any_offset_and_length_reads_what_was_written_last(steps in steps(), pooled in any::<bool>()) {
        run(&steps, pooled);
    }
}

#[test]
fn a_read_across_pages_takes_each_from_where_its_newest_version_is() {
    for pooled in [false, true] {
        run(
            &[
                Step::Write(3 * PAGE, PAGE, 1),
                Step::Commit,
                Step::Write(20 * PAGE, PAGE, 2),
                Step::Write(9 * PAGE, PAGE, 3),
                Step::Commit,
                Step::Read(0, 16 * PAGE),
                Step::Read(2 * PAGE + 100, 2 * PAGE),
                Step::Read(8 * PAGE + 1, 12 * PAGE),
            ],
            pooled,
        );
    }
}

#[test]
fn an_empty_database_that_is_given_a_length_has_it_only_once_that_is_committed() {
    let medium = SimMedium::new();
    let on_medium = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap();
    let mut file = open(&medium, false);
    let page = content(1);
    for commits in [false, true] {
        file.lock(Level::Shared).unwrap();
        file.lock(Level::Reserved).unwrap();
        file.truncate(2 * PAGE as u64).unwrap();
        assert_eq!((file.size().unwrap(), on_medium.len().unwrap()), (2 * PAGE as u64, 0));
        let mut bytes = vec![1; PAGE];
        file.read(&mut bytes, PAGE as u64).unwrap();
        assert_eq!(bytes, [0; PAGE]);
        file.write(&page, 0).unwrap();
        assert_eq!(file.size().unwrap(), 2 * PAGE as u64);
        if commits {
            file.sync().unwrap();
            file.control(Control::CommitDone).unwrap();
        }
        file.unlock(Level::None).unwrap();
        assert_eq!(on_medium.len().unwrap(), if commits { 2 * PAGE as u64 } else { 0 });
    }
}
