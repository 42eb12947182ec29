//! Internal connections: litefoot reaches SQLite through them from below.

use crate::error::{Error, Result};
use crate::ffi::connection::InternalConnection;
use crate::open::OpenDatabase;

impl OpenDatabase {
    /// A new connection of our own. Not while one of the application's has the database to itself: its index of
    /// the log is then its own, too.
    pub(crate) fn internal_connection(&self) -> Result<InternalConnection> {
        if self.locks.is_reserved() {
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
