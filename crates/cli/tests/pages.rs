//! Page files on the command line.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;
use support::{litefoot, output_of, run, snapshot, stderr_of, succeed};

fn json(directory: &Path, arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&succeed(directory, arguments)).unwrap()
}

#[test]
fn pages_are_made_scanned_checked_and_described() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    for (size, page_size, pages) in [("100000", "4K", 25), ("1M", "64K", 16), ("0", "4K", 0)] {
        let name = format!("{size}.pages");
        let made = succeed(directory, &["pages", "create", &name, "--size", size, "--page-size", page_size]);
        assert!(made.starts_with(&format!("{name}: {pages} pages of ")), "{made}");
        let bytes = fs::read(directory.join(&name)).unwrap();
        let described = json(directory, &["pages", "stat", "--json", &name]);
        assert_eq!(described["bytes"], bytes.len());
        assert_eq!(described["pages"], pages);
        assert_eq!(described["holds"], "pages");
        let page_bytes = described["page_bytes"].as_u64().unwrap() as usize;
        let expected = bytes[page_bytes..]
            .chunks(4)
            .filter(|word| u32::from_le_bytes((*word).try_into().unwrap()) > 3_000_000_000)
            .count();
        let scan = ["pages", "scan", &name, "--threshold", "3000000000", "--json"];
        for options in [&[][..], &["--threads", "3", "--pool", "0"], &["--no-prefetch"]] {
            let found = json(directory, &[&scan[..], options].concat());
            assert_eq!(found["count"], expected, "{found}");
            let read = found["waited_for"].as_u64().unwrap() + found["read_ahead"].as_u64().unwrap();
            assert!(read >= pages && (options != ["--no-prefetch"] || found["read_ahead"] == 0), "{found}");
        }
        assert!(succeed(directory, &["pages", "scan", &name]).contains("integers above the threshold"));
        assert_eq!(succeed(directory, &["pages", "check", &name]), format!("{name}: in order\n"));
    }
    // Equal seeds, equal files.
    for (name, seed) in [("a", "5"), ("b", "5"), ("c", "6")] {
        succeed(directory, &["pages", "create", name, "--size", "64K", "--seed", seed]);
    }
    let content = |name: &str| fs::read(directory.join(name)).unwrap();
    assert!(content("a") == content("b") && content("a") != content("c"));
}

#[test]
fn check_finds_what_is_wrong_with_a_graph() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("g.txt"), "4 3\n0 1\n1 2\n2 3\n").unwrap();
    succeed(directory, &["graph", "load", "g.txt", "g"]);
    assert_eq!(succeed(directory, &["pages", "check", "g"]), "g: in order\n");
    assert_eq!(json(directory, &["pages", "stat", "--json", "g"])["holds"], "graph");
    let whole = fs::read(directory.join("g")).unwrap();
    for (at, words) in
        [(4096 + 30, "checksum"), (2 * 4096 + 7, "neighbours of node"), (3 * 4096 + 1, "neighbour")]
    {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(directory.join("g"), damaged).unwrap();
        let output = run(directory, &["pages", "check", "g"]);
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{found}");
        assert!(found.contains(words), "{found}");
    }
}

#[test]
fn bad_input_is_explained_and_nothing_is_left() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    succeed(home, &["pages", "create", "good", "--size", "8K"]);
    fs::write(home.join("text"), "no pages\n").unwrap();
    fs::write(home.join("cut"), &fs::read(home.join("good")).unwrap()[..9000]).unwrap();
    for (arguments, code, words) in [
        (&["create", "x"][..], 2, &["--size"][..]),
        (&["create", "x", "--size", "much"], 2, &["much", "64K"]),
        (&["create", "x", "--size", "1M", "--page-size", "3K"], 2, &["3072"]),
        (&["create", "x", "--size", "9999999999G"], 1, &["x: "]),
        (&["create", "good", "--size", "1M"], 1, &["good: exists already"]),
        (&["create", "no/x", "--size", "1M"], 1, &["mkdir -p no"]),
        (&["scan", "nowhere"], 1, &["nowhere: no such file"]),
        (&["scan", "text"], 1, &["text: is not a page file", "Check the path"]),
        (&["check", "cut"], 1, &["cut: is damaged or cut short"]),
        (&["stat", "."], 1, &["is a directory"]),
        (&["scan", "good", "--threshold", "-1"], 2, &["-1"]),
        (&[], 2, &["create", "scan", "check", "stat"]),
    ] {
        let before = snapshot(home);
        let output = output_of(litefoot(home, &[&["pages"], arguments].concat()));
        let message = stderr_of(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        for words in words {
            assert!(message.contains(words), "{arguments:?}: {message}\nexpected: {words}");
        }
        assert_eq!(snapshot(home), before, "{arguments:?}: {message}");
    }
}

#[test]
fn help_shows_examples() {
    for command in ["create", "scan", "check", "stat"] {
        let output = run(Path::new("."), &["pages", command, "--help"]);
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("Examples:\n") && help.contains("litefoot pages "), "{help}");
    }
}
