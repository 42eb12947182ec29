//! The memory of a process: each test runs in a process of its own, which has no other databases.

use crate::model::{check_all, check_snapshot, fill};
use crate::support::{databases_agree, vfs};
use crate::writer::open;
use litefoot::rusqlite::Connection;
use litefoot_testkit::files::copy_as_a_crash_leaves;
use litefoot_testkit::sqlite::{metric, stock};
use std::process::Command;

const MARK: &str = "LITEFOOT_TEST_OWN_PROCESS";

/// Runs `test` in a process of its own, which is this test again.
fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(MARK).is_some() {
        return test();
    }
    let name = format!("process::{name}");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

const MEGABYTE: i64 = 1 << 20;

#[test]
fn two_databases_share_one_budget_and_give_it_back() {
    alone("two_databases_share_one_budget_and_give_it_back", || {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one.db"), directory.path().join("two.db"));
        let vfs = vfs("budget", "buffer_pool_size=4M");
        let (first, second) = (open(&vfs, &one), open(&vfs, &two));
        let rows = [fill(&first, 9000), fill(&second, 9000)];
        let bytes = |db: &_| metric(db, "pool.bytes");
        check_snapshot(&first).unwrap();
        assert!(bytes(&first) > 3 * MEGABYTE, "{}", bytes(&first));
        for _ in 0..3 {
            check_snapshot(&second).unwrap();
            check_snapshot(&first).unwrap();
            let (one, two) = (bytes(&first), bytes(&second));
            assert!(one + two <= 4 * MEGABYTE, "{one} {two}");
            assert!(one.min(two) > 3 * MEGABYTE / 2, "{one} {two}");
        }
        let budget = vfs.databases()[0].db().memory().share().budget().clone();
        assert_eq!(budget.used() as i64, bytes(&first) + bytes(&second));
        databases_agree(&vfs);
        drop(second);
        check_snapshot(&first).unwrap();
        assert_eq!(budget.used() as i64, bytes(&first));
        assert!(bytes(&first) > 3 * MEGABYTE, "what the other had can be used again");
        drop(first);
        assert_eq!((budget.used(), vfs.databases().len()), (0, 0));
        for (path, rows) in [one, two].iter().zip(&rows) {
            check_all(&open(&vfs, path), rows);
            assert_eq!(budget.used(), 0);
        }
    });
}

/// Bytes of memory that were allocated and not freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn allocated() -> usize {
    // SAFETY: it only counts.
    let counts = unsafe { libc::mallinfo2() };
    counts.uordblks + counts.hblkhd
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_connection_costs_little() {
    alone("a_connection_costs_little", || {
        const CONNECTIONS: usize = 40;
        // SQLite itself takes 150 KiB once it has read the schema: lookaside slots, room for twenty pages, the schema.
        // Pages of the log that it reads come to that, as many as its own small cache takes.
        const MOST: usize = 176 << 10;
        let directory = tempfile::tempdir().unwrap();
        for mode in ["delete", "wal"] {
            let path = directory.path().join(mode);
            let vfs = vfs(&format!("costs-{mode}"), "buffer_pool_size=16M");
            let db = vfs.open(&path).unwrap();
            db.execute_batch(&format!("PRAGMA journal_mode={mode}")).unwrap();
            fill(&db, 6000);
            let read = |db: &Connection| {
                for sql in
                    ["SELECT sum(length(body)) FROM t", "SELECT sum(version) FROM t INDEXED BY i WHERE k > 0"]
                {
                    db.query_row(sql, [], |_| Ok(())).unwrap();
                }
            };
            read(&db);
            let before = allocated();
            let connections: Vec<_> = (0..CONNECTIONS).map(|_| vfs.open(&path).unwrap()).collect();
            connections.iter().for_each(read);
            let each = (allocated() - before) / CONNECTIONS;
            assert!(each < MOST, "{mode}: {each} bytes for each connection");
        }
    });
}

/// Another process changes a database while it is closed here.
#[test]
fn a_database_that_is_opened_again_is_read_anew() {
    alone("a_database_that_is_opened_again_is_read_anew", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let vfs = vfs("anew", "buffer_pool_size=8M");
        let mut rows = fill(&open(&vfs, &path), 500);
        for round in 2..6 {
            let db = open(&vfs, &path);
            let other = open(&vfs, &path);
            check_all(&db, &rows);
            check_all(&other, &rows);
            let budget = vfs.databases()[0].db().memory().share().budget().clone();
            assert!(budget.used() > 0);
            drop((db, other));
            assert_eq!(budget.used(), 0);
            // As another process would: by another VFS, with descriptors of its own.
            let db = stock(&path);
            for id in (round..500).step_by(3) {
                crate::model::put(&db, id, round).unwrap();
                rows.insert(id, round);
            }
            crate::model::put_total(&db, &rows).unwrap();
        }
        check_all(&open(&vfs, &path), &rows);
    });
}

#[test]
fn a_forked_child_has_a_pool_of_its_own() {
    alone("a_forked_child_has_a_pool_of_its_own", || {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("app.db"), directory.path().join("other.db"));
        let vfs = vfs("fork", "buffer_pool_size=8M");
        let db = open(&vfs, &path);
        let rows = fill(&db, 500);
        drop(fill(&open(&vfs, &other), 300));
        check_all(&db, &rows);
        let pinned = db.prepare("SELECT id FROM t").unwrap().query([]).unwrap().next().unwrap().is_some();
        assert!(pinned);
        let budget = vfs.databases()[0].db().memory().share().budget().clone();
        let used = budget.used();
        // SAFETY: the child goes on in this thread alone and ends itself; nobody else holds a lock that it needs.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let db = open(&vfs, &other);
                check_snapshot(&db).unwrap();
                let of_child =
                    vfs.databases().into_iter().find(|database| database.db().path() == other).unwrap();
                let own = of_child.db().memory().share().budget();
                assert!(own.used() > 0 && !std::sync::Arc::ptr_eq(own, &budget));
                assert_eq!(budget.used(), used);
                assert_eq!(of_child.wrong_pages(), [""; 0]);
                // The parent has this one.
                let inherited = db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
                assert_eq!(inherited, Ok(300));
            }));
            // SAFETY: nothing of the parent's is to be torn down here.
            unsafe { libc::_exit(i32::from(result.is_err())) }
        }
        let mut status = 0;
        // SAFETY: the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child has failed");
        check_all(&db, &rows);
        databases_agree(&vfs);
    });
}

/// A child that is forked while a transaction of the parent's has left memory, and that closes the connection.
#[test]
fn a_forked_child_leaves_a_large_transaction_alone() {
    alone("a_forked_child_leaves_a_large_transaction_alone", || {
        const ROWS: i64 = 400;
        let directory = tempfile::tempdir().unwrap();
        for mode in ["delete", "wal"] {
            let path = directory.path().join(mode);
            let vfs = vfs(&format!("fork-large-{mode}"), "write_buffer_size=256K&page_cleaner=foreground");
            let db = vfs.open(&path).unwrap();
            db.execute_batch(&format!(
                "PRAGMA journal_mode={mode}; PRAGMA cache_size=10; PRAGMA cache_spill=10"
            ))
            .unwrap();
            let put = |ids: std::ops::Range<i64>, version: i64| {
                let mut statement =
                    db.prepare_cached("INSERT OR REPLACE INTO t VALUES(?1, ?2, zeroblob(3000))").unwrap();
                ids.into_iter().for_each(|id| assert_eq!(statement.execute((id, version)), Ok(1)));
            };
            db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, version, body)").unwrap();
            db.execute_batch("BEGIN").unwrap();
            put(0..ROWS, 1);
            db.execute_batch("COMMIT").unwrap();
            // No thread of ours holds a lock when the child is forked.
            databases_agree(&vfs);
            db.execute_batch("BEGIN").unwrap();
            put(ROWS..2 * ROWS, 2);
            put(0..ROWS, 2);
            assert!(metric(&db, "spills") > 2, "{mode}: nothing was written ahead");
            // SAFETY: the child goes on in this thread alone and ends itself; nobody else holds a lock that it needs.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: the connection is the child's copy, and nothing of it is used afterwards.
                unsafe {
                    let wrote = db.execute("UPDATE t SET version = 3", []).is_ok();
                    let _ = db.execute_batch("ROLLBACK");
                    drop(std::ptr::read(&raw const db));
                    libc::_exit(i32::from(wrote))
                }
            }
            let mut status = 0;
            // SAFETY: the child is ours.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "{mode}: the child could write");
            db.execute_batch("COMMIT").unwrap();
            // As a crash would leave it, once no checkpoint is under way.
            databases_agree(&vfs);
            let copy = directory.path().join(format!("copy-{mode}"));
            copy_as_a_crash_leaves(&path, &copy);
            for db in [&db, &vfs.open(&copy).unwrap()] {
                let found: (i64, i64, String) = db
                    .query_row(
                        "SELECT count(*), total(version = 2), integrity_check FROM t, pragma_integrity_check",
                        [],
                        |row| Ok((row.get(0)?, row.get::<_, f64>(1)? as i64, row.get(2)?)),
                    )
                    .unwrap();
                assert_eq!(found, (2 * ROWS, 2 * ROWS, "ok".to_owned()), "{mode}");
            }
        }
    });
}
