//! Tests of the sharing of an index, on the simulated medium and on the system's.

mod index;
mod readers;
mod slots;
mod stock;

use super::*;
use crate::sync::stock_process::StockProcess;
use crate::sync::wal_index::{CHECKPOINT_SLOT, READ_SLOTS};
use litefoot_sim::{Faults, Random, SimMedium};
use litefoot_storage::file::{FileKind, OpenMode, Operation};
use litefoot_storage::os::OsMedium;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32};

const REGION: usize = 32768;

/// Runs a test over a simulated medium, and over real files.
fn on_both(test: impl Fn(Arc<dyn Medium>, &Path)) {
    test(Arc::new(SimMedium::new()), Path::new("/a.db-shm"));
    let directory = tempfile::tempdir().unwrap();
    test(Arc::new(OsMedium), &directory.path().join("a.db-shm"));
}

/// A process in the multi-process state, with two handles.
struct Process {
    index: WalIndex,
    handles: [HeldSlots; 2],
}

impl Process {
    fn joining(medium: &Arc<dyn Medium>, path: &Path) -> Process {
        let index = WalIndex::default();
        let handles = [index.register(), index.register()];
        handles.iter().for_each(|_| index.join_file(medium, path).unwrap());
        Process { index, handles }
    }

    /// An owner with two idle handles, and a region.
    fn owner() -> Process {
        let index = WalIndex::default();
        let handles = [index.register(), index.register()];
        handles.iter().for_each(|_| index.join(|| Ok::<(), ()>(())).unwrap());
        index.map(0, REGION, true).unwrap().unwrap();
        Process { index, handles }
    }

    fn lock(&mut self, handle: usize, slot: usize, exclusive: bool) -> bool {
        self.index.lock(&mut self.handles[handle], slot, 1, exclusive)
    }

    fn unlock(&mut self, handle: usize, slot: usize) {
        self.index.unlock(&mut self.handles[handle], slot, 1);
    }

    fn region(&self, number: usize, extend: bool) -> Option<NonNull<u8>> {
        self.index.map(number, REGION, extend).unwrap()
    }

    fn word(&self, number: usize) -> u32 {
        self.index.state().word(number).unwrap().load(Ordering::SeqCst)
    }

    fn set(&self, number: usize, value: u32) {
        self.index.state().word(number).unwrap().store(value, Ordering::SeqCst);
    }

    fn header(&self) -> [u32; 2 * COPY_WORDS] {
        std::array::from_fn(|word| self.word(word))
    }

    /// Makes an index, as SQLite does from an empty log.
    fn make_index(&self) {
        for start in [0, COPY_WORDS] {
            self.set(start + VERSION_WORD, VERSION);
            self.set(start + INIT_WORD, u32::from_ne_bytes([1, 0, 0, 0]));
        }
    }

    fn leave(mut self, delete: bool) {
        for held in &mut self.handles {
            self.index.leave(held, delete);
        }
    }
}
