//! A medium that tells of each write and sync before it is done, and may make it wait.

#![allow(dead_code)]

use litefoot_sim::SimMedium;
use litefoot_storage::file::{File, FileKind, LeaseAnswer, Medium, OnBreak, OpenMode, Result, Stamp};
use litefoot_storage::os::OsMedium;
use litefoot_storage::pass_on;
use std::io::IoSlice;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Told of the kind of the file, and whether the call makes something durable.
pub type Hook = Arc<dyn Fn(FileKind, bool) + Send + Sync>;

/// A gate before the durable writes of the commit log. Once it is armed, the next one waits there until it is opened, or the gate
/// is gone.
pub struct Gate {
    armed: Arc<AtomicBool>,
    reached: Receiver<()>,
    open: Sender<()>,
}

impl Gate {
    /// The gate, and what a hook calls; that answers true behind the gate.
    pub fn new() -> (Gate, impl Fn(FileKind, bool) -> bool + Send + Sync + 'static) {
        let (reaches, reached) = channel();
        let (open, opened) = channel::<()>();
        let (armed, opened) = (Arc::new(AtomicBool::new(false)), Mutex::new(opened));
        let is_armed = armed.clone();
        let pass = move |kind: FileKind, durable: bool| {
            let waits = kind == FileKind::CommitLog && durable && is_armed.swap(false, Ordering::AcqRel);
            if waits {
                reaches.send(()).unwrap();
                let _ = opened.lock().unwrap().recv();
            }
            waits
        };
        (Gate { armed, reached, open }, pass)
    }

    /// The next durable write waits.
    pub fn arm(&self) {
        self.armed.store(true, Ordering::Release);
    }

    /// Waits until a write waits.
    pub fn wait_until_reached(&self) {
        self.reached.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    /// Lets the write go on.
    pub fn open(&self) {
        self.open.send(()).unwrap();
    }
}

/// A medium, and what it calls.
#[derive(Clone)]
pub struct HookedMedium<M = SimMedium> {
    pub medium: M,
    pub hook: Hook,
}

struct HookedFile {
    file: Arc<dyn File>,
    kind: FileKind,
    hook: Hook,
}

/// The same over files of this machine, for tests with other processes.
pub fn of_this_machine(hook: impl Fn(FileKind, bool) + Send + Sync + 'static) -> Arc<HookedMedium<OsMedium>> {
    Arc::new(HookedMedium { medium: OsMedium, hook: Arc::new(hook) })
}

impl<M: Medium> Medium for HookedMedium<M> {
    pass_on!(medium: delete, rename, rename_new, info, identity, unlinked_identity, glance, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.medium.open(path, kind, mode)?;
        Ok(Arc::new(HookedFile { file, kind, hook: self.hook.clone() }))
    }
}

impl File for HookedFile {
    pass_on!(file: read_at, read_vectored_at, stamp, len, set_len);
    pass_on!(file: allocate, id, birth, path, lock_range, is_locked, lock_holder, map_over, guarantees, release_lease);

    fn raw_descriptor(&self) -> Option<RawFd> {
        self.file.raw_descriptor()
    }
    fn take_lease(&self, on_break: OnBreak) -> LeaseAnswer {
        self.file.take_lease(on_break)
    }
    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        (self.hook)(self.kind, false);
        self.file.write_vectored_at(bufs, offset)
    }
    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        (self.hook)(self.kind, true);
        self.file.write_durable_at(bufs, offset)
    }
    fn sync(&self) -> Result<()> {
        (self.hook)(self.kind, true);
        self.file.sync()
    }
    fn set_stamp(&self) -> Result<Stamp> {
        (self.hook)(self.kind, true);
        self.file.set_stamp()
    }
}
