//! The tiered file as everybody else sees it.

use super::error::Result;
use super::format::CHUNK_BYTES;
use super::open::{self, Config};
use super::policy::Policy;
use super::state::TierState;
use super::statistics::Statistics;
use litefoot_storage::file::{self, File, Medium, RangeLock, Stamp, SyncLatch};
use litefoot_storage::pass_on;
use litefoot_storage::sync::{Mutex, RwLock};
use std::io::{IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file whose hot chunks live on another device. See the [module](super).
///
/// Reads run side by side; a write, and a sync, run alone. Writes without a sync may be lost with the process, and not
/// only with the power. Moved chunks are entered on the device when they are durable.
///
/// While the pair is lent ([`TieredFile::lend`]) it is the file on flash alone, which other processes may write as well.
pub struct TieredFile {
    flash: Arc<dyn File>,
    tier_path: PathBuf,
    setup: Setup,
    policy: Arc<Mutex<Policy>>,
    state: RwLock<TierState>,
}

/// How the pair is opened, and opened again.
struct Setup {
    medium: Arc<dyn Medium>,
    config: Config,
    latch: Arc<SyncLatch>,
}

impl Setup {
    fn open(&self, flash: &Arc<dyn File>, path: &Path) -> Result<TierState> {
        open::open(flash.clone(), &self.medium, path, &self.config, self.latch.clone())
    }
}

impl TieredFile {
    /// Opens `flash`, which this process must own, with the device at `path` on `medium`. Creates the device for a
    /// plain file that has none, and recovers the pair after a crash.
    ///
    /// # Errors
    /// [`Error`](super::Error) tells whether the device is missing, foreign, stale or damaged; nothing was written
    /// then.
    pub fn open(
        flash: Arc<dyn File>,
        medium: &Arc<dyn Medium>,
        path: &Path,
        config: &Config,
    ) -> Result<Arc<TieredFile>> {
        TieredFile::open_guarded(flash, medium, path, config, Arc::default())
    }

    /// The same under a latch that guards other files, too: a failure of one of them closes all for writing.
    ///
    /// # Errors
    /// As for [`TieredFile::open`].
    pub fn open_guarded(
        flash: Arc<dyn File>,
        medium: &Arc<dyn Medium>,
        path: &Path,
        config: &Config,
        latch: Arc<SyncLatch>,
    ) -> Result<Arc<TieredFile>> {
        let setup = Setup { medium: medium.clone(), config: *config, latch };
        let state = setup.open(&flash, path)?;
        let policy = state.policy.clone();
        Ok(Arc::new(TieredFile {
            flash,
            tier_path: path.to_owned(),
            setup,
            policy,
            state: RwLock::new(state),
        }))
    }

    /// While everything is home it stays there until [`TieredFile::leave`].
    pub fn stay(&self) {
        self.state.write().stays = true;
    }

    /// Marks the file, durably, and lets chunks leave: chunk 0 does now. Answers whether it is marked; a file of
    /// less than a chunk cannot be.
    ///
    /// # Errors
    /// Either device failed.
    pub fn leave(&self) -> file::Result<bool> {
        let mut state = self.state.write();
        state.devices.check()?;
        if !state.lent && state.len >= CHUNK_BYTES as u64 {
            state.leave()?;
        }
        Ok(state.away.is_some())
    }

    /// Brings every chunk home: the file is plain again, durably, and the device free for another.
    ///
    /// # Errors
    /// Either device failed; the chunks are then where they were.
    pub fn drain(&self) -> file::Result<()> {
        let mut state = self.state.write();
        if state.lent { state.sync() } else { state.drain() }
    }

    /// Brings every chunk home, durably, and gives the device back. The file may be written by others from now on: nothing that is
    /// known of it counts, and every call goes to flash.
    ///
    /// # Errors
    /// Either device failed while chunks were away. Nothing is lent then.
    pub fn lend(&self) -> file::Result<()> {
        let mut state = self.state.write();
        if state.lent {
            return Ok(());
        }
        if let Err(error) = state.drain()
            && state.away.is_some()
        {
            return Err(error);
        }
        state.lent = true;
        // Where this fails, the device is nobody else's until the file is closed.
        let _ = state.devices.tier.lock_range(0, 1, RangeLock::None);
        Ok(())
    }

    /// True while the file is others' as well.
    pub fn is_lent(&self) -> bool {
        self.state.read().lent
    }

    /// Takes a pair back that was lent: looks at both as [`TieredFile::open`] does. This process must own the file again.
    ///
    /// # Errors
    /// As for [`TieredFile::open`]. The pair is lent still.
    pub fn take_back(&self) -> Result<()> {
        let mut state = self.state.write();
        if state.lent {
            let counters = state.counters.clone();
            let opened = self.setup.open(&self.flash, &self.tier_path)?;
            // What is known of the chunks is of another time.
            let policy = opened.policy.lock().clone();
            *self.policy.lock() = policy;
            *state = TierState { counters, policy: self.policy.clone(), ..opened };
        }
        Ok(())
    }

    /// Gives the device back, although the file may still be shared: from now on it must not be used. The next process
    /// that opens the pair finds the last writes, as in a plain file. It fails in silence: nothing was promised.
    pub fn close(&self) {
        let mut state = self.state.write();
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        if !state.lent && state.devices.check().is_ok() && !state.slots.is_settled() {
            let _ = state.settle();
        }
        // Explicit, because a forked child may still have the descriptor.
        let _ = state.devices.tier.lock_range(0, 1, RangeLock::None);
        state.devices.latch.close(&format!("{}: was closed", self.flash.path().display()));
    }

    /// A commit that is in a log has changed these pages of `page_bytes`, whose numbers begin at 1 and are in order. The
    /// next checkpoint moves chunks by it. Waits for nobody that reads or writes.
    pub fn note_commit(&self, page_numbers: impl Iterator<Item = u32>, page_bytes: usize) {
        let bytes = page_bytes as u64;
        let chunks = page_numbers.flat_map(|number| {
            let start = u64::from(number.saturating_sub(1)) * bytes;
            start / CHUNK_BYTES as u64..(start + bytes).div_ceil(CHUNK_BYTES as u64)
        });
        let chunks = chunks.filter_map(|chunk| u32::try_from(chunk).ok());
        self.policy.lock().note_commit(chunks);
    }

    /// Chunks that are away now.
    pub fn away(&self) -> usize {
        self.state.read().map.len()
    }

    /// The device that chunks go to.
    pub fn tier_path(&self) -> &Path {
        &self.tier_path
    }

    /// The figures since the file was opened, without the writes of every slot.
    pub fn activity(&self) -> Statistics {
        self.told(false)
    }

    /// The figures since the file was opened.
    pub fn statistics(&self) -> Statistics {
        self.told(true)
    }

    fn told(&self, slots: bool) -> Statistics {
        let state = self.state.read();
        Statistics {
            slots: state.slots.len(),
            away: state.map.len(),
            slot_writes: if slots { state.slots.all_writes().collect() } else { Vec::new() },
            ..state.counters.clone()
        }
    }
}

/// It has no descriptor, and nothing past the system's cache: either would find flash alone.
impl File for TieredFile {
    pass_on!(flash: id, birth, path, lock_range, is_locked, lock_holder, take_lease, release_lease);

    fn read_at(&self, buf: &mut [u8], offset: u64) -> file::Result<usize> {
        self.state.read().read(buf, offset)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> file::Result<usize> {
        let state = self.state.read();
        let mut done = 0;
        for buf in bufs {
            let count = state.read(buf, offset + done as u64)?;
            done += count;
            if count < buf.len() {
                break;
            }
        }
        Ok(done)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> file::Result<()> {
        match bufs {
            [one] => self.state.write().write(one, offset),
            _ => self.state.write().write(&joined(bufs), offset),
        }
    }

    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> file::Result<()> {
        let mut state = self.state.write();
        state.write(&joined(bufs), offset)?;
        state.sync()
    }

    fn sync(&self) -> file::Result<()> {
        self.state.write().sync()
    }

    /// While chunks are away the stamp is the device's, and none once the file was written.
    fn stamp(&self) -> file::Result<Stamp> {
        self.state.read().stamp()
    }

    fn set_stamp(&self) -> file::Result<Stamp> {
        self.state.write().set_stamp()
    }

    fn len(&self) -> file::Result<u64> {
        self.state.read().len()
    }

    fn set_len(&self, len: u64) -> file::Result<()> {
        self.state.write().set_len(len)
    }

    fn allocate(&self, len: u64) -> file::Result<()> {
        self.state.write().allocate(len)
    }
}

impl Drop for TieredFile {
    fn drop(&mut self) {
        self.close();
    }
}

fn joined(bufs: &[IoSlice<'_>]) -> Vec<u8> {
    bufs.iter().flat_map(|buf| buf.iter().copied()).collect()
}
