//! A device of the experiment's own: a file behind a loop device, with an ext4 that nobody else uses.
//!
//! The kernel counts what reaches it, for every process alike, also metadata and the journal of the file system.
//!
//! # Promise
//! Nothing is left, however this process ends. The mount is seen by the thread that made it and its children only, and
//! goes with the last of them; the loop device goes with the mount, and the file has no name once it is mounted.

use crate::{Error, Result};
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of the device: room for what one run writes, with a journal of the usual kind.
const DEVICE_BYTES: usize = 256 << 20;
const CHUNK_BYTES: usize = 1 << 20;
/// Of the line in `/sys/dev/block/*/stat` (`Documentation/block/stat.rst` of Linux): 512-byte sectors written, flushes.
const SECTORS_WRITTEN: usize = 6;
const FLUSHES: usize = 15;
const SECTOR_BYTES: u64 = 512;

/// What the device has been given since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub bytes: u64,
    pub flushes: u64,
}

impl Counters {
    pub fn since(self, before: Counters) -> Counters {
        Counters {
            bytes: self.bytes.saturating_sub(before.bytes),
            flushes: self.flushes.saturating_sub(before.flushes),
        }
    }
}

/// The device, mounted.
pub struct Device {
    mount: PathBuf,
    stat: PathBuf,
    /// The root of the file system.
    root: Option<File>,
}

impl Device {
    /// Makes it in a directory, and mounts it there.
    ///
    /// # Errors
    /// [`Error::Missing`], with the reason: not root, no loop device, no `mkfs.ext4`.
    pub fn new(directory: &Path) -> Result<Device> {
        own_mounts()?;
        let file = directory.join("device");
        // Blocks that are written before have their place: the file system below has nothing to allocate later.
        let fill = || {
            let mut device = File::create(&file)?;
            let zeros = vec![0; CHUNK_BYTES];
            (0..DEVICE_BYTES / CHUNK_BYTES).try_for_each(|_| device.write_all(&zeros))?;
            device.sync_all()
        };
        fill().map_err(|source| Error::Directory { path: file.clone(), source })?;
        // Tables that the kernel writes later, at leisure, would be counted for whoever runs then.
        let options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        // On a device this small the blocks would be of 1 KiB, which no device of an application's has.
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096", "-E", options]).arg(&file))?;
        let mount = directory.join("mount");
        std::fs::create_dir(&mount).map_err(|source| Error::Directory { path: mount.clone(), source })?;
        run(Command::new("mount").args(["-t", "ext4", "-o", "loop"]).arg(&file).arg(&mount))?;
        let mut device = Device { mount, stat: PathBuf::new(), root: None };
        std::fs::remove_file(&file).map_err(|source| Error::Directory { path: file, source })?;
        let unusable = |source| Error::Directory { path: device.mount.clone(), source };
        let root = File::open(&device.mount).map_err(unusable)?;
        let number = root.metadata().map_err(unusable)?.dev();
        device.stat =
            PathBuf::from(format!("/sys/dev/block/{}:{}/stat", libc::major(number), libc::minor(number)));
        device.root = Some(root);
        device.counters()?;
        Ok(device)
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.mount
    }

    /// Has everything written, and says how much that was in all.
    pub fn synced(&self) -> Result<Counters> {
        let Some(root) = &self.root else { return Err(missing("a device that is mounted")) };
        // SAFETY: a plain system call on a descriptor that is open.
        if unsafe { libc::syncfs(root.as_raw_fd()) } != 0 {
            return Err(Error::Directory {
                path: self.mount.clone(),
                source: std::io::Error::last_os_error(),
            });
        }
        self.counters()
    }

    fn counters(&self) -> Result<Counters> {
        let text = std::fs::read_to_string(&self.stat)
            .map_err(|source| Error::Directory { path: self.stat.clone(), source })?;
        counters(&text).ok_or_else(|| missing("a kernel that counts flushes, Linux 5.5 or later"))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.root = None;
        if let Ok(mount) = CString::new(self.mount.as_os_str().as_bytes()) {
            // SAFETY: the string ends with a zero. Should it fail, the mount goes with this process.
            unsafe { libc::umount2(mount.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

fn missing(what: &str) -> Error {
    Error::Missing(what.to_owned())
}

/// Mounts of this thread, and of what it starts, are nobody else's from now on.
fn own_mounts() -> Result<()> {
    // SAFETY: plain system calls; the strings end with a zero, and the others may be null for a change of propagation.
    let done = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                std::ptr::null(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
    };
    if done {
        return Ok(());
    }
    Err(Error::Missing(format!(
        "root, for a loop device and a mount of its own ({})",
        std::io::Error::last_os_error()
    )))
}

/// Runs a program of the system to its end.
fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::Missing(format!("the program {name} ({error})")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Missing(format!("a loop device with ext4 ({name}: {})", said.trim())))
}

/// The counters in a line of the kernel's; nothing where it has too few.
fn counters(line: &str) -> Option<Counters> {
    let field = |index| line.split_ascii_whitespace().nth(index)?.parse::<u64>().ok();
    Some(Counters { bytes: field(SECTORS_WRITTEN)? * SECTOR_BYTES, flushes: field(FLUSHES)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_the_seventh_and_the_sixteenth_field() {
        let line = "      61        1     2116        5    24526    10753   179278      652        0      648 \
                    861        0        0        0        0    13697      203\n";
        let seen = counters(line);
        assert_eq!(seen, Some(Counters { bytes: 179_278 * 512, flushes: 13_697 }));
        for short in ["", "1 2 3 4 5 6 7 8 9 10 11", &line.replace("13697", "x"), "1 2 3 4 5 6 -7 8 9"] {
            assert_eq!(counters(short), None, "{short}");
        }
    }

    #[test]
    fn counters_since_are_differences() {
        let [before, after] = [(512, 3), (2048, 7)].map(|(bytes, flushes)| Counters { bytes, flushes });
        assert_eq!(after.since(before), Counters { bytes: 1536, flushes: 4 });
        assert_eq!(before.since(after), Counters::default());
    }
}
