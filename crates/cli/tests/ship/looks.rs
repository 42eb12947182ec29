//! A service beside a program on litefoot: it visits once, and asks the owner from then on.

use crate::support::{Owner, litefoot, succeed};
use crate::{CHANGE, Case, SCHEMA, counted, without_gaps};
use litefoot_testkit::sqlite::{number, stock};
use std::time::Duration;

/// How often the database has become multi-process.
fn changes(case: &Case) -> u64 {
    let told: serde_json::Value =
        serde_json::from_str(&succeed(case.path(), &["stat", "--json", "a.db"])).unwrap();
    told["sharing"]["changes"].as_u64().unwrap()
}

/// The owner is the owner again, and so for a while.
fn wait_until_owned(case: &Case) {
    let is_owned = || succeed(case.path(), &["stat", "--json", "a.db"]).contains("\"state\": \"owned\"");
    case.wait_for("the owner", || {
        let began = changes(case);
        is_owned()
            && (0..10).all(|_| {
                std::thread::sleep(Duration::from_millis(50));
                changes(case) == began
            })
    });
}

#[test]
fn two_jobs_keep_up_with_an_owner_that_they_leave_alone() {
    for mode in ["wal", "delete"] {
        let case = Case::new(&format!("PRAGMA journal_mode={mode}; {SCHEMA}"));
        case.add("100ms");
        let rows = format!("jsonl://{}", case.path().join("rows").display());
        let added = case.ship(&["add", "a.db", &rows, "--name", "rows", "--interval", "100ms"]).output();
        assert!(added.unwrap().status.success());
        let mut owner = Owner::start(litefoot(case.path(), &["sql", "a.db"]), CHANGE);
        let service = case.serve();
        case.wait_for("the first delivery", || !case.deliveries().is_empty());
        owner.tell(CHANGE);
        case.wait_for("the second change", || counted(&case.restore(&[])) == 2);
        wait_until_owned(&case);
        let before = changes(&case);
        for count in 3..30 {
            owner.tell(CHANGE);
            if count % 9 == 2 {
                case.wait_for("a change", || counted(&case.restore(&[])) == count);
            }
        }
        owner.tell("DELETE FROM blob WHERE id % 2; VACUUM;");
        case.wait_for("the last change", || {
            number(&stock(&case.restore(&[])), "SELECT count(*) FROM blob WHERE id % 2") == 0
        });
        assert_eq!(changes(&case), before, "{mode}: nobody has visited");
        assert!(service.terminate().success(), "{mode}");
        without_gaps(&case.deliveries());
    }
}
