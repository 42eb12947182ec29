//! Two devices, either of which is full at times.

use crate::{MODES, TIERED, count, is_marked, killed, stock};
use litefoot::rusqlite::{self, Connection, ErrorCode};
use litefoot::{Options, Vfs};
use litefoot_sim::SimMedium;
use litefoot_storage::file::{DeviceError, File, FileKind, Medium, OpenMode, Operation, Result, total_bytes};
use litefoot_storage::pass_on;
use std::collections::HashMap;
use std::io::{ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A medium whose first-level directories are devices of their own, which may be full.
#[derive(Clone)]
struct Devices {
    medium: SimMedium,
    /// Bytes that fit on a device.
    limits: Arc<Mutex<HashMap<PathBuf, u64>>>,
}

struct OnDevice {
    file: Arc<dyn File>,
    devices: Devices,
}

impl Devices {
    fn new() -> Devices {
        Devices { medium: SimMedium::new(), limits: Arc::default() }
    }

    fn used(&self, device: &Path) -> u64 {
        let files = self.medium.files();
        files
            .iter()
            .filter(|(path, _, _)| path.starts_with(device))
            .map(|(_, _, bytes)| bytes.len() as u64)
            .sum()
    }

    /// Lets so many bytes more fit on a device, or any number.
    fn limit(&self, device: &Path, more: Option<u64>) {
        let mut limits = self.limits.lock().unwrap();
        match more {
            Some(more) => drop(limits.insert(device.to_owned(), self.used(device) + more)),
            None => drop(limits.remove(device)),
        }
    }
}

impl OnDevice {
    /// Refuses a file that may not become so long.
    fn grow(&self, operation: Operation, len: u64) -> Result<()> {
        let path = self.file.path();
        let limits = self.devices.limits.lock().unwrap();
        let Some((device, limit)) = limits.iter().find(|(device, _)| path.starts_with(device)) else {
            return Ok(());
        };
        let grows = len.saturating_sub(self.file.len()?);
        if grows > 0 && self.devices.used(device) + grows > *limit {
            return Err(DeviceError::new(operation, path, ErrorKind::StorageFull.into()));
        }
        Ok(())
    }

    fn write(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.grow(Operation::Write, offset + total_bytes(bufs))
    }
}

impl File for OnDevice {
    pass_on!(file: read_at, read_vectored_at, sync, stamp, set_stamp, len, id, path, lock_range);

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.write(bufs, offset)?;
        self.file.write_vectored_at(bufs, offset)
    }
    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.write(bufs, offset)?;
        self.file.write_durable_at(bufs, offset)
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.grow(Operation::SetLength, len)?;
        self.file.set_len(len)
    }
    fn allocate(&self, len: u64) -> Result<()> {
        self.grow(Operation::Allocate, len)?;
        self.file.allocate(len)
    }
}

impl Medium for Devices {
    pass_on!(medium: delete, rename, info, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        Ok(Arc::new(OnDevice { file: self.medium.open(path, kind, mode)?, devices: self.clone() }))
    }
}

fn is_full(error: &rusqlite::Error, what: &str) {
    let text = litefoot::last_error();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{what}: {error}, {text:?}");
}

/// Commits rows, and answers how often the disk was full. `rows` is what was committed.
fn commit(db: &Connection, bytes: i64, times: usize, rows: &mut i64, what: &str) -> usize {
    let mut full = 0;
    for _ in 0..times {
        match db.execute("INSERT INTO t(v) VALUES(randomblob(?1))", [bytes]) {
            Ok(_) => *rows += 1,
            Err(error) => {
                is_full(&error, what);
                full += 1;
            }
        }
    }
    full
}

fn run(mode: &str, device: &str, more: u64, closes_full: bool) -> usize {
    let what = format!("{mode}, {device}, {more} bytes more");
    let devices = Devices::new();
    let options = Options {
        max_wal_size: 64 << 10,
        commit_log: litefoot::CommitLogForm::Statements,
        commit_log_size: 16 << 10,
        ..Options::default()
    };
    let name = format!("full-{mode}{}-{more}-{closes_full}", device.replace('/', "-"));
    let vfs = Vfs::builder(name).medium(Arc::new(devices.clone())).options(options).register().unwrap();
    let db = vfs.open(TIERED).unwrap();
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
    db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    let mut rows = 0;
    assert_eq!(commit(&db, 3000, 5, &mut rows, &what), 0);
    devices.limit(Path::new(device), Some(more));
    let mut full = commit(&db, 3000, 60, &mut rows, &what);
    assert_eq!(count(&db), rows, "{what}");
    // Larger than the log is, and small again.
    full += commit(&db, 2_000_000, 1, &mut rows, &what);
    full += commit(&db, 10, 10, &mut rows, &what);
    // The log takes what the database has no space for.
    if let Err(error) = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
        is_full(&error, &what);
        full += 1;
    }
    assert_eq!(count(&db), rows, "{what}");
    // The files that a process leaves that is killed now.
    let image = killed(&devices.medium);
    let after = crate::vfs(&image);
    let recovered = after.open(TIERED).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(count(&recovered), rows, "{what}");
    drop(recovered);
    if closes_full {
        drop(db);
    } else {
        devices.limit(Path::new(device), None);
        assert_eq!(commit(&db, 3000, 10, &mut rows, &what), 0, "{what}");
        drop(db);
    }
    // With space again everything comes home at the latest.
    devices.limit(Path::new(device), None);
    let db = vfs.open(TIERED).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(count(&db), rows, "{what}");
    assert_eq!(commit(&db, 3000, 10, &mut rows, &what), 0, "{what}");
    assert_eq!(count(&db), rows, "{what}");
    drop(db);
    assert!(!is_marked(&devices.medium), "{what}");
    assert_eq!(stock(&devices.medium).unwrap(), rows, "{what}");
    full
}

#[test]
fn a_full_device_costs_no_commit_and_keeps_none_from_coming_home() {
    for mode in MODES {
        for device in ["/db", "/fast"] {
            let mut full = 0;
            for more in [0, 100, 512, 2048, 4096, 5000, 10_000, 20_000, 40_000, 70_000, 5_000_000] {
                full += run(mode, device, more, false);
                full += run(mode, device, more, true);
            }
            assert!(full > 0, "{mode}, {device}: nothing was ever full");
        }
    }
}
