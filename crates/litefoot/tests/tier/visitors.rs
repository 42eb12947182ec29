//! Other processes open a database with a tier: everything comes home for them, and leaves again behind them.

use super::*;
use litefoot::CommitLogForm;

fn with(medium: &SimMedium, commit_log: CommitLogForm) -> Vfs {
    let options = Options { commit_log, ..Options::default() };
    Vfs::builder(vfs_name("tier-visited"))
        .medium(Arc::new(medium.clone()))
        .options(options)
        .register()
        .unwrap()
}

/// Another program, on stock SQLite.
fn visitors(medium: &SimMedium) -> Vfs {
    Vfs::builder(vfs_name("tier-visitor"))
        .medium(Arc::new(medium.clone()))
        .pass_through(true)
        .register()
        .unwrap()
}

fn open(vfs: &Vfs, mode: &str) -> Connection {
    let db = vfs.open(TIERED).unwrap();
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
    db
}

/// Makes transactions until chunks are away; answers how many.
fn fill(medium: &SimMedium, db: &Connection) -> i64 {
    for made in 1..2000 {
        insert(db, 1);
        if made % 20 == 0 {
            db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        }
        if made > 60 && is_marked(medium) {
            return made;
        }
    }
    panic!("no chunk has left");
}

#[test]
fn a_visitor_finds_everything_at_home_and_chunks_leave_again_behind_it() {
    for mode in ["delete", "persist", "wal"] {
        for form in [CommitLogForm::Pages, CommitLogForm::Deltas, CommitLogForm::Auto] {
            let medium = SimMedium::new();
            let (vfs, stock_vfs) = (with(&medium, form), visitors(&medium));
            let (db, other) = (open(&vfs, mode), open(&vfs, mode));
            db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
            let mut rows = 0;
            for _ in 0..3 {
                rows += fill(&medium, &db);
                let visitor = stock_vfs.open(PLAIN).unwrap();
                assert!(!is_marked(&medium), "{mode} {form:?}");
                assert!(!there(&medium, "/fast/app.tier-redo") && !there(&medium, "/fast/app.tier-commits"));
                assert_eq!(count(&visitor), rows, "{mode} {form:?}");
                for connection in [&visitor, &db, &other, &visitor, &db] {
                    insert(connection, 7);
                    rows += 7;
                    for reader in [&visitor, &db, &other] {
                        assert_eq!(count(reader), rows, "{mode} {form:?}");
                    }
                }
                assert!(!is_marked(&medium), "{mode} {form:?}");
                visitor.execute_batch("DELETE FROM t WHERE id % 9 = 0; VACUUM").unwrap();
                rows = count(&visitor);
                drop(visitor);
                assert_eq!((count(&db), count(&other)), (rows, rows), "{mode} {form:?}");
            }
            rows += fill(&medium, &other);
            drop((db, other));
            assert_eq!((is_marked(&medium), stock(&medium).unwrap()), (false, rows), "{mode} {form:?}");
        }
    }
}

/// The application goes on as beside the visitor, until it can have the device.
#[test]
fn a_device_that_another_database_has_taken_meanwhile_is_waited_for() {
    for mode in MODES {
        let medium = SimMedium::new();
        let (vfs, stock_vfs) = (with(&medium, CommitLogForm::Pages), visitors(&medium));
        let db = open(&vfs, mode);
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        let mut rows = fill(&medium, &db);
        let visitor = stock_vfs.open(PLAIN).unwrap();
        assert_eq!(count(&visitor), rows);
        let borrower_vfs = with(&medium, CommitLogForm::Pages);
        let borrower = borrower_vfs
            .open("file:/db/other.db?tier=/fast/app.tier&tier_size=128k&tier_policy=lru")
            .unwrap();
        borrower.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        drop(visitor);
        insert(&db, 10);
        rows += 10;
        assert_eq!((count(&db), is_marked(&medium)), (rows, false), "{mode}");
        assert!(!vfs.databases()[0].is_owned(), "{mode}");
        drop(borrower);
        rows += fill(&medium, &db);
        assert!(vfs.databases()[0].is_owned() && count(&db) == rows, "{mode}");
    }
}

/// Two processes of litefoot come at once behind a crash: the device has chunks, and the logs commits.
#[test]
fn what_a_crash_has_left_on_the_device_comes_home_before_two_processes_go_on() {
    for mode in MODES {
        let medium = SimMedium::new();
        let vfs = with(&medium, CommitLogForm::Pages);
        let db = open(&vfs, mode);
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        let rows = fill(&medium, &db);
        insert(&db, 3);
        let left = killed(&medium);
        assert!(is_marked(&left), "{mode}");
        // Stock SQLite has the file open, and refuses it.
        let early = visitors(&left).open(PLAIN);
        let next = with(&left, CommitLogForm::Pages);
        let first = next.open(TIERED).unwrap();
        assert_eq!((count(&first), is_marked(&left)), (rows + 3, false), "{mode}");
        assert!(!next.databases()[0].is_owned(), "{mode}");
        if let Ok(early) = early {
            assert_eq!(count(&early), rows + 3, "{mode}");
        }
    }
}
