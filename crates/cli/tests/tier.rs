//! A database whose hot chunks live on a fast device: what its users meet.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{finish, litefoot, run, snapshot, stderr_of, stdout_of, succeed};

const TIERED: &str = "file:a.db?tier=fast.tier&tier_size=256k&tier_policy=lru";

/// A database with a tier, as a process that was killed has left it.
fn killed(directory: &Path, mode: &str) {
    killed_after(directory, mode, "&commit_log=statements", |db| {
        for number in 0..20 {
            db.execute("INSERT INTO t VALUES(?1)", [number]).unwrap();
        }
    });
}

fn killed_after(directory: &Path, mode: &str, options: &str, work: impl FnOnce(&litefoot::Connection)) {
    let elsewhere = tempfile::tempdir().unwrap();
    let uri = format!(
        "file:{}?tier={}&tier_size=4M&tier_policy=lru&sharing=exclusive{options}",
        path(elsewhere.path(), "a.db"),
        path(directory, "fast.tier")
    );
    let db = litefoot::Connection::open(uri).unwrap();
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    work(&db);
    for (path, bytes) in snapshot(elsewhere.path()).into_iter().chain(snapshot(directory)) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        fs::write(directory.join(format!("{name}.copy")), bytes).unwrap();
    }
    drop(db);
    for path in snapshot(directory).into_keys() {
        match path.to_string_lossy().strip_suffix(".copy") {
            Some(name) => fs::rename(&path, name).unwrap(),
            None => fs::remove_file(&path).unwrap_or_default(),
        }
    }
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_string_lossy().into_owned()
}

#[test]
fn a_clean_close_leaves_one_plain_file() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(
        directory,
        &["sql", TIERED, "PRAGMA journal_mode=wal; CREATE TABLE t(v); INSERT INTO t VALUES(7)"],
    );
    let db = rusqlite::Connection::open(directory.join("a.db")).unwrap();
    assert_eq!(db.query_row("SELECT v FROM t", [], |row| row.get::<_, i64>(0)).unwrap(), 7);
    drop(db);
    assert!(succeed(directory, &["tier", "drain", "a.db"]).contains("nothing is away"));
    let device = succeed(directory, &["tier", "stat", "fast.tier"]);
    assert!(device.contains("everything is at home"), "{device}");
    assert!(stderr_of(&run(directory, &["tier", "stat", "a.db"])).contains("a plain database"));
}

#[test]
fn after_a_crash_commands_find_the_device_and_everything_comes_home() {
    for (mode, commands) in [
        ("delete", ["tier", "drain"].as_slice()),
        ("wal", &["tier", "drain"]),
        ("delete", &["release"]),
        ("wal", &["check"]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        killed(directory, mode);
        let before = snapshot(directory);
        let stock = rusqlite::Connection::open(directory.join("a.db")).unwrap();
        let error = stock.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("not a database"), "{error}");
        drop(stock);
        let text = succeed(directory, &["stat", "a.db"]);
        assert!(
            text.contains(" on ")
                && text.contains("writes of the tier ")
                && text.contains("writes of a tier slot"),
            "{text}"
        );
        let json: serde_json::Value =
            serde_json::from_str(&succeed(directory, &["stat", "--json", "a.db"])).unwrap();
        assert!(json["tier"]["away"].as_u64().unwrap() > 0 && json["tier"]["slot_writes"]["max"].is_u64());
        let json: serde_json::Value =
            serde_json::from_str(&succeed(directory, &["tier", "stat", "--json", "a.db"])).unwrap();
        assert_eq!(json["state"], "away");
        assert!(json["writes"].as_u64().unwrap() >= json["slot_writes"]["max"].as_u64().unwrap());
        let waits = succeed(directory, &["recover", "a.db"]);
        assert_eq!(waits.contains("transactions"), mode == "wal", "{mode}: {waits}");
        assert_eq!(before, snapshot(directory), "something was changed");
        let done = run(directory, &[commands, &["a.db"]].concat());
        stdout_of(done, &format!("{mode} {commands:?}"));
        let stock = rusqlite::Connection::open(directory.join("a.db")).unwrap();
        let rows: i64 = stock.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 20);
    }
}

#[test]
fn a_device_that_is_not_there_is_named_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    killed(directory, "delete");
    fs::create_dir(directory.join("moved")).unwrap();
    for name in ["fast.tier", "fast.tier-redo"] {
        fs::rename(directory.join(name), directory.join("moved").join(name)).unwrap();
    }
    let before = fs::read(directory.join("a.db")).unwrap();
    for command in
        [["sql", "a.db", "SELECT 1 FROM t"].as_slice(), &["tier", "drain", "a.db"], &["check", "a.db"]]
    {
        let refused = run(directory, command);
        assert_eq!(refused.status.code(), Some(1), "{command:?}");
        let message = format!("{}{}", stderr_of(&refused), String::from_utf8_lossy(&refused.stdout));
        assert!(message.contains("fast.tier"), "{command:?}: {message}");
    }
    // An option that is not the CLI's own doing: the program is told what it needs.
    let plain = litefoot::Connection::open(directory.join("a.db")).unwrap_err().to_string();
    assert!(plain.contains("parts of it live on the tier device"), "{plain}");
    assert_eq!(before, fs::read(directory.join("a.db")).unwrap());
    let drained = succeed(directory, &["tier", "drain", "a.db", "--tier", "moved/fast.tier"]);
    assert!(drained.contains("everything is at home"), "{drained}");
    let mut rows = litefoot(directory, &["sql", "a.db", "SELECT count(*) FROM t"]);
    assert!(String::from_utf8_lossy(&rows.output().unwrap().stdout).contains("20"));
}

/// A drain that was killed or interrupted is finished by the next one.
#[test]
fn a_drain_that_is_stopped_is_done_again() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    killed_after(directory, "wal", "", |db| {
        db.execute_batch(
            "WITH n(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM n LIMIT 1500)
             INSERT INTO t SELECT randomblob(1900) FROM n;
             UPDATE t SET v=randomblob(1900);
             PRAGMA wal_checkpoint(TRUNCATE);
             UPDATE t SET v=randomblob(1900);
             PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .unwrap();
        db.execute("INSERT INTO t VALUES('the last')", []).unwrap();
    });
    let before = snapshot(directory);
    let json = succeed(directory, &["tier", "stat", "--json", "a.db"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["away"].as_u64().unwrap() > 1000, "{json}");
    for (signal, pause_ms) in ["-KILL", "-INT"].into_iter().flat_map(|s| (0..16).map(move |n| (s, n * 2))) {
        snapshot(directory).keys().for_each(|path| fs::remove_file(path).unwrap());
        before.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        let mut drain = litefoot(directory, &["tier", "drain", "a.db"]);
        let drain = drain.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Wherever it is then.
        std::thread::sleep(Duration::from_millis(pause_ms));
        Command::new("kill").args([signal, &drain.id().to_string()]).status().unwrap();
        let ended = finish(drain);
        let what = format!("{signal} after {pause_ms} ms: {}, {}", ended.status, stderr_of(&ended));
        if signal == "-INT" {
            // Before it listens, the system's default stands.
            assert!([Some(0), Some(130), None].contains(&ended.status.code()), "{what}");
        }
        if !fs::read(directory.join("a.db")).unwrap().starts_with(b"SQLite format 3\0") {
            let stock = rusqlite::Connection::open(directory.join("a.db")).unwrap();
            assert!(stock.query_row("SELECT count(*) FROM t", [], |_| Ok(())).is_err(), "{what}");
        }
        stdout_of(run(directory, &["tier", "drain", "a.db"]), &what);
        let stock = rusqlite::Connection::open(directory.join("a.db")).unwrap();
        let rows: i64 = stock.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        let sound: String = stock.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!((rows, sound.as_str()), (1501, "ok"), "{what}");
    }
}

#[test]
fn wrong_arguments_are_told_and_nothing_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("text"), "not a database, and not a device either").unwrap();
    let before = snapshot(directory);
    for (arguments, code, part) in [
        (["tier"].as_slice(), 2, "Usage"),
        (&["tier", "frob"], 2, "frob"),
        (&["tier", "drain"], 2, "<DATABASE>"),
        (&["tier", "drain", "a.db", "--tier"], 2, "--tier"),
        (&["tier", "drain", "none.db"], 1, "no such file"),
        (&["tier", "drain", "text"], 1, "not a SQLite database"),
        (&["tier", "stat", "none"], 1, "no such file"),
        (&["tier", "stat", "."], 1, "is a directory"),
        (&["tier", "stat", "text"], 1, "neither a tier device nor a database"),
        (&["sql", "file:a.db?tier=t&tier_size=much", "SELECT 1"], 1, "tier_size"),
        (&["sql", "file:a.db?tier=t&tier_policy=best", "SELECT 1"], 1, "tier_policy"),
        (&["sql", "file:a.db?tier=t&sharing=passthrough", "CREATE TABLE t(a)"], 1, "sharing=passthrough"),
    ] {
        let refused = run(directory, arguments);
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {}", stderr_of(&refused));
        assert!(stderr_of(&refused).contains(part), "{arguments:?}: {}", stderr_of(&refused));
        assert_eq!(before, snapshot(directory), "{arguments:?}");
    }
    let help = succeed(directory, &["tier", "--help"]);
    assert!(help.contains("Examples:") && help.contains("litefoot tier drain app.db"), "{help}");
}
