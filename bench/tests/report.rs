//! `litefoot bench --report`: the page as a browser, a script and a full disk meet it.

#![allow(clippy::unwrap_used)]

#[path = "support/browser.rs"]
mod browser;
mod support;

use litefoot_testkit::files::snapshot;
use litefoot_testkit::process::{finish, output_of, stderr_of, stdout_of};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{PROGRAM, bench};

/// Short runs of all experiments.
fn samples() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 8, "{files:?}");
    files
}

/// The page of the samples, in a directory below.
fn page(directory: &Path) -> String {
    let files: Vec<String> = samples().iter().map(|path| path.to_str().unwrap().to_owned()).collect();
    let mut arguments = vec!["--report", "out", "--from"];
    arguments.extend(files.iter().map(String::as_str));
    let output = output_of(bench(directory, &arguments));
    assert_eq!(stdout_of(output, "litefoot-bench --from"), "out/report.html\n");
    std::fs::read_to_string(directory.join("out/report.html")).unwrap()
}

#[test]
fn a_browser_shows_every_figure_at_the_width_of_a_phone() {
    let Some(browser) = browser::find() else {
        println!("skipped: neither chromium, google-chrome nor firefox is on the PATH");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path());
    let seen = browser::look(&browser, &page, &[375, 1280], directory.path());
    assert_eq!(seen.foreign, Vec::<String>::new());
    assert_eq!(seen.widths.len(), 2, "{:?}", seen.widths);
    for seen in &seen.widths {
        assert_eq!(seen["errors"], serde_json::json!([]));
        assert_eq!(seen["wide"], serde_json::json!([]));
        assert!(seen["scroll"].as_u64() <= seen["width"].as_u64(), "{} {}", seen["scroll"], seen["width"]);
        let figures = seen["figures"].as_array().unwrap();
        assert_eq!(figures.len(), page.matches("<figure ").count());
        let drawn = figures.iter().filter(|figure| figure["drawn"] == true).count();
        assert_eq!(drawn, page.matches("<svg ").count());
        for figure in figures {
            assert_eq!(figure["problems"], serde_json::json!([]), "{} at {}", figure["id"], seen["width"]);
        }
    }
}

#[test]
fn the_page_has_every_figure_of_the_files_it_was_made_from() {
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path());
    for file in samples() {
        let report: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let experiment = report["experiment"].as_str().unwrap();
        for (name, value) in report["figures"].as_object().unwrap() {
            let value = value.as_f64().unwrap();
            let tag =
                format!("data-experiment=\"{experiment}\" data-figure=\"{name}\" data-value=\"{value}\"");
            assert!(page.contains(&tag), "{tag}");
        }
    }
}

#[test]
fn a_disk_without_room_leaves_the_page_of_before() {
    let directory = tempfile::tempdir().unwrap();
    let before = page(directory.path());
    let files: Vec<PathBuf> = samples();
    // A limit on the length of files stands in for a full disk; ignored, the signal becomes an error.
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' XFSZ; ulimit -f 8; exec \"$@\"",
        "sh",
        PROGRAM,
        "--report",
        "out",
        "--from",
    ]);
    command.args(&files).current_dir(directory.path());
    let output = output_of(command);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr_of(&output);
    assert!(said.contains("out/report.html: cannot be written") && said.contains("--report DIR"), "{said}");
    assert_eq!(std::fs::read_to_string(directory.path().join("out/report.html")).unwrap(), before);
    assert_eq!(snapshot(&directory.path().join("out")).len(), 1);
}

#[test]
fn wrong_use_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("no.json"), "{\"experiment\": 7}").unwrap();
    let sample = samples()[0].to_str().unwrap().to_owned();
    for (arguments, code, said) in [
        (&["--all"][..], 2, "--report"),
        (&["--report", "out"], 2, "--all"),
        (&["commit", "--all", "--report", "out"], 2, "cannot be used"),
        (&["--all", "--report", "out", "--tier"], 2, "cannot be used"),
        (&["--all", "--report", "out", "--from", "no.json"], 2, "cannot be used"),
        (&["--report", "out", "--from", "no.json"], 1, "no.json: is no report"),
        (&["--report", "out", "--from", "gone.json"], 1, "gone.json: cannot be read"),
        (&["--report", "no.json", "--from", &sample], 1, "no.json: cannot be made"),
        (&["--report", "out", "--from", &sample, &sample], 1, "one file for each"),
    ] {
        let output = output_of(bench(directory.path(), arguments));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr_of(&output).contains(said), "{arguments:?}: {}", stderr_of(&output));
        assert!(!directory.path().join("out/report.html").exists(), "{arguments:?}");
    }
}

#[test]
fn an_interrupt_ends_a_run_and_leaves_nothing_half_done() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = bench(directory.path(), &["--all", "--quick", "--report", "out"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130), "{}", stderr_of(&output));
    assert!(stderr_of(&output).contains("interrupted before the first of"), "{}", stderr_of(&output));
    let left: Vec<PathBuf> = snapshot(directory.path()).into_keys().collect();
    assert_eq!(left, [directory.path().join("out")]);
    assert!(snapshot(&directory.path().join("out")).is_empty());
}
