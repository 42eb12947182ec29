//! Members whose transactions do not fit their caches, beside readers of other processes.

use crate::kit::{Process, create, open};
use litefoot::rusqlite::{Connection, ErrorCode, ffi};
use litefoot_testkit::sqlite::metric_or_zero;
use std::ffi::c_int;
use std::time::{Duration, Instant};

const ROWS: i64 = 80;

/// How many pages SQLite has tried to write before a commit.
fn spills(db: &Connection) -> i64 {
    let (mut current, mut most): (c_int, c_int) = (0, 0);
    // SAFETY: the connection is open, and both numbers can be written.
    unsafe {
        ffi::sqlite3_db_status(db.handle(), ffi::SQLITE_DBSTATUS_CACHE_SPILL, &mut current, &mut most, 0)
    };
    current.into()
}

#[test]
fn a_spill_beside_a_reader_seldom_asks_the_owner_and_a_commit_does_each_time() {
    for mode in ["delete", "truncate", "persist"] {
        let directory = tempfile::tempdir().unwrap();
        let (path, _owners_vfs, owner) = create(&directory, mode);
        owner
            .execute_batch(&format!(
                "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {ROWS}) \
                 INSERT INTO t SELECT 1, i, zeroblob(3000) FROM c"
            ))
            .unwrap();
        let mut reader = Process::start("obey", &path, 1);
        let (_vfs, member) = open(&path);
        member.busy_timeout(Duration::ZERO).unwrap();
        let sum = |db: &Connection| -> i64 {
            db.query_row("SELECT sum(length(data)) FROM t", [], |row| row.get(0)).unwrap()
        };
        member.execute_batch("PRAGMA cache_size=5; CREATE TEMP TABLE own(data)").unwrap();
        assert_eq!(sum(&member), ROWS * 3000);
        for (begins, bytes) in [(true, 3001), (false, 3002)] {
            reader.run("BEGIN; SELECT count(*) FROM t");
            let (calls, spilled, begun) =
                (metric_or_zero(&owner, "member_calls"), spills(&member), Instant::now());
            let update = format!("UPDATE t SET data = zeroblob({bytes})");
            if begins {
                member.execute_batch(&format!("BEGIN; {update}")).unwrap();
            } else {
                let refused = member.execute_batch(&update).unwrap_err();
                assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{mode}");
            }
            let (spilled, took) = (spills(&member) - spilled, begun.elapsed());
            let calls = metric_or_zero(&owner, "member_calls") - calls;
            // One refusal counts for 5 ms.
            let most = 20 + took.as_millis() as i64 / 5;
            assert!(spilled > ROWS / 2 && calls < most, "{mode}, {begins}: {calls} calls, {spilled} spills");
            if begins {
                // A COMMIT right behind spills of another file.
                member.execute_batch("INSERT INTO own SELECT randomblob(3000) FROM t").unwrap();
                let calls = metric_or_zero(&owner, "member_calls");
                assert!(member.execute_batch("COMMIT").is_err(), "{mode}: somebody reads");
                assert!(metric_or_zero(&owner, "member_calls") > calls, "{mode}: it has been asked");
            }
            reader.run("COMMIT");
            member.execute_batch(if begins { "COMMIT" } else { &update }).unwrap();
            assert_eq!((sum(&owner), sum(&member)), (ROWS * bytes, ROWS * bytes), "{mode}");
        }
        reader.end();
    }
}
