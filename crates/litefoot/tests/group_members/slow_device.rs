//! A device whose syncs take long, as the processes of these tests have it: the files of this machine, behind a pause. What a sync waits for may be anything.
//!
//! The environment says which device a process has.
//!
//! | variable | says |
//! |---|---|
//! | `GROUP_SYNC_MS` | what a sync takes; without it the device is this machine's |
//! | `GROUP_ASKED` | a file in which each question how long a sync takes leaves a line, with the name of its thread |
//! | `GROUP_NAMELESS` | `none` where the file system has no files without a name |
//! | `GROUP_OPEN_MS` | what the first open of a database takes |

use litefoot_storage::file::{File, FileKind, LeaseAnswer, Medium, OnBreak, OpenMode, Result, Stamp};
use litefoot_storage::os::OsMedium;
use litefoot_storage::pass_on;
use litefoot_testkit::process::thread_name;
use std::fs::OpenOptions;
use std::io::{IoSlice, Write};
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The device of this process, where the environment says one.
pub(crate) fn device() -> Option<Arc<SlowDevice>> {
    let number = |name| std::env::var(name).ok().map(|value: String| value.parse::<u64>().unwrap());
    let sync = Duration::from_millis(number("GROUP_SYNC_MS")?);
    let mut device = SlowDevice::new(move || std::thread::sleep(sync));
    device.first_open_ms = AtomicU64::new(number("GROUP_OPEN_MS").unwrap_or(0));
    Some(Arc::new(device))
}

/// What a sync waits for.
type Pause = Arc<dyn Fn() + Send + Sync>;

pub(crate) struct SlowDevice {
    system: OsMedium,
    pause: Pause,
    first_open_ms: AtomicU64,
}

impl SlowDevice {
    pub(crate) fn new(pause: impl Fn() + Send + Sync + 'static) -> SlowDevice {
        SlowDevice { system: OsMedium, pause: Arc::new(pause), first_open_ms: AtomicU64::new(0) }
    }

    fn slow(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(SlowFile { file, pause: self.pause.clone() })
    }
}

impl Medium for SlowDevice {
    pass_on!(system: delete, rename, rename_new, info, identity, unlinked_identity, glance, list, sync_directory, absolute);

    fn is_the_systems(&self) -> bool {
        true
    }

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        Ok(self.slow(self.system.open(path, kind, mode)?))
    }

    fn open_at_once(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Option<Arc<dyn File>>> {
        let opened = self.system.open_at_once(path, kind, mode)?;
        std::thread::sleep(Duration::from_millis(self.first_open_ms.swap(0, Ordering::Relaxed)));
        Ok(opened.map(|file| self.slow(file)))
    }

    fn open_nameless(&self, directory: &Path) -> Option<Arc<dyn File>> {
        if let Ok(asked) = std::env::var("GROUP_ASKED") {
            let mut asked = OpenOptions::new().create(true).append(true).open(asked).unwrap();
            writeln!(asked, "{}", thread_name()).unwrap();
        }
        if std::env::var("GROUP_NAMELESS").is_ok_and(|nameless| nameless == "none") {
            return None;
        }
        Some(self.slow(self.system.open_nameless(directory)?))
    }
}

struct SlowFile {
    file: Arc<dyn File>,
    pause: Pause,
}

impl File for SlowFile {
    pass_on!(file: read_at, read_vectored_at, write_vectored_at, stamp, len, set_len, allocate);
    pass_on!(file: id, birth, path, lock_range, is_locked, lock_holder, map_over, guarantees, release_lease);

    fn raw_descriptor(&self) -> Option<RawFd> {
        self.file.raw_descriptor()
    }

    fn take_lease(&self, on_break: OnBreak) -> LeaseAnswer {
        self.file.take_lease(on_break)
    }

    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        (self.pause)();
        self.file.write_durable_at(bufs, offset)
    }

    fn sync(&self) -> Result<()> {
        (self.pause)();
        self.file.sync()
    }

    fn set_stamp(&self) -> Result<Stamp> {
        (self.pause)();
        self.file.set_stamp()
    }
}
