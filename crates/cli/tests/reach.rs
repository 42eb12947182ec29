//! Which SQLite a program carries: `litefoot doctor`, and the line of `litefoot run`.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Owner, litefoot, output_of, stderr_of, stdout_of};

/// Compiles the fake SQLite with these options; `None` where there is no compiler, or not such a one.
fn compile(directory: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    compile_of("fake_sqlite.c", directory, name, options)
}

/// The same of another source.
fn compile_of(source: &str, directory: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let path = directory.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O0", "-o"]).arg(&path).arg(source).args(options);
    match compiler.output() {
        Ok(output) if output.status.success() => Some(path),
        _ => {
            eprintln!("skipped: cc does not compile with {options:?}");
            None
        }
    }
}

/// The object of `litefoot doctor --json`, and its exit code.
fn doctor(directory: &Path, arguments: &[&str]) -> (Value, Option<i32>) {
    let output = output_of(litefoot(directory, &[&["doctor", "--json"], arguments].concat()));
    let object = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{arguments:?}: {}", stderr_of(&output)));
    (object, output.status.code())
}

/// The kind of a SQLite in a file of this name.
fn kind_of<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let all = object["sqlite"].as_array().unwrap();
    all.iter().find(|sqlite| sqlite["file"].as_str().unwrap().ends_with(name)).map(|sqlite| &sqlite["kind"])
}

/// Programs linked with a SQLite of each kind: what is found decides what is said.
#[test]
fn the_way_a_program_is_linked_decides_whether_it_is_reached() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    for (name, options, kind, reached) in [
        ("inside", &["-DPROGRAM"][..], "hidden", "no"),
        ("seen", &["-DPROGRAM", "-rdynamic"], "fixed", "no"),
        ("static", &["-DPROGRAM", "-static"], "hidden", "no"),
    ] {
        let Some(program) = compile(directory, name, options) else { continue };
        let (object, code) = doctor(directory, &["--", program.to_str().unwrap()]);
        assert_eq!(kind_of(&object, name), Some(&Value::from(kind)), "{object:#}");
        assert_eq!((object["reached"].as_str(), code), (Some(reached), Some(1)), "{object:#}");
        assert_eq!(object["obstacle"]["name"].as_str(), (name == "static").then_some("static"), "{object:#}");
    }
    for (library, options, kind, reached) in [
        ("libopen.so", &["-fPIC", "-shared"][..], "open", "yes"),
        ("libtied.so", &["-fPIC", "-shared", "-Wl,-Bsymbolic"], "fixed", "no"),
        ("libhidden.so", &["-fPIC", "-shared", "-DHIDDEN"], "hidden", "no"),
    ] {
        let Some(path) = compile(directory, library, options) else { continue };
        let program = directory.join(format!("with_{library}"));
        let source = directory.join("main.c");
        fs::write(&source, "int sqlite3_initialize(void); int main(void) { return sqlite3_initialize(); }")
            .unwrap();
        let mut compiler = Command::new("cc");
        let search = format!("-Wl,-rpath,{}", directory.display());
        stdout_of(
            output_of({
                compiler.arg("-o").arg(&program).arg(source).arg(&path).arg(search);
                compiler
            }),
            "cc",
        );
        let (object, code) = doctor(directory, &["--", program.to_str().unwrap()]);
        assert_eq!(kind_of(&object, library), Some(&Value::from(kind)), "{object:#}");
        assert_eq!(
            (object["reached"].as_str(), code),
            (Some(reached), Some(i32::from(reached == "no"))),
            "{object:#}"
        );
    }
}

#[test]
fn the_systems_programs_are_reached() {
    let directory = tempfile::tempdir().unwrap();
    let php = ["-r", "new PDO('sqlite::memory:');"];
    for (program, arguments) in
        [("sqlite3", &["--version"][..]), ("python3", &["-c", "import _sqlite3"]), ("php", &php)]
    {
        if !Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: there is no {program} with SQLite");
            continue;
        }
        let (object, _) = doctor(directory.path(), &["--", program]);
        let all = object["sqlite"].as_array().unwrap();
        assert!(!all.is_empty() && object["program"]["word"] == program, "{object:#}");
        let output = output_of(litefoot(directory.path(), &["doctor", "--", program]));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with("program ") && said.contains("\nreached    "), "{said}");
        // A Python may have been built with a SQLite inside.
        if kind_of(&object, "libsqlite3.so.0").is_some() || all[0]["kind"] == "open" {
            assert_eq!(object["reached"], "yes", "{object:#}");
            assert!(said.contains("litefoot run"), "{said}");
        }
    }
}

#[test]
fn what_is_not_there_is_said() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, code, message) in [
        (&["doctor", "--", "no-such-program"][..], 127, "no such program"),
        (&["doctor", "4194305"], 127, "none of that number"),
        (&["doctor"], 2, "required"),
        (&["doctor", "1", "--", "sh"], 2, "cannot be used with"),
    ] {
        let output = output_of(litefoot(directory.path(), arguments));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr_of(&output).contains(message), "{arguments:?}: {}", stderr_of(&output));
    }
    let script = directory.path().join("start");
    fs::write(&script, "#!/bin/sh\nexec true\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (object, code) = doctor(directory.path(), &["--", "./start"]);
    assert_eq!((object["reached"].as_str(), code), (Some("unknown"), Some(0)), "{object:#}");
    assert!(object["notes"].to_string().contains("not known before"), "{object:#}");
}

/// The line of `litefoot run` comes where something is certainly not reached, and nowhere else.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn run_says_what_it_does_not_reach() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let line = |arguments: &[&str]| {
        let output = output_of(litefoot(directory, &[&["run"], arguments].concat()));
        assert!(output.status.success(), "{arguments:?}: {}", stderr_of(&output));
        stderr_of(&output)
    };
    for arguments in [&["--", "true"][..], &["--", "sh", "-c", "true"], &["--", "env", "A=1", "true"]] {
        assert_eq!(line(arguments), "", "{arguments:?}");
    }
    let said = line(&["--", "env", "-i", "true"]);
    assert!(said.starts_with("litefoot: env is told to start its program without LD_PRELOAD"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(line(&["--quiet", "--", "env", "-i", "true"]), "");
    for (name, options) in [("inside", &["-DPROGRAM"][..]), ("static", &["-DPROGRAM", "-static"])] {
        let Some(program) = compile(directory, name, options) else { continue };
        let said = line(&["--", program.to_str().unwrap()]);
        assert!(said.contains("has a SQLite of its own inside") && said.lines().count() == 1, "{said}");
    }
}

/// PHP binds the libraries of its extensions past what is preloaded. Another program that does so is not reached: the test can fail.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_program_that_loads_as_php_does_is_reached() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let shared = ["-shared", "-fPIC", "-l:libsqlite3.so.0"];
    let Some(extension) = compile_of("deep.c", directory, "extension.so", &shared) else { return };
    for (name, options, reached) in [
        ("php", &["-DHOST", "-rdynamic", "-ldl"][..], true),
        ("other", &["-DHOST", "-rdynamic", "-ldl", "-Dphp_module_startup=other"], false),
    ] {
        let program = compile_of("deep.c", directory, name, options).unwrap();
        let words = ["run", "--", program.to_str().unwrap(), extension.to_str().unwrap(), "app.db"];
        let said = stdout_of(output_of(litefoot(directory, &words)), name);
        assert_eq!(said.trim() == env!("CARGO_PKG_VERSION"), reached, "{name}: {said}");
    }
}

/// A process with a database: who serves it, and who else has it.
#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn a_process_that_runs_shows_its_databases() {
    if Command::new("sqlite3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no sqlite3");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let on_litefoot =
        Owner::start(litefoot(directory, &["run", "--", "sqlite3", "ours.db"]), "CREATE TABLE t(a)");
    let mut stock = Command::new("sqlite3");
    stock.arg("theirs.db").current_dir(directory);
    let stock = Owner::start(stock, "CREATE TABLE t(a)");

    let (object, code) = doctor(directory, &[&on_litefoot.id().to_string()]);
    let process = &object["process"];
    assert!(process["library"].as_str().unwrap().ends_with("liblitefoot.so"), "{object:#}");
    assert_eq!((object["reached"].as_str(), code), (Some("yes"), Some(0)), "{object:#}");
    assert_eq!(process["databases"][0]["state"], "owned", "{object:#}");
    assert!(process["databases"][0]["path"].as_str().unwrap().ends_with("ours.db"), "{object:#}");

    let (object, _) = doctor(directory, &[&stock.id().to_string()]);
    assert_eq!(object["process"]["library"], Value::Null, "{object:#}");
    assert_eq!(object["process"]["databases"][0]["state"], "stock", "{object:#}");
    assert_eq!(object["reached"], "yes", "{object:#}");

    // To look does not disturb: the owner still owns it.
    let (object, _) = doctor(directory, &[&on_litefoot.id().to_string()]);
    assert_eq!(object["process"]["databases"][0]["state"], "owned", "{object:#}");
    on_litefoot.end();
    stock.end();
}
