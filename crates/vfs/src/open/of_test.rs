//! The setup that tests begin with.

use crate::open::database::DatabaseSetup;
use crate::options::Options;
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
            kept_logs: None,
        }
    }
}
