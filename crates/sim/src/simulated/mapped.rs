//! Files that are mapped: their bytes lie in a file of the operating system, so that mappings of one share memory truly.
//!
//! # Invariant
//! What a store into a mapping has changed is recorded as a write before the next operation on the medium. So a power cut may
//! leave any of what the file had before each operation.

use super::{SimState, event::Event};
use litefoot_storage::file::{self, FileKind, Medium, OpenMode};
use litefoot_storage::os::OsMedium;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file of the operating system behind a file that is mapped. It has no name.
#[derive(Clone)]
pub(super) struct Mapped(Arc<dyn file::File>);

impl Mapped {
    fn of(bytes: &[u8]) -> file::Result<Mapped> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("litefoot-sim-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mapped = OsMedium.open(&path, FileKind::Temporary, OpenMode::CreateNew)?;
        OsMedium.delete(&path)?;
        mapped.write_at(bytes, 0)?;
        Ok(Mapped(mapped))
    }

    /// Writes what was written to the simulated file.
    pub fn write(&self, bytes: &[u8], offset: u64) -> file::Result<()> {
        self.0.write_at(bytes, offset)
    }

    /// Cuts or extends it as the simulated file.
    pub fn set_len(&self, len: u64) -> file::Result<()> {
        self.0.set_len(len)
    }

    /// # Safety
    /// As [`map_over`](file::File::map_over).
    pub unsafe fn map_over(&self, offset: u64, memory: NonNull<u8>, bytes: usize) -> file::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.0.map_over(offset, memory, bytes) }
    }
}

impl SimState {
    /// The file to map in the place of a simulated one.
    pub(super) fn mapped(&mut self, inode: usize) -> file::Result<Mapped> {
        let content = &mut self.files[inode];
        let mapped = match &content.mapped {
            Some(mapped) => mapped.clone(),
            None => Mapped::of(&content.bytes)?,
        };
        if content.mapped.is_none() {
            content.mapped = Some(mapped.clone());
            self.mapped_files.push(inode);
        }
        Ok(mapped)
    }

    /// Notes what was stored into mappings.
    pub(super) fn note_stores(&mut self) {
        for place in 0..self.mapped_files.len() {
            let inode = self.mapped_files[place];
            let Some(Mapped(mapped)) = &self.files[inode].mapped else { continue };
            let mut bytes = vec![0; self.files[inode].bytes.len()];
            let is_read = mapped.read_at(&mut bytes, 0).is_ok_and(|read| read == bytes.len());
            if is_read && bytes != self.files[inode].bytes {
                let time = self.change(inode);
                self.files[inode].bytes.copy_from_slice(&bytes);
                if !self.unrecorded {
                    self.events.push(Event::Write { inode, offset: 0, bytes: bytes.into(), time });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Random, SimMedium};
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    const BYTES: usize = 65536;

    struct Memory(NonNull<u8>);

    impl Memory {
        fn new() -> Memory {
            let layout = std::alloc::Layout::from_size_align(BYTES, BYTES).unwrap();
            // SAFETY: the layout has a size. The memory is mapped over, and so it is never given back.
            Memory(NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap())
        }

        fn map(&self, file: &dyn file::File) {
            // SAFETY: this test's own whole pages.
            unsafe { file.map_over(0, self.0, BYTES) }.unwrap();
        }

        fn store(&self, byte: u8) {
            // SAFETY: this test's own memory.
            unsafe { self.0.add(700).write_volatile(byte) };
        }

        fn load(&self) -> u8 {
            // SAFETY: as above.
            unsafe { self.0.add(700).read_volatile() }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps files")]
    fn what_is_stored_is_shared_read_and_lost_in_a_power_cut_or_not() {
        let medium = SimMedium::new();
        let path = Path::new("/a-shm");
        let [one, other] = [(); 2].map(|()| medium.open(path, FileKind::WalIndex, OpenMode::Create).unwrap());
        medium.sync_directory(Path::new("/")).unwrap();
        one.allocate(BYTES as u64).unwrap();
        one.sync().unwrap();
        let (a, b) = (Memory::new(), Memory::new());
        a.map(&*one);
        b.map(&*other);
        a.store(7);
        assert_eq!(b.load(), 7);
        let mut byte = [0];
        other.read_at(&mut byte, 700).unwrap();
        assert_eq!(byte, [7]);
        other.write_at(&[8], 700).unwrap();
        assert_eq!(a.load(), 8);
        b.store(9);
        let left = (0..200).map(|seed| medium.cut(&mut Random::new(seed)).files().remove(0).2[700]);
        assert_eq!(left.collect::<BTreeSet<_>>(), [0, 7, 8, 9].into());
        assert_eq!(medium.copy().files()[0].2[700], 9);
        one.set_len(0).unwrap();
        assert_eq!(medium.files()[0].2, []);
    }
}
