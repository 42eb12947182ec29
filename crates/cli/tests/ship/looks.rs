//! A service beside a program on litefoot: it visits once, and asks the owner from then on.

use crate::rows::batches;
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
fn a_history_has_a_batch_for_each_transaction() {
    for mode in ["wal", "delete"] {
        let case = Case::new(&format!("PRAGMA journal_mode={mode}; {SCHEMA}"));
        let rows = format!("jsonl://{}", case.path().join("rows").display());
        let arguments = ["add", "a.db", &rows, "--name", "rows", "--interval", "1s", "--history"];
        assert!(case.ship(&arguments).output().unwrap().status.success());
        let mut owner = Owner::start(litefoot(case.path(), &["sql", "a.db"]), CHANGE);
        let service = case.serve();
        let counts = || {
            let of = |batch: &[serde_json::Value]| {
                let count =
                    batch.iter().find(|line| line["table"] == "count" && line["after"].is_object())?;
                Some((batch[0]["transactions"].clone(), count["after"]["a"].as_i64()?))
            };
            batches(&case).iter().filter_map(|batch| of(batch)).collect::<Vec<_>>()
        };
        case.wait_for("the first delivery", || !counts().is_empty());
        wait_until_owned(&case);
        // It is asked for what has changed before it keeps transactions.
        owner.tell(CHANGE);
        case.wait_for("the second", || counts().last().is_some_and(|(_, count)| *count == 2));
        std::thread::sleep(Duration::from_millis(2500));
        (3..40).for_each(|_| owner.tell(CHANGE));
        case.wait_for("the last", || counts().last().is_some_and(|(_, count)| *count == 39));
        let told = counts();
        let of_history: Vec<i64> = told.iter().map(|(_, count)| *count).filter(|count| *count > 2).collect();
        assert_eq!(of_history, (3..40).collect::<Vec<_>>(), "{mode}: {told:?}");
        assert!(told.iter().all(|(kind, count)| *count < 3 || kind == "one"), "{mode}: {told:?}");
        assert_eq!(told[0].0, "several", "{mode}: nobody knows how it began");
        assert!(service.terminate().success(), "{mode}");
    }
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
