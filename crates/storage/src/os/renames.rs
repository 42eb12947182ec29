//! Renames: word of a name that leads to another file than before.
//!
//! # Why
//! A log is found by the name of its database. Somebody may rename another database over that name, or make one there. Stock SQLite
//! then takes the log for the new database's. So the process that has the log must hear of it at once.
//! A lease tells of nobody who renames. inotify would, but a user has 128 instances of it, and each is a descriptor that a thread
//! has to wait at. `fcntl(2)` tells of a directory (`F_NOTIFY`), by a signal to the thread that waits for those of leases already.
//!
//! # What it promises
//! 1. What [`super::lease`] promises of its signals holds for these: no handler, no thread of the application's, none that could end
//!    the process, and none missed for longer than there.
//! 2. A change that lasts is told within [`PAUSE`], and the time that the looks take. While the name leads elsewhere each look tells of it: it may have
//!    been back between two looks. `on_change` runs in the broker, without a
//!    lock of the broker's. Where it answers `false` it is told again.
//! 3. Other renames in the directory cost at most one look in [`PAUSE`], however many there are: the system's word is ordered once at
//!    a time, and a look orders the next.
//! 4. A directory costs one descriptor, which no program inherits, and which leads nowhere in a forked child ([`crate::fork`]).
//! 5. Where the system tells of nothing there is no watch.
//!
//! # Invariants
//! 1. A look orders the next word first, and asks for the names then.
//! 2. Names are asked for by the broker alone, without its lock.
//!
//! # Limits
//! Nobody tells of another name for the directory itself, nor of what another machine does on a network file system. A name that is
//! back before the look was never away. Where a file system hangs that is asked for a name, breaks of leases wait as well.

use super::closings::Descriptor;
use super::lease::{BROKER, MAX_UNNOTICED, set_number, set_owner};
use super::names::{Links, glance};
use crate::file::{FileId, parent_directory};
use libc::{c_int, pid_t};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Called when a name leads elsewhere, perhaps more than once, or leads to its file again. Answers `false` where that is to be told again.
pub type OnChange = Arc<dyn Fn() -> bool + Send + Sync>;

/// The events that `F_NOTIFY` is asked for (`linux/fcntl.h`): names that are made, and names that are removed. To the system a rename is both.
const EVENTS: c_int = 0x4 | 0x8;

/// The least time between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// The longest time without a look: a signal can be discarded. No test passes by that.
const MAX_UNLOOKED: Duration = if cfg!(test) { Duration::from_secs(600) } else { MAX_UNNOTICED };

/// Numbers the watches. A forked child goes on counting: none of its own has the number of one of its parent's.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The watch of one name. Dropping it ends the watch; an `on_change` that is under way goes on.
pub struct NameWatch {
    number: u64,
}

impl NameWatch {
    /// Tells from now on when `path` leads to another file than `file`, to none, or to `file` again. `None` where the system does
    /// not tell of that.
    pub fn begin(path: &Path, file: FileId, on_change: OnChange) -> Option<NameWatch> {
        let directory = parent_directory(path);
        let opened = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(directory);
        let descriptor = Descriptor::of(opened.ok()?).ok()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let watched = Watched { number, path: path.into(), file, seen: Leads::ToIt, on_change };
        {
            let mut broker = BROKER.lock();
            let thread = broker.thread()?;
            let signal = broker.number();
            if !broker.names.add(descriptor, watched, (signal, thread)) {
                return None;
            }
        }
        // It may have been lost before.
        if leads(path, file) != Some(Leads::ToIt) {
            let mut broker = BROKER.lock();
            broker.thread().into_iter().for_each(|thread| broker.wake(thread));
        }
        Some(NameWatch { number })
    }
}

impl Drop for NameWatch {
    fn drop(&mut self) {
        let ended = BROKER.lock().names.remove(self.number);
        // Without the lock.
        drop(ended);
    }
}

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    ToIt,
    Nowhere,
    Elsewhere,
}

/// Where a name leads that was that of `file`; `None` where that cannot be said.
fn leads(path: &Path, file: FileId) -> Option<Leads> {
    match glance(path, Links::Followed) {
        Ok((id, _)) if id == file => Some(Leads::ToIt),
        Ok(_) => Some(Leads::Elsewhere),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Leads::Nowhere),
        Err(_) => None,
    }
}

/// A name that is watched.
#[derive(Clone)]
struct Watched {
    number: u64,
    path: Arc<Path>,
    file: FileId,
    /// What was told last.
    seen: Leads,
    on_change: OnChange,
}

/// A directory with names that are watched.
struct Directory {
    descriptor: Descriptor,
    id: FileId,
    watched: Vec<Watched>,
}

impl Directory {
    /// Orders the next word of the system's.
    fn order(&self, (signal, thread): (c_int, pid_t)) -> bool {
        let descriptor = self.descriptor.file.as_raw_fd();
        // Without the two the signal would be one that ends the process.
        set_number(descriptor, signal)
            && set_owner(descriptor, thread)
            // SAFETY: the request takes a number and changes nothing in memory.
            && unsafe { libc::fcntl(descriptor, libc::F_NOTIFY, EVENTS) } == 0
    }
}

/// The names that are watched, and when they were looked at.
pub(super) struct Names {
    directories: Vec<Directory>,
    looks: Looks,
}

impl Names {
    pub const fn new() -> Names {
        Names { directories: Vec::new(), looks: Looks { last: None, next: None } }
    }

    /// Watches a name in the directory of that descriptor too; `false` where the system does not tell of it.
    fn add(&mut self, descriptor: Descriptor, watched: Watched, signal: (c_int, pid_t)) -> bool {
        let Ok(found) = descriptor.file.metadata() else { return false };
        let id = FileId { device: found.dev(), inode: found.ino() };
        if let Some(known) = self.directories.iter_mut().find(|known| known.id == id) {
            known.watched.push(watched);
            return true;
        }
        let directory = Directory { descriptor, id, watched: vec![watched] };
        let is_told = directory.order(signal);
        if is_told {
            self.directories.push(directory);
        }
        is_told
    }

    /// Ends a watch. What was watched is to be dropped without the lock.
    fn remove(&mut self, number: u64) -> Option<(Watched, Option<Directory>)> {
        let place = self.directories.iter().enumerate().find_map(|(at, directory)| {
            Some((at, directory.watched.iter().position(|watched| watched.number == number)?))
        });
        let (at, which) = place?;
        let watched = self.directories[at].watched.swap_remove(which);
        let is_last = self.directories[at].watched.is_empty();
        Some((watched, is_last.then(|| self.directories.swap_remove(at))))
    }

    /// The broker's signals have that number from now on.
    pub fn set_number(&self, signal: c_int) {
        for directory in &self.directories {
            set_number(directory.descriptor.file.as_raw_fd(), signal);
        }
    }

    /// The time until the next look, if there is no word before.
    pub fn pause(&self, now: Instant) -> Duration {
        self.looks.next.map_or(MAX_UNNOTICED, |next| next.saturating_duration_since(now))
    }

    /// The names to look at now, once the next word is ordered.
    fn begin_look(&mut self, now: Instant, has_word: bool, signal: (c_int, pid_t)) -> Vec<Watched> {
        if self.directories.is_empty() || !self.looks.begins(now, has_word) {
            return Vec::new();
        }
        let mut watched = Vec::new();
        for directory in &self.directories {
            // Where that fails, the next look comes in MAX_UNLOOKED.
            directory.order(signal);
            watched.extend_from_slice(&directory.watched);
        }
        watched
    }

    /// A change was told, and taken up.
    fn note_told(&mut self, number: u64, leads: Leads) {
        let all = self.directories.iter_mut().flat_map(|directory| &mut directory.watched);
        all.filter(|watched| watched.number == number).for_each(|watched| watched.seen = leads);
    }
}

/// When names are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Looks {
    last: Option<Instant>,
    /// When to look without a further word.
    next: Option<Instant>,
}

impl Looks {
    /// True if a look begins now; there may have been a word of the system's. Else the next look is not forgotten.
    fn begins(&mut self, now: Instant, has_word: bool) -> bool {
        let since = self.last.map_or(MAX_UNLOOKED, |last| now.saturating_duration_since(last));
        let is_wanted = has_word || self.next.is_some() || since >= MAX_UNLOOKED;
        if is_wanted && since >= PAUSE {
            *self = Looks { last: Some(now), next: None };
            return true;
        }
        if is_wanted {
            self.again();
        }
        false
    }

    /// Looks again, as soon as that may be.
    fn again(&mut self) {
        self.next = self.last.map(|last| last + PAUSE);
    }
}

/// Looks at the names where it is time for that, and tells of those that have changed. The broker calls it; there may have been a
/// word of the system's.
pub(super) fn look(has_word: bool) {
    let watched = {
        let mut broker = BROKER.lock();
        let Some(thread) = broker.thread() else { return };
        let signal = broker.number();
        broker.names.begin_look(Instant::now(), has_word, (signal, thread))
    };
    #[cfg(test)]
    tests::LOOKS.fetch_add(u64::from(!watched.is_empty()), Ordering::Relaxed);
    for one in watched {
        let Some(now) = leads(&one.path, one.file) else { continue };
        // One that leads elsewhere as it did before may have been back meanwhile, and there may be something new beside it.
        if now == one.seen && now == Leads::ToIt {
            continue;
        }
        // The message of a panic was printed.
        let is_taken_up = catch_unwind(AssertUnwindSafe(|| (one.on_change)())).unwrap_or(true);
        let mut broker = BROKER.lock();
        if is_taken_up {
            broker.names.note_told(one.number, now);
        } else {
            broker.names.looks.again();
        }
    }
}

#[cfg(test)]
mod tests;
