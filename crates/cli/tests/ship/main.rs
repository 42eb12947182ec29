//! `litefoot ship` and `litefoot restore`: backups beside programs that write, and back.

#![allow(clippy::unwrap_used)]

#[cfg(feature = "cloud")]
mod buckets;
#[cfg(feature = "tls")]
mod certificates;
mod follow;
mod litestream;
mod looks;
mod rows;
#[path = "../support/mod.rs"]
mod support;

use litefoot_testkit::sqlite::{number, stock};
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Owner, finish, litefoot, run, stderr_of, succeed};

/// Two counts, of which each transaction changes both.
const SCHEMA: &str = "CREATE TABLE count(a); INSERT INTO count VALUES(0); CREATE TABLE other(a); \
                      INSERT INTO other VALUES(0); CREATE TABLE blob(id INTEGER PRIMARY KEY, a);";
const CHANGE: &str = "BEGIN; UPDATE count SET a = a + 1; UPDATE other SET a = a - 1; \
                      INSERT OR REPLACE INTO blob SELECT abs(random()) % 50, randomblob(3000); COMMIT;";
const PATIENCE: Duration = Duration::from_secs(60);

/// A database, a directory for its backup, and one for the jobs.
struct Case {
    directory: tempfile::TempDir,
}

impl Case {
    /// Works while another thread commits a change, pauses, and commits the next.
    fn beside_a_writer(&self, pause: Duration, work: impl FnOnce()) {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let database = self.database();
                while !stop.load(Ordering::Relaxed) {
                    database.execute_batch(CHANGE).unwrap();
                    std::thread::sleep(pause);
                }
            });
            work();
            stop.store(true, Ordering::Relaxed);
        });
    }

    fn new(sql: &str) -> Case {
        let case = Case { directory: tempfile::tempdir().unwrap() };
        case.database().execute_batch(sql).unwrap();
        case
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn database(&self) -> Connection {
        let database = stock(&self.path().join("a.db"));
        database.busy_timeout(PATIENCE).unwrap();
        database
    }

    fn url(&self) -> String {
        format!("file://{}", self.path().join("backup").display())
    }

    fn ship(&self, arguments: &[&str]) -> Command {
        litefoot(self.path(), &[&["ship", "--directory", "jobs"], arguments].concat())
    }

    fn add(&self, interval: &str) {
        assert!(
            self.ship(&["add", "a.db", &self.url(), "--interval", interval])
                .output()
                .unwrap()
                .status
                .success()
        );
    }

    fn serve(&self) -> Service {
        let child = self.ship(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Service(child)
    }

    /// The files of level 0, by their first and last transaction.
    fn deliveries(&self) -> Vec<(u64, u64)> {
        let Ok(entries) = fs::read_dir(self.path().join("backup/ltx/0")) else { return Vec::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<(u64, u64)> = names
            .filter_map(|name| {
                let (min, max) = name.strip_suffix(".ltx")?.split_once('-')?;
                Some((u64::from_str_radix(min, 16).ok()?, u64::from_str_radix(max, 16).ok()?))
            })
            .collect();
        files.sort_unstable();
        files
    }

    fn restore(&self, arguments: &[&str]) -> PathBuf {
        let to = self.path().join("restored.db");
        let _ = fs::remove_file(&to);
        succeed(self.path(), &[&["restore", &self.url(), "-o", "restored.db"], arguments].concat());
        to
    }

    fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "{what} did not come");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A service, which is killed where a test fails.
struct Service(Child);

impl Service {
    fn terminate(mut self) -> std::process::ExitStatus {
        // SAFETY: the process is a child that was not waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        self.0.wait().unwrap()
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The count in a copy, which is in order, and in which no transaction is by half.
fn counted(copy: &Path) -> i64 {
    let copy = stock(copy);
    let check: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let [count, other] = ["count", "other"].map(|table| number(&copy, &format!("SELECT a FROM {table}")));
    assert_eq!(count, -other, "half of a transaction was delivered");
    count
}

fn without_gaps(files: &[(u64, u64)]) {
    assert!((1..).zip(files).all(|(number, file)| *file == (number, number)), "{files:?}");
}

#[test]
fn one_look_delivers_what_changed_and_nothing_where_nothing_did() {
    for mode in ["wal", "delete"] {
        let case = Case::new(&format!("PRAGMA journal_mode={mode}; {SCHEMA}"));
        case.add("10s");
        let look = || assert!(case.ship(&["run", "--once"]).output().unwrap().status.success());
        look();
        look();
        assert_eq!(case.deliveries(), [(1, 1)], "{mode}");
        case.database().execute_batch(CHANGE).unwrap();
        look();
        look();
        assert_eq!(case.deliveries(), [(1, 1), (2, 2)], "{mode}");
        assert_eq!(counted(&case.restore(&[])), 1);
        assert_eq!(counted(&case.restore(&["--transaction", "1"])), 0);
        let refused = run(case.path(), &["restore", &case.url(), "-o", "restored.db"]);
        assert!(!refused.status.success() && stderr_of(&refused).contains("--force"));
        succeed(case.path(), &["restore", &case.url(), "-o", "restored.db", "--force"]);
    }
}

#[test]
fn a_service_keeps_up_with_a_writer_and_ends_when_it_is_asked_to() {
    for mode in ["wal", "delete"] {
        let case = Case::new(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=OFF; {SCHEMA}"));
        case.add("100ms");
        let service = case.serve();
        case.beside_a_writer(Duration::from_millis(5), || {
            case.wait_for("ten deliveries", || case.deliveries().len() >= 10);
            let told = succeed(case.path(), &["ship", "--directory", "jobs", "status", "--json"]);
            assert!(told.contains("\"state\": \"current\""), "{told}");
        });
        assert!(service.terminate().success());
        let last = number(&case.database(), "SELECT a FROM count");
        assert_eq!(counted(&case.restore(&[])), last, "{mode}: the last look was made");
        without_gaps(&case.deliveries());
        let mut before = -1;
        for (number, _) in case.deliveries() {
            let count = counted(&case.restore(&["--transaction", &format!("{number:x}")]));
            assert!(count > before, "{mode}: {count} behind {before}");
            before = count;
        }
        let down = case.ship(&["status"]).output().unwrap();
        assert!(!down.status.success() && String::from_utf8_lossy(&down.stdout).contains("no service runs"));
    }
}

#[test]
fn a_service_that_is_killed_anywhere_goes_on_without_a_gap() {
    let case = Case::new(&format!("PRAGMA journal_mode=wal; PRAGMA synchronous=OFF; {SCHEMA}"));
    case.add("100ms");
    case.beside_a_writer(Duration::from_millis(3), || {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..15 {
            let (service, before) = (case.serve(), case.deliveries().len());
            case.wait_for("a delivery", || case.deliveries().len() > before);
            std::thread::sleep(Duration::from_millis(random.u64(..150)));
            service.kill();
        }
    });
    assert!(case.ship(&["run", "--once"]).output().unwrap().status.success());
    let files = case.deliveries();
    without_gaps(&files);
    let mut before = -1;
    for (number, _) in &files {
        let count = counted(&case.restore(&["--transaction", &format!("{number:x}")]));
        assert!(count >= before, "{count} behind {before}");
        before = count;
    }
    assert_eq!(before, number(&case.database(), "SELECT a FROM count"));
}

#[test]
fn a_program_on_litefoot_is_backed_up_while_it_runs() {
    for mode in ["wal", "delete"] {
        let case = Case::new(&format!("PRAGMA journal_mode={mode}; {SCHEMA}"));
        case.add("10s");
        let mut owner = Owner::start(litefoot(case.path(), &["sql", "a.db"]), CHANGE);
        let look = || {
            let looked = case.ship(&["run", "--once"]).output().unwrap();
            assert!(looked.status.success(), "{mode}: {}", stderr_of(&looked));
        };
        look();
        owner.tell(CHANGE);
        look();
        assert_eq!(counted(&case.restore(&[])), 2, "{mode}");
        owner.tell(CHANGE);
        // Its logs wait, and are recovered first.
        owner.kill();
        look();
        assert_eq!(counted(&case.restore(&[])), 3, "{mode}");
        without_gaps(&case.deliveries());
    }
}

#[test]
fn a_place_has_one_shipper() {
    let case = Case::new(SCHEMA);
    case.add("10s");
    assert!(case.ship(&["run", "--once"]).output().unwrap().status.success());
    let second = |arguments: &[&str]| {
        let url = case.url();
        let arguments = [&["ship", "--directory", "others", "add", "a.db", &url], arguments].concat();
        run(case.path(), &arguments)
    };
    let refused = second(&[]);
    assert!(!refused.status.success() && stderr_of(&refused).contains("--take-over"));
    assert!(second(&["--take-over"]).status.success());
    case.database().execute_batch(CHANGE).unwrap();
    succeed(case.path(), &["ship", "--directory", "others", "run", "--once"]);
    assert_eq!(counted(&case.restore(&[])), 1);
}

#[test]
fn compaction_leaves_what_can_be_restored() {
    let case = Case::new(SCHEMA);
    case.add("10s");
    for _ in 0..5 {
        case.database().execute_batch(CHANGE).unwrap();
        assert!(case.ship(&["run", "--once"]).output().unwrap().status.success());
    }
    let told = succeed(case.path(), &["ship", "compact", &case.url()]);
    assert!(told.contains("written"), "{told}");
    assert!(case.path().join("backup/ltx/9").is_dir(), "a whole database was made");
    assert_eq!(counted(&case.restore(&[])), 5);
    case.database().execute_batch(CHANGE).unwrap();
    assert!(case.ship(&["run", "--once"]).output().unwrap().status.success());
    assert_eq!(counted(&case.restore(&[])), 6);
}

#[test]
fn what_is_wrong_is_a_clear_line() {
    let case = Case::new(SCHEMA);
    for (arguments, why) in [
        (&["add", "a.db", "/backup"][..], "is no URL"),
        (&["add", "a.db", "file://backup"], "whole path"),
        (&["add", "a.db", "postgres://me:hush@host/db"], "password"),
        (&["add", "a.db", "collect+tcp://centre:8443"], "plain text"),
        (&["add", "a.db", "collect+tcp://127.0.0.1:8443"], "LITEFOOT_COLLECT_TOKEN"),
        (&["add", "b.db", "file:///backup"], "Check the path"),
        (&["run"], "there is no job"),
        (&["remove", "x"], "there is no job"),
    ] {
        let output = case.ship(arguments).output().unwrap();
        let told = stderr_of(&output);
        assert!(
            !output.status.success() && told.contains(why) && !told.contains("hush"),
            "{arguments:?}: {told}"
        );
    }
    let refused = run(case.path(), &["restore", "file:///nowhere/at/all", "-o", "x.db"]);
    assert!(stderr_of(&refused).contains("no backup"), "{}", stderr_of(&refused));
    fs::write(case.path().join("text.db"), "this is no database, whatever its name says").unwrap();
    let url = case.url();
    assert!(case.ship(&["add", "text.db", &url]).output().unwrap().status.success());
    let failed = finish(case.ship(&["run", "--once"]).stderr(Stdio::piped()).spawn().unwrap());
    assert!(!failed.status.success() && stderr_of(&failed).contains("text.db"), "{}", stderr_of(&failed));
}

#[test]
fn a_collector_says_why_it_does_not_begin() {
    let case = Case::new(SCHEMA);
    let token = "hush-hush-hush-hush-hush";
    let to = "postgres://127.0.0.1:1/x";
    for (arguments, token, why) in [
        (&["--to", to][..], None, "LITEFOOT_COLLECT_TOKEN is not set"),
        (&["--to", to], Some("hush"), "16 to 512"),
        (&["--to", "postgres://me:hush@host/db"], Some(token), "password"),
        (&["--to", "file:///backup"], Some(token), "--to postgres://"),
        (&["--to", to, "--listen", "0.0.0.0:0"], Some(token), "--insecure"),
        (&["--to", to, "--certificate", "none.pem"], Some(token), "--key"),
        (&["--to", to, "--certificate", "none.pem", "--key", "none.pem"], Some(token), "none.pem"),
        (&["--to", to, "--client-ca", "none.pem"], Some(token), "--certificate"),
        (&["--to", to, "--listen", "here"], Some(token), "--listen"),
    ] {
        let mut command = litefoot(case.path(), &[&["collect"], arguments].concat());
        command.env_remove("LITEFOOT_COLLECT_TOKEN");
        if let Some(token) = token {
            command.env("LITEFOOT_COLLECT_TOKEN", token);
        }
        let output = command.output().unwrap();
        let told = stderr_of(&output);
        assert!(!output.status.success() && told.contains(why), "{arguments:?}: {told}");
        assert!(token.is_none_or(|token| !told.contains(token)), "{arguments:?}: {told}");
    }
}

#[test]
fn a_collector_waits_for_its_database_and_ends_when_it_is_asked() {
    use std::io::{BufRead, BufReader};
    let case = Case::new(SCHEMA);
    let arguments = ["collect", "--to", "postgres://127.0.0.1:1/x", "--listen", "127.0.0.1:0"];
    let mut command = litefoot(case.path(), &arguments);
    command.env("LITEFOOT_COLLECT_TOKEN", "hush-hush-hush-hush-hush");
    let mut collector = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(collector.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    let ship = |arguments: &[&str]| {
        let mut command = case.ship(arguments);
        command.env("LITEFOOT_COLLECT_TOKEN", "hush-hush-hush-hush-hush").output().unwrap()
    };
    assert!(ship(&["add", "a.db", &format!("collect+tcp://{address}")]).status.success());
    let failed = ship(&["run", "--once"]);
    assert!(
        !failed.status.success() && stderr_of(&failed).contains("cannot be reached"),
        "{}",
        stderr_of(&failed)
    );
    // SAFETY: the process is a child that was not waited for.
    unsafe { libc::kill(collector.id() as i32, libc::SIGTERM) };
    let ended = finish(collector);
    assert!(
        ended.status.success() && stderr_of(&ended).contains("cannot be reached"),
        "{}",
        stderr_of(&ended)
    );
}
