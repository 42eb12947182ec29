//! The documents and the experiments agree.

#![allow(clippy::unwrap_used)]

/// The list of experiments has all of them.
#[test]
fn every_experiment_is_told() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/benchmarks.md");
    let text = std::fs::read_to_string(path).unwrap();
    for experiment in litefoot_bench::experiments::ALL {
        assert!(text.contains(&format!("| `litefoot bench {}", experiment.name)), "{}", experiment.name);
    }
}

/// The parts of a cell that are in quotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The table of the papers names files and experiments that are there, and says of each row what became of it.
#[test]
fn the_table_of_the_papers_names_what_is_there() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let text = std::fs::read_to_string(root.join("docs/papers.md")).unwrap();
    let mut rows = 0;
    for row in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| of the paper")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [what, files, experiments, state] = cells[..] else { panic!("{row}") };
        assert!(!what.is_empty() && !state.is_empty(), "{row}");
        for path in quoted(files) {
            assert!(root.join(path).exists(), "{path}");
        }
        for command in quoted(experiments) {
            let name = command.split(' ').next().unwrap();
            assert!(litefoot_bench::experiments::ALL.iter().any(|known| known.name == name), "{command}");
        }
        rows += 1;
    }
    assert!(rows > 70, "{rows}");
}
