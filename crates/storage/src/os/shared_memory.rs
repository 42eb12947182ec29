//! Memory that is a file: processes that map the same file share it.

use crate::file::RangeLock;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

/// Memory without a name: a process that is given its descriptor maps it as well. It is gone with the last one. It only
/// grows, so that no process can take it away under another.
#[derive(Debug)]
pub struct NamelessMemory {
    file: File,
}

impl From<NamelessMemory> for OwnedFd {
    fn from(memory: NamelessMemory) -> OwnedFd {
        memory.file.into()
    }
}

impl NamelessMemory {
    /// Memory of no bytes.
    ///
    /// # Errors
    /// Errors of the system, which may give none.
    pub fn new() -> io::Result<NamelessMemory> {
        NamelessMemory::listed("litefoot")
    }

    /// The same; the system lists it among the open files of its processes, as `/memfd:NAME (deleted)`.
    ///
    /// # Errors
    /// Errors of the system, which may give none.
    pub fn listed(name: &str) -> io::Result<NamelessMemory> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let name = CString::new(name)?;
        // SAFETY: a name that is terminated; what the call makes is nobody else's.
        let file = unsafe {
            let descriptor = libc::memfd_create(name.as_ptr(), flags);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(descriptor)
        };
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
        // SAFETY: a plain system call.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(NamelessMemory { file })
    }

    /// Memory that another process has sent.
    pub fn of(descriptor: OwnedFd) -> NamelessMemory {
        NamelessMemory { file: File::from(descriptor) }
    }

    /// Grows it to at least so many bytes; the new ones are zeros.
    ///
    /// # Errors
    /// Errors of the system; the process may make no file of so many bytes.
    pub fn grow(&self, bytes: u64) -> io::Result<()> {
        if self.file.metadata()?.len() >= bytes {
            return Ok(());
        }
        // The system would end the process (`RLIMIT_FSIZE`).
        if bytes > most_file_bytes() {
            Err(io::ErrorKind::FileTooLarge.into())
        } else {
            self.file.set_len(bytes)
        }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Grows a file that it is to at least so many bytes, with space reserved for them: a full disk is an error here, and no signal later.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn extend(&self, bytes: u64) -> io::Result<()> {
        super::os_file::extend_by_pages(self.bytes()?, bytes, |place| self.write_at(&[0], place))
    }

    /// Reads exactly `buf`; what was written before is there, by whichever process.
    ///
    /// # Errors
    /// Errors of the system; there are not so many bytes.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    /// Writes bytes that it has already, see [`NamelessMemory::grow`].
    ///
    /// # Errors
    /// Errors of the system, which may have no memory.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Gives the memory of bytes back, which are zeros from now on.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn give_back(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let number = |value| libc::off_t::try_from(value).map_err(|_| io::ErrorKind::FileTooLarge);
        let (offset, bytes) = (number(offset)?, number(bytes)?);
        // SAFETY: a plain system call.
        match unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset, bytes) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Puts its bytes from `offset` in the place of other memory.
    ///
    /// # Safety
    /// The memory is a mapping of the caller's of whole pages, and nobody counts on what is in it.
    ///
    /// # Errors
    /// Errors of the system; the memory is as it was.
    pub unsafe fn map_over(&self, offset: u64, memory: NonNull<u8>, bytes: usize) -> io::Result<()> {
        // SAFETY: the caller's promise; the bytes are there, and stay.
        unsafe { map_over(&self.file, offset, memory, bytes) }
    }

    /// Another open file of the same bytes: it has locks of its own.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open_again(descriptor: RawFd) -> io::Result<NamelessMemory> {
        let path = format!("/proc/self/fd/{descriptor}");
        File::options().read(true).write(true).open(path).map(|file| NamelessMemory { file })
    }

    /// Locks bytes of the file that this is, or unlocks them; `false` where somebody has them in another open file. A lock lasts until it is
    /// given back, or no process has this open file and a mapping of it: all that were given the descriptor have the lock.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn lock_range(&self, offset: u64, len: u64, lock: RangeLock) -> io::Result<bool> {
        super::os_file::lock_range(&self.file, offset, len, lock)
    }

    /// Its descriptor, for another process.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Bytes of the largest file that this process may make.
fn most_file_bytes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a plain question to the system.
    let answer = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    #[allow(clippy::unnecessary_cast)] // narrower on 32-bit machines
    let most = limit.rlim_cur as u64;
    if answer == 0 { most } else { u64::MAX }
}

/// Puts bytes of a file in the place of memory.
///
/// # Safety
/// As [`map_over`](crate::file::File::map_over).
pub(super) unsafe fn map_over(file: &File, offset: u64, memory: NonNull<u8>, bytes: usize) -> io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: the caller's mapping, which nobody counts on.
    let mapped =
        unsafe { libc::mmap(memory.as_ptr().cast(), bytes, protection, flags, file.as_raw_fd(), offset) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nameless_memory_grows_and_is_never_cut() {
        let one = NamelessMemory::new().unwrap();
        one.grow(8192).unwrap();
        one.grow(4096).unwrap();
        let other = NamelessMemory::of(one.descriptor().try_clone_to_owned().unwrap());
        one.write_at(b"7", 5000).unwrap();
        let mut byte = [0];
        other.read_at(&mut byte, 5000).unwrap();
        assert_eq!((byte, other.file.metadata().unwrap().len()), (*b"7", 8192));
        assert!(other.file.set_len(0).is_err() && other.read_at(&mut byte, 8192).is_err());
        other.give_back(4096, 4096).unwrap();
        one.read_at(&mut byte, 5000).unwrap();
        assert_eq!((byte, one.file.metadata().unwrap().len()), ([0], 8192));
    }

    /// The system would end the process.
    #[test]
    fn memory_does_not_grow_beyond_the_largest_file_that_the_process_may_make() {
        const CHILD: &str = "LITEFOOT_TEST_FILE_LIMIT";
        if std::env::var_os(CHILD).is_none() {
            let test = "os::shared_memory::tests::memory_does_not_grow_beyond_the_largest_file_that_the_process_may_make";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let status = child
                .args(["--exact", test, "-q"])
                .env(CHILD, "1")
                .stdout(std::process::Stdio::null())
                .status();
            assert!(status.unwrap().success());
            return;
        }
        let limit = libc::rlimit { rlim_cur: 65536, rlim_max: 65536 };
        // SAFETY: a plain system call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        let memory = NamelessMemory::new().unwrap();
        memory.grow(65536).unwrap();
        assert!(memory.grow(65537).is_err());
    }

    #[test]
    fn a_file_that_is_opened_again_has_the_same_bytes_and_locks_of_its_own() {
        let file = tempfile::tempfile().unwrap();
        file.write_at(b"12345678", 0).unwrap();
        let [one, other] = [(); 2].map(|()| NamelessMemory::open_again(file.as_raw_fd()).unwrap());
        let lock = |file: &NamelessMemory, byte, lock| file.lock_range(byte, 1, lock).unwrap();
        assert!(lock(&one, 128, RangeLock::Shared) && lock(&other, 128, RangeLock::Shared));
        assert!(lock(&one, 120, RangeLock::Exclusive) && !lock(&other, 120, RangeLock::Exclusive));
        // Another process that has the same open file has the lock as well, and can give it back.
        let sent = NamelessMemory::of(one.descriptor().try_clone_to_owned().unwrap());
        drop(one);
        assert!(!lock(&other, 120, RangeLock::Exclusive));
        assert!(lock(&sent, 120, RangeLock::None) && lock(&other, 120, RangeLock::Exclusive));
        let mut byte = [0];
        other.file.read_exact_at(&mut byte, 3).unwrap();
        assert_eq!(byte, *b"4");
    }

    #[test]
    fn mappings_of_a_file_are_one_memory_at_the_addresses_that_they_had() {
        // SAFETY: a question to the system.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * page as u64).unwrap();
        let memory = || {
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new mapping.
            let memory = unsafe { libc::mmap(std::ptr::null_mut(), page, protection, flags, -1, 0) };
            NonNull::new(memory.cast::<u8>()).unwrap()
        };
        let (one, other) = (memory(), memory());
        // SAFETY: mappings of this test's own, a page each; the file has three.
        unsafe {
            one.write(9);
            for memory in [one, other] {
                map_over(&file, page as u64, memory, page).unwrap();
            }
            assert_eq!(one.read(), 0, "the file's byte");
            one.add(page - 1).write(7);
            assert_eq!(other.add(page - 1).read(), 7);
            file.write_at(b"5", page as u64).unwrap();
            assert_eq!((one.read(), other.read()), (b'5', b'5'));
            assert!(map_over(&file, 1, one, page).is_err(), "no whole pages");
            assert_eq!(one.read(), b'5', "and the memory is as it was");
            for memory in [one, other] {
                libc::munmap(memory.as_ptr().cast(), page);
            }
        }
        let mut byte = [0];
        file.read_exact_at(&mut byte, 2 * page as u64 - 1).unwrap();
        assert_eq!(byte, [7]);
    }
}
