//! The database that tests begin with.

use super::{Access, Db, DbSetup, KeptLogs};
use crate::options::Options;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use std::path::Path;
use std::sync::Arc;

impl Db {
    /// A database that this process owns, and that holds these bytes.
    pub(crate) fn of_test(bytes: &[u8]) -> Db {
        Db::of_test_on(&SimMedium::new(), bytes)
    }

    /// The same on a medium that the test looks at.
    pub(crate) fn of_test_on(medium: &SimMedium, bytes: &[u8]) -> Db {
        let file = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap();
        file.write_at(bytes, 0).unwrap();
        Db::opened_on(medium)
    }

    /// The database that is on a medium.
    pub(crate) fn opened_on(medium: &SimMedium) -> Db {
        Db::opened_with(medium, None)
    }

    /// The same, whose closes may keep logs.
    pub(crate) fn opened_with(medium: &SimMedium, kept_logs: Option<Arc<KeptLogs>>) -> Db {
        let path = Path::new("/app.db");
        let file = medium.open(path, FileKind::Database, OpenMode::ReadWrite).unwrap();
        let len = file.len().unwrap();
        let db = Db::new(DbSetup {
            medium: Arc::new(medium.clone()),
            file,
            path: path.to_owned(),
            options: Options::default(),
            access: Access { writable: true, created: false, holds_back: true, pooled: false },
            build: None,
            redo_log: Arc::default(),
            kept_logs,
        });
        db.shared().set_owned(true);
        db.file_end().set_committed_len(len);
        db
    }
}
