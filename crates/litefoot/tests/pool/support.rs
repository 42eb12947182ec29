//! What the tests of the pool share.

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

/// What is in memory is what is on the medium, and nobody looks at anything.
pub fn databases_agree(vfs: &Vfs) {
    for database in vfs.databases() {
        assert_eq!(database.wrong_pages(), [""; 0], "{}", database.db().path().display());
    }
}
