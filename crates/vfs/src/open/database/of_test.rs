//! What tests begin with.

use crate::open::database::{Database, DatabaseSetup};
use crate::options::Options;
use crate::sync::lock_table::Level;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use std::path::Path;
use std::sync::Arc;

impl DatabaseSetup {
    /// A database with that path on a medium, as an ordinary open has it.
    pub(crate) fn of_test(medium: Arc<dyn Medium>, path: &Path) -> DatabaseSetup {
        let file = medium.open(path, FileKind::Database, OpenMode::Create).unwrap();
        DatabaseSetup {
            host: None,
            medium,
            file,
            path: path.to_owned(),
            options: Options::default(),
            writable: true,
            created: false,
            holds_back: true,
            pooled: false,
        }
    }
}

impl Database {
    /// A database that holds these bytes, and that somebody reads.
    pub(crate) fn of_test(bytes: &[u8]) -> Database {
        let setup = DatabaseSetup::of_test(Arc::new(SimMedium::new()), Path::new("/app.db"));
        setup.file.write_at(bytes, 0).unwrap();
        let database = Database::new(setup);
        database.lock(&database.sit(), Level::Shared).unwrap();
        database
    }
}
