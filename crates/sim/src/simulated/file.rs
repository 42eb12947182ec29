//! An open file of a simulated medium.
//!
//! # Invariant
//! What a call does to the bytes and its record are made under one lock: the record has the order in which the calls took effect. A
//! planted fault strikes before either.

use super::event::{Event, Inode};
use super::{SimMedium, SyncSite};
use litefoot_storage::file::{
    DeviceError, File, FileId, Guarantees, LeaseAnswer, OnBreak, Operation, RangeLock, Result, Stamp,
};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

/// An open file.
pub(super) struct SimFile {
    pub(super) medium: SimMedium,
    pub(super) inode: Inode,
    pub(super) handle: u64,
    pub(super) path: PathBuf,
    pub(super) writable: bool,
}

impl SimFile {
    fn write(&self, bufs: &[IoSlice<'_>], offset: u64, durable: bool) -> Result<()> {
        if !self.writable {
            let error = io::ErrorKind::PermissionDenied.into();
            return Err(DeviceError::new(Operation::Write, &self.path, error));
        }
        let bytes: Arc<[u8]> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let mut state = self.medium.state();
        let end = offset + bytes.len() as u64;
        let growth = end.saturating_sub(state.files[self.inode].bytes.len() as u64);
        state.fault(Operation::Write, self.inode, &self.path, growth)?;
        if durable {
            state.fault(Operation::Sync, self.inode, &self.path, 0)?;
        }
        let kind = state.files[self.inode].kind;
        let really_durable = durable && !state.faults.ignores(SyncSite::File(kind));
        state.write(self.inode, offset, &bytes);
        let inode = self.inode;
        let time = state.change(inode);
        state.record(if really_durable {
            Event::WriteDurable { inode, offset, bytes, time }
        } else {
            Event::Write { inode, offset, bytes, time }
        });
        Ok(())
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut state = self.medium.state();
        state.fault(Operation::Read, self.inode, &self.path, 0)?;
        state.note_stores();
        let bytes = &state.files[self.inode].bytes;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let count = buf.len().min(bytes.len() - start);
        buf[..count].copy_from_slice(&bytes[start..start + count]);
        Ok(count)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.write(bufs, offset, false)
    }

    fn write_durable_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.write(bufs, offset, true)
    }

    fn write_atomic_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let torn = self.medium.state().faults.torn_atomic_writes;
        self.write_durable_at(&[IoSlice::new(bytes)], offset)?;
        let mut state = self.medium.state();
        if let Some(Event::WriteDurable { inode, offset, bytes, time }) = state.events.pop_if(|_| !torn) {
            state.events.push(Event::WriteAtomic { inode, offset, bytes, time });
        }
        Ok(())
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees { atomic_write_bytes: self.medium.state().atomic_write_bytes }
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.medium.state();
        state.fault(Operation::Sync, self.inode, &self.path, 0)?;
        let kind = state.files[self.inode].kind;
        if !state.faults.ignores(SyncSite::File(kind)) {
            state.record(Event::Sync { inode: self.inode });
        }
        Ok(())
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(self.medium.state().stamp(self.inode))
    }

    fn set_stamp(&self) -> Result<Stamp> {
        let mut state = self.medium.state();
        let inode = self.inode;
        let time = state.clock.set();
        state.files[inode].time = time;
        state.record(Event::SetTime { inode, time });
        state.fault(Operation::Sync, inode, &self.path, 0)?;
        let kind = state.files[inode].kind;
        if !state.faults.ignores(SyncSite::File(kind)) {
            state.record(Event::SyncAll { inode });
        }
        Ok(state.stamp(inode))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.medium.state().files[self.inode].bytes.len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.medium.state();
        let growth = len.saturating_sub(state.files[self.inode].bytes.len() as u64);
        state.fault(Operation::SetLength, self.inode, &self.path, growth)?;
        state.note_stores();
        state.files[self.inode].bytes.resize(len as usize, 0);
        if let Some(mapped) = &state.files[self.inode].mapped {
            mapped.set_len(len)?;
        }
        let time = state.change(self.inode);
        state.record(Event::SetLen { inode: self.inode, len, time });
        Ok(())
    }

    fn allocate(&self, len: u64) -> Result<()> {
        if self.len()? < len { self.set_len(len) } else { Ok(()) }
    }

    fn id(&self) -> FileId {
        FileId {
            device: Arc::as_ptr(&self.medium.state) as u64,
            inode: self.medium.state().files[self.inode].birth,
        }
    }

    fn birth(&self) -> Result<u64> {
        let mut state = self.medium.state();
        state.fault(Operation::Info, self.inode, &self.path, 0)?;
        Ok(state.files[self.inode].birth)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn lock_range(&self, offset: u64, len: u64, lock: RangeLock) -> Result<bool> {
        if lock == RangeLock::Exclusive && !self.writable {
            // As the system: EBADF.
            return Err(DeviceError::new(Operation::Lock, &self.path, io::Error::from_raw_os_error(9)));
        }
        Ok(self.medium.state().files[self.inode].locks.set(self.handle, offset..offset + len, lock))
    }

    fn is_locked(&self, offset: u64, len: u64, wanted: RangeLock) -> Result<bool> {
        let state = self.medium.state();
        Ok(state.files[self.inode].locks.blocks(self.handle, &(offset..offset + len), wanted))
    }

    unsafe fn map_over(&self, offset: u64, memory: NonNull<u8>, bytes: usize) -> Result<()> {
        let mut state = self.medium.state();
        state.fault(Operation::Map, self.inode, &self.path, 0)?;
        let mapped = state.mapped(self.inode)?;
        drop(state);
        // SAFETY: the caller's promise.
        unsafe { mapped.map_over(offset, memory, bytes) }
    }

    fn take_lease(&self, on_break: OnBreak) -> LeaseAnswer {
        self.take(on_break)
    }

    fn release_lease(&self) {
        self.give_back();
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.give_back();
        let mut state = self.medium.state();
        state.files[self.inode].locks.drop_all(self.handle);
        state.files[self.inode].handles -= 1;
        state.free_if_gone(self.inode);
    }
}
