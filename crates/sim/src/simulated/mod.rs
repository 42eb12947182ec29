//! A medium in memory that can lose power.
//!
//! # Why
//! A promise about power cuts is as good as the cuts that test it. This medium records every operation in order.
//! [`SimMedium::replay`] makes the files as a power cut at any point of the recorded run could leave them, each time
//! with other luck.
//!
//! # The model of the cut
//! It is the contract of [`super`] read as hostile as it allows:
//! 1. Bytes that a sync covered survive. A durable write makes the sectors it touches durable, and no others.
//! 2. Each 512-byte sector written since the last sync is left as any one of its versions since then, the synced one
//!    included. Sectors are independent of each other: lost, torn, reordered.
//! 3. The length of a file is any of its lengths since the last sync, independently of the data written below it.
//!    Length changes of one file happen in order. Take a file that was cut and grew again without a sync. Either it was
//!    never cut, and shows no byte written behind the cut, or it has lost the old bytes for good.
//! 4. A creation, deletion or renaming whose directory was not synced since happened or not, each for
//!    itself. The sync of a file does not make its name durable.
//!
//! 5. A durable write that was on its way is torn like any other.
//! 6. The time of a file is any of its times since [`File::set_stamp`], whatever became of the data.
//!
//! One cut in three is of a simpler kind: everything lost, everything kept, or an exact prefix of the operations.
//! Simple cuts find some bugs faster.
//!
//! # What it does not model
//! Sectors that change without being written, and devices that lie about a sync ([`Faults`] plants that).

mod event;
mod faults;
mod file;
mod leases;
mod locks;
mod mapped;
mod replay;
mod times;

pub use faults::{Faults, SyncSite};
pub use replay::{Random, Replay};

use event::{Event, Inode};
use file::SimFile;
use leases::Lease;
use litefoot_storage::file::{
    DeviceError, File, FileId, FileKind, Medium, OpenMode, Operation, PathInfo, Resolved, Result, Stamp,
    parent_directory,
};
use litefoot_storage::sync::{Mutex, MutexGuard};
use locks::Locks;
use mapped::Mapped;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use times::Clock;

#[derive(Default)]
struct SimState {
    /// The state of every file when recording began.
    base: Vec<(PathBuf, u64, Arc<[u8]>)>,
    events: Vec<Event>,
    unrecorded: bool,
    names: BTreeMap<PathBuf, Inode>,
    files: Vec<Content>,
    /// Those of them that were mapped.
    mapped_files: Vec<Inode>,
    faults: Faults,
    atomic_write_bytes: u32,
    next_handle: u64,
    clock: Clock,
}

/// A file that is on a medium from its beginning.
struct Born {
    path: PathBuf,
    kind: FileKind,
    birth: u64,
    time: u64,
    bytes: Vec<u8>,
}

struct Content {
    kind: FileKind,
    /// A number that tells it from all files of this process's simulated media; a power cut does not change it.
    birth: u64,
    /// Of the last change.
    time: u64,
    bytes: Vec<u8>,
    locks: Locks,
    lease: Option<Lease>,
    /// Set where the file was mapped.
    mapped: Option<Mapped>,
    handles: usize,
}

impl Content {
    fn new(kind: FileKind, birth: u64, time: u64, bytes: Vec<u8>) -> Content {
        Content { kind, birth, time, bytes, locks: Locks::default(), lease: None, mapped: None, handles: 0 }
    }
}

fn next_birth() -> u64 {
    static BIRTHS: AtomicU64 = AtomicU64::new(1);
    BIRTHS.fetch_add(1, Ordering::Relaxed)
}

/// Files in memory, with the memory of everything that was done to them.
#[derive(Clone, Default)]
pub struct SimMedium {
    state: Arc<Mutex<SimState>>,
}

impl SimMedium {
    /// An empty medium.
    pub fn new() -> SimMedium {
        SimMedium::default()
    }

    /// A medium on which these files are, durably.
    pub fn with_files(files: impl IntoIterator<Item = (PathBuf, FileKind, Vec<u8>)>) -> SimMedium {
        let mut clock = Clock::default();
        let time = clock.change();
        let born = |(path, kind, bytes)| Born { path, kind, birth: next_birth(), time, bytes };
        SimMedium::with_born(files.into_iter().map(born), clock)
    }

    /// A medium with the files of this one as they are now, with their times: what a process that is killed leaves.
    pub fn copy(&self) -> SimMedium {
        let mut state = self.state();
        state.note_stores();
        let named = state.names.iter().map(|(path, index)| {
            let Content { kind, birth, time, bytes, .. } = &state.files[*index];
            Born { path: path.clone(), kind: *kind, birth: *birth, time: *time, bytes: bytes.clone() }
        });
        SimMedium::with_born(named, state.clock)
    }

    /// The same, of files that are what they were.
    fn with_born(files: impl IntoIterator<Item = Born>, clock: Clock) -> SimMedium {
        let mut state = SimState { clock, ..SimState::default() };
        for Born { path, kind, birth, time, bytes } in files {
            state.base.push((path.clone(), time, bytes.clone().into()));
            state.names.insert(path, state.files.len());
            state.files.push(Content::new(kind, birth, time, bytes));
        }
        SimMedium { state: Arc::new(Mutex::new(state)) }
    }

    /// An empty medium that keeps no record: files in memory, for long runs without power cuts.
    pub fn unrecorded() -> SimMedium {
        let medium = SimMedium::new();
        medium.stop_recording();
        medium
    }

    /// From now on the medium keeps no record of what is done to it.
    pub fn stop_recording(&self) {
        self.state().unrecorded = true;
    }

    fn state(&self) -> MutexGuard<'_, SimState> {
        self.state.lock()
    }

    /// Syncs of a place so far, those included that were planted to do nothing.
    pub fn syncs(&self, site: SyncSite) -> u64 {
        self.state().faults.syncs(site)
    }

    /// Number of operations recorded so far: the point that a cut "now" has.
    pub fn operations(&self) -> usize {
        self.state().events.len()
    }

    /// Walks through what was recorded, to cut the power at points of the caller's choice.
    pub fn replay(&self) -> Replay {
        let mut state = self.state();
        state.note_stores();
        let kinds = state.files.iter().map(|file| (file.kind, file.birth)).collect();
        Replay::new(&state.base, state.events.clone(), kinds, state.clock)
    }

    /// The medium after a power cut now.
    pub fn cut(&self, random: &mut Random) -> SimMedium {
        let mut replay = self.replay();
        replay.advance(usize::MAX);
        replay.cut(random)
    }

    /// The medium after power cuts behind so many operations, which ascend: `each` cuts at each of them.
    pub fn cuts(
        &self,
        points: impl IntoIterator<Item = usize>,
        each: usize,
        random: &mut Random,
    ) -> impl Iterator<Item = (usize, SimMedium)> {
        let mut replay = self.replay();
        let points = points.into_iter().flat_map(move |point| std::iter::repeat_n(point, each));
        points.map(move |point| {
            replay.advance(point);
            (point, replay.cut(random))
        })
    }

    /// Every file as it is now.
    pub fn files(&self) -> Vec<(PathBuf, FileKind, Vec<u8>)> {
        let mut files = Vec::new();
        self.for_each_file(|path, kind, bytes| files.push((path.to_owned(), kind, bytes.to_owned())));
        files
    }

    /// Shows every file as it is now, without a copy. `show` must not use the medium.
    pub fn for_each_file(&self, mut show: impl FnMut(&Path, FileKind, &[u8])) {
        let mut state = self.state();
        state.note_stores();
        for (path, inode) in &state.names {
            let Content { kind, bytes, .. } = &state.files[*inode];
            show(path, *kind, bytes);
        }
    }

    /// Bytes of all files together: what [`Faults::full_at`] is compared with.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// From now on the medium says, and keeps, that aligned writes up to so many bytes are atomic.
    pub fn set_atomic_write_bytes(&self, bytes: u32) {
        self.state().atomic_write_bytes = bytes;
    }

    /// Plants faults, from the next operation on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }
}

impl SimState {
    fn record(&mut self, event: Event) {
        self.note_stores();
        if !self.unrecorded {
            self.events.push(event);
        }
    }

    /// Without a record, the bytes of a file with neither name nor handle are not needed.
    fn free_if_gone(&mut self, inode: Inode) {
        let gone = self.files[inode].handles == 0 && !self.names.values().any(|named| *named == inode);
        if self.unrecorded && gone {
            self.files[inode].bytes = Vec::new();
        }
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|inode| self.files[*inode].bytes.len() as u64).sum()
    }

    fn fault(&mut self, operation: Operation, inode: Inode, path: &Path, growth: u64) -> Result<()> {
        let kind = self.files[inode].kind;
        let fault = self.faults.strike(operation, kind, self.used_bytes() + growth);
        fault.map_or(Ok(()), |error| Err(DeviceError::new(operation, path, error)))
    }

    fn write(&mut self, inode: Inode, offset: u64, bytes: &[u8]) {
        let content = &mut self.files[inode].bytes;
        let end = offset as usize + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(bytes);
        // Should it fail, tests that map the file see that they share nothing.
        let _ = self.files[inode].mapped.as_ref().map(|mapped| mapped.write(bytes, offset));
    }

    /// Gives a file the time of now; answers it.
    fn change(&mut self, inode: Inode) -> u64 {
        let time = self.clock.change();
        self.files[inode].time = time;
        time
    }

    fn stamp(&self, inode: Inode) -> Stamp {
        let file = &self.files[inode];
        Stamp { len: file.bytes.len() as u64, modified: i128::from(file.time) }
    }
}

fn missing(operation: Operation, path: &Path) -> DeviceError {
    DeviceError::new(operation, path, io::ErrorKind::NotFound.into())
}

impl Medium for SimMedium {
    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let path = absolute(path);
        let mut state = self.state();
        let found = state.names.get(&path).copied();
        let inode = match (found, mode) {
            (Some(_), OpenMode::CreateNew) => {
                return Err(DeviceError::new(Operation::Open, &path, io::ErrorKind::AlreadyExists.into()));
            }
            (Some(inode), _) => inode,
            (None, OpenMode::ReadOnly | OpenMode::ReadWrite) => return Err(missing(Operation::Open, &path)),
            (None, OpenMode::Create | OpenMode::CreateNew) => {
                let inode = state.files.len();
                let time = state.clock.change();
                state.files.push(Content::new(kind, next_birth(), time, Vec::new()));
                state.names.insert(path.clone(), inode);
                state.record(Event::Create { path: path.clone(), inode, time });
                inode
            }
        };
        state.files[inode].handles += 1;
        state.next_handle += 1;
        let handle = state.next_handle;
        let on_break = state.break_lease(inode);
        drop(state);
        let writable = mode != OpenMode::ReadOnly;
        let file = Arc::new(SimFile { medium: self.clone(), inode, handle, path, writable });
        if let Some(on_break) = on_break {
            on_break();
        }
        Ok(file)
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let path = absolute(path);
        let mut state = self.state();
        let inode = state.names.remove(&path).ok_or_else(|| missing(Operation::Delete, &path))?;
        state.free_if_gone(inode);
        state.record(Event::Delete { path });
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (absolute(from), absolute(to));
        let mut state = self.state();
        let inode = state.names.remove(&from).ok_or_else(|| missing(Operation::Rename, &from))?;
        state.names.insert(to.clone(), inode);
        state.record(Event::Rename { from, to });
        Ok(())
    }

    fn info(&self, path: &Path) -> Result<Option<PathInfo>> {
        let path = absolute(path);
        let state = self.state();
        Ok(state.names.get(&path).map(|inode| PathInfo {
            id: FileId { device: Arc::as_ptr(&self.state) as u64, inode: state.files[*inode].birth },
            len: state.files[*inode].bytes.len() as u64,
            is_file: true,
            readable: true,
            writable: true,
            owner: 0,
            group: 0,
            mode: 0o644,
        }))
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let directory = absolute(directory);
        let state = self.state();
        Ok(state.names.keys().filter(|path| parent_directory(path) == directory).cloned().collect())
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        let directory = absolute(directory);
        let mut state = self.state();
        if let Some(error) = state.faults.strike_directory() {
            return Err(DeviceError::new(Operation::SyncDirectory, &directory, error));
        }
        if !state.faults.ignores(SyncSite::Directory) {
            state.record(Event::SyncDirectory { directory });
        }
        Ok(())
    }

    fn absolute(&self, path: &Path) -> Result<Resolved> {
        Ok(Resolved { path: absolute(path), through_link: false })
    }
}

/// There is no directory that one is in, and no link.
fn absolute(path: &Path) -> PathBuf {
    let plain = path.strip_prefix(".").unwrap_or(path);
    if plain.is_absolute() { plain.to_owned() } else { Path::new("/").join(plain) }
}

#[cfg(test)]
mod tests;
