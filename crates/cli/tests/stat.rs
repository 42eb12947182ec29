//! Seeing inside: `litefoot stat` on a database that another process owns, and on one that nobody has open.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Owner, PROGRAM, Watchdog, finish, litefoot, output_of, run, stderr_of, stdout_of, succeed};

/// A program that has the database open.
fn owner_of(directory: &Path, sql: &str) -> Owner {
    Owner::start(litefoot(directory, &["sql", "a.db"]), sql)
}

fn json(directory: &Path) -> serde_json::Value {
    serde_json::from_str(&succeed(directory, &["stat", "--json", "a.db"])).unwrap()
}

/// So few that no checkpoint has come for deltas, behind which the log is empty.
const COMMITS: i64 = 5;

#[test]
fn the_figures_of_a_running_owner_are_seen_from_outside() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let mut owner = owner_of(directory, &format!("PRAGMA journal_mode={mode}; CREATE TABLE t(a)"));
        let before = json(directory);
        owner.tell(&"INSERT INTO t VALUES(1); ".repeat(COMMITS as usize));
        let after = json(directory);
        let grown = |name: &str| {
            let value = |json: &serde_json::Value| json["litefoot_stats"][name].as_i64().unwrap();
            value(&after) - value(&before)
        };
        assert_eq!(grown("commits_deltas") + grown("commits_pages"), COMMITS, "{mode}");
        let of_logs = |what: &str| grown(&format!("redo_log_{what}")) + grown(&format!("commit_log_{what}"));
        for what in ["writes", "syncs", "written_bytes"] {
            assert!(of_logs(what) >= COMMITS, "{mode}: {what}");
        }
        assert!(of_logs("block_bytes") >= COMMITS * 4096, "{mode}");
        let log = if mode == "wal" { "wal_bytes" } else { "redo_log_bytes" };
        assert!(after["litefoot_stats"][log].as_i64().unwrap() > 0, "{mode}");
        if mode == "wal" {
            assert!(after["litefoot_stats"]["wal_limit_bytes"].as_i64().unwrap() >= 1 << 20);
        }
        assert_eq!(after["owner"]["process"], owner.id());
        assert_eq!(after["owner"]["program"], "litefoot");
        let text = succeed(directory, &["stat", "a.db"]);
        let line = format!("process {} (litefoot), which shares it with whoever opens it", owner.id());
        assert!(text.contains(&line) && text.contains("litefoot commits_"), "{text}");
        owner.end();
        let idle = json(directory);
        assert_eq!(
            (&idle["litefoot_stats"], &idle["owner"]["state"]),
            (&serde_json::Value::Null, &"nobody".into())
        );
    }
}

/// A page that a killed process has left would be taken for a living one: there is none.
#[test]
fn nothing_is_left_of_an_owner_that_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let owner = owner_of(directory, "CREATE TABLE t(a)");
    assert!(json(directory)["litefoot_stats"].is_object());
    owner.kill();
    assert!(json(directory)["litefoot_stats"].is_null());
    let mut next = owner_of(directory, "INSERT INTO t VALUES(1)");
    next.tell("INSERT INTO t VALUES(2)");
    assert_eq!(json(directory)["litefoot_stats"]["commits_pages"], 2);
    next.end();
}

#[test]
fn a_process_that_waits_for_the_owner_is_not_taken_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut owner = Owner::start(
        litefoot(directory, &["sql", "file:a.db?sharing=exclusive"]),
        "CREATE TABLE t(a); BEGIN IMMEDIATE",
    );
    let mut other = litefoot(directory, &["sql", "a.db"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut refused = BufReader::new(other.stderr.take().unwrap()).lines();
    other.stdin.as_mut().unwrap().write_all(b"SELECT * FROM t;\n").unwrap();
    assert!(refused.next().is_some_and(|line| line.unwrap().contains("has this database open")));
    assert_eq!(json(directory)["owner"]["process"], owner.id());
    owner.tell("COMMIT");
    owner.end();
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn watching_into_a_pipe_gives_a_line_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut owner = owner_of(directory, "CREATE TABLE t(a)");
    let mut watch = litefoot(directory, &["stat", "--watch", "--interval", "0.2", "--count", "3", "a.db"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::over(&watch);
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("commits/s"));
    let mut seen = Vec::new();
    for line in lines {
        seen.push(line.unwrap());
        owner.tell("INSERT INTO t VALUES(1)");
    }
    assert!(watch.wait().unwrap().success());
    assert_eq!(seen.len(), 3, "{seen:?}");
    let rate = |line: &String| line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap();
    assert!(seen[1..].iter().all(|line| rate(line) > 0.0), "{seen:?}");
    owner.end();
    let idle = succeed(directory, &["stat", "--watch", "--interval", "0.1", "--count", "2", "a.db"]);
    assert_eq!(idle.matches("nobody whose figures can be seen").count(), 2, "{idle}");
}

#[test]
fn a_watch_that_is_cut_short_says_so_and_an_endless_one_is_left_by_ctrl_c() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["sql", "a.db", "CREATE TABLE t(a)"]);
    for (arguments, code) in [
        (&["stat", "--watch", "--interval", "0.1", "a.db"][..], 0),
        (&["stat", "--watch", "--interval", "0.1", "--count", "1000", "a.db"], 130),
    ] {
        let mut child =
            litefoot(directory, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _watchdog = Watchdog::over(&child);
        let mut first = [0; 1];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let output = finish(child);
        assert_eq!(output.status.code(), Some(code), "{}", stderr_of(&output));
        assert_eq!(stderr_of(&output).is_empty(), code == 0, "{}", stderr_of(&output));
    }
}

#[test]
fn a_terminal_is_given_back_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut owner = owner_of(directory, "CREATE TABLE t(a)");
    owner.tell("INSERT INTO t VALUES(1)");
    // The shell is in the terminal's foreground group too and must outlive a Ctrl-C.
    let command = format!("trap : INT; {PROGRAM} stat --watch --interval 0.2 a.db; echo $? > status");
    let mut terminal = Command::new("script")
        .args(["--quiet", "--command", &command, "/dev/null"])
        .current_dir(directory)
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::over(&terminal);
    let mut shown = Vec::new();
    let mut screen = terminal.stdout.take().unwrap();
    // The second page has rates.
    while String::from_utf8_lossy(&shown).matches("flash bytes").count() < 2 {
        let mut part = [0; 512];
        let read = screen.read(&mut part).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&part[..read]);
    }
    terminal.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let mut rest = Vec::new();
    // A terminal that closes ends in an error, not in an end of file.
    let _ = screen.read_to_end(&mut rest);
    terminal.wait().unwrap();
    shown.extend_from_slice(&rest);
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("\x1b[?1049h") && shown.contains("as pages"), "{shown:?}");
    assert!(shown.trim_end().ends_with("\x1b[?7h\x1b[?25h\x1b[?1049l"), "{shown:?}");
    assert_eq!(std::fs::read_to_string(directory.join("status")).unwrap(), "0\n");
    owner.end();
}

/// A metric's value by its name and labels, after checking the rules of the text format: each name has one HELP and
/// one TYPE, in front of its samples, which are together; no sample comes twice; counters end in `_total`.
fn parsed(text: &str) -> BTreeMap<String, f64> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let (mut done, mut current, mut help) = (HashSet::new(), String::new(), String::new());
    let mut samples = BTreeMap::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, what) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !what.is_empty() && done.insert(name.to_owned()), "{line}");
            help = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, help, "{line}");
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            current = name.to_owned();
        } else {
            let (name, rest) = line.split_once('{').unwrap();
            let (labels, value) = rest.rsplit_once("} ").unwrap();
            assert_eq!(name, current, "{line}");
            let mut keys = HashSet::new();
            let mut left = labels;
            while !left.is_empty() {
                let (key, quoted) = left.split_once("=\"").unwrap();
                assert!(is_name(key) && keys.insert(key), "{line}");
                let mut escaped = false;
                let end = quoted.find(|c: char| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                });
                left = &quoted[end.unwrap() + 1..];
                left = left.strip_prefix(',').unwrap_or(left);
            }
            assert!(keys.contains("database"), "{line}");
            assert!(
                samples
                    .insert(line[..line.len() - value.len() - 1].to_owned(), value.parse().unwrap())
                    .is_none()
            );
        }
    }
    samples
}

#[test]
fn prometheus_reads_the_metrics_of_a_running_owner_and_of_an_idle_database() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let metrics = |name: &str| parsed(&succeed(directory, &["stat", "--prometheus", name]));
    let owner = owner_of(directory, "CREATE TABLE t(a); INSERT INTO t VALUES(1)");
    let running = metrics("a.db");
    assert_eq!(running["litefoot_open{database=\"a.db\"}"], 1.0);
    assert_eq!(running["litefoot_commits_pages_total{database=\"a.db\"}"], 2.0);
    assert!(running["litefoot_block_bytes_total{database=\"a.db\",file=\"redo_log\"}"] >= 4096.0);
    assert!(running["litefoot_syncs_total{database=\"a.db\",file=\"database\"}"] >= 1.0);
    assert_eq!(running["litefoot_fallbacks_total{database=\"a.db\",cause=\"clock\"}"], 0.0);
    assert!(running["litefoot_opened_timestamp_seconds{database=\"a.db\"}"] > 1e9);
    owner.end();
    let idle = metrics("a.db");
    assert_eq!(idle["litefoot_open{database=\"a.db\"}"], 0.0);
    assert!(idle["litefoot_file_bytes{database=\"a.db\",file=\"database\"}"] >= 4096.0);
    assert!(!idle.keys().any(|name| name.contains("_total")), "nobody counts: {idle:?}");
    std::fs::rename(directory.join("a.db"), directory.join("a\"b\\.db")).unwrap();
    metrics("a\"b\\.db");
}

/// What is printed of `a.db` while a process has it open, which ends then.
fn metrics_of_an_owner(directory: &Path) -> String {
    let owner = owner_of(directory, "CREATE TABLE t(a); INSERT INTO t VALUES(1)");
    let running = succeed(directory, &["stat", "--prometheus", "a.db"]);
    owner.end();
    running
}

/// Prometheus's own checker finds nothing to say of what is printed.
#[test]
fn the_checker_of_prometheus_accepts_the_metrics() {
    if Command::new("promtool").arg("--version").output().is_err() {
        eprintln!("skipped: there is no promtool (apt install prometheus)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let running = metrics_of_an_owner(directory);
    let idle = succeed(directory, &["stat", "--prometheus", "a.db"]);
    let destination = format!("file://{}", directory.join("backup").display());
    succeed(directory, &["ship", "add", "--directory", "jobs", "a.db", &destination]);
    let shipped = run(directory, &["ship", "status", "--directory", "jobs", "--prometheus"]);
    for text in [running, idle, String::from_utf8(shipped.stdout).unwrap()] {
        assert!(text.starts_with("# HELP litefoot_"), "{text}");
        let mut check = Command::new("promtool");
        let metrics = directory.join("metrics");
        std::fs::write(&metrics, &text).unwrap();
        check.args(["check", "metrics"]).stdin(std::fs::File::open(&metrics).unwrap());
        let said = check.output().unwrap();
        assert!(said.status.success(), "{}\n{text}", String::from_utf8_lossy(&said.stderr));
    }
}

/// The parser of Prometheus's own client for Python reads what is printed, and finds the same types and values.
#[test]
fn a_parser_of_prometheus_understands_the_metrics() {
    let probe = Command::new("python3").args(["-c", "import prometheus_client.parser"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no Python with prometheus_client (pip install prometheus_client)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let running = metrics_of_an_owner(directory);
    std::fs::rename(directory.join("a.db"), directory.join("a\"b\\\nc.db")).unwrap();
    let idle = succeed(directory, &["stat", "--prometheus", "a\"b\\\nc.db"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/exposition.py");
    for (text, database) in [(running, "a.db"), (idle, "a\"b\\\nc.db")] {
        std::fs::write(directory.join("metrics"), &text).unwrap();
        let mut parser = Command::new("python3");
        parser.args([script, "metrics", database]).current_dir(directory);
        let samples: usize = stdout_of(output_of(parser), "exposition.py").trim().parse().unwrap();
        assert_eq!(samples, text.lines().filter(|line| !line.starts_with('#')).count());
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    succeed(directory.path(), &["sql", "a.db", "CREATE TABLE t(a)"]);
    for arguments in [
        &["stat", "--count", "3", "a.db"][..],
        &["stat", "--watch", "--interval", "0", "a.db"],
        &["stat", "--watch", "--count", "0", "a.db"],
        &["stat", "--watch", "--json", "a.db"],
        &["stat", "--json", "--prometheus", "a.db"],
    ] {
        assert_eq!(run(directory.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
    let missing = run(directory.path(), &["stat", "--watch", "missing.db"]);
    assert_eq!((missing.status.code(), missing.stdout.len()), (Some(1), 0));
    assert!(stderr_of(&missing).contains("missing.db: no such file"));
}
