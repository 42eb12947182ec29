//! The open databases of one VFS, by file identity.
//!
//! Two paths, a link, a relative name: all reach the same [`Database`]. The identity is that of a
//! descriptor which stays open, so it cannot be reused while the entry lives.

use super::database::Database;
use crate::wal::Wal;
use litefoot_engine::device::FileId;
use litefoot_engine::sync::Mutex;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

/// The open databases.
#[derive(Default)]
pub struct Registry {
    open: Mutex<HashMap<FileId, Weak<Database>>>,
}

impl Registry {
    /// The open database of that identity, or the one that `create` makes.
    pub fn get_or_insert(&self, id: FileId, create: impl FnOnce() -> Database) -> Arc<Database> {
        let mut open = self.open.lock();
        if let Some(database) = open.get(&id).and_then(Weak::upgrade).filter(|db| db.is_of_this_process()) {
            return database;
        }
        open.retain(|_, database| database.strong_count() > 0);
        let database = Arc::new(create());
        open.insert(id, Arc::downgrade(&database));
        database
    }

    /// The open database whose log lies at `path`, and that log.
    pub fn wal_at(&self, path: &Path) -> Option<(Arc<Database>, Arc<Wal>)> {
        if !path.as_os_str().as_encoded_bytes().ends_with(b"-wal") {
            return None;
        }
        self.all().into_iter().find_map(|database| {
            let wal = database.wal().filter(|wal| wal.path() == path)?;
            Some((database, wal))
        })
    }

    /// The databases that are open now.
    pub fn all(&self) -> Vec<Arc<Database>> {
        let open = self.open.lock();
        open.values().filter_map(Weak::upgrade).collect()
    }
}
