//! `liblitefoot.a` in programs that compile the amalgamation: in each form of it, litefoot is the default VFS.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use litefoot_testkit::process::{output_of, stderr_of, stdout_of};
use litefoot_testkit::sqlite;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How programs compile SQLite: all functions, called before a thread can use SQLite; and as few as may be.
const FORMS: [(&str, &[&str]); 2] = [
    ("whole", &["-DSQLITE_EXTRA_INIT_MUTEXED=litefoot_init"]),
    (
        "small",
        &[
            "-DSQLITE_EXTRA_INIT=litefoot_init",
            "-DSQLITE_OMIT_LOAD_EXTENSION",
            "-DSQLITE_OMIT_DEPRECATED",
            "-DSQLITE_OMIT_PROGRESS_CALLBACK",
            "-DSQLITE_OMIT_AUTHORIZATION",
            "-DSQLITE_OMIT_COMPILEOPTION_DIAGS",
        ],
    ),
];

/// The archive that `cargo build` has left beside this test.
fn archive() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let archive = target.join(if cfg!(debug_assertions) { "debug" } else { "release" }).join("liblitefoot.a");
    assert!(archive.exists(), "{} is missing: cargo build", archive.display());
    archive
}

/// Compiles the program with SQLite in one form.
fn compile(directory: &Path, archive: &Path, form: &str, options: &[&str]) -> PathBuf {
    let (source, program) = (sqlite::source(), directory.join(form));
    let mut cc = Command::new("cc");
    cc.args(["-O0", "-DSQLITE_THREADSAFE=1"]).args(options).arg("-I").arg(&source).arg("-o").arg(&program);
    cc.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/smoke.c")).arg(source.join("sqlite3.c")).arg(archive);
    stdout_of(output_of(with_libraries(cc)), "cc");
    program
}

fn with_libraries(mut cc: Command) -> Command {
    cc.args(["-lpthread", "-ldl", "-lm"]);
    cc
}

fn run(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(program.parent().unwrap());
    command.env_remove("LITEFOOT_OPTIONS").env_remove("LITEFOOT").envs(environment.iter().copied());
    output_of(command)
}

#[test]
#[ignore = "compiles SQLite; cargo xtask test runs it"]
fn programs_that_compile_sqlite_are_on_litefoot() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (archive, version) = (archive(), env!("CARGO_PKG_VERSION"));
    for (form, options) in FORMS {
        let program = compile(directory.path(), &archive, form, options);
        for mode in ["delete", "wal"] {
            let name = format!("{form}-{mode}.db");
            let killed = run(&program, &[&name, mode, "kill"], &[]);
            assert_eq!(killed.status.signal(), Some(9), "{}", stderr_of(&killed));
            assert_eq!(String::from_utf8(killed.stdout).unwrap(), format!("{mode}\n{version}\n1\n"));
            for (then, rows) in [("", 2), ("shutdown", 3)] {
                let printed = stdout_of(run(&program, &[&name, mode, then], &[]), &name);
                assert_eq!(printed, format!("{mode}\n{version}\n{rows}\n"), "{name} {then}");
            }
            // Switched off, and with options that litefoot does not know: SQLite as it is.
            let off = run(&program, &[&name, mode], &[("LITEFOOT", "off")]);
            assert_eq!(stderr_of(&off), "");
            assert_eq!(stdout_of(off, &name), format!("{mode}\n4\n"));
            let wrong = run(&program, &[&name, mode], &[("LITEFOOT_OPTIONS", "pool=1M")]);
            assert!(stderr_of(&wrong).starts_with("litefoot: not in use: "), "{}", stderr_of(&wrong));
            assert_eq!(stdout_of(wrong, &name), format!("{mode}\n5\n"));
        }
    }
}
