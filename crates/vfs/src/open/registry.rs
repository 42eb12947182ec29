//! The open databases of one VFS, by file identity.
//!
//! Two paths, a link, a relative name: all reach the same [`OpenDatabase`]. The identity is that of a
//! descriptor which stays open, so it cannot be reused while the entry lives.

use crate::db::Companion;
use crate::db::companions;
use crate::open::OpenDatabase;
use litefoot_storage::file::FileId;
use litefoot_storage::sync::{AcrossFork, Global};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

/// The open databases.
pub struct Registry {
    /// Tells it from all others of the process.
    id: u64,
    open: Global<Open>,
}

/// The open databases, and those that the parent of a forked child had open.
#[derive(Default)]
struct Open {
    databases: HashMap<FileId, Weak<OpenDatabase>>,
    inherited: HashMap<FileId, Weak<OpenDatabase>>,
}

impl AcrossFork for Open {
    fn inherit(parents: Open) -> Open {
        let mut inherited = parents.inherited;
        inherited.extend(parents.databases);
        Open { databases: HashMap::new(), inherited }
    }
}

impl Default for Registry {
    fn default() -> Registry {
        Registry { id: companions::note_opened(), open: Global::default() }
    }
}

impl Registry {
    /// The open database of that identity, or the one that `create` makes.
    pub fn get_or_insert(&self, id: FileId, create: impl FnOnce() -> OpenDatabase) -> Arc<OpenDatabase> {
        let mut open = self.open.lock();
        if let Some(database) = open.databases.get(&id).and_then(Weak::upgrade) {
            return database;
        }
        open.databases.retain(|_, database| database.strong_count() > 0);
        let database = Arc::new(create());
        database.set_shared();
        if let Some(parents) = open.inherited.get(&id).and_then(Weak::upgrade) {
            database.wal_index().adopt(parents.wal_index());
            std::mem::forget(parents);
        }
        open.databases.insert(id, Arc::downgrade(&database));
        companions::note_opened();
        database
    }

    /// Whether the database of that identity is open, here or in the parent of this process.
    pub fn has(&self, id: FileId) -> bool {
        let open = self.open.lock();
        [&open.databases, &open.inherited]
            .into_iter()
            .any(|databases| databases.get(&id).is_some_and(|database| database.strong_count() > 0))
    }

    /// What tells it from others: threads remember by it what `companions::lacks` answers.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The open database whose log or journal would have that path, and which of them it is. Of several whose path it was,
    /// the one that has the path now.
    pub fn companion_at(&self, path: &Path) -> Option<(Arc<OpenDatabase>, Companion)> {
        let opened = companions::opened();
        let (base, companion) = base_of(path)?;
        let mut databases = self.all();
        databases.retain(|db| db.db().path().as_os_str().as_encoded_bytes() == base);
        if databases.len() > 1
            && let Some(there) = databases.iter().position(|db| db.db().has_its_name())
        {
            databases.swap(0, there);
        }
        let database = databases.into_iter().next()?;
        companions::remember(self.id, opened, path, companion, database.db().companions());
        Some((database, companion))
    }

    /// The other databases that were opened by the path of this one.
    pub fn all_at(&self, database: &Arc<OpenDatabase>) -> Vec<Arc<OpenDatabase>> {
        let mut others = self.all();
        others.retain(|other| !Arc::ptr_eq(other, database) && other.db().path() == database.db().path());
        others
    }

    /// The databases that are open now.
    pub fn all(&self) -> Vec<Arc<OpenDatabase>> {
        let open = self.open.lock();
        open.databases.values().filter_map(Weak::upgrade).collect()
    }

    /// Whether a path is that of a companion of a database which a connection has that this process was forked with, and
    /// which it has not opened itself: it is the parent's.
    pub fn is_inherited(&self, path: &Path) -> bool {
        let Some((base, _)) = base_of(path) else { return false };
        let open = self.open.lock();
        open.inherited.iter().any(|(id, database)| {
            let is_it = |db: Arc<OpenDatabase>| db.db().path().as_os_str().as_encoded_bytes() == base;
            open.databases.get(id).is_none_or(|own| own.strong_count() == 0)
                && database.upgrade().is_some_and(is_it)
        })
    }
}

/// The path of the database that a companion with this path would belong to, and which it would be.
fn base_of(path: &Path) -> Option<(&[u8], Companion)> {
    let name = path.as_os_str().as_encoded_bytes();
    [Companion::Wal, Companion::Journal]
        .into_iter()
        .find_map(|companion| Some((name.strip_suffix(companion.suffix().as_bytes())?, companion)))
}
