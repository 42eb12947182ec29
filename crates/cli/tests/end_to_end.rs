//! Unmodified programs on litefoot: the system's `sqlite3` and `python3`, by extension and by preload.
//!
//! These tests need `liblitefoot.so` beside the program under test, which `cargo test` alone does not
//! build; `cargo xtask test` builds it and runs them.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::{Owner, PROGRAM, Watchdog, finish, litefoot, output_of, stderr_of, stdout_of, succeed};

const MODES: [&str; 2] = ["delete", "wal"];

fn library() -> PathBuf {
    let library = Path::new(PROGRAM).with_file_name("liblitefoot.so");
    assert!(library.exists(), "{} is missing: cargo build", library.display());
    library
}

fn script(name: &str) -> String {
    format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A stock program, as it comes.
fn stock(directory: &Path, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    output_of(command)
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn python_runs_unchanged_and_leaves_the_same_database() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let smoke = script("smoke.py");
        let ours = succeed(directory, &["run", "--", "python3", &smoke, "ours.db", mode]);
        let theirs = stdout_of(stock(directory, "python3", &[&smoke, "theirs.db", mode]), "smoke.py");
        assert_eq!(ours, theirs, "{mode}");
        // Litefoot's files are databases for stock SQLite, the backup too.
        for name in ["ours.db", "ours.db.backup"] {
            let check = stock(directory, "sqlite3", &[name, "PRAGMA integrity_check"]);
            assert_eq!(stdout_of(check, name), "ok\n");
        }
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn blocking_system_calls_of_a_program_are_never_cut_short() {
    let directory = tempfile::tempdir().unwrap();
    let program = script("pipes.py");
    let answer = succeed(directory.path(), &["run", "--", "python3", &program, "a.db"]);
    assert_eq!(answer, "short: 0 0\n");
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn preload_really_puts_litefoot_beneath_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let ask = "import sqlite3; print(sqlite3.connect('a.db').execute('PRAGMA litefoot_version').fetchone())";
    let version = env!("CARGO_PKG_VERSION");
    let with = succeed(directory.path(), &["run", "--", "python3", "-c", ask]);
    assert_eq!(with, format!("('{version}',)\n"));
    let without = stock(directory.path(), "python3", &["-c", ask]);
    assert_eq!(stdout_of(without, "python3"), "None\n");
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn another_preloaded_library_with_a_similar_name_does_not_make_an_extension_the_default() {
    let directory = tempfile::tempdir().unwrap();
    // The extension is loaded as SQLite loads it, visible to all; then a SQLite initialises.
    let ask = "import ctypes, sys; ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL); import sqlite3; \
               print(sqlite3.connect('a.db').execute('PRAGMA litefoot_version').fetchone())";
    let library = library();
    for (preloaded, expected) in
        [(Path::new("/none/liblitefoot.so"), None), (&library, Some(env!("CARGO_PKG_VERSION")))]
    {
        let mut command = Command::new("python3");
        command.args(["-c", ask]).arg(&library).current_dir(directory.path());
        command.env("LD_PRELOAD", preloaded);
        let answer = stdout_of(output_of(command), "python3");
        assert_eq!(answer, expected.map_or("None\n".to_owned(), |version| format!("('{version}',)\n")));
    }
}

/// Runs out of memory below a program, at one place after the other; `stride` as `memory.py` says.
fn run_out_of_memory(stride: &str) {
    let directory = tempfile::tempdir().unwrap();
    let refuse = directory.path().join("refuse.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&refuse).arg(script("refuse.c"));
    let compiled = output_of(compiler);
    assert!(compiled.status.success(), "{}", stderr_of(&compiled));
    for mode in MODES {
        for what in ["once", "all"] {
            let mut command = Command::new("python3");
            command.arg(script("memory.py")).arg(directory.path()).args([mode, what, stride]);
            command.env("LD_PRELOAD", format!("{}:{}", refuse.display(), library().display()));
            let output = output_of(command);
            let answer = String::from_utf8_lossy(&output.stdout);
            assert_eq!(answer, "places True wrong 0\n", "{mode}, {what}: {}", stderr_of(&output));
        }
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_program_outlives_every_allocation_of_ours_that_fails() {
    run_out_of_memory("10");
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn default_options_reach_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let ask = "import sqlite3; db = sqlite3.connect('a.db'); db.execute('CREATE TABLE IF NOT EXISTS t(a)'); \
               print(db.execute('PRAGMA litefoot_version').fetchone())";
    // A shared database is left to SQLite's own VFS, which knows no litefoot PRAGMA.
    let shared =
        succeed(directory.path(), &["run", "--set", "sharing=passthrough", "--", "python3", "-c", ask]);
    assert_eq!(shared, "None\n");
    let output = output_of(litefoot(directory.path(), &["run", "--set", "shard=1", "--", "true"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr_of(&output).contains("unknown option \"shard\""), "{}", stderr_of(&output));
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn the_sqlite3_shell_loads_the_extension() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let load = format!(".load {}", library().display());
    let arguments = [
        ":memory:",
        &load,
        ".open file:a.db?vfs=litefoot",
        "PRAGMA litefoot_version; CREATE TABLE t(a); INSERT INTO t VALUES (42); SELECT a FROM t",
    ];
    let answer = stdout_of(stock(directory, "sqlite3", &arguments), "sqlite3");
    assert_eq!(answer, format!("{}\n42\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(stdout_of(stock(directory, "sqlite3", &["a.db", "SELECT a FROM t"]), "stock"), "42\n");
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn stock_sqlite_is_kept_out_of_a_database_that_is_not_shared() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let set_up = format!("PRAGMA journal_mode={mode}; CREATE TABLE t(a); INSERT INTO t VALUES (1)");
        let program = litefoot(directory, &["run", "--set", "sharing=exclusive", "--", "sqlite3", "a.db"]);
        let owner = Owner::start(program, &set_up);

        for sql in ["SELECT * FROM t", "INSERT INTO t VALUES (2)"] {
            let output = stock(directory, "sqlite3", &["a.db", sql]);
            assert!(!output.status.success(), "{mode}: {sql}");
            assert!(stderr_of(&output).contains("database is locked"), "{mode}: {}", stderr_of(&output));
        }
        owner.end();
        assert_eq!(stdout_of(stock(directory, "sqlite3", &["a.db", "SELECT * FROM t"]), mode), "1\n");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_killed_program_loses_nothing_it_was_told_is_safe() {
    const ACKNOWLEDGED: usize = 200;
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let mut writer = litefoot(directory, &["run", "--", "python3", &script("writer.py"), "a.db", mode])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let _watchdog = Watchdog::over(&writer);
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let acknowledged: Vec<String> = lines.take(ACKNOWLEDGED).map(Result::unwrap).collect();
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert_eq!(acknowledged.len(), ACKNOWLEDGED, "{mode}");

        let count = format!("SELECT count(*) FROM number WHERE n <= {ACKNOWLEDGED}");
        let check = "PRAGMA integrity_check; SELECT count(*) = max(n) FROM number;";
        // First the program that wrote it, which recovers, then stock SQLite on what it left.
        let ask = format!("import sqlite3; print(sqlite3.connect('a.db').execute('{count}').fetchone()[0])");
        let ours = succeed(directory, &["run", "--", "python3", "-c", &ask]);
        assert_eq!(ours.lines().last(), Some("200"), "{mode}");
        let theirs = stock(directory, "sqlite3", &["a.db", &format!("{check} {count}")]);
        assert_eq!(stdout_of(theirs, mode), "ok\n1\n200\n", "{mode}");
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn the_program_keeps_its_exit_code_its_input_and_its_other_preloads() {
    let directory = tempfile::tempdir().unwrap();
    let show = "cat; printf '%s' \"$LD_PRELOAD\"; exit 7";
    let mut child = litefoot(directory.path(), &["run", "--", "sh", "-c", show])
        .env("LD_PRELOAD", "libm.so.6")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"input\n").unwrap();
    let output = finish(child);
    assert_eq!(output.status.code(), Some(7));
    let library = library().canonicalize().unwrap();
    let expected = format!("input\n{}:libm.so.6", library.display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_program_that_is_missing_or_cannot_run_is_named() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("data"), "text").unwrap();
    for (program, code, message) in [
        ("no-such-program", 127, "no-such-program: no such program"),
        ("./data", 126, "./data: cannot be run"),
    ] {
        let output = output_of(litefoot(directory.path(), &["run", "--", program]));
        assert_eq!(output.status.code(), Some(code), "{program}");
        assert!(stderr_of(&output).contains(message), "{}", stderr_of(&output));
    }
    let mut command = litefoot(directory.path(), &["run", "--", "true"]);
    command.env("LITEFOOT_LIBRARY", "/nowhere/liblitefoot.so");
    let output = output_of(command);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr_of(&output).contains("/nowhere/liblitefoot.so"), "{}", stderr_of(&output));
}

/// Builds of SQLite that could use the atomic writes of a file system are offered none: they take the same way as
/// all others, with the same guarantees.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn builds_with_atomic_writes_take_the_same_way() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let source = litefoot_testkit::sqlite::source();
    let mut compile = Command::new("cc");
    compile.args([
        "-O0",
        "-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE",
        "-DSQLITE_ENABLE_ATOMIC_WRITE",
        // As better-sqlite3 and mattn/go-sqlite3 do: functions are missing then.
        "-DSQLITE_OMIT_DEPRECATED",
        "-DSQLITE_THREADSAFE=1",
    ]);
    compile.arg("-I").arg(&source).arg("-o").arg(directory.join("inserts"));
    compile.arg(script("inserts.c")).arg(source.join("sqlite3.c")).args(["-lpthread", "-ldl", "-lm"]);
    stdout_of(output_of(compile), "cc");
    let library = library();
    for mode in ["delete", "truncate", "persist", "memory", "off", "wal"] {
        let name = format!("{mode}.db");
        let mut program = Command::new(directory.join("inserts"));
        program.arg(&library).args([&name, mode, "200"]).current_dir(directory);
        program.env("LITEFOOT_OPTIONS", "commit_log=statements");
        let output = stdout_of(output_of(program), mode);
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines[..2], ["11", "200"], "{mode}: {output}");
        let commits: i64 = ["commits_pages|", "commits_statements|"]
            .iter()
            .filter_map(|name| lines.iter().find_map(|line| line.strip_prefix(name)?.parse::<i64>().ok()))
            .sum();
        assert!(commits >= 200, "{mode}: {output}");
        assert_eq!(output.contains("fallback.bindings|"), mode == "wal", "{mode}: {output}");
        // The program died without closing the database. Nobody else replays its statements.
        if mode == "wal" {
            let other = output_of(litefoot(directory, &["sql", &name, "DELETE FROM t"]));
            assert_eq!(other.status.code(), Some(1));
            assert!(stderr_of(&other).contains("another build of SQLite"), "{}", stderr_of(&other));
        }
        let mut again = Command::new(directory.join("inserts"));
        again.arg(&library).args([&name, mode, "0"]).current_dir(directory);
        assert!(stdout_of(output_of(again), mode).starts_with("11\n200\n"), "{mode}");
        let found = succeed(directory, &["sql", &name, "SELECT 'rows:' || count(*) AS r FROM t"]);
        assert!(found.contains("rows:200"), "{mode}: {found}");
        let check = stock(directory, "sqlite3", &[&name, "PRAGMA integrity_check"]);
        assert_eq!(stdout_of(check, &name), "ok\n");
    }
}

/// A copy of the library from another place finds litefoot there already, and leaves the database to the first.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_second_copy_of_the_library_leaves_everything_to_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    std::fs::copy(library(), directory.join("liblitefoot.so")).unwrap();
    let arguments = [
        "run",
        "--",
        "sqlite3",
        "a.db",
        "CREATE TABLE t(a)",
        ".load ./liblitefoot sqlite3_litefootdefault_init",
        // The second copy's own VFS would have this name, and be another process to the first.
        "ATTACH 'file:a.db?vfs=litefoot' AS again; SELECT count(*) FROM again.t",
        "SELECT name, value FROM litefoot_stats WHERE name = 'sharing_changes'",
    ];
    assert_eq!(succeed(directory, &arguments), "0\nsharing_changes|0\n");
}

/// A preloaded library stays out of a program whose user has switched it off.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn litefoot_can_be_switched_off() {
    let directory = tempfile::tempdir().unwrap();
    let mut off = litefoot(
        directory.path(),
        &["run", "--", "sqlite3", "a.db", "PRAGMA litefoot_version; SELECT 'off'"],
    );
    off.env("LITEFOOT", "off");
    assert_eq!(stdout_of(output_of(off), "switched off"), "off\n");
}

/// SQLite lets a VFS answer a PRAGMA with one text, a line a figure. The rows are a table, under the name that SQLite
/// gives to PRAGMAs read as tables, and a shorter one.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn figures_are_a_text_and_a_table() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let rows = "FROM pragma_litefoot_stats WHERE name = 'commits_pages'";
    let load = format!(".load {}", library().display());
    let arguments = [
        ":memory:",
        &load,
        ".open file:a.db?vfs=litefoot",
        &format!("CREATE TABLE t(a); SELECT name, value {rows}; PRAGMA litefoot_stats"),
    ];
    let answer = stdout_of(stock(directory, "sqlite3", &arguments), "sqlite3");
    assert!(answer.starts_with("commits_pages|1\ncommits_deltas|0\n"), "{answer}");
    assert_eq!(answer.matches("commits_pages|1\n").count(), 2, "{answer}");

    let python = format!(
        "import sqlite3; db = sqlite3.connect('b.db'); db.execute('CREATE TABLE t(a)')\n\
         print(db.execute(\"SELECT * {rows}\").fetchall())\n\
         table = db.execute('SELECT * FROM litefoot_stats').fetchall()\n\
         text, = db.execute('PRAGMA litefoot_stats').fetchone()\n\
         lines = [tuple(line.split('|')) for line in text.splitlines()]\n\
         print([name for name, _ in table] == [name for name, _ in lines], len(table) > 10)"
    );
    let answer = succeed(directory, &["run", "--", "python3", "-c", &python]);
    assert_eq!(answer, "[('commits_pages', 1)]\nTrue True\n");
}

/// The memory that `litefoot stat` reads is inherited by children; it is the parent's all the same, and is closed
/// with the parent's database.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_forked_child_is_not_taken_for_the_owner() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let python = "import os, sqlite3, sys\n\
                  db = sqlite3.connect('a.db'); db.execute('CREATE TABLE t(a)')\n\
                  child = os.fork()\n\
                  if child == 0:\n    sys.stdin.read(); os._exit(0)\n\
                  print(os.getpid(), flush=True)\n\
                  input = os.open('go', os.O_RDONLY); os.read(input, 1)\n\
                  db.close(); print('closed', flush=True)\n\
                  os.waitpid(child, 0)\n";
    let fifo = Command::new("mkfifo").arg("go").current_dir(directory).status().unwrap();
    assert!(fifo.success());
    let mut program = litefoot(directory, &["run", "--", "python3", "-c", python])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _watchdog = Watchdog::over(&program);
    let mut said = BufReader::new(program.stdout.take().unwrap()).lines();
    let parent: u32 = said.next().unwrap().unwrap().parse().unwrap();
    let look = || -> serde_json::Value {
        serde_json::from_str(&succeed(directory, &["stat", "--json", "a.db"])).unwrap()
    };
    let seen = look();
    assert_eq!((&seen["owner"]["process"], &seen["owner"]["program"]), (&parent.into(), &"python3".into()));
    assert_eq!(seen["litefoot_stats"]["commits_pages"], 1);
    std::fs::write(directory.join("go"), "x").unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "closed");
    assert!(look()["litefoot_stats"].is_null(), "the child still has the memory, and it is closed");
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

/// A child has neither the threads nor the pool of its parent: it closes what it has inherited without waiting for
/// them, and begins with its own.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_forked_child_has_a_pool_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let python = "import os, sqlite3\n\
                  def scan(name):\n    \
                      db = sqlite3.connect(name)\n    \
                      db.execute('CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v)')\n    \
                      db.executemany('INSERT INTO t(v) VALUES (?)', [('x' * 500,)] * 5000)\n    \
                      db.commit(); db.close()\n    \
                      db = sqlite3.connect(name)\n    \
                      print(db.execute('SELECT count(*), sum(length(v)) FROM t').fetchone(), flush=True)\n    \
                      rows = dict(line.split('|') for line in\n        \
                                  db.execute('PRAGMA litefoot_buffer_pool_size').fetchone()[0].splitlines())\n    \
                      print(int(rows['prefetched_used']) > 0, flush=True)\n    \
                      return db\n\
                  db = scan('a.db')\n\
                  child = os.fork()\n\
                  if child == 0:\n    db.close(); scan('b.db').close(); os._exit(0)\n\
                  print(os.waitpid(child, 0)[1], db.execute('SELECT max(id) FROM t').fetchone())\n";
    let answer = succeed(directory.path(), &["run", "--", "python3", "-c", python]);
    assert_eq!(answer, "(5000, 2500000)\nTrue\n(5000, 2500000)\nTrue\n0 (5000,)\n");
}

/// A rollback-journal database whose commits are deltas: stock SQLite sees the newest commit after a close, and after an exit
/// without one; litefoot does so after a kill, where stock SQLite sees the last checkpoint.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn deltas_with_a_rollback_journal_come_home_by_a_close_an_exit_and_the_next_open() {
    for mode in ["delete", "truncate", "persist"] {
        for (end, seen_by_stock) in [
            ("db.close()", "20"),
            ("keep = db", "20"),
            ("os.kill(os.getpid(), 9)", "0"),
            // The switch is a commit like any other, and the first read in WAL mode opens the next log.
            ("db.execute('PRAGMA journal_mode=wal').fetchall(); os.kill(os.getpid(), 9)", "0"),
            (
                "db.execute('PRAGMA journal_mode=wal').fetchall(); db.execute('SELECT a FROM t'); os.kill(os.getpid(), 9)",
                "20",
            ),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let directory = directory.path();
            let python = format!(
                "import os, sqlite3\n\
                 db = sqlite3.connect('a.db', isolation_level=None)\n\
                 db.execute('PRAGMA journal_mode={mode}'); db.execute('CREATE TABLE t(a)')\n\
                 for n in range(20): db.execute('INSERT INTO t VALUES(?)', (n,))\n\
                 print(*db.execute(\"SELECT value FROM pragma_litefoot_stats WHERE name = 'commits_deltas'\").fetchone(), flush=True)\n\
                 {end}"
            );
            let program = ["run", "--set", "commit_log=deltas", "--", "python3", "-c", &python];
            let output = output_of(litefoot(directory, &program));
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "20\n",
                "{mode}, {end}: {}",
                stderr_of(&output)
            );
            let count = "SELECT count(*) FROM t; PRAGMA integrity_check";
            let by_stock = || stdout_of(stock(directory, "sqlite3", &["a.db", count]), "sqlite3");
            assert_eq!(by_stock(), format!("{seen_by_stock}\nok\n"), "{mode}, {end}");
            let ask = "import sqlite3; print(*sqlite3.connect('a.db').execute('SELECT count(*) FROM t').fetchone())";
            assert_eq!(succeed(directory, &["run", "--", "python3", "-c", ask]), "20\n", "{mode}, {end}");
            assert_eq!(by_stock(), "20\nok\n", "{mode}, {end}");
        }
    }
}
