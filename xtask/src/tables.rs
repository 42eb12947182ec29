//! `cargo xtask docs`: the tables that list what the code knows, written into the files that show them.
//!
//! `crates/vfs/examples/tables.rs` prints the tables of options and metrics. The table of recovery is the one at the head of
//! `crates/vfs/src/open/recovery.rs`. Each stands in its file between two lines, which stay:
//!
//! ```text
//! <!-- table: NAME, by cargo xtask docs -->          in Python: # table: NAME, by cargo xtask docs
//! <!-- end of table -->                                         # end of table
//! ```
//!
//! The checks compare, and change nothing (`cargo xtask docs --check`).

use crate::process::{self, Result, Tally};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The files with such tables.
const FILES: [&str; 4] =
    ["docs/options.md", "docs/metrics.md", "docs/durability.md", "python/src/litefoot/__init__.py"];
/// The cases of recovery, and the file whose head has them.
const RECOVERY: (&str, &str) = ("recovery", "crates/vfs/src/open/recovery.rs");
/// Before the name of a table, in the line above it.
const BEGIN: &str = " table: ";
/// Behind the name of a table.
const BY: &str = ", by cargo xtask docs";
/// In the line below a table.
const END: &str = " end of table";

/// Tables by name.
type Tables = HashMap<String, String>;

/// Writes the tables.
pub fn write() -> Result<Tally> {
    each(|path, _, after| fs::write(path, after).map_err(|error| format!("{}: {error}", path.display())))
}

/// Compares the tables with the code.
pub fn check() -> Result<Tally> {
    each(|path, before, after| {
        if before == after {
            return Ok(());
        }
        Err(format!("{} is not what the code says; `cargo xtask docs` writes its tables", path.display()))
    })
}

/// Hands each file on: its path, its text, and its text with the tables of the code.
fn each(act: impl Fn(&Path, &str, &str) -> Result<()>) -> Result<Tally> {
    let mut tables = tables(&printed()?);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (recovery, source) = RECOVERY;
    let text = fs::read_to_string(root.join(source)).map_err(|error| format!("{source}: {error}"))?;
    tables.insert(recovery.to_owned(), table_of_head(&text));
    let mut tally = Tally::default();
    for name in FILES {
        let path = root.join(name);
        let before = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        let after = filled(&before, &tables).map_err(|why| format!("{name}: {why}"))?;
        act(Path::new(name), &before, &after)?;
        tally.passed += 1;
    }
    Ok(tally)
}

/// The output of the program that knows the tables.
fn printed() -> Result<String> {
    // With the features of the whole workspace, as its tests are built: what both need is compiled once.
    process::cargo(&["build", "-q", "--locked", "--workspace", "--example", "tables"])?;
    let program = process::target_directory().join("debug/examples/tables");
    let output = std::process::Command::new(&program)
        .output()
        .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("the program that prints the tables ended with {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("the tables are no text: {error}"))
}

/// The tables of a text in which each begins with a line `== NAME`.
fn tables(text: &str) -> Tables {
    let mut tables = Tables::new();
    for part in text.split("== ").filter(|part| !part.is_empty()) {
        let (name, table) = part.split_once('\n').unwrap_or((part, ""));
        tables.insert(name.to_owned(), table.to_owned());
    }
    tables
}

/// The first table in the comment at the head of a source file.
fn table_of_head(source: &str) -> String {
    let lines = source.lines().skip_while(|line| !line.starts_with("//! |"));
    let table = lines.map_while(|line| line.strip_prefix("//! ").filter(|line| line.starts_with('|')));
    table.map(|line| format!("{line}\n")).collect()
}

/// A text with its tables replaced.
fn filled(text: &str, tables: &Tables) -> Result<String> {
    let mut filled = String::new();
    let mut found = 0;
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        filled.push_str(line);
        let Some(name) = begins(line) else { continue };
        filled.push_str(tables.get(name).ok_or_else(|| format!("the code has no table {name:?}"))?);
        let end = lines.find(|line| line.contains(END));
        filled.push_str(end.ok_or_else(|| format!("the table {name:?} has no line with its end"))?);
        found += 1;
    }
    if found == 0 { Err("no table begins in it".to_owned()) } else { Ok(filled) }
}

/// The name of the table that begins below a line.
fn begins(line: &str) -> Option<&str> {
    let (_, name) = line.split_once(BEGIN)?;
    name.split_once(BY).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_table_of_a_head_is_taken() {
        let source = "//! Title.\n//!\n//! | a |\n//! |---|\n//! | 1 |\n//!\n//! | other |\n\nuse x;\n";
        assert_eq!(table_of_head(source), "| a |\n|---|\n| 1 |\n");
        assert_eq!(table_of_head("//! Title.\n"), "");
    }

    #[test]
    fn tables_are_put_between_their_lines() {
        let tables = tables("== a\n| 1 |\n| 2 |\n== b\nx\n");
        let begin = |name: &str| format!("<!-- table: {name}, by cargo xtask docs -->\n");
        let end = "<!-- end of table -->\n";
        for (before, after) in [
            (
                format!("t\n{}old\n{end}u\n", begin("a")),
                Ok(format!("t\n{}| 1 |\n| 2 |\n{end}u\n", begin("a"))),
            ),
            (
                format!("{}{end}{}{end}", begin("b"), begin("b")),
                Ok(format!("{0}x\n{end}{0}x\n{end}", begin("b"))),
            ),
            (format!("{}old\n", begin("a")), Err("the table \"a\" has no line with its end")),
            (format!("{}{end}", begin("c")), Err("the code has no table \"c\"")),
            ("text\n".to_owned(), Err("no table begins in it")),
        ] {
            assert_eq!(filled(&before, &tables), after.map_err(str::to_owned), "{before}");
        }
    }
}
