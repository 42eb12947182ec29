//! The common part of the tests of the pool.

use litefoot::{Options, Vfs};

pub fn parse(options: &str) -> Options {
    let mut parsed = Options::default();
    parsed.set_list(options).unwrap();
    parsed
}

/// A VFS over the system's files.
pub fn vfs(name: &str, options: &str) -> Vfs {
    Vfs::builder(name).options(parse(options)).register().unwrap()
}

/// Checks that the pages in memory equal those on the medium, and that nobody looks at any.
pub fn databases_agree(vfs: &Vfs) {
    for database in vfs.databases() {
        assert_eq!(database.wrong_pages(), [""; 0], "{}", database.db().path().display());
    }
}
