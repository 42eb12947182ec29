//! Closings: word of each `close` of a file, by anybody.
//!
//! # Why
//! A process that shares a database waits for the others to leave. Nothing else tells of that: a lease is refused while they have the file
//! open, and an attempt to take one would have to be repeated. So inotify tells of closings, and the attempt follows.
//!
//! # What it promises
//! 1. A watch opens nothing: it breaks no lease, and keeps none from being taken.
//! 2. [`Closings::wait`] ends with a closing, with [`Closings::ring`], or with its time.
//! 3. No program that this process starts inherits a descriptor, and none leads anywhere in a forked child ([`crate::fork`]).
//!
//! # Limits
//! The system tells of a closing a moment before the file has one user less. There are file systems that tell of nothing.

use super::opening::above_standard_streams;
use crate::file::File;
use crate::fork::LockedFile;
use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

/// Bytes that are read at a time. Events of files have 16 each, and are of no interest but for their being there.
const EVENTS_BYTES: usize = 4096;

/// The closings of some files. One thread waits for them.
pub struct Closings {
    events: Descriptor,
    bell: Descriptor,
}

/// A descriptor of this process alone.
pub(super) struct Descriptor {
    // Dropped first: the number may be another file's soon.
    _kept_from_children: LockedFile,
    pub file: fs::File,
}

impl Descriptor {
    fn new(number: i32) -> io::Result<Descriptor> {
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and has no other owner.
        Descriptor::of(unsafe { fs::File::from_raw_fd(number) })
    }

    /// Keeps an open file from children.
    pub fn of(file: fs::File) -> io::Result<Descriptor> {
        let file = above_standard_streams(file)?;
        let _kept_from_children = LockedFile::note(file.as_raw_fd());
        Ok(Descriptor { _kept_from_children, file })
    }

    /// Takes what there is to be read. Answers if there was anything.
    fn drain(&self) -> bool {
        let mut events = [0; EVENTS_BYTES];
        let mut had_any = false;
        while matches!((&self.file).read(&mut events), Ok(1..)) {
            had_any = true;
        }
        had_any
    }
}

impl Closings {
    /// The closings of no file.
    ///
    /// # Errors
    /// The limits of the system.
    pub fn new() -> io::Result<Closings> {
        // SAFETY: plain system calls.
        unsafe {
            let events = Descriptor::new(libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC))?;
            let bell = Descriptor::new(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC))?;
            Ok(Closings { events, bell })
        }
    }

    /// Watches the file too, until this is dropped; `false` where the system does not tell of it.
    pub fn watch(&self, file: &dyn File) -> bool {
        let Some(descriptor) = file.raw_descriptor() else { return false };
        let Ok(link) = CString::new(format!("/proc/thread-self/fd/{descriptor}")) else { return false };
        let closed = libc::IN_CLOSE_WRITE | libc::IN_CLOSE_NOWRITE;
        // SAFETY: the name is terminated, and outlives the call.
        unsafe { libc::inotify_add_watch(self.events.file.as_raw_fd(), link.as_ptr(), closed) >= 0 }
    }

    /// Takes all closings so far. Answers if there were any.
    pub fn take(&self) -> bool {
        self.events.drain()
    }

    /// Ends the wait of the other thread, or its next one.
    pub fn ring(&self) {
        // This fails where it has been rung very often.
        let _ = (&self.bell.file).write(&1u64.to_ne_bytes());
    }

    /// Waits until rung, or for a time, or for a closing where it `listens` to those.
    pub fn wait(&self, time: Duration, listens: bool) {
        let waits =
            |of: &Descriptor| libc::pollfd { fd: of.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut waits = [waits(&self.bell), waits(&self.events)];
        let milliseconds = i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: so many structures are there, and outlive the call.
        unsafe { libc::poll(waits.as_mut_ptr(), if listens { 2 } else { 1 }, milliseconds) };
        self.bell.drain();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{FileKind, Medium, OpenMode};
    use crate::os::OsMedium;
    use std::path::Path;
    use std::sync::Arc;

    const LONG: Duration = Duration::from_secs(1000);

    fn open(path: &Path) -> Arc<dyn File> {
        OsMedium.open(path, FileKind::Database, OpenMode::Create).unwrap()
    }

    #[test]
    fn a_wait_ends_with_a_closing_of_a_watched_file_and_with_the_bell() {
        let directory = tempfile::tempdir().unwrap();
        let [file, other] = ["watched", "other"].map(|name| open(&directory.path().join(name)));
        let closings = Closings::new().unwrap();
        assert!(closings.watch(&*file) && closings.watch(&*file));
        for (path, is_told) in [(file.path(), true), (other.path(), false)] {
            let opened = open(path);
            assert!(!closings.take(), "that is no closing");
            drop(opened);
            if is_told {
                closings.wait(LONG, true);
            }
            assert_eq!((closings.take(), closings.take()), (is_told, false));
        }
        std::thread::scope(|scope| {
            for listens in [true, false] {
                scope.spawn(|| closings.ring());
                closings.wait(LONG, listens);
            }
            // What it does not listen to is there the next time.
            drop(open(file.path()));
            closings.wait(Duration::ZERO, false);
            closings.wait(LONG, true);
            assert!(closings.take());
        });
    }

    #[test]
    fn a_forked_child_hears_nothing_and_takes_nothing_away() {
        crate::fork::watch(crate::fork::Hooks { before: nothing, in_parent: nothing, in_child: nothing });
        let directory = tempfile::tempdir().unwrap();
        let file = open(&directory.path().join("f"));
        let closings = Closings::new().unwrap();
        assert!(closings.watch(&*file));
        drop(open(file.path()));
        // SAFETY: the child makes plain system calls, and ends.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                closings.ring();
                libc::_exit(i32::from(closings.take()));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        };
        assert_eq!((status, closings.bell.drain(), closings.take()), (0, false, true));
    }

    extern "C" fn nothing() {}
}
