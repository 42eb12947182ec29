//! Opening a file on which another process has a lease.
//!
//! # Why
//! An `open` with `O_NONBLOCK` waits for no pipe and no device, but a lease refuses it (`EAGAIN`). One without waits for the
//! lease, and for whatever somebody has put at the path by then. So the file itself is what is waited for, and not its path.
//!
//! # Promises
//! 1. Nothing but a lease on a regular file is waited for.
//! 2. The wait ends: the system breaks a lease that nobody gives back (`/proc/sys/fs/lease-break-time`). Without `/proc` the
//!    file is asked for by its path again and again, for [`LONGEST`] at most.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest time for which an open by the path is tried again.
const LONGEST: Duration = Duration::from_secs(60);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// Opens the file at `path` by `attempt`, which waits for nothing. Where another process has a lease on it, waits until that is
/// given back.
pub(super) fn open(path: &Path, write: bool, attempt: impl Fn() -> io::Result<File>) -> io::Result<File> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && begun.elapsed() < LONGEST => {}
            opened => return opened,
        }
        if let Some(file) = open_in_place(path, write)? {
            return Ok(file);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits for the file that is at `path` now; `None` where nothing is to be waited for there, or without `/proc` cannot be.
fn open_in_place(path: &Path, write: bool) -> io::Result<Option<File>> {
    // Such a descriptor opens nothing: it breaks no lease, and keeps none from being taken.
    let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)?;
    if !place.metadata()?.is_file() {
        return Ok(None);
    }
    let link = format!("/proc/thread-self/fd/{}", place.as_raw_fd());
    match OpenOptions::new().read(true).write(write).open(link) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{LeaseAnswer, OnBreak};
    use crate::os::lease::Lease;
    use std::cell::Cell;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::ptr;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    fn by_path(path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
    }

    fn make_pipe(path: &Path) {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name is terminated.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    }

    /// Somebody puts it there once the lease has refused an open.
    #[test]
    fn a_pipe_in_the_place_of_a_file_with_a_lease_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        make_pipe(&path);
        let (word, told) = channel();
        let there = path.clone();
        let opener = std::thread::spawn(move || {
            let was_refused = Cell::new(false);
            let attempt = || {
                if was_refused.replace(true) {
                    by_path(&there)
                } else {
                    Err(io::ErrorKind::WouldBlock.into())
                }
            };
            word.send(open(&there, false, attempt).is_ok()).unwrap();
        });
        let opened = told.recv_timeout(Duration::from_secs(20));
        // Ends the wait of one that does.
        drop(OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&path));
        opener.join().unwrap();
        assert_eq!(opened, Ok(true), "by the next attempt");
    }

    /// A lease on the file that is given back at a break.
    fn leased(path: &Path) -> (File, Arc<Lease>) {
        let (file, lease) = (File::create(path).unwrap(), Arc::<Lease>::default());
        let (there, descriptor) = (Arc::downgrade(&lease), file.as_raw_fd());
        let on_break: OnBreak =
            Arc::new(move || there.upgrade().into_iter().for_each(|lease| lease.release(descriptor)));
        // Processes that other tests start have for a moment what was open here.
        while lease.take(descriptor, on_break.clone()) == LeaseAnswer::Company {
            std::thread::yield_now();
        }
        assert!(lease.is_taken());
        (file, lease)
    }

    #[test]
    fn a_file_is_waited_for_by_itself_and_without_proc_by_its_path() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("f");
        for has_proc in [true, false] {
            let (file, lease) = leased(&path);
            let there = path.clone();
            let opener = std::thread::spawn(move || {
                if !has_proc && !hide_proc() {
                    return None;
                }
                let first = open_in_place(&there, true).unwrap();
                Some((first.is_some(), open(&there, true, || by_path(&there)).is_ok()))
            });
            let opened = opener.join().unwrap();
            assert!(opened.is_none_or(|opened| opened == (has_proc, true)), "{opened:?}");
            assert!(opened.is_none() || !lease.is_taken());
            lease.release(file.as_raw_fd());
        }
    }

    /// Hides `/proc` from this thread; `false` where only root may.
    fn hide_proc() -> bool {
        // SAFETY: plain system calls, on a mount namespace of this thread's own.
        unsafe {
            let [none, root, proc] = [c"none".as_ptr(), c"/".as_ptr(), c"/proc".as_ptr()];
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(none, root, none, libc::MS_REC | libc::MS_PRIVATE, ptr::null()) == 0
                && libc::mount(none, proc, c"tmpfs".as_ptr(), 0, ptr::null()) == 0
        }
    }
}
