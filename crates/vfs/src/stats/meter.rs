//! Meter: counts writes to the companion files of a database.
//!
//! Logs and journals open their files through a [`Meter`], which counts accepted writes and syncs by kind of file and
//! passes every call on. The database file is not behind a meter: `db/data_file.rs` counts there, so that requests on its
//! descriptor can go to the kernel in other ways. Reads are not counted.

use crate::stats::figures::Stats;
use crate::stats::page::StatsPage;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Result, Stamp, total_bytes};
use litefoot_storage::pass_on;
use std::io::IoSlice;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

/// The medium of one database, as its figures see it.
pub(crate) struct Meter {
    inner: Arc<dyn Medium>,
    stats: Arc<StatsPage>,
}

impl Meter {
    /// Counts into `stats` what is written to `inner`.
    pub fn new(inner: Arc<dyn Medium>, stats: Arc<StatsPage>) -> Meter {
        Meter { inner, stats }
    }
}

impl Medium for Meter {
    pass_on!(inner: delete, rename, rename_new, info, identity, unlinked_identity, glance, list, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(path, kind, mode)?;
        Ok(Arc::new(MeteredFile::new(inner, kind, self.stats.clone())))
    }

    fn open_nameless(&self, directory: &Path) -> Option<Arc<dyn File>> {
        let inner = self.inner.open_nameless(directory)?;
        Some(Arc::new(MeteredFile::new(inner, FileKind::Temporary, self.stats.clone())))
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.inner.sync_directory(directory)?;
        Stats::add(&self.stats.directory_syncs, 1);
        Ok(())
    }
}

/// A file as the figures of a database see it.
pub(crate) struct MeteredFile {
    inner: Arc<dyn File>,
    kind: FileKind,
    stats: Arc<StatsPage>,
}

impl MeteredFile {
    /// Counts into `stats` what is written to `inner`.
    pub fn new(inner: Arc<dyn File>, kind: FileKind, stats: Arc<StatsPage>) -> MeteredFile {
        MeteredFile { inner, kind, stats }
    }

    fn wrote(&self, bufs: &[IoSlice<'_>], offset: u64) {
        self.stats.add_write(self.kind, offset, total_bytes(bufs));
    }
}

impl File for MeteredFile {
    pass_on!(inner: read_at, read_cached_at, read_vectored_at, read_ahead, start_writeback, stamp, len, is_empty, set_len, allocate);
    pass_on!(inner: id, birth, path, lock_range, is_locked, lock_holder, map_over, guarantees, take_lease, release_lease);

    fn raw_descriptor(&self) -> Option<RawFd> {
        // What is written to mapped memory passes no file.
        self.inner.raw_descriptor().filter(|_| self.kind == FileKind::WalIndex)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(buf, offset)?;
        self.stats.add_write(self.kind, offset, buf.len() as u64);
        Ok(())
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.inner.write_vectored_at(bufs, offset)?;
        self.wrote(bufs, offset);
        Ok(())
    }

    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.inner.write_durable_at(bufs, offset)?;
        self.wrote(bufs, offset);
        self.stats.add_sync(self.kind);
        Ok(())
    }

    fn write_atomic_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_atomic_at(bytes, offset)?;
        self.stats.add_write(self.kind, offset, bytes.len() as u64);
        self.stats.add_sync(self.kind);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()?;
        self.stats.add_sync(self.kind);
        Ok(())
    }

    fn set_stamp(&self) -> Result<Stamp> {
        let stamp = self.inner.set_stamp()?;
        self.stats.add_sync(self.kind);
        Ok(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_sim::SimMedium;

    #[test]
    fn accepted_writes_and_syncs_are_counted_by_kind() {
        let stats = Arc::new(StatsPage::private());
        let meter = Meter::new(Arc::new(SimMedium::new()), stats.clone());
        let log = meter.open(Path::new("/a-wal"), FileKind::RedoLog, OpenMode::Create).unwrap();
        log.write_at(b"one", 0).unwrap();
        log.write_durable_at(&[IoSlice::new(b"two"), IoSlice::new(b"three")], 4094).unwrap();
        log.sync().unwrap();
        assert_eq!(log.set_stamp().unwrap(), log.stamp().unwrap());
        meter.sync_directory(Path::new("/")).unwrap();
        let read_only = meter.open(Path::new("/a-wal"), FileKind::Journal, OpenMode::ReadOnly).unwrap();
        assert!(read_only.write_at(b"refused", 0).is_err());
        let rows: Vec<_> = stats.rows().into_iter().filter(|(_, value)| *value > 0).collect();
        let expected = [
            ("directory_syncs", 1),
            ("redo_log_writes", 2),
            ("redo_log_written_bytes", 11),
            ("redo_log_block_bytes", 3 * 4096),
            ("redo_log_syncs", 3),
        ];
        assert_eq!(rows, expected.map(|(name, value)| (name.to_owned(), value)));
    }
}
