//! Commits as deltas, whose log lies beside the device: the file is told by its stamp there.

use super::*;

const DELTAS: &str = "file:/db/app.db?tier=/fast/app.tier&tier_size=256k";
/// The same with a log at a place of its own, which who leaves the option out does not find.
const ELSEWHERE: &str =
    "file:/db/app.db?tier=/fast/app.tier&tier_size=256k&commit_log_path=/logs/app.commits";

fn vfs(medium: &SimMedium) -> Vfs {
    Vfs::builder(vfs_name("tier-deltas")).medium(Arc::new(medium.clone())).register().unwrap()
}

/// A marked database in WAL mode with 40 rows, all of them in the file; it stays open.
fn marked(medium: &SimMedium, name: &str) -> (Vfs, Connection) {
    let vfs = vfs(medium);
    let db = vfs.open(name).unwrap();
    db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    insert(&db, 20);
    checkpoint(&db);
    insert(&db, 20);
    checkpoint(&db);
    assert!(is_marked(medium));
    (vfs, db)
}

fn checkpoint(db: &Connection) {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

#[test]
fn what_waits_beside_the_device_is_found_by_each_opening_until_one_ends() {
    let medium = SimMedium::new();
    let (_vfs, db) = marked(&medium, DELTAS);
    let before = metric(&db, "commits_deltas");
    insert(&db, 30);
    assert_eq!(metric(&db, "commits_deltas") - before, 30);
    assert!(there(&medium, "/fast/app.tier-commits") && !there(&medium, "/db/app.db-commits"));
    // Cut off while it is recovered, too: each opening writes the header of the device, and the mark.
    let crashed = killed(&medium);
    let vfs = self::vfs(&crashed);
    let before = crashed.operations();
    assert_eq!(count(&vfs.open(DELTAS).unwrap()), 70);
    for (point, image) in crashed.cuts(before..crashed.operations(), 2, &mut Random::new(3)) {
        let vfs = self::vfs(&image);
        assert_eq!(count(&vfs.open(DELTAS).unwrap()), 70, "{point}");
        assert_eq!((is_marked(&image), stock(&image).unwrap()), (false, 70), "{point}");
    }
}

#[test]
fn an_acknowledged_commit_survives_a_cut_at_any_moment() {
    let medium = SimMedium::new();
    let (_vfs, db) = marked(&medium, DELTAS);
    let mut acknowledged = vec![(medium.operations(), 40)];
    for round in 1..=6 {
        for row in 1..=12 {
            insert(&db, 1);
            acknowledged.push((medium.operations(), 40 + 12 * (round - 1) + row));
        }
        checkpoint(&db);
    }
    assert!(metric(&db, "commits_deltas") > 60);
    let first = acknowledged[0].0;
    for (point, image) in medium.cuts((first..medium.operations()).step_by(2), 1, &mut Random::new(9)) {
        let vfs = self::vfs(&image);
        let found = count(&vfs.open(DELTAS).unwrap());
        let least = acknowledged.iter().rev().find(|(end, _)| *end <= point).map_or(40, |(_, rows)| *rows);
        assert!((least..=least + 1).contains(&found), "{point}: {found} for {least}");
    }
}

/// A program that does not see the log goes on with the file, and changes pages that no delta changes.
#[test]
fn deltas_of_a_file_that_was_written_since_are_not_applied() {
    let medium = SimMedium::new();
    let (_vfs, db) = marked(&medium, ELSEWHERE);
    db.execute_batch("CREATE TABLE other(v)").unwrap();
    checkpoint(&db);
    insert(&db, 20);
    assert!(metric(&db, "commits_deltas") >= 20);
    let crashed = killed(&medium);
    let (_unaware_vfs, unaware) = {
        let vfs = self::vfs(&crashed);
        let db = vfs.open(DELTAS).unwrap();
        assert_eq!(count(&db), 40, "it does not see the log");
        db.execute_batch("INSERT INTO other VALUES (1)").unwrap();
        checkpoint(&db);
        (vfs, db)
    };
    // It is killed as well: the file is still marked, by the same pairing.
    let both = killed(&crashed);
    drop(unaware);
    assert!(is_marked(&both));
    let vfs = self::vfs(&both);
    let db = vfs.open(ELSEWHERE).unwrap();
    assert_eq!(count(&db), 40);
    assert_eq!(db.query_row("SELECT count(*) FROM other", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    let refused = db.execute("INSERT INTO t(v) VALUES (1)", []);
    assert!(refused.is_err() && there(&both, "/logs/app.commits"), "the log is kept, and nothing is written");
}

/// `litefoot recover` and its like see the chunks, and the stamp, without opening the database.
#[test]
fn a_tool_tells_what_opening_does() {
    use litefoot::log_inspect::{RecoveryOutcome, waiting};
    let medium = SimMedium::new();
    let (_vfs, db) = marked(&medium, DELTAS);
    insert(&db, 30);
    let crashed = killed(&medium);
    let files: Arc<dyn Medium> = Arc::new(crashed.clone());
    let found = waiting(&files, Path::new(PLAIN), None).unwrap().unwrap();
    assert_eq!((found.deltas, found.recovery_outcome), (30, RecoveryOutcome::Applied));
    assert!(is_marked(&crashed));
    let vfs = self::vfs(&crashed);
    assert_eq!(count(&vfs.open(DELTAS).unwrap()), 70);
}
