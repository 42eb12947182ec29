//! Regions of the wal-index: memory that SQLite knows by its address.
//!
//! A region is a mapping, so that the file `-shm` can take its place, and memory the file's, at the same address. A page of the
//! system may be larger than what SQLite calls a region: then several of those lie in one mapping.
//!
//! # Invariants
//! 1. A region does not move, and is freed when it is dropped. A region that a forked child has inherited is never freed
//!    there, since inherited connections know its address.
//! 2. A region that is a file's, or memory of several processes, is noted as shared memory: a forked child has zeros of its own there.
//! 3. A process that only reads bytes of memory of several processes has them [write-protected](Region::protect): a stray write of its application ends
//!    that process, as anywhere, and no other one.

use litefoot_storage::file::{self, DeviceError, File, Operation};
use litefoot_storage::fork::SharedMemory;
use litefoot_storage::os::NamelessMemory;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// A multiple of the bytes of a page of any system.
pub(crate) const LARGEST_PAGE: usize = 65536;

/// A region of the wal-index, or several in one mapping.
pub(crate) struct Region {
    memory: NonNull<u8>,
    bytes: usize,
    /// Set in a forked child where the region was the parent's. Inherited connections know its address, so it is never freed.
    pub inherited: bool,
    /// Set while it is a file's, or memory of several processes.
    shared: Option<SharedMemory>,
}

// SAFETY: the region owns the memory, and hands it out as a raw pointer only. SQLite synchronises its own accesses by
// the lock slots and barriers.
unsafe impl Send for Region {}

impl Region {
    /// Memory of zeros; `None` where there is none.
    pub fn new(bytes: usize) -> Option<Region> {
        // SAFETY: a new mapping touches no memory that is in use.
        let memory = unsafe { map_zeros(std::ptr::null_mut(), bytes, 0) }.ok()?;
        Some(Region { memory, bytes, inherited: false, shared: None })
    }

    /// The region of the parent, in a forked child.
    pub fn inherit(&self) -> Region {
        Region { memory: self.memory, bytes: self.bytes, inherited: true, shared: None }
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of a byte.
    pub fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < self.bytes);
        // SAFETY: inside the mapping.
        unsafe { self.memory.add(offset) }
    }

    /// Where it lies.
    pub fn place(&self) -> RegionPlace {
        RegionPlace { memory: self.memory, bytes: self.bytes }
    }

    /// Fills the region with zeros. No handle uses it.
    pub fn clear(&self) {
        // SAFETY: it has as many bytes.
        unsafe { self.memory.as_ptr().write_bytes(0, self.bytes) };
    }

    /// Copies the memory to a file, from `offset` on. Handles may read it meanwhile, and none writes it.
    pub fn copy_to(&self, file: &dyn File, offset: u64) -> file::Result<()> {
        // SAFETY: it has as many bytes, and nobody writes them now.
        file.write_at(unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.bytes) }, offset)
    }

    /// Copies the memory to another region of as many bytes, which nobody uses yet. Handles may read it meanwhile, and none writes it.
    pub fn copy_into(&self, copy: &Region) {
        let bytes = self.bytes.min(copy.bytes);
        // SAFETY: both have as many bytes, and are mappings of their own.
        unsafe { std::ptr::copy_nonoverlapping(self.memory.as_ptr(), copy.memory.as_ptr(), bytes) };
    }

    /// The bytes of a file from `offset` take the place of the memory. No handle counts on what is in it, or both are the same.
    pub fn share(&mut self, file: &dyn File, offset: u64) -> file::Result<()> {
        // First: it would give up what is noted now.
        self.shared = None;
        let note = SharedMemory::note(self.memory, self.bytes);
        // SAFETY: the region's own mapping. Processes that use the file shorten it only where nobody else has it open.
        unsafe { file.map_over(offset, self.memory, self.bytes) }?;
        self.shared = Some(note);
        Ok(())
    }

    /// Memory that other processes may map takes the place of this one, from `offset` on. No handle counts on what is in it, or both are the same.
    ///
    /// # Errors
    /// Errors of the system; the region is as it was.
    pub fn join(&mut self, memory: &NamelessMemory, offset: u64) -> io::Result<()> {
        memory.grow(offset + self.bytes as u64)?;
        self.shared = None;
        let note = SharedMemory::note(self.memory, self.bytes);
        // SAFETY: the region's own mapping.
        unsafe { memory.map_over(offset, self.memory, self.bytes) }?;
        self.shared = Some(note);
        Ok(())
    }

    /// This process only reads these bytes from now on. Of pages of the system that have other bytes as well nothing changes.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn protect(&self, bytes: Range<usize>) -> io::Result<()> {
        let page = page_bytes();
        let end = if bytes.end < self.bytes { bytes.end / page * page } else { self.bytes };
        let begin = bytes.start.next_multiple_of(page);
        let Some(len) = end.checked_sub(begin).filter(|len| *len > 0) else { return Ok(()) };
        // SAFETY: the region's own mapping. Who protects it writes nothing there.
        match unsafe { libc::mprotect(self.at(begin).as_ptr().cast(), len, libc::PROT_READ) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Zeros take the place of the file. No handle counts on what is in it.
    pub fn unshare(&mut self, path: &Path) -> file::Result<()> {
        // SAFETY: the region's own mapping.
        unsafe { map_zeros(self.memory.as_ptr(), self.bytes, libc::MAP_FIXED) }
            .map_err(|error| DeviceError::new(Operation::Map, path, error))?;
        self.shared = None;
        Ok(())
    }

    /// A word of 32 bits.
    ///
    /// # Safety
    /// The region is longer.
    pub unsafe fn word(&self, number: usize) -> &AtomicU32 {
        // SAFETY: by contract; a region is aligned, and lives as long as `self`.
        unsafe { &*self.memory.as_ptr().cast::<AtomicU32>().add(number) }
    }
}

#[cfg(test)]
impl Region {
    /// True if this process can write a byte of it, as the system says.
    pub fn is_writable(&self, offset: usize) -> bool {
        let address = self.at(offset).addr().get();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let found = maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (begin, end) = range.split_once('-')?;
            let [begin, end] = [begin, end].map(|text| usize::from_str_radix(text, 16).unwrap());
            (begin..end).contains(&address).then(|| rest.starts_with("rw"))
        });
        found.unwrap()
    }
}

/// Where a region lies, for one that does not have it.
#[derive(Clone, Copy)]
pub(crate) struct RegionPlace {
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address. Whoever uses it promises that the region is there.
unsafe impl Send for RegionPlace {}

impl RegionPlace {
    /// Zeros take the place of memory that several processes have, and that stays as it is. The region is noted as shared as before.
    ///
    /// # Safety
    /// The region is there, and its handle counts on nothing that is in it.
    pub unsafe fn leave(self) -> io::Result<()> {
        // SAFETY: the region's own mapping, by contract.
        unsafe { map_zeros(self.memory.as_ptr(), self.bytes, libc::MAP_FIXED) }.map(drop)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // First: the address may be another mapping's soon.
        self.shared = None;
        if !self.inherited {
            // SAFETY: mapped in `new` with this length, freed once.
            unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
        }
    }
}

/// Maps zeros.
///
/// # Safety
/// With `MAP_FIXED`, the memory is a mapping of the caller's that nobody counts on.
unsafe fn map_zeros(memory: *mut u8, bytes: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: the caller's promise.
    let mapped = unsafe { libc::mmap(memory.cast(), bytes, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(mapped.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Regions of so many bytes in one mapping, where a page of the system has so many: a file is mapped by whole pages.
pub(crate) fn regions_per_mapping(bytes: usize, page_bytes: usize) -> usize {
    page_bytes.div_ceil(bytes.max(1)).max(1)
}

/// Bytes of a page of the system.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: a question to the system.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{FileKind, Medium, OpenMode};
    use std::sync::atomic::Ordering;

    const BYTES: usize = 32768;

    #[test]
    fn a_region_is_aligned_zeros_and_is_cleared() {
        assert!(Region::new(0).is_none());
        let region = Region::new(BYTES).unwrap();
        assert!(region.at(0).addr().get().is_multiple_of(page_bytes()));
        // SAFETY: the region has 8192 words.
        let last = unsafe { region.word(8191) };
        assert_eq!(last.swap(7, Ordering::Relaxed), 0);
        region.clear();
        assert_eq!(last.load(Ordering::Relaxed), 0);
        // The parent's region is never freed by the child's copy.
        drop(region.inherit());
        assert_eq!(last.swap(8, Ordering::Relaxed), 0);
    }

    #[test]
    fn whole_pages_are_protected() {
        let (page, region) = (page_bytes(), Region::new(8 * LARGEST_PAGE).unwrap());
        let writable = || {
            let pages = 0..8 * LARGEST_PAGE / page;
            pages.filter(|number| region.is_writable(number * page)).collect::<Vec<_>>()
        };
        region.protect(1..page).unwrap();
        assert_eq!(writable().len(), 8 * LARGEST_PAGE / page, "other bytes are in that page");
        region.protect(0..page + 1).unwrap();
        region.protect(3 * page - 1..4 * page).unwrap();
        region.protect(6 * page..8 * LARGEST_PAGE).unwrap();
        assert_eq!(writable(), [1, 2, 4, 5]);
    }

    #[test]
    fn large_pages_hold_several_regions() {
        for (page, regions) in [(4096, 1), (16384, 1), (32768, 1), (65536, 2), (1 << 20, 32)] {
            assert_eq!(regions_per_mapping(BYTES, page), regions, "{page}");
        }
    }

    #[test]
    fn a_file_and_zeros_take_each_others_place_at_the_same_address() {
        let path = Path::new("/a.db-shm");
        let medium = SimMedium::new();
        let file = medium.open(path, FileKind::WalIndex, OpenMode::Create).unwrap();
        file.allocate(2 * BYTES as u64).unwrap();
        let [mut one, mut other] = [(); 2].map(|()| Region::new(BYTES).unwrap());
        // SAFETY: regions of so many words.
        let word = |region: &Region| unsafe { region.word(8191) }.load(Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { one.word(8191) }.store(5, Ordering::Relaxed);
        let address = one.at(0);
        one.share(&*file, BYTES as u64).unwrap();
        other.share(&*file, BYTES as u64).unwrap();
        assert_eq!(word(&one), 0, "the file's");
        // SAFETY: as above.
        unsafe { one.word(8191) }.store(6, Ordering::Relaxed);
        assert_eq!(word(&other), 6);
        one.unshare(path).unwrap();
        assert_eq!((word(&one), word(&other), one.at(0)), (0, 6, address));
        // SAFETY: as above.
        unsafe { one.word(8191) }.store(7, Ordering::Relaxed);
        assert_eq!(word(&other), 6);
    }

    #[test]
    fn a_forked_child_has_zeros_where_its_parent_shares_a_file() {
        crate::sync::forks::watch();
        let medium = SimMedium::new();
        let file = medium.open(Path::new("/a.db-shm"), FileKind::WalIndex, OpenMode::Create).unwrap();
        file.allocate(BYTES as u64).unwrap();
        let mut region = Region::new(BYTES).unwrap();
        region.share(&*file, 0).unwrap();
        // SAFETY: a word of the region.
        let word = unsafe { region.word(3) };
        word.store(9, Ordering::SeqCst);
        // SAFETY: the child calls nothing but what is allowed there.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                let seen = word.swap(4, Ordering::SeqCst);
                libc::_exit(seen as libc::c_int);
            }
            let mut status = -1;
            libc::waitpid(child, &raw mut status, 0);
            status
        };
        assert_eq!((libc::WEXITSTATUS(status), word.load(Ordering::SeqCst)), (0, 9));
    }
}
