//! Litestream as a second opinion: each restores what the other has backed up.

use crate::support::{stderr_of, succeed};
use crate::{CHANGE, Case, SCHEMA, counted};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Litestream 0.5, by LITEFOOT_LITESTREAM or on the PATH.
pub fn litestream() -> Option<PathBuf> {
    let named = std::env::var_os("LITEFOOT_LITESTREAM").map(PathBuf::from);
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|directory| directory.join("litestream")).find(|file| file.is_file())
    };
    let found = named.or_else(on_path);
    if found.is_none() {
        eprintln!("skipped: litestream is neither on the PATH nor in LITEFOOT_LITESTREAM");
    }
    found
}

#[test]
fn litestream_restores_what_litefoot_has_backed_up() {
    let Some(litestream) = litestream() else { return };
    let case = Case::new(&format!("PRAGMA journal_mode=wal; {SCHEMA}"));
    case.add("10s");
    for step in 0..6 {
        case.database().execute_batch(CHANGE).unwrap();
        assert!(case.ship(&["run", "--once"]).output().unwrap().status.success());
        if step == 3 {
            succeed(case.path(), &["ship", "compact", &case.url()]);
        }
    }
    for arguments in [&[][..], &["-txid", "0000000000000006"]] {
        let to = case.path().join("theirs.db");
        let _ = fs::remove_file(&to);
        let output = Command::new(&litestream)
            .args(["restore", "-o", to.to_str().unwrap()])
            .args(arguments)
            .arg(case.url())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr_of(&output));
        assert_eq!(counted(&to), 6);
        assert!(fs::read(&to).unwrap() == fs::read(case.restore(&[])).unwrap(), "byte for byte");
    }
}

#[test]
fn litefoot_restores_what_litestream_has_backed_up() {
    let Some(litestream) = litestream() else { return };
    let case = Case::new(&format!("PRAGMA journal_mode=wal; {SCHEMA}"));
    let database = case.path().join("a.db");
    for count in 1..4 {
        case.database().execute_batch(CHANGE).unwrap();
        let output = Command::new(&litestream)
            .args(["replicate", "-once", database.to_str().unwrap(), &case.url()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr_of(&output));
        assert_eq!(counted(&case.restore(&[])), count);
    }
}
