//! Memory that is a file: processes that map the same file share it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

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
