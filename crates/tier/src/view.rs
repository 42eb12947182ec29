//! A file with its chunks, for reading alone: what a tool shows of a pair that nobody has open.
//!
//! Nothing is written or locked. Beside a process that uses the pair, what is read is of no one moment.

use super::error::Result;
use super::open::{look_at, tier_of};
use super::state::TierState;
use litefoot_storage::file::{self, DeviceError, File, Medium, Operation, Stamp};
use litefoot_storage::pass_on;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;

struct View {
    flash: Arc<dyn File>,
    state: TierState,
}

/// The file with its chunks; itself where all are home.
///
/// # Errors
/// The device is missing, foreign, stale or damaged; errors of reading.
pub fn view(flash: Arc<dyn File>, medium: &Arc<dyn Medium>) -> Result<Arc<dyn File>> {
    let Some(device) = tier_of(&*flash)? else { return Ok(flash) };
    Ok(match look_at(flash.clone(), medium, &device)? {
        Some(state) => Arc::new(View { flash, state }),
        None => flash,
    })
}

impl View {
    fn refuse(&self) -> file::Result<()> {
        Err(DeviceError::new(Operation::Write, self.flash.path(), ErrorKind::Unsupported.into()))
    }
}

impl File for View {
    pass_on!(flash: id, birth, path, lock_range, sync);

    fn read_at(&self, buf: &mut [u8], offset: u64) -> file::Result<usize> {
        self.state.read(buf, offset)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> file::Result<usize> {
        let mut done = 0;
        for buf in bufs {
            let count = self.state.read(buf, offset + done as u64)?;
            done += count;
            if count < buf.len() {
                break;
            }
        }
        Ok(done)
    }

    fn write_vectored_at(&self, _bufs: &[IoSlice<'_>], _offset: u64) -> file::Result<()> {
        self.refuse()
    }

    fn write_durable_at(&self, _bufs: &[IoSlice<'_>], _offset: u64) -> file::Result<()> {
        self.refuse()
    }

    fn stamp(&self) -> file::Result<Stamp> {
        self.state.stamp()
    }

    fn set_stamp(&self) -> file::Result<Stamp> {
        self.refuse()?;
        self.state.stamp()
    }

    fn len(&self) -> file::Result<u64> {
        self.state.len()
    }

    fn set_len(&self, _len: u64) -> file::Result<()> {
        self.refuse()
    }

    fn allocate(&self, _len: u64) -> file::Result<()> {
        self.refuse()
    }
}
