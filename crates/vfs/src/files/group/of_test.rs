//! The setup that tests of the group begin with.

use crate::files::vfs::{Vfs, VfsSetup};
use crate::open::OpenDatabase;
use crate::open::database::DatabaseSetup;
use crate::options::Options;
use litefoot_sim::SimMedium;
use litefoot_storage::file::Medium;
use std::path::Path;
use std::sync::Arc;

/// A VFS over a medium.
pub(super) fn vfs_on(medium: Arc<dyn Medium>) -> Arc<Vfs> {
    Arc::new(Vfs::new(VfsSetup {
        name: "group".to_owned(),
        medium,
        defaults: Options::default(),
        pass_through: false,
        keeps_logs: false,
    }))
}

/// An owner that members may come to.
pub(super) fn group_on(medium: &SimMedium) -> (Arc<Vfs>, Arc<OpenDatabase>) {
    let medium = Arc::new(medium.clone());
    let vfs = vfs_on(medium.clone());
    let setup = DatabaseSetup::of_test(medium, Path::new("/app.db"));
    let database = vfs.databases.get_or_insert(setup.file.id(), || OpenDatabase::new(setup));
    database.db().shared().begin_board(database.wal_index().begin_group().unwrap());
    database.own().unwrap();
    (vfs, database)
}
