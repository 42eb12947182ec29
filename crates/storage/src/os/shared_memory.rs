//! Memory that is a file: processes that map the same file share it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

/// Memory without a name: a process that is given its descriptor maps it as well. It is gone with the last one. It only
/// grows, so that no process can take it away under another.
pub struct NamelessMemory {
    file: File,
}

impl NamelessMemory {
    /// Memory of no bytes.
    ///
    /// # Errors
    /// Errors of the system, which may give none.
    pub fn new() -> io::Result<NamelessMemory> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a name that is terminated; what the call makes is nobody else's.
        let file = unsafe {
            let descriptor = libc::memfd_create(c"litefoot".as_ptr(), flags);
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
    /// Errors of the system.
    pub fn grow(&self, bytes: u64) -> io::Result<()> {
        if self.file.metadata()?.len() < bytes { self.file.set_len(bytes) } else { Ok(()) }
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

    /// Shares the lock of a byte for as long as this lives, and any mapping of it; `false` where somebody has it exclusively.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn share_lock(&self, byte: u64) -> io::Result<bool> {
        // SAFETY: plain numbers, for which zeros are valid.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_RDLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        (lock.l_start, lock.l_len) = (byte as libc::off_t, 1);
        // SAFETY: a lock that lives throughout.
        if unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) { Ok(false) } else { Err(error) }
    }

    /// Its descriptor, for another process.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
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
    use std::os::unix::fs::FileExt;

    #[test]
    fn nameless_memory_grows_and_is_never_cut() {
        let one = NamelessMemory::new().unwrap();
        one.grow(8192).unwrap();
        one.grow(4096).unwrap();
        let other = NamelessMemory::of(one.descriptor().try_clone_to_owned().unwrap());
        one.file.write_at(b"7", 5000).unwrap();
        let mut byte = [0];
        other.file.read_exact_at(&mut byte, 5000).unwrap();
        assert_eq!((byte, other.file.metadata().unwrap().len()), (*b"7", 8192));
        assert!(other.file.set_len(0).is_err());
    }

    #[test]
    fn a_file_that_is_opened_again_has_the_same_bytes_and_locks_of_its_own() {
        let file = tempfile::tempfile().unwrap();
        file.write_at(b"12345678", 0).unwrap();
        let [one, other] = [(); 2].map(|()| NamelessMemory::open_again(file.as_raw_fd()).unwrap());
        assert!(one.share_lock(128).unwrap() && other.share_lock(128).unwrap());
        let mut byte = [0];
        one.file.read_exact_at(&mut byte, 3).unwrap();
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
