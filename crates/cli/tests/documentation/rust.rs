//! The Rust blocks of the documents, word for word: what compiles and runs here is what they show.

use litefoot_pagestore::store::{Database, Options};
use litefoot_storage::file::Medium;
use litefoot_storage::io::{IoConfig, IoQueue};
use litefoot_storage::os::OsMedium;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

const HERE: &str = include_str!("rust.rs");

/// True if these lines stand in this file, one after the other, whatever their indentation.
pub fn is_compiled(text: &str) -> bool {
    let wanted: Vec<_> = text.lines().map(str::trim).collect();
    let here: Vec<_> = HERE.lines().map(str::trim).collect();
    here.windows(wanted.len()).any(|lines| lines == wanted)
}

#[rustfmt::skip]
fn engine(path: &Path) -> Result<(), Box<dyn Error>> {
    let medium: Arc<dyn Medium> = Arc::new(OsMedium::new());
    Database::create(&medium, path, 4096)?;
    let io = Arc::new(IoQueue::start(&IoConfig::default())?);
    let database = Database::open(&medium, path, io, &Options::default())?;
    let unit = database.unit()?;              // changes that no checkpoint takes apart
    let (page, mut bytes) = unit.alloc()?;    // zeros, pinned for writing
    bytes[..5].copy_from_slice(b"hello");
    drop(bytes);
    drop(unit);
    database.checkpoint()?;                   // durable from here on
    assert_eq!(&database.pin(page)?[..5], b"hello");

    let mut transaction = database.transaction()?;
    transaction.pin_mut(page)?[..5].copy_from_slice(b"never");
    drop(transaction);                        // or transaction.commit()
    assert_eq!(&database.pin(page)?[..5], b"hello");
    Ok(())
}

#[rustfmt::skip]
fn connection() -> Result<(), Box<dyn Error>> {
    let db = litefoot::Connection::open("app.db")?;    // derefs to rusqlite::Connection
    db.execute("CREATE TABLE IF NOT EXISTS reading(at INTEGER, celsius REAL)", [])?;
    db.execute("INSERT INTO reading VALUES (?1, ?2)", (1, 21.5))?;
    Ok(())
}

#[test]
fn the_rust_blocks_run() {
    let directory = tempfile::tempdir().unwrap();
    engine(&directory.path().join("app.store")).unwrap();
    // The only test of this program that works in the current directory.
    std::env::set_current_dir(directory.path()).unwrap();
    connection().unwrap();
    assert!(directory.path().join("app.db").exists());
}
