//! A pool that is made while somebody changes the file.

use crate::hooked::HookedMedium;
use crate::model::{check_all, fill, put, put_total};
use crate::support::{databases_agree, parse};
use litefoot::Vfs;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, LeaseAnswer, Medium, OpenMode};
use litefoot_vfs::open::OpenDatabase;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The database, and who has made its pool.
type Made = Arc<Mutex<(Option<Arc<OpenDatabase>>, Option<JoinHandle<()>>)>>;

/// Makes the pool and reads all pages ahead, at the last moment before the first page of a checkpoint is written.
fn make_pool(database: &OpenDatabase) {
    if let Some(pages) = database.pages().unwrap() {
        pages.pool().read_ahead(&(0..pages.pool().pages()).collect::<Vec<_>>());
        while pages.pool().is_reading() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_is_written_while_the_pool_is_made_is_in_it() {
    let sim = SimMedium::new();
    let builder = |name: &str| Vfs::builder(name).options(parse(""));
    let plain = builder("making-fill").medium(Arc::new(sim.clone())).register().unwrap();
    let db = plain.open("/app.db").unwrap();
    db.execute_batch("PRAGMA journal_mode=wal").unwrap();
    let mut rows = fill(&db, 200);
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    db.execute_batch("PRAGMA user_version=7; BEGIN").unwrap();
    for id in 1..=200 {
        put(&db, id, 2).unwrap();
        rows.insert(id, 2);
    }
    put_total(&db, &rows).unwrap();
    db.execute_batch("COMMIT").unwrap();
    // As after a crash: the log has all pages that the first connection needs, so that nothing makes a pool.
    let crashed = sim.copy();
    let made: Made = Arc::default();
    let hook = {
        let made = made.clone();
        move |kind: FileKind, _durable: bool| {
            let mut made = made.lock().unwrap();
            if kind != FileKind::Database || made.1.is_some() {
                return;
            }
            let Some(database) = made.0.take() else { return };
            assert!(database.known_pages().is_none(), "this is what the test is about");
            let maker = std::thread::spawn(move || make_pool(&database));
            // It may have to wait for the write; where it need not, it is done by then.
            let begun = std::time::Instant::now();
            while !maker.is_finished() && begun.elapsed() < Duration::from_millis(300) {
                std::thread::yield_now();
            }
            made.1 = Some(maker);
        }
    };
    let medium = HookedMedium { medium: crashed, hook: Arc::new(hook) };
    let vfs = builder("making").medium(Arc::new(medium)).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    made.lock().unwrap().0 = vfs.databases().pop();
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    let maker = made.lock().unwrap().1.take().unwrap();
    maker.join().unwrap();
    databases_agree(&vfs);
    check_all(&db, &rows);
}

/// Else the next opening would meet the last one as if it were another process.
#[test]
fn a_read_ahead_keeps_no_file_open_behind_the_last_close() {
    let medium = SimMedium::new();
    let vfs = Vfs::builder("making-closed").medium(Arc::new(medium.clone())).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    fill(&db, 400);
    drop(db);
    for _ in 0..100 {
        let db = vfs.open("/app.db").unwrap();
        db.execute_batch("SELECT count(*) FROM total").unwrap();
        let pages = vfs.databases().pop().unwrap().known_pages().unwrap();
        pages.pool().read_ahead(&(0..pages.pool().pages()).collect::<Vec<_>>());
        drop((pages, db));
        let file = medium.open(Path::new("/app.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
        assert!(matches!(file.take_lease(Arc::new(|| ())), LeaseAnswer::Granted));
    }
}
