//! Transactions that are written ahead of their commit: into slots of the log, and behind the end of the database.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::Connection;
use litefoot::{Options, Vfs};
use litefoot_sim::Random;
use litefoot_sim::SimMedium;
use std::sync::Arc;

const ROWS: i64 = 6000;

fn vfs(name: &str, medium: &SimMedium, options: &str) -> Vfs {
    let mut parsed = Options::default();
    parsed.set_list(options).unwrap();
    Vfs::builder(name).medium(Arc::new(medium.clone())).options(parsed).register().unwrap()
}

fn fill(db: &Connection, table: &str) {
    let sql = format!(
        "CREATE TABLE {table}(a INTEGER PRIMARY KEY, b);
         WITH n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < {ROWS})
         INSERT INTO {table} SELECT v, zeroblob(200 + v % 150) FROM n"
    );
    db.execute_batch(&sql).unwrap();
}

fn check(db: &Connection, table: &str) {
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    let sql = format!("SELECT count(*) FROM {table} WHERE length(b) = 200 + a % 150");
    assert_eq!(db.query_row(&sql, [], |row| row.get(0)), Ok(ROWS));
}

/// VACUUM to another page size begins the log anew, over the slots that hold its own pages.
#[test]
fn a_large_vacuum_to_another_page_size_keeps_every_page() {
    for (before, after) in [(4096, 512), (4096, 1024), (1024, 4096), (512, 8192)] {
        let medium = SimMedium::new();
        let name = format!("ahead-{before}-{after}");
        let litefoot = vfs(&name, &medium, "write_buffer_size=0");
        let db = litefoot.open("/app.db").unwrap();
        db.execute_batch(&format!("PRAGMA page_size={before}")).unwrap();
        fill(&db, "t");
        drop(db);
        let db = litefoot.open("/app.db").unwrap();
        db.execute_batch(&format!("PRAGMA page_size={after}; VACUUM")).unwrap();
        let page_size: i64 = db.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
        assert_eq!(page_size, after);
        check(&db, "t");
        let image = medium.cut(&mut Random::new(1));
        check(&vfs(&format!("{name}-cut"), &image, "").open("/app.db").unwrap(), "t");
    }
}

/// The file grows, and its end lies inside a page of the old size, which is behind the old end.
#[test]
fn a_vacuum_to_smaller_pages_keeps_the_last_of_them() {
    for rows in 1..=8 {
        let medium = SimMedium::new();
        let litefoot = vfs("ahead-last", &medium, "");
        let db = litefoot.open("/app.db").unwrap();
        let sql = format!(
            "PRAGMA page_size=4096; CREATE TABLE t(a INTEGER PRIMARY KEY, b);
             WITH n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < {})
             INSERT INTO t SELECT v, zeroblob(520) FROM n;
             PRAGMA page_size=1024; PRAGMA cache_size=10; PRAGMA cache_spill=10; VACUUM",
            3000 + rows
        );
        db.execute_batch(&sql).unwrap();
        let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok", "{rows}");
    }
}

/// Pages behind the end that a careless connection has added must be there before anything makes its commit count.
#[test]
fn a_careless_bulk_load_costs_nobody_else_anything() {
    let medium = SimMedium::new();
    let litefoot = vfs("ahead-careless", &medium, "write_buffer_size=0");
    let db = litefoot.open("/app.db").unwrap();
    db.execute_batch("CREATE TABLE promised(v)").unwrap();
    fill(&db, "t");
    let careless = litefoot.open("/app.db").unwrap();
    careless.execute_batch("PRAGMA synchronous=OFF").unwrap();
    let begun = medium.operations();
    fill(&careless, "u");
    db.execute_batch("INSERT INTO promised VALUES(1)").unwrap();
    let promised = medium.operations();
    let step = (promised - begun) / 40 + 1;
    let points = (begun..promised).step_by(step).chain([promised; 8]);
    for (cut, image) in medium.cuts(points, 1, &mut Random::new(11)) {
        let litefoot = vfs("ahead-careless-cut", &image, "");
        let db = litefoot.open("/app.db").unwrap();
        check(&db, "t");
        if cut == promised {
            assert_eq!(db.query_row("SELECT count(*) FROM promised", [], |row| row.get(0)), Ok(1i64));
            check(&db, "u");
        }
    }
}
