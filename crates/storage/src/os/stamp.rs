//! The stamp of a file: its length and the time of its last change.
//!
//! # Why
//! The kernel takes the time of a change from a clock that ticks every few milliseconds. Two writes within one tick
//! leave the same time. A log that names its data file by a stamp must notice the second of them.
//!
//! # What it promises
//! A time that is set here lies before the tick of that moment, so no write from then on gives the file this time. It
//! differs from the time that the file had. It is random within [`FINE_NS`], for a clock that somebody sets back.
//! A file system that keeps no nanoseconds gets a whole even second, some seconds ago: FAT counts in steps of two.
//!
//! A file whose times this process may not set keeps the time of its last write.

use crate::file::Stamp;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

const SECOND_NS: i128 = 1_000_000_000;
/// A fine time lies at most so far in the past.
const FINE_NS: u64 = 1_000_000;
/// The steps in which every file system can count.
const COARSE_NS: i128 = 2 * SECOND_NS;
/// A coarse time lies about so many steps in the past.
const COARSE_STEPS: u64 = 4;

/// How exact the times of a file system are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exactness {
    Nanoseconds,
    Seconds,
}

/// The length, and the time of the last change.
pub(super) fn stamp(file: &File) -> io::Result<Stamp> {
    let metadata = file.metadata()?;
    let modified = i128::from(metadata.mtime()) * SECOND_NS + i128::from(metadata.mtime_nsec());
    Ok(Stamp { len: metadata.len(), modified })
}

/// Gives the file a time of its own, if this process may, and makes it durable with everything written.
pub(super) fn set_stamp(file: &File) -> io::Result<Stamp> {
    let before = stamp(file)?.modified;
    for exactness in [Exactness::Nanoseconds, Exactness::Seconds] {
        let wanted = unlike(exactness, last_tick(), before, RandomState::new().hash_one(()));
        if !set_time(file, wanted)? || stamp(file)?.modified == wanted {
            break;
        }
    }
    // Not `sync_data`, which may leave out a time.
    file.sync_all()?;
    stamp(file)
}

/// A time before `now` that is not `current`.
fn unlike(exactness: Exactness, now: i128, current: i128, random: u64) -> i128 {
    let (last, step, steps) = match exactness {
        Exactness::Nanoseconds => (now, 1, FINE_NS),
        Exactness::Seconds => (now.div_euclid(COARSE_NS) * COARSE_NS, COARSE_NS, COARSE_STEPS),
    };
    let chosen = last - step * i128::from(1 + random % steps);
    // The current time may have been cut off to a step.
    if chosen.div_euclid(step) == current.div_euclid(step) { chosen - step } else { chosen }
}

/// The time that the kernel gives to files written now, or an earlier one.
fn last_tick() -> i128 {
    #[cfg(target_os = "linux")]
    const CLOCK: libc::clockid_t = libc::CLOCK_REALTIME_COARSE;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_REALTIME;
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call, which fails for no clock that there is.
    unsafe { libc::clock_gettime(CLOCK, &raw mut now) };
    i128::from(now.tv_sec) * SECOND_NS + i128::from(now.tv_nsec)
}

/// Sets the time of the last change; answers whether it may be set.
fn set_time(file: &File, time: i128) -> io::Result<bool> {
    let same = libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT };
    let modified = libc::timespec {
        tv_sec: time.div_euclid(SECOND_NS) as libc::time_t,
        tv_nsec: time.rem_euclid(SECOND_NS) as libc::c_long,
    };
    let times = [same, modified];
    // SAFETY: an array of two times that outlives the call, and a descriptor that is open as long as `file` lives.
    if unsafe { libc::futimens(file.as_raw_fd(), times.as_ptr()) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Only the owner may set a time, and not every file system takes it.
        Some(libc::EPERM | libc::EACCES | libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => Ok(false),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_time_lies_before_the_tick_and_is_new() {
        use Exactness::{Nanoseconds, Seconds};
        let now = 1_000 * COARSE_NS + 5;
        // How exact, the file's time, the random number, and the time chosen.
        let cases = [
            (Nanoseconds, 0, 0, now - 1),
            (Nanoseconds, now, 0, now - 1),
            (Nanoseconds, now - 1, 0, now - 2),
            (Nanoseconds, 0, FINE_NS - 1, now - 1_000_000),
            (Nanoseconds, 0, FINE_NS, now - 1),
            (Seconds, 0, 0, 999 * COARSE_NS),
            (Seconds, 999 * COARSE_NS, 0, 998 * COARSE_NS),
            (Seconds, 999 * COARSE_NS + 7, 0, 998 * COARSE_NS),
            (Seconds, 0, COARSE_STEPS - 1, 996 * COARSE_NS),
        ];
        for (exactness, current, random, expected) in cases {
            assert_eq!(unlike(exactness, now, current, random), expected, "{exactness:?} {current} {random}");
        }
    }

    #[test]
    fn no_write_within_the_tick_leaves_the_time_that_was_set() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        for _ in 0..200 {
            let before = stamp(&file).unwrap();
            let set = set_stamp(&file).unwrap();
            assert_ne!(set.modified, before.modified, "the time that it had");
            assert_eq!(stamp(&file).unwrap(), set);
            // Another process, the same length, at once.
            File::options().write(true).open(&path).unwrap().write_all_at(b"x", 0).unwrap();
            let written = stamp(&file).unwrap();
            assert!(written.modified > set.modified, "{written:?} {set:?}");
        }
    }

    /// Only root can become somebody else.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_strangers_file_keeps_the_time_of_its_last_write() {
        if crate::file::user() != 0 {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = File::create_new(directory.path().join("f")).unwrap();
        file.write_all_at(b"x", 0).unwrap();
        let written = stamp(&file).unwrap();
        let set = std::thread::scope(|scope| {
            let stranger = scope.spawn(|| {
                // SAFETY: a plain system call that changes the rights of this thread only.
                unsafe { libc::syscall(libc::SYS_setfsuid, 65_534) };
                (set_time(&file, 0).unwrap(), set_stamp(&file).unwrap())
            });
            stranger.join().unwrap()
        });
        assert_eq!(set, (false, written));
    }

    #[test]
    fn times_before_the_epoch_and_of_whole_seconds_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create_new(directory.path().join("f")).unwrap();
        for time in [-1, -SECOND_NS, 0, COARSE_NS, 1_700_000_000 * SECOND_NS + 123_456_789] {
            assert!(set_time(&file, time).unwrap());
            assert_eq!(stamp(&file).unwrap(), Stamp { len: 0, modified: time });
        }
    }
}
