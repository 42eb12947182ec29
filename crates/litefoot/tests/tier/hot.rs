//! Chunks that commits change again and again: each checkpoint finds them on the device.

use super::*;

/// The default policy; everything that is written fits.
const DEFAULT: &str = "file:/db/app.db?tier=/fast/app.tier&tier_size=256k";

/// Under the log a checkpoint writes what thousands of commits have changed. The policy knows of the commits, and moves
/// the chunks with the first checkpoints; the later ones write nothing to flash.
#[test]
fn hot_chunks_are_away_from_the_first_checkpoints_on() {
    for mode in MODES {
        let medium = SimMedium::new();
        let options = Options { max_wal_size: 32 << 10, ..Options::default() };
        let builder = Vfs::builder(format!("tier-hot-{mode}")).medium(Arc::new(medium.clone()));
        let vfs = builder.options(options).register().unwrap();
        let db = vfs.open(DEFAULT).unwrap();
        db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        insert(&db, 40);
        // The file is marked from here on, and the logs lie beside the device.
        checkpoint(&db, mode);
        let update = |rounds: i64| {
            for id in 0..rounds {
                db.execute("UPDATE t SET v=?2 WHERE id=?1", (1 + id % 40, [id as u8; 300])).unwrap();
            }
            checkpoint(&db, mode);
        };
        let figures = || (metric(&db, "tier.moved_in"), metric(&db, "database_writes"));
        // 40 rows of 300 bytes are 12,000 bytes: six chunks at least, and the first.
        const HOT: i64 = 7;
        let mut settled = figures();
        let mut quiet = 0;
        // Outside of WAL mode a thread of its own makes the checkpoints, when it comes to that.
        for _ in 0..100 {
            update(200);
            quiet = if figures() == settled && settled.0 >= HOT { quiet + 1 } else { 0 };
            settled = figures();
            if quiet == 5 {
                break;
            }
        }
        assert_eq!(quiet, 5, "{mode}: later checkpoints write to flash, or no chunks are there: {settled:?}");
        assert_eq!(count(&db), 40);
        drop(db);
        assert_eq!((is_marked(&medium), stock(&medium).unwrap()), (false, 40), "{mode}");
    }
}

/// With `tier_policy=none` the device has the logs and the first chunk.
#[test]
fn a_device_without_chunks_has_the_logs_alone() {
    for mode in MODES {
        let medium = SimMedium::new();
        let name = format!("{DEFAULT}&tier_policy=none");
        let (vfs, db) = filled(&medium, &name, mode, 50);
        checkpoint(&db, mode);
        insert(&db, 50);
        checkpoint(&db, mode);
        assert!(is_marked(&medium) && there(&medium, "/fast/app.tier-redo"), "{mode}");
        assert_eq!(metric(&db, "tier.away"), 1, "{mode}");
        drop((db, vfs));
        assert_eq!(stock(&medium).unwrap(), 100, "{mode}");
    }
}

/// Brings what the log holds into the file. Outside of WAL mode the log has a limit, which commits reach.
fn checkpoint(db: &Connection, mode: &str) {
    if mode == "wal" {
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    }
}
