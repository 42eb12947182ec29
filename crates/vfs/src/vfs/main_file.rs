//! A handle on a main database file.

use super::database::Database;
use super::handle::{Control, Handle, Handled, PragmaCall};
use super::lock::{HandleId, Level};
use super::session::Session;
use super::shm::HeldSlots;
use crate::abi::codes::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
use crate::error::{Error, Result, last_errno};
use crate::journal::Batcher;
use crate::memory::MakeMemory;
use litefoot_engine::log::redo::Durability;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;

/// One connection's handle on a database.
pub struct MainFile {
    database: Arc<Database>,
    session: Arc<Session>,
    id: HandleId,
    read_only: bool,
    batcher: Batcher,
    slots: HeldSlots,
    uses_shm: bool,
    persist_wal: bool,
    powersafe_overwrite: bool,
}

impl MainFile {
    /// A handle on `database`.
    pub fn new(
        database: Arc<Database>,
        memory: MakeMemory,
        read_only: bool,
        powersafe_overwrite: bool,
    ) -> MainFile {
        let id = database.new_handle();
        MainFile {
            session: Arc::new(Session::new(database.clone())),
            database,
            id,
            read_only,
            batcher: Batcher::new(memory),
            slots: HeldSlots::default(),
            uses_shm: false,
            persist_wal: false,
            powersafe_overwrite,
        }
    }

    fn check_writable(&self) -> Result<()> {
        if self.read_only { Err(Error::ReadOnly { path: self.database.path().to_owned() }) } else { Ok(()) }
    }

    fn pragma(&mut self, call: PragmaCall<'_>) -> Result<Handled> {
        let Some(name) = call.name.strip_prefix("litefoot_") else { return Ok(Handled::No) };
        *call.answer = Some(crate::pragma::answer(&self.database, name, call.value)?);
        Ok(Handled::Yes)
    }
}

fn get_or_set(flag: &mut bool, value: &mut c_int) {
    match *value {
        0 => *flag = false,
        set if set > 0 => *flag = true,
        _ => {}
    }
    *value = c_int::from(*flag);
}

impl Handle for MainFile {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.batcher.read(&self.session, buf, offset)
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        self.check_writable()?;
        self.batcher.write(&self.session, buf, offset)
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.check_writable()?;
        self.batcher.set_len(&self.session, len)
    }

    fn sync(&mut self) -> Result<()> {
        self.batcher.sync(&self.session)
    }

    fn size(&mut self) -> Result<u64> {
        match self.batcher.len() {
            Some(len) => Ok(len),
            None => self.database.file_len(),
        }
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.shm_unmap(false)?;
        self.batcher.close(&self.session);
        self.database.unlock(self.id, Level::None);
        self.database.leave()
    }

    fn lock(&mut self, to: Level) -> Result<()> {
        if to > Level::Shared {
            self.check_writable()?;
        }
        self.database.lock(self.id, to)?;
        if to == Level::Reserved {
            self.session.begin_writing();
        }
        Ok(())
    }

    fn unlock(&mut self, to: Level) -> Result<()> {
        if to < Level::Reserved {
            self.batcher.end(&self.session);
        }
        self.database.unlock(self.id, to);
        Ok(())
    }

    fn is_reserved(&mut self) -> Result<bool> {
        Ok(self.database.is_reserved())
    }

    fn control(&mut self, control: Control<'_>) -> Result<Handled> {
        match control {
            Control::LockState(state) => *state = self.database.level(self.id) as c_int,
            Control::LastErrno(errno) => *errno = last_errno(),
            Control::PersistWal(value) => get_or_set(&mut self.persist_wal, value),
            Control::PowersafeOverwrite(value) => get_or_set(&mut self.powersafe_overwrite, value),
            Control::HasMoved(moved) => {
                let there = self.database.medium().identity(self.database.path())?;
                *moved = c_int::from(there.is_none_or(|id| id != self.database.file().id()));
            }
            Control::SeveralFiles => self.batcher.go_classic(&self.session)?,
            Control::CommitDone => {
                self.batcher.commit(&self.session)?;
                self.session.completed.lock().take();
                if let Some(wal) = self.database.wal() {
                    wal.log(Durability::Buffered)?;
                }
            }
            Control::Pragma(call) => return self.pragma(call),
        }
        Ok(Handled::Yes)
    }

    fn characteristics(&self) -> c_int {
        if self.powersafe_overwrite { SQLITE_IOCAP_POWERSAFE_OVERWRITE } else { 0 }
    }

    fn session(&self) -> Option<&Arc<Session>> {
        Some(&self.session)
    }

    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Result<Option<NonNull<u8>>> {
        if !self.database.writable() {
            return Err(Error::ReadOnlyWal { path: self.database.path().to_owned() });
        }
        if !self.uses_shm {
            self.database.shm().join();
            self.uses_shm = true;
        }
        self.database.shm().map(region, bytes, extend).map_err(|()| Error::NoMemory)
    }

    fn shm_lock(&mut self, first: usize, count: usize, exclusive: bool) -> Result<()> {
        let taken = self.database.shm().lock(&mut self.slots, first, count, exclusive);
        if taken { Ok(()) } else { Err(Error::Busy) }
    }

    fn shm_unlock(&mut self, first: usize, count: usize) -> Result<()> {
        self.database.shm().unlock(&mut self.slots, first, count);
        Ok(())
    }

    fn shm_barrier(&mut self) {
        self.database.shm().barrier();
    }

    fn shm_unmap(&mut self, _delete: bool) -> Result<()> {
        if self.uses_shm {
            self.database.shm().leave(&mut self.slots);
            self.uses_shm = false;
        }
        Ok(())
    }
}
