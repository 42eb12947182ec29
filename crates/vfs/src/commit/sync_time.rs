//! Whether syncs of a device take long, for those who have to know before commits have told.
//!
//! # Why
//! Processes that share syncs gain where a sync takes [`LONG_SYNC`] or more, and lose elsewhere. A process that comes to a database decides once, mostly
//! before its owner has made the commits that tell. So the device is asked: a file without a name, beside the database, is written and synced.
//!
//! # Promises
//! 1. A device is asked once in the life of a process, and its children keep the answer. Where it cannot be asked, the answer is unknown.
//! 2. An answer changes once at most, from short to long: where commits tell so.
//! 3. [`known`] and [`note_long`] wait for no device.
//! 4. A device whose sync is short is synced once. Others are synced four times at most: two of three syncs decide, and one that is late by chance
//!    changes nothing.
//! 5. Nothing is left on the device, and no file is given a name.
//!
//! # Invariants
//! 1. The first sync gives the file its block, for which the file system may write its journal. It can show that syncs are short, and not that
//!    they are long.
//! 2. The file is on the device whose number is asked for: a database may be mounted alone from another one than its directory.

use crate::commit::commit_delay::LONG_SYNC;
use litefoot_storage::file::{File, Medium};
use litefoot_storage::sync::{AcrossFork, Global};
use std::io::IoSlice;
use std::path::Path;
use std::time::{Duration, Instant};

/// The bytes of a write: a block of most file systems.
const BYTES: usize = 4096;
/// Of so many syncs behind the first one the middle decides.
const SYNCS: u32 = 3;

/// The answers so far, by the number of the device: true where syncs are long.
#[derive(Default)]
struct Answers(Vec<(u64, bool)>);

impl AcrossFork for Answers {
    fn inherit(parents: Answers) -> Answers {
        parents
    }
}

impl Answers {
    fn of(&self, device: u64) -> Option<bool> {
        self.0.iter().find(|(number, _)| *number == device).map(|(_, is_long)| *is_long)
    }

    fn note(&mut self, device: u64, is_long: bool) {
        match self.0.iter_mut().find(|(number, _)| *number == device) {
            Some((_, answer)) => *answer |= is_long,
            None => self.0.push((device, is_long)),
        }
    }
}

/// The right to ask: one thread at a time does.
#[derive(Default)]
struct Asking;

impl AcrossFork for Asking {
    fn inherit(_: Asking) -> Asking {
        Asking
    }
}

static ANSWERS: Global<Answers> = Global::new(Answers(Vec::new()));
static ASKING: Global<Asking> = Global::new(Asking);

/// True where syncs of a device are known to be long, false where they are known to be short.
pub(crate) fn known(device: u64) -> Option<bool> {
    ANSWERS.lock().of(device)
}

/// Commits tell that syncs of a device are long.
pub(crate) fn note_long(device: u64) {
    ANSWERS.lock().note(device, true);
}

/// The same as [`known`]. A device that is not known is asked, by a file in a directory of it. That takes some syncs: not for a thread of the application's.
pub(crate) fn ask(medium: &dyn Medium, directory: &Path, device: u64) -> Option<bool> {
    if let Some(is_long) = known(device) {
        return Some(is_long);
    }
    let asking = ASKING.lock();
    if let Some(is_long) = known(device) {
        return Some(is_long);
    }
    let file = medium.open_nameless(directory).filter(|file| file.id().device == device)?;
    let mut number = 0;
    let is_long = judge(|| {
        number += 1;
        time_of_sync(&*file, number)
    })?;
    let mut answers = ANSWERS.lock();
    answers.note(device, is_long);
    let answer = answers.of(device);
    drop((answers, asking));
    answer
}

/// Writes a block that differs from the one before, durably, as a commit does; `None` where that fails.
fn time_of_sync(file: &dyn File, number: u8) -> Option<Duration> {
    let block = [number; BYTES];
    let begun = Instant::now();
    file.write_durable_at(&[IoSlice::new(&block)], 0).ok()?;
    Some(begun.elapsed())
}

/// Judges by the times of syncs, one after the other, for as many as it takes.
fn judge(mut next: impl FnMut() -> Option<Duration>) -> Option<bool> {
    if next()? < LONG_SYNC {
        return Some(false);
    }
    let (mut long, mut short) = (0, 0);
    while long.max(short) <= SYNCS / 2 {
        *(if next()? < LONG_SYNC { &mut short } else { &mut long }) += 1;
    }
    Some(long > short)
}

/// A medium whose syncs are long.
#[cfg(test)]
pub(crate) mod of_test {
    use super::*;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{DeviceError, FileId, FileKind, OpenMode, Operation, Result};
    use litefoot_storage::pass_on;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The files of a medium, on a device with a number of its own: the answers are those of the whole process.
    pub(crate) struct Device {
        pub medium: SimMedium,
        pub(super) number: u64,
        pub(super) asked: AtomicU32,
        pub has_nameless: bool,
        pub fails: bool,
    }

    impl Device {
        pub fn new(number: u64) -> Device {
            let medium = SimMedium::new();
            Device { medium, number, asked: AtomicU32::new(0), has_nameless: true, fails: false }
        }

        pub fn ask(&self, number: u64) -> Option<bool> {
            ask(self, Path::new("/"), number)
        }

        /// How often it was asked.
        pub fn asked(&self) -> u32 {
            self.asked.load(Ordering::Relaxed)
        }
    }

    impl Medium for Device {
        pass_on!(medium: delete, rename, info, list, sync_directory, absolute);

        fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
            let file = self.medium.open(path, kind, mode)?;
            Ok(Arc::new(Long { file, device: self.number, fails: self.fails }))
        }

        fn open_nameless(&self, directory: &Path) -> Option<Arc<dyn File>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let open = || self.open(&directory.join("nameless"), FileKind::Temporary, OpenMode::Create);
            self.has_nameless.then(open)?.ok()
        }
    }

    struct Long {
        file: Arc<dyn File>,
        device: u64,
        fails: bool,
    }

    impl File for Long {
        pass_on!(file: read_at, write_vectored_at, sync, stamp, set_stamp, len, set_len, allocate, path, lock_range);

        fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
            if self.fails {
                return Err(DeviceError::new(Operation::Sync, self.path(), std::io::ErrorKind::Other.into()));
            }
            std::thread::sleep(2 * LONG_SYNC);
            self.file.write_durable_at(bufs, offset)
        }

        fn id(&self) -> FileId {
            FileId { device: self.device, ..self.file.id() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of_test::Device;
    use super::*;
    use litefoot_sim::SimMedium;

    #[test]
    fn two_of_three_syncs_behind_a_long_one_decide() {
        let (short, long) = (LONG_SYNC - Duration::from_nanos(1), LONG_SYNC);
        for (times, expected, asked) in [
            (&[short][..], Some(false), 1),
            (&[long, long, long], Some(true), 3),
            (&[long, short, short], Some(false), 3),
            (&[long, short, long, long], Some(true), 4),
            (&[long, long, short, long], Some(true), 4),
            (&[long, long, short, short], Some(false), 4),
            (&[], None, 0),
            (&[long], None, 1),
            (&[long, long, short], None, 3),
        ] {
            let mut left = times.iter();
            assert_eq!(judge(|| left.next().copied()), expected, "{times:?}");
            assert_eq!(times.len() - left.len(), asked, "{times:?}");
        }
    }

    #[test]
    fn a_device_is_asked_once_and_told_of_without_being_asked() {
        let device = Device::new(0xF001);
        assert_eq!(known(0xF001), None);
        assert_eq!(device.ask(0xF001), Some(true));
        assert_eq!((device.ask(0xF001), known(0xF001), device.asked()), (Some(true), Some(true), 1));
        note_long(0xF002);
        assert_eq!((device.ask(0xF002), device.asked()), (Some(true), 1));
    }

    #[test]
    fn several_that_want_to_know_at_once_ask_once() {
        let device = Device::new(0xF003);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(device.ask(0xF003), Some(true)));
            }
        });
        assert_eq!(device.asked(), 1);
    }

    #[test]
    fn what_cannot_be_asked_is_unknown() {
        let another = Device::new(0xF004);
        let none = Device { has_nameless: false, ..Device::new(0xF005) };
        let fails = Device { fails: true, ..Device::new(0xF006) };
        let answers = [another.ask(0xF007), none.ask(0xF005), fails.ask(0xF006)];
        assert_eq!((answers, [0xF004, 0xF005, 0xF006, 0xF007].map(known)), ([None; 3], [None; 4]));
        assert!(SimMedium::new().open_nameless(Path::new("/")).is_none());
    }

    #[test]
    fn an_answer_goes_from_short_to_long_and_never_back() {
        let mut answers = Answers::default();
        answers.note(1, false);
        answers.note(2, true);
        assert_eq!([1, 2, 3].map(|device| answers.of(device)), [Some(false), Some(true), None]);
        answers.note(1, true);
        answers.note(2, false);
        let answers = Answers::inherit(answers);
        assert_eq!([1, 2].map(|device| answers.of(device)), [Some(true); 2]);
    }
}
