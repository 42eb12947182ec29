//! A main database handle in a forked child: one of the child's own takes the place of the inherited one.

use crate::error::{Error, Result};
use crate::files::handle::Handle;
use crate::files::main_db::MainFile;
use crate::files::vfs::Vfs;
use crate::sync::lock_table::Level;
use std::sync::atomic::Ordering;

impl MainFile {
    /// In a forked child: a handle of this process's own in place of this inherited one, whose connection is in no
    /// transaction. SQLite goes on as if another process had written meanwhile.
    pub fn in_this_process(&self, vfs: &Vfs) -> Result<MainFile> {
        if !self.is_idle() {
            return Err(Error::Forked { path: self.database.db().path().to_owned() });
        }
        let database = vfs.open_again(&self.database)?;
        if self.uses_wal_index && !database.wal_index().has_adopted(self.database.wal_index()) {
            return Err(Error::Forked { path: self.database.db().path().to_owned() });
        }
        let unlocked = self.connection.unlocked;
        let mut new = MainFile::new(database, self.read_only, self.powersafe_overwrite, unlocked);
        let receives_file_controls = self.connection.receives_file_controls.load(Ordering::Relaxed);
        new.connection.receives_file_controls.store(receives_file_controls, Ordering::Relaxed);
        new.persist_wal = self.persist_wal;
        new.connection.inherit(&self.connection);
        if self.uses_wal_index {
            new.database.wal_index().join_again();
            new.database.wal_index().note_application(true);
            new.uses_wal_index = true;
            if let Err(error) = new.read_by_slots(vfs) {
                Box::new(new).close()?;
                return Err(error);
            }
        }
        let _ = self.connection.successor.set(new.connection.clone());
        Ok(new)
    }

    /// Has what a connection in WAL mode has between its transactions.
    fn read_by_slots(&mut self, vfs: &Vfs) -> Result<()> {
        let spill = vfs.provide_spill(&self.database);
        self.database.lock(&self.connection.reader_slot, Level::Shared)?;
        // Until it counts as idle, the state does not change. Beside other processes its log is the file.
        if !self.is_beside_others() {
            self.database.wal_or_open(spill)?;
        }
        self.connection.reader_slot.set_by_slots(true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::vfs::VfsSetup;
    use crate::open::OpenDatabase;
    use crate::open::database::DatabaseSetup;
    use crate::options::Options;
    use litefoot_sim::SimMedium;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn an_inherited_connection_has_a_log_in_memory_only_where_this_process_is_the_owner() {
        for multi_process in [false, true] {
            let medium = Arc::new(SimMedium::new());
            let vfs = Vfs::new(VfsSetup {
                name: "forked".to_owned(),
                medium: medium.clone(),
                defaults: Options::default(),
                pass_through: false,
                keeps_logs: false,
            });
            let database = OpenDatabase::new(DatabaseSetup::of_test(medium, Path::new("/app.db")));
            let mut file = MainFile::new(Arc::new(database), false, true, false);
            file.database.db().shared().set_multi_process(multi_process);
            file.read_by_slots(&vfs).unwrap();
            assert_eq!(file.database.wal().is_none(), multi_process);
        }
    }
}
