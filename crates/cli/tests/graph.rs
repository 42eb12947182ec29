//! Graphs on the command line.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use support::{PROGRAM, Watchdog, finish, litefoot, output_of, run, snapshot, stderr_of, succeed};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/graph").join(name)
}

/// Counts of nodes by depth, by the plainest search there is.
fn expected_levels(text: &str, start: usize) -> String {
    let mut edges = text.lines().skip(1).map(|line| {
        let (source, target) = line.split_once(' ').unwrap();
        (source.parse::<usize>().unwrap(), target.parse::<usize>().unwrap())
    });
    let nodes: usize = text.lines().next().unwrap().split(' ').next().unwrap().parse().unwrap();
    let mut neighbors = vec![Vec::new(); nodes];
    edges.by_ref().for_each(|(source, target)| neighbors[source].push(target));
    let (mut seen, mut level, mut lines) = (vec![false; nodes], vec![start], String::new());
    seen[start] = true;
    for depth in 0.. {
        if level.is_empty() {
            break;
        }
        lines.push_str(&format!("{depth} {}\n", level.len()));
        let mut next = Vec::new();
        for neighbor in level.iter().flat_map(|node| &neighbors[*node]) {
            if !std::mem::replace(&mut seen[*neighbor], true) {
                next.push(*neighbor);
            }
        }
        level = next;
    }
    lines
}

#[test]
fn an_edge_list_as_published_is_loaded_and_answers_by_its_ids() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("snap.txt"), "# FromNodeId\tToNodeId\n900\t7\n7\t40000000000\n900\t8\n")
        .unwrap();
    for options in [&[][..], &["--reorder"]] {
        let load = [&["graph", "load", "--edge-list", "snap.txt", "snap.graph"], options].concat();
        assert_eq!(succeed(directory, &load), "snap.graph: 4 nodes, 3 edges\n");
        assert_eq!(succeed(directory, &["graph", "bfs", "snap.graph", "--start", "900"]), "0 1\n1 2\n2 1\n");
        let found = succeed(directory, &["sql", "new.db", "SELECT node FROM litefoot_bfs('snap.graph', 7)"]);
        assert!(found.contains("40000000000"), "{found}");
        let unknown = run(directory, &["graph", "bfs", "snap.graph", "--start", "8000"]);
        assert_eq!(unknown.status.code(), Some(1));
        assert!(stderr_of(&unknown).contains("no node with the id 8000"), "{}", stderr_of(&unknown));
        fs::remove_file(directory.join("snap.graph")).unwrap();
    }
}

#[test]
fn graphs_are_loaded_searched_and_described() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    for (name, nodes, edges) in [("karate.txt", "34", "156"), ("openflights.txt", "3,425", "37,595")] {
        let text = data(name);
        let content = fs::read_to_string(&text).unwrap();
        for (db, options) in [("a", &[][..]), ("b", &["--reorder"]), ("c", &["--page-size", "64K"])] {
            let db = format!("{name}-{db}.graph");
            let load = [&["graph", "load", text.to_str().unwrap(), &db], options].concat();
            assert_eq!(succeed(directory, &load), format!("{db}: {nodes} nodes, {edges} edges\n"));
            for start in [0, 30] {
                let expected = expected_levels(&content, start);
                let start = start.to_string();
                let search = ["graph", "bfs", &db, "--start", &start];
                assert_eq!(succeed(directory, &search), expected, "{db} from {start}");
                let small = ["--pool", "0", "--threads", "3"];
                assert_eq!(succeed(directory, &[&search[..], &small].concat()), expected);
            }
            let described: serde_json::Value =
                serde_json::from_str(&succeed(directory, &["graph", "stat", "--json", &db])).unwrap();
            assert_eq!(described["nodes"].to_string(), nodes.replace(',', ""));
            assert_eq!(described["edges"].to_string(), edges.replace(',', ""));
            assert_eq!(described["order"], if options == ["--reorder"] { "locality" } else { "text" });
            assert_eq!(described["page_bytes"], if options.len() == 2 { 65_536 } else { 4096 });
            let bytes = fs::metadata(directory.join(&db)).unwrap().len();
            let pages = described["pages"].as_u64().unwrap() + 1;
            assert_eq!(bytes, pages * described["page_bytes"].as_u64().unwrap());
            assert!(succeed(directory, &["graph", "stat", &db]).contains(nodes));
        }
    }
    // And the same from SQL, in the program's own prompt.
    let sql = "SELECT depth, count(*) FROM litefoot_bfs('karate.txt-a.graph', 0) GROUP BY depth";
    let counts = succeed(directory, &["sql", "new.db", sql]);
    let expected = expected_levels(&fs::read_to_string(data("karate.txt")).unwrap(), 0);
    for line in expected.lines() {
        let (depth, count) = line.split_once(' ').unwrap();
        let found = counts.lines().any(|line| line.split_whitespace().eq([depth, count]));
        assert!(found, "{line} in\n{counts}");
    }
}

#[test]
fn bad_input_is_explained_and_nothing_is_left() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    for (name, text) in [
        ("good.txt", "2 1\n0 1\n"),
        ("word.txt", "3 2\n0 1\none two\n"),
        ("few.txt", "3 2\n0 1\n"),
        ("range.txt", "3 1\n0 7\n"),
        ("unsorted.txt", "3 2\n1 0\n0 1\n"),
        ("empty.txt", ""),
        ("huge.txt", "9000000000000000000 0\n"),
        ("large.txt", "40000000000000000 0\n"),
        ("a.db", "timestamp,value\n"),
    ] {
        fs::write(home.join(name), text).unwrap();
    }
    fs::create_dir(home.join("folder")).unwrap();
    succeed(home, &["graph", "load", "good.txt", "good.graph"]);
    let whole = fs::read(home.join("good.graph")).unwrap();
    fs::write(home.join("cut.graph"), &whole[..whole.len() - 100]).unwrap();
    fs::write(home.join("damaged.graph"), {
        let mut bytes = whole.clone();
        bytes[4096 + 30] ^= 1;
        bytes
    })
    .unwrap();
    for (arguments, code, words) in [
        (
            &["load", "word.txt", "x"][..],
            1,
            &["word.txt, line 3: ", "two whole numbers", "Nothing was stored"][..],
        ),
        (&["load", "few.txt", "x"], 1, &["few.txt, line 2: ", "ends after 1 edges"]),
        (&["load", "range.txt", "x"], 1, &["range.txt, line 2: ", "node 7"]),
        (&["load", "unsorted.txt", "x"], 1, &["unsorted.txt, line 3: ", "sort"]),
        (&["load", "--reorder", "unsorted.txt", "x"], 1, &["unsorted.txt, line 3: ", "sort"]),
        (&["load", "--edge-list", "word.txt", "x"], 1, &["word.txt, line 3: ", "two whole numbers"]),
        (&["load", "--edge-list", "empty.txt", "x"], 1, &["empty.txt, line 1: ", "no edges"]),
        (&["load", "empty.txt", "x"], 1, &["empty.txt, line 1: ", "empty"]),
        (&["load", "huge.txt", "x"], 1, &["x: "]),
        (&["load", "large.txt", "x"], 1, &["x: ", "x"]),
        (&["load", "nowhere.txt", "x"], 1, &["nowhere.txt: cannot be read"]),
        (&["load", "folder", "x"], 1, &["folder: cannot be read"]),
        (&["load", "good.txt", "good.graph"], 1, &["good.graph: exists already"]),
        (&["load", "good.txt", "folder"], 1, &["folder: is a directory"]),
        (
            &["load", "good.txt", "no/such/x"],
            1,
            &["the directory no/such does not exist", "mkdir -p no/such"],
        ),
        (&["load", "good.txt", "x", "--page-size", "5000"], 2, &["5000"]),
        (&["bfs", "nowhere.graph", "--start", "0"], 1, &["nowhere.graph: no such file"]),
        (&["bfs", "folder", "--start", "0"], 1, &["folder: is a directory"]),
        (&["bfs", "a.db", "--start", "0"], 1, &["a.db: is not a page file", "litefoot graph load"]),
        (&["bfs", "cut.graph", "--start", "0"], 1, &["cut.graph: is damaged or cut short"]),
        (&["bfs", "damaged.graph", "--start", "0"], 1, &["damaged.graph: ", "checksum"]),
        (&["bfs", "good.graph", "--start", "2"], 1, &["good.graph: there is no node 2", "2 nodes"]),
        (&["bfs", "good.graph", "--start", "-1"], 2, &["-1"]),
        (&["bfs", "good.graph"], 2, &["--start"]),
        (&["bfs", "good.graph", "--start", "0", "--threads", "0"], 2, &["threads"]),
        (&["stat", "a.db"], 1, &["a.db: is not a page file"]),
        (&[], 2, &["load", "bfs", "stat"]),
    ] {
        let before = snapshot(home);
        let output = output_of(litefoot(home, &[&["graph"], arguments].concat()));
        let message = stderr_of(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        for words in words {
            assert!(message.contains(words), "{arguments:?}: {message}\nexpected: {words}");
        }
        assert_eq!(snapshot(home), before, "{arguments:?}: {message}");
    }
}

#[test]
fn an_interrupted_load_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    // A pipe that announces edges and never ends: the program waits in the middle of its work.
    let pipe = directory.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut load = litefoot(directory, &["graph", "load", "pipe", "x.graph"]);
    let child = load.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _watchdog = Watchdog::over(&child);
    let mut writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    let lines = format!("1000000 1000000\n{}", "0 1\n".repeat(100_000));
    std::io::Write::write_all(&mut writer, lines.as_bytes()).unwrap();
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    // The further lines let the program look up from reading.
    for _ in 0..100_000 {
        if std::io::Write::write_all(&mut writer, "0 1\n".repeat(1000).as_bytes()).is_err() {
            break;
        }
    }
    drop(writer);
    let output = finish(child);
    let message = stderr_of(&output);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.contains("interrupted"), "{message}");
    let left: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["pipe"]);
}

#[test]
fn help_shows_examples() {
    assert!(Path::new(PROGRAM).exists());
    for command in [&["graph"][..], &["graph", "load"], &["graph", "bfs"], &["graph", "stat"]] {
        let output = run(Path::new("."), &[command, &["--help"]].concat());
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("Examples:\n") && help.contains("litefoot graph "), "{help}");
    }
}

#[test]
fn databases_of_pages_are_made_scanned_checked_and_dumped() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    succeed(directory, &["pages", "create", "a.store", "--size", "3M", "--database"]);
    succeed(directory, &["pages", "create", "a.pages", "--size", "3M"]);
    assert!(directory.join("a.store-meta").exists() && !directory.join("a.store-redo").exists());
    let count = |name: &str| {
        let scanned: serde_json::Value =
            serde_json::from_str(&succeed(directory, &["pages", "scan", "--json", name])).unwrap();
        scanned["count"].as_u64().unwrap()
    };
    // The same seed, the same bytes.
    assert_eq!(count("a.store"), count("a.pages"));
    assert!(succeed(directory, &["pages", "check", "a.store"]).contains("in order"));
    assert_eq!(succeed(directory, &["pages", "dump", "a.store"]), "0 768 used\n");
    let described: serde_json::Value =
        serde_json::from_str(&succeed(directory, &["pages", "stat", "--json", "a.store"])).unwrap();
    assert_eq!((described["pages"].as_u64(), described["in_use"].as_u64()), (Some(769), Some(769)));
    let again = run(directory, &["pages", "create", "a.store", "--size", "3M", "--database"]);
    assert!(stderr_of(&again).contains("exists already"));
    // A file that was cut short, and one whose table is gone.
    let file = fs::OpenOptions::new().write(true).open(directory.join("a.store")).unwrap();
    file.set_len(2 << 20).unwrap();
    for command in ["check", "dump", "scan", "stat"] {
        let refused = run(directory, &["pages", command, "a.store"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr_of(&refused).contains("cut short"), "{}", stderr_of(&refused));
    }
}
