//! The statistics page: the memory of a database's figures, which other processes of the same user, and root, can read.
//!
//! # Why
//! A running program may be a shell, a web server or a stranger's binary, and cannot help to watch its databases. So the
//! counters *are* the memory that others read. Counting costs one relaxed add; there is no thread and no publishing.
//!
//! # How
//! The memory is a sealed memory file (`memfd_create`) that the process keeps open and mapped. It has no name in
//! any directory; the system lists it under `/proc/PID/fd` of its process as
//!
//! ```text
//! /memfd:litefoot-stats:DEVICE:INODE (deleted)          of the database, hexadecimal
//! ```
//!
//! and [`Published`](crate::stats::Published) looks for that. A file in `/dev/shm` would be found faster. But a killed
//! process leaves the file behind, and the directory may be missing or read-only. A cut of the file ends its owner with
//! SIGBUS. A memory file ends with its process. It cannot be cut or grown (`F_SEAL_SHRINK`, `F_SEAL_GROW`), nor written
//! by another process (mode 0400, and `F_SEAL_FUTURE_WRITE` from Linux 5.1 on). The system shows it to those who may
//! trace the process.
//!
//! `LITEFOOT_FIGURES=FOLDER` makes a file of that folder the memory instead. It stays when the process has ended, and nobody finds it
//! by the database: for programs that run so shortly that only the end of it can be looked at. It cannot be sealed; its mode is 0600.
//!
//! # What it promises
//! 1. Opening a database never fails or waits because of the page. Where the page cannot be shared, the figures lie in
//!    private memory: so on every medium but the operating system's files.
//! 2. The counting process never reads the page: nothing that another process does there has an effect.
//!
//! # Layout
//! Numbers of 64 bits in the byte order of the machine, which the page never leaves:
//!
//! ```text
//! offset  bytes
//!      0      8   "LFSTATS" and the version of this layout, 1
//!      8      8   state: 0 closed, 1 open, 2 open, and its process owns the database, 3 open, and multi-process
//!     16      8   the process, as it calls itself
//!     24      8   when the database was opened, in milliseconds since 1970
//!     32      8   n, the number of figures
//!     40      8   m, bytes of their names
//!     48     16   the program because of which the database was last shared, filled with zeros
//!     64     8n   the figures
//!  64+8n      m   their names, a line each: "c " for a counter or "g " for a gauge, and the name
//! ```
//!
//! The page names its own figures, so that programs and libraries of different versions understand each other.
//!
//! # Invariants
//! 1. The mapping is as long as the file, whose length is sealed, and its page exists: it was written before it was
//!    mapped. A store cannot fault for want of either.
//! 2. Nothing but atomics is ever accessed in it.

use crate::notice::environment;
use crate::stats::figures::{COUNT, FigureKind, Stats, figures};
use crate::stats::processes;
use litefoot_storage::file::FileId;
use litefoot_storage::sync::Mutex;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Begins every page; its last byte is the version.
pub(super) const MAGIC: [u8; 8] = *b"LFSTATS\x01";
/// Numbers before the figures.
pub(super) const HEAD_WORDS: usize = 8;
/// The environment variable that names a folder: each opening of a database leaves its figures there.
pub const KEEP_VARIABLE: &str = "LITEFOOT_FIGURES";
/// Bytes of the whole page.
pub(crate) const PAGE_BYTES: usize = 4096;

pub(super) const STATE: usize = 1;
pub(super) const PROCESS: usize = 2;
pub(super) const OPENED: usize = 3;
pub(super) const FIGURES: usize = 4;
pub(super) const NAMES_BYTES: usize = 5;
pub(super) const VISITOR: usize = 6;
/// Bytes of a program's name, which the system cuts behind 15.
pub(super) const VISITOR_BYTES: usize = 16;

/// The state of a database in the process that has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum DatabaseState {
    /// Not open any more.
    Closed = 0,
    /// Open, and not owned: nothing was read yet, or another process has it.
    Open = 1,
    /// The process owns the database, and keeps others out.
    Owned = 2,
    /// The process follows SQLite's own protocol between processes.
    MultiProcess = 3,
}

/// The beginning of the page: the head and the figures, which change.
#[repr(C)]
#[derive(Default)]
struct Whole {
    head: [AtomicU64; HEAD_WORDS],
    stats: Stats,
}

const _: () = assert!(size_of::<Whole>() == 8 * (HEAD_WORDS + COUNT) && size_of::<Whole>() <= PAGE_BYTES);

/// The figures of one database; derefs to them.
pub(crate) struct StatsPage {
    whole: NonNull<Whole>,
    /// The mapped memory file; `None` for figures in private memory.
    shared: Option<File>,
    /// The process that made the page: a forked child has a copy of this value, and leaves the page alone.
    process: u32,
    /// When the database became shared, while it is. The wall clock that others read may jump.
    shared_at: Mutex<Option<Instant>>,
}

// SAFETY: it is atomics, which live until it is dropped.
unsafe impl Send for StatsPage {}
// SAFETY: as above.
unsafe impl Sync for StatsPage {}

impl StatsPage {
    /// A page that nobody else can see.
    pub fn private() -> StatsPage {
        let whole = NonNull::from(Box::leak(Box::default()));
        StatsPage::new(whole, None, std::process::id())
    }

    #[cfg(test)]
    pub fn is_private(&self) -> bool {
        self.shared.is_none()
    }

    /// A page that other processes find by the identity of the database; a private one where that cannot be. With
    /// [`KEEP_VARIABLE`] a page that stays.
    pub fn shared(database: FileId) -> StatsPage {
        let process = std::process::id();
        if let Some(folder) = environment(KEEP_VARIABLE) {
            return StatsPage::kept(Path::new(&folder)).unwrap_or_else(|_| StatsPage::private());
        }
        match share(&name_of(database), &image(process)) {
            Ok((whole, file)) => StatsPage::new(whole, Some(file), process),
            Err(_) => StatsPage::private(),
        }
    }

    /// A page in a new file of that folder, which stays there when the process has ended, however that ends.
    pub fn kept(folder: &Path) -> io::Result<StatsPage> {
        let process = std::process::id();
        let (whole, file) = keep(folder, &image(process))?;
        Ok(StatsPage::new(whole, Some(file), process))
    }

    fn new(whole: NonNull<Whole>, shared: Option<File>, process: u32) -> StatsPage {
        StatsPage { whole, shared, process, shared_at: Mutex::new(None) }
    }

    /// Stores the state of the database, in the process that made the page.
    pub fn set_state(&self, state: DatabaseState) {
        if self.is_of_this_process() {
            self.whole().head[STATE].store(state as u64, Ordering::Relaxed);
        }
    }

    /// Notes that the database is multi-process from now on, and because of which process, where that is known. While it is
    /// multi-process already, only a process that is named is noted: it may be found later than the change.
    pub fn note_shared(&self, because: Option<u32>) {
        if !self.is_of_this_process() {
            return;
        }
        let mut shared_at = self.shared_at.lock();
        let is_change = shared_at.is_none();
        if is_change {
            *shared_at = Some(Instant::now());
            Stats::add(&self.sharing_changes, 1);
            Stats::set(&self.shared_since_ms, now_ms());
            self.set_state(DatabaseState::MultiProcess);
        }
        if is_change || because.is_some() {
            self.set_visitor(because);
        }
    }

    /// Notes that the database is not multi-process any more. The caller holds the owner lock again.
    pub fn note_alone(&self) {
        if !self.is_of_this_process() {
            return;
        }
        if let Some(since) = self.shared_at.lock().take() {
            Stats::add(&self.sharing_changes, 1);
            Stats::add(&self.shared_ms, since.elapsed().as_millis() as u64);
            Stats::set(&self.shared_since_ms, 0);
            self.set_state(DatabaseState::Owned);
        }
    }

    /// The visitor stays on the page when it has left, for those who look later.
    fn set_visitor(&self, process: Option<u32>) {
        let mut name = [0; VISITOR_BYTES];
        if let Some(program) = process.and_then(processes::program) {
            let len = program.len().min(VISITOR_BYTES);
            name[..len].copy_from_slice(&program.as_bytes()[..len]);
        }
        Stats::set(&self.shared_because_pid, process.map_or(0, u64::from));
        for (word, bytes) in self.whole().head[VISITOR..].iter().zip(name.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn whole(&self) -> &Whole {
        // SAFETY: it is mapped, or a box, until this is dropped, and only atomics are accessed through it.
        unsafe { self.whole.as_ref() }
    }
}

impl Deref for StatsPage {
    type Target = Stats;

    fn deref(&self) -> &Stats {
        &self.whole().stats
    }
}

impl Drop for StatsPage {
    fn drop(&mut self) {
        self.set_state(DatabaseState::Closed);
        if self.shared.is_some() {
            // SAFETY: the mapping is ours, and nothing refers to it any more.
            unsafe { libc::munmap(self.whole.as_ptr().cast(), PAGE_BYTES) };
        } else {
            // SAFETY: the box that `private` leaked.
            drop(unsafe { Box::from_raw(self.whole.as_ptr()) });
        }
    }
}

/// The name of the memory file of a database.
pub(super) fn name_of(database: FileId) -> String {
    format!("litefoot-stats:{:x}:{:x}", database.device, database.inode)
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// The page as it begins.
pub(crate) fn image(process: u32) -> Vec<u8> {
    let mut names = String::new();
    for (name, kind, _) in figures() {
        names.extend([if kind == FigureKind::Counter { "c " } else { "g " }, &name, "\n"]);
    }
    let opened = now_ms();
    let mut head = [0; HEAD_WORDS];
    head[0] = u64::from_ne_bytes(MAGIC);
    (head[STATE], head[PROCESS], head[OPENED]) = (DatabaseState::Open as u64, u64::from(process), opened);
    (head[FIGURES], head[NAMES_BYTES]) = (COUNT as u64, names.len() as u64);
    let mut bytes: Vec<u8> = head.into_iter().flat_map(u64::to_ne_bytes).collect();
    bytes.resize(bytes.len() + 8 * COUNT, 0);
    bytes.extend_from_slice(names.as_bytes());
    // Longer names would not be an error, only unknown to readers; a test sees to it that there is room.
    bytes.resize(PAGE_BYTES, 0);
    bytes
}

/// Makes the memory file and maps it.
#[cfg(target_os = "linux")]
fn share(name: &str, image: &[u8]) -> io::Result<(NonNull<Whole>, File)> {
    use std::os::unix::fs::PermissionsExt;

    let mut file = memory_file(name)?;
    file.write_all(image)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o400))?;
    seal(&file, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW)?;
    let whole = map(&file, image.len())?;
    // Older systems do without: then the mode alone keeps others from writing.
    let _ = seal(&file, libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL)
        .or_else(|_| seal(&file, libc::F_SEAL_SEAL));
    Ok((whole, file))
}

/// Maps the beginning of a file.
#[cfg(target_os = "linux")]
fn map(file: &File, bytes: usize) -> io::Result<NonNull<Whole>> {
    // SAFETY: a new mapping at an address of the system's choice touches no memory that is in use.
    let start = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // The page is there; a fault for it would cost more than the rest.
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Makes a file in a folder and maps it.
#[cfg(target_os = "linux")]
fn keep(folder: &Path, image: &[u8]) -> io::Result<(NonNull<Whole>, File)> {
    use std::os::unix::fs::OpenOptionsExt;

    static MADE: AtomicU64 = AtomicU64::new(0);

    let make = || {
        let name = format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        File::options().read(true).write(true).create_new(true).mode(0o600).open(folder.join(name))
    };
    // An earlier process may have had the same number.
    let mut file = loop {
        match make() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => break made?,
        }
    };
    file.write_all(image)?;
    Ok((map(&file, image.len())?, file))
}

#[cfg(not(target_os = "linux"))]
fn keep(_folder: &Path, _image: &[u8]) -> io::Result<(NonNull<Whole>, File)> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn share(_name: &str, _image: &[u8]) -> io::Result<(NonNull<Whole>, File)> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
fn memory_file(name: &str) -> io::Result<File> {
    let name = std::ffi::CString::new(name)?;
    let create = |flags: libc::c_uint| {
        // SAFETY: the name is terminated and outlives the call.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), flags | libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and belongs to nobody else.
        Ok(unsafe { File::from_raw_fd(descriptor) })
    };
    // Systems before 6.3 do not know that memory can be declared to hold no program.
    create(libc::MFD_ALLOW_SEALING | libc::MFD_NOEXEC_SEAL).or_else(|_| create(libc::MFD_ALLOW_SEALING))
}

#[cfg(target_os = "linux")]
fn seal(file: &File, seals: libc::c_int) -> io::Result<()> {
    // SAFETY: plain system call on a descriptor we own.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    const DATABASE: FileId = FileId { device: 0xfeed, inode: 0xbeef };

    #[test]
    fn everything_fits_into_the_page() {
        let image = image(7);
        assert_eq!(image.len(), PAGE_BYTES);
        let names = u64::from_ne_bytes(image[8 * NAMES_BYTES..][..8].try_into().unwrap()) as usize;
        let end = 8 * (HEAD_WORDS + COUNT) + names;
        assert!(end + 500 < PAGE_BYTES, "{end}: enlarge the page before its names are cut off");
    }

    #[test]
    fn nobody_can_cut_or_write_what_others_see() {
        let page = StatsPage::shared(DATABASE);
        let Some(file) = &page.shared else { return eprintln!("skipped: no memory files here") };
        assert!(file.set_len(10).is_err() && file.set_len(1 << 20).is_err());
        // Opened anew, as another process would, even by root: reading only.
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        if let Ok(mut writable) = OpenOptions::new().write(true).open(&link) {
            assert!(writable.write_all(b"x").is_err());
            assert!(writable.set_len(0).is_err());
        }
        Stats::add(&page.commits_pages, 5);
        let bytes = std::fs::read(&link).unwrap();
        assert_eq!(bytes.len(), PAGE_BYTES);
        let place = figures().position(|(name, _, _)| name == "commits_pages").unwrap();
        let at = 8 * (HEAD_WORDS + place);
        assert_eq!(u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap()), 5);
    }

    #[test]
    fn changes_of_state_are_counted_once_and_the_visitor_stays() {
        let page = StatsPage::private();
        let figure = |name: &str| page.rows().into_iter().find(|row| row.0 == name).unwrap().1;
        let state = || page.whole().head[STATE].load(Ordering::Relaxed);
        page.note_alone();
        assert_eq!((figure("sharing_changes"), state()), (0, 0), "it was never shared");
        page.note_shared(None);
        let since = figure("shared_since_ms");
        assert!(since > 0 && figure("shared_because_pid") == 0);
        let own = std::process::id();
        page.note_shared(Some(own));
        page.note_shared(None);
        assert_eq!((figure("sharing_changes"), state()), (1, DatabaseState::MultiProcess as u64));
        assert_eq!((figure("shared_since_ms"), figure("shared_because_pid")), (since, i64::from(own)));
        page.note_alone();
        page.note_alone();
        assert_eq!((figure("sharing_changes"), state()), (2, DatabaseState::Owned as u64));
        assert_eq!((figure("shared_since_ms"), figure("shared_because_pid")), (0, i64::from(own)));
        page.note_shared(None);
        assert_eq!((figure("sharing_changes"), figure("shared_because_pid")), (3, 0));
        assert_eq!(page.whole().head[VISITOR].load(Ordering::Relaxed), 0, "the next one is not known");
    }

    #[test]
    fn a_private_page_counts_as_well() {
        let page = StatsPage::private();
        Stats::add(&page.commits_pages, 5);
        page.set_state(DatabaseState::Owned);
        assert!(page.rows().contains(&("commits_pages".to_owned(), 5)));
    }
}
