//! A commit log that lies elsewhere.

use super::support::*;
use litefoot::Vfs;
use litefoot_sim::Random;
use litefoot_sim::SimMedium;
use litefoot_storage::file::Medium;
use litefoot_testkit::sqlite::metric_or_zero;
use std::path::Path;
use std::sync::Arc;

/// The commit log may lie on another device, and is found there after a crash.
#[test]
fn the_log_may_lie_elsewhere() {
    let medium = SimMedium::new();
    let mut options = logging();
    options.set("commit_log_path", "/fast/app.log").unwrap();
    let open = |name: &str, medium: &SimMedium| {
        let vfs =
            Vfs::builder(name).medium(Arc::new(medium.clone())).options(options.clone()).register().unwrap();
        let db = vfs.open("/app.db").unwrap();
        (vfs, db)
    };
    let (_vfs, db) = open("commits-elsewhere", &medium);
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v, w)").unwrap();
    db.execute_batch("INSERT INTO t(v) VALUES(1); INSERT INTO t(v) VALUES(2)").unwrap();
    let there = |medium: &SimMedium, path: &str| medium.info(Path::new(path)).unwrap().is_some();
    assert!(there(&medium, "/fast/app.log") && !there(&medium, "/app.db-commits"));
    let image = medium.cut(&mut Random::new(1));
    let (_vfs, recovered) = open("commits-elsewhere-2", &image);
    assert_eq!(rows(&recovered), rows(&db));
    drop(recovered);
    assert!(!there(&image, "/fast/app.log"));
}

/// Two databases under one name of a log: the second does without it, and nothing is lost.
#[test]
fn a_log_elsewhere_belongs_to_one_database() {
    let medium = SimMedium::new();
    let mut options = logging();
    options.set("commit_log_path", "/fast/app.log").unwrap();
    let vfs = |name: &str, medium: &SimMedium| {
        Vfs::builder(name).medium(Arc::new(medium.clone())).options(options.clone()).register().unwrap()
    };
    let running = vfs("commits-shared", &medium);
    let dbs = ["/one.db", "/two.db"].map(|path| running.open(path).unwrap());
    for db in &dbs {
        db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v, w)").unwrap();
    }
    for number in 0..20 {
        for db in &dbs {
            db.execute("INSERT INTO t(v) VALUES(?1)", [number]).unwrap();
        }
    }
    assert_eq!(metric_or_zero(&dbs[0], "commits_statements"), 20);
    assert_eq!(
        (metric_or_zero(&dbs[1], "commits_statements"), metric_or_zero(&dbs[1], "fallback.unavailable")),
        (0, 20)
    );
    let refused = running.open("/three.db").unwrap();
    let error = refused.execute_batch("CREATE TABLE t(v)").unwrap_err().to_string();
    assert!(!error.is_empty());
    let image = medium.cut(&mut Random::new(1));
    let recovering = vfs("commits-shared-2", &image);
    let recovered = recovering.open("/one.db").unwrap();
    assert_eq!(rows(&recovered), rows(&dbs[0]));
    drop(recovered);
    assert_eq!(rows(&recovering.open("/two.db").unwrap()), rows(&dbs[1]));
}
