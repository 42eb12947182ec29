//! The part of a page database that all its threads share.

use super::allocation::Allocation;
use super::files::Files;
use super::gate::Gate;
use litefoot_storage::buffer_pool::Pool;
use litefoot_storage::io::Monitor;
use litefoot_storage::sync::Mutex;
use litefoot_storage::worker::Worker;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The thread that cleans when enough of the pool is dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCleaner {
    /// A thread of its own.
    Background,
    /// The thread that begins the next unit.
    Foreground,
}

/// The part of a page database that all its threads share.
pub(super) struct Inner {
    pub path: PathBuf,
    pub pool: Pool,
    pub allocation: Arc<Mutex<Allocation>>,
    pub files: Mutex<Files>,
    pub gate: Gate,
    /// True while a checkpoint is at work.
    pub busy: Monitor<bool>,
    pub counters: Counters,
    /// The page cleaner, with [`PageCleaner::Background`].
    pub worker: Arc<Worker>,
    /// Bytes that the data file has room for.
    pub room: Mutex<u64>,
    /// Dirty pages from which on it is cleaned.
    pub threshold: usize,
    pub page_cleaner: PageCleaner,
}

/// Figures of checkpoints.
#[derive(Default)]
pub(super) struct Counters {
    pub checkpoints: AtomicU64,
    pub pages: AtomicU64,
    pub writes: AtomicU64,
}
