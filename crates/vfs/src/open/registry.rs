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
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The time between two looks of a thread that waits for another one's opening of the same path.
const GLANCE: Duration = Duration::from_micros(50);

/// The open databases.
pub struct Registry {
    /// Tells it from all others of the process.
    id: u64,
    open: Global<Open>,
    opening: Global<Paths>,
}

/// The paths that threads open just now. Those of a parent's threads are none of its child's.
#[derive(Default)]
struct Paths(Vec<PathBuf>);

impl AcrossFork for Paths {
    fn inherit(_parents: Paths) -> Paths {
        Paths::default()
    }
}

/// The opening of a path by one thread; others wait until it is dropped.
pub struct Opening<'a> {
    opening: &'a Global<Paths>,
    path: PathBuf,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.opening.lock().0.retain(|path| *path != self.path);
    }
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
        Registry { id: companions::note_opened(), open: Global::default(), opening: Global::default() }
    }
}

impl Registry {
    /// Waits until no other thread opens that path, and lets none begin. Else two threads would open a file at once, and
    /// the second description would be company to the first.
    pub fn begin_opening(&self, path: &Path) -> Opening<'_> {
        loop {
            if let Some(opening) = self.try_begin_opening(path) {
                return opening;
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// The same; `None` where another thread is at it for so long. It may wait for the lease of an open file that this process keeps.
    pub fn begin_opening_within(&self, path: &Path, patience: Duration) -> Option<Opening<'_>> {
        let begun = Instant::now();
        loop {
            let opening = self.try_begin_opening(path);
            if opening.is_some() || begun.elapsed() >= patience {
                return opening;
            }
            std::thread::sleep(GLANCE);
        }
    }

    fn try_begin_opening(&self, path: &Path) -> Option<Opening<'_>> {
        let mut opening = self.opening.lock();
        let is_free = !opening.0.iter().any(|other| other == path);
        is_free.then(|| {
            opening.0.push(path.to_owned());
            Opening { opening: &self.opening, path: path.to_owned() }
        })
    }

    /// The open database of that identity.
    pub fn get(&self, id: FileId) -> Option<Arc<OpenDatabase>> {
        self.open.lock().databases.get(&id).and_then(Weak::upgrade)
    }

    /// The next opening of its file makes another one of a database that has no connection.
    pub fn forget(&self, database: &OpenDatabase) {
        self.open.lock().databases.retain(|_, other| !std::ptr::eq(other.as_ptr(), database));
    }

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

    /// True if the database of that identity is open, here or in the parent of this process.
    pub fn has(&self, id: FileId) -> bool {
        let open = self.open.lock();
        [&open.databases, &open.inherited]
            .into_iter()
            .any(|databases| databases.get(&id).is_some_and(|database| database.strong_count() > 0))
    }

    /// The number that tells it from others: threads remember by it what `companions::lacks` answers.
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

    /// The same for a name of the database that it was not opened by first: a hard link. `identify` looks a path up.
    pub fn companion_of_link(
        &self,
        path: &Path,
        identify: impl FnOnce(&Path) -> Option<FileId>,
    ) -> Option<(Arc<OpenDatabase>, Companion)> {
        let (base, companion) = base_of(path)?;
        let database = self.get(identify(Path::new(OsStr::from_bytes(base)))?)?;
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

    /// True if a path is a companion file's of a database that the parent process had open at the fork. This process
    /// has not opened that database itself.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::database::DatabaseSetup;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::Medium;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn one_identity_is_one_open_database_until_it_is_closed() {
        let registry = Registry::default();
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let (made, path) = (Cell::new(0), Path::new("/a.db"));
        let create = || {
            made.set(made.get() + 1);
            OpenDatabase::new(DatabaseSetup::of_test(medium.clone(), path))
        };
        let id = FileId { device: 1, inode: 2 };
        let first = registry.get_or_insert(id, create);
        assert!(Arc::ptr_eq(&first, &registry.get_or_insert(id, create)) && registry.has(id));
        assert!(registry.get(id).is_some_and(|found| Arc::ptr_eq(&first, &found)));
        let other = registry.get_or_insert(FileId { device: 1, inode: 3 }, create);
        assert!(!Arc::ptr_eq(&first, &other));
        assert_eq!((made.get(), registry.all_at(&first).len()), (2, 1));
        drop((first, other));
        assert!(!registry.has(id) && registry.get(id).is_none() && registry.all().is_empty());
        let again = registry.get_or_insert(id, create);
        assert!(registry.has(id) && made.get() == 3);
        drop(again);
    }

    #[test]
    fn one_thread_at_a_time_opens_a_path() {
        let registry = Registry::default();
        let (path, inside) = (Path::new("/a.db"), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let opening = registry.begin_opening(path);
                        let _other = registry.begin_opening(Path::new("/b.db"));
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(opening);
                    }
                });
            }
        });
    }

    #[test]
    fn a_companion_is_found_by_the_path_of_its_database() {
        let registry = Registry::default();
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let setup = DatabaseSetup::of_test(medium, Path::new("/a.db"));
        let database = registry.get_or_insert(setup.file.id(), || OpenDatabase::new(setup));
        for (path, companion) in [("/a.db-wal", Companion::Wal), ("/a.db-journal", Companion::Journal)] {
            let (found, which) = registry.companion_at(Path::new(path)).unwrap();
            assert!(Arc::ptr_eq(&found, &database) && which == companion);
        }
        for path in ["/a.db", "/b.db-wal", "/a.db-commits", "/a.db-wal-wal", "/a.db-shm"] {
            assert!(registry.companion_at(Path::new(path)).is_none(), "{path}");
        }
        for (id, is_found) in [(database.db().file().id(), true), (FileId { device: 9, inode: 9 }, false)] {
            let linked = |path: &Path| (path == Path::new("/link.db")).then_some(id);
            let found = registry.companion_of_link(Path::new("/link.db-journal"), linked);
            assert_eq!(found.is_some_and(|(found, _)| Arc::ptr_eq(&found, &database)), is_found);
        }
        assert!(!registry.is_inherited(Path::new("/a.db-wal")), "this process is nobody's child");
    }
}
