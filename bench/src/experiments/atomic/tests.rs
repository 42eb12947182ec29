use super::*;
use crate::harness::Silent;

/// The program; nothing where it cannot be compiled.
fn inserts(directory: &Path) -> Option<Inserts> {
    // Beside the program of the tests, where the extension was built.
    let library = std::env::current_exe().ok().and_then(|program| {
        let library = program.parent()?.parent()?.join("liblitefoot.so");
        library.is_file().then_some(library)
    });
    match Inserts::build(directory, library.as_deref(), true) {
        Ok(inserts) => Some(inserts),
        Err(Error::Missing(what)) => {
            eprintln!("skipped: this needs {what}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn an_atomic_write_needs_no_journal_and_a_side_that_is_not_there_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let Some(inserts) = inserts(directory.path()) else { return };
    let mut figures = Figures::new();
    let ways = ways(&inserts, "ext4", &mut figures);
    assert!(figures.notes()[0].contains("batch_atomic_write was left out"), "{:?}", figures.notes());
    assert!(!ways.contains(&BATCH));
    processes(&inserts, &ways, directory.path(), 60, &mut figures, &mut Silent).unwrap();
    let get = |name: &str| figures.get(name).unwrap_or_else(|| panic!("{name} is missing"));
    // The paper's table 1: four syncs, and one.
    if figures.get("calls.all.persist").is_some() {
        assert!((4.0..5.5).contains(&get("calls.fdatasync.persist")), "{}", get("calls.fdatasync.persist"));
        assert!((1.0..1.5).contains(&get("calls.fdatasync.atomic_write")));
        assert!(get("calls.write.persist") > 2.0 * get("calls.write.atomic_write"));
        assert!(get("calls.open.persist") > get("calls.open.atomic_write") + 1.5);
        if ways.contains(&program::LITEFOOT) {
            assert!(get("calls.durable_write.litefoot") > 0.9);
            assert!(get("calls.all.litefoot") < get("calls.all.atomic_write") / 2.0);
        }
    }
    for way in &ways {
        let of = |name: &str| get(&format!("{name}.{}", way.name));
        assert!(
            of("process_bytes") > of("process_more_bytes") && of("process_more_bytes") > of("heap_bytes")
        );
        assert!(of("heap_bytes") > of("largest_allocation_bytes") && of("pager_bytes") > 4096.0);
        assert!(of("inserts_per_s") > 0.0);
    }
}

#[test]
fn a_row_that_is_not_there_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("CREATE TABLE t(a, b); INSERT INTO t(a) VALUES (1), (2), (3), (4)").unwrap();
    assert!(check(&PERSIST, &path, 1).is_ok());
    assert!(check(&PERSIST, &path, 2).is_err());
}
