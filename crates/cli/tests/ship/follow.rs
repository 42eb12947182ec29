//! `litefoot follow`: readers of the copy meet whole deliveries, whatever is killed.

use crate::support::{litefoot, run, stderr_of, succeed};
use crate::{CHANGE, Case, PATIENCE, SCHEMA, Service, counted};
use litefoot_testkit::sqlite::{number, stock};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_copy_that_is_killed_anywhere_has_whole_transactions_and_catches_up() {
    let case = Case::new(&format!("PRAGMA journal_mode=wal; PRAGMA synchronous=OFF; {SCHEMA}"));
    case.add("100ms");
    assert!(case.ship(&["run", "--once"]).output().unwrap().status.success());
    let copy = case.path().join("copy.db");
    let arguments = ["follow", &case.url(), "-o", "copy.db", "--interval", "100ms"];
    let follow = || {
        let mut command = litefoot(case.path(), &arguments);
        Service(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let shipper = case.serve();
    case.beside_a_writer(Duration::from_millis(3), || {
        let mut random = fastrand::Rng::with_seed(2);
        let mut seen = -1;
        for _ in 0..12 {
            let follower = follow();
            let of_copy = || {
                let copy = stock(&copy);
                copy.busy_timeout(PATIENCE).unwrap();
                number(&copy, "SELECT count.a FROM count, other WHERE count.a = -other.a")
            };
            case.wait_for("the copy", || copy.exists());
            case.wait_for("a change", || of_copy() > seen);
            seen = of_copy();
            std::thread::sleep(Duration::from_millis(random.u64(..150)));
            follower.kill();
        }
    });
    assert!(shipper.terminate().success());
    succeed(case.path(), &["follow", &case.url(), "-o", "copy.db", "--once"]);
    assert_eq!(counted(&copy), number(&case.database(), "SELECT a FROM count"));
    let follower = follow();
    case.database().execute_batch(CHANGE).unwrap();
    let last = number(&case.database(), "SELECT a FROM count");
    assert!(case.ship(&["run", "--once"]).output().unwrap().status.success());
    case.wait_for("the last change", || {
        let copy = stock(&copy);
        copy.busy_timeout(PATIENCE).unwrap();
        number(&copy, "SELECT a FROM count") == last
    });
    assert!(follower.terminate().success());
}

#[test]
fn a_copy_is_made_of_a_backup_and_of_nothing_else() {
    let case = Case::new(SCHEMA);
    let nothing = run(case.path(), &["follow", &case.url(), "-o", "copy.db", "--once"]);
    assert!(stderr_of(&nothing).contains("no backup"), "{}", stderr_of(&nothing));
    case.add("10s");
    assert!(case.ship(&["run", "--once"]).output().unwrap().status.success());
    let over = run(case.path(), &["follow", &case.url(), "-o", "a.db"]);
    assert!(!over.status.success() && stderr_of(&over).contains("name a new file"), "{}", stderr_of(&over));
    let told = succeed(case.path(), &["follow", &case.url(), "-o", "copy.db", "--once"]);
    assert!(told.contains("as of transaction 1"), "{told}");
}
