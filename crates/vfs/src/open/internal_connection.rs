//! Internal connections: litefoot reaches SQLite through them from below.

use crate::error::{Error, Result};
use crate::ffi::connection::InternalConnection;
use crate::open::OpenDatabase;

impl OpenDatabase {
    /// A new connection of our own. Not while one of the application's has the database to itself: its index of
    /// the log is then its own, too.
    pub(crate) fn internal_connection(&self) -> Result<InternalConnection> {
        if self.locks.is_reserved() || self.db.shared().is_multi_process() {
            return Err(Error::Busy);
        }
        let host = self.host.as_ref().ok_or_else(|| Error::Refused("no way into SQLite".to_owned()))?;
        // It would be one to another file.
        if !self.db.has_its_name() {
            return Err(Error::Busy);
        }
        let connection =
            InternalConnection::open(host.api, &host.vfs, self.db.path()).map_err(Error::Refused)?;
        // SQLite opens the log with the first read, and takes a checkpoint before that for done.
        let read = connection.execute("SELECT count(*) FROM sqlite_schema");
        read.map_err(|_| Error::Refused(connection.message()))?;
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::database::DatabaseSetup;
    use crate::sync::lock_table::Level;
    use litefoot_sim::SimMedium;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn there_is_none_beside_others_or_without_a_way_into_sqlite() {
        let setup = DatabaseSetup::of_test(Arc::new(SimMedium::new()), Path::new("/a.db"));
        let database = OpenDatabase::new(setup);
        assert!(matches!(database.internal_connection(), Err(Error::Refused(why)) if why.contains("no way")));
        let writer = database.locks().new_reader_slot();
        for level in [Level::Shared, Level::Reserved] {
            database.lock(&writer, level).unwrap();
        }
        assert!(matches!(database.internal_connection(), Err(Error::Busy)));
        database.unlock(&writer, Level::None);
        assert!(!matches!(database.internal_connection(), Err(Error::Busy)));
        database.db().shared().set_multi_process(true);
        assert!(
            matches!(database.internal_connection(), Err(Error::Busy)),
            "other processes have the database open"
        );
    }
}
