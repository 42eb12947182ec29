//! A journal that stock SQLite has deleted under one of its own connections.
//!
//! # Why
//! A connection in the journal mode TRUNCATE or PERSIST keeps its journal open. It closes the file when it gives its last lock up,
//! since a connection in the mode DELETE may remove it. A connection with a statement under way gives no lock up. Another one
//! in the mode DELETE then writes, rolls back, and removes a journal that is in use. The next transaction of the first one has
//! its journal in a file without a name. A kill leaves the pages that it has spilled, and nothing to roll them back with: the
//! database is damaged (SQLite 3.40.1 to 3.54.1, by three statements).
//!
//! The reference is the database with that journal: the copy gets it under its name. So everything is compared, and
//! litefoot has to hold what SQLite would.

use std::fs;
use std::path::Path;

/// The first bytes of a journal that counts (file format, section 3).
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The end of a link in `/proc` to a file without a name.
const DELETED: &str = " (deleted)";

/// Gives the copy of a directory the journals that connections of this process have open there and that have lost their
/// names; answers true where one was needed.
pub fn restore(from: &Path, copy: &Path) -> Result<bool, String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let from = from.canonicalize().map_err(|error| failed(from, error))?;
    let mut restored = false;
    let descriptors = Path::new("/proc/self/fd");
    for entry in fs::read_dir(descriptors).map_err(|error| failed(descriptors, error))? {
        // Another thread may have closed it.
        let Some(link) = entry.ok().map(|entry| entry.path()) else { continue };
        let Ok(target) = fs::read_link(&link) else { continue };
        let Some(name) = target.strip_prefix(&from).ok().and_then(Path::to_str) else { continue };
        let Some(name) = name.strip_suffix(DELETED).filter(|name| name.ends_with("-journal")) else {
            continue;
        };
        let journal = fs::read(&link).map_err(|error| failed(&link, error))?;
        let place = copy.join(name);
        // One connection writes at a time: where a journal counts, no other one does.
        if counts(&journal) && !fs::read(&place).is_ok_and(|there| counts(&there)) {
            fs::write(&place, journal).map_err(|error| failed(&place, error))?;
            restored = true;
        }
    }
    Ok(restored)
}

fn counts(journal: &[u8]) -> bool {
    journal.starts_with(&MAGIC)
}

#[cfg(test)]
mod tests {
    use super::super::side::{Side, copy};
    use super::super::statements::{Action, SequenceStep};
    use super::*;

    fn run(side: &mut Side, connection: usize, sql: &str) -> String {
        side.step(&SequenceStep { connection, action: Action::Run(sql.to_owned(), Vec::new()) })
    }

    /// Has a transaction of connection 0 spill pages; answers whether a copy of the files then needs a journal without a name, and
    /// whether it is sound with all that was restored, and without.
    fn damaged(mode: &str, reads: bool, other_writes: bool) -> (bool, bool, bool) {
        let directory = tempfile::tempdir().unwrap();
        let live = directory.path().join("live");
        fs::create_dir(&live).unwrap();
        let mut side = Side::stock(&live).unwrap();
        run(&mut side, 0, "CREATE TABLE audit(m, n)");
        run(&mut side, 0, "CREATE INDEX audit_m ON audit(m)");
        let fill = "INSERT INTO audit WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 5000) \
                    SELECT i, i FROM r";
        run(&mut side, 0, fill);
        run(&mut side, 0, &format!("PRAGMA journal_mode={mode}"));
        if reads {
            side.step(&SequenceStep { connection: 0, action: Action::Begin("SELECT * FROM audit") });
        }
        // The journal is kept from here on.
        run(&mut side, 0, "UPDATE audit SET n = -1 WHERE rowid = 1");
        if other_writes {
            for sql in ["BEGIN", "INSERT INTO audit VALUES(0, 0)", "ROLLBACK"] {
                run(&mut side, 1, sql);
            }
        }
        run(&mut side, 0, "PRAGMA cache_size=1");
        run(&mut side, 0, "BEGIN IMMEDIATE");
        run(&mut side, 0, "UPDATE audit SET m = -m");
        let sound = |name: &str, restores: bool| {
            let to = directory.path().join(name);
            copy(&live, &to).unwrap();
            let restored = restores && restore(&live, &to).unwrap();
            let contents = Side::stock(&to).unwrap().contents().unwrap();
            (restored, contents[0][0] == "integrity_check: \"ok\"")
        };
        let (_, without) = sound("without", false);
        let (restored, with) = sound("with", true);
        (restored, with, without)
    }

    #[test]
    fn a_journal_that_was_deleted_in_use_is_restored_and_no_other() {
        for (mode, reads, other_writes, expected) in [
            ("TRUNCATE", true, true, (true, true, false)),
            ("PERSIST", true, true, (true, true, false)),
            ("DELETE", true, true, (false, true, true)),
            ("TRUNCATE", false, true, (false, true, true)),
            ("TRUNCATE", true, false, (false, true, true)),
        ] {
            assert_eq!(damaged(mode, reads, other_writes), expected, "{mode} {reads} {other_writes}");
        }
    }
}
