//! Documents are executed: every block of code in `README.md` and `docs/` is run.
//!
//! | file | decides |
//! |---|---|
//! | `blocks` | which blocks there are, and what is to be done with each |
//! | `sandbox` | where and how one is run |
//! | `rust` | the Rust ones, which are compiled with this test |
//! | `main` | all documents, one after the other |

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod blocks;
mod rust;
mod sandbox;
#[path = "../support/mod.rs"]
mod support;

use blocks::{Block, Order, blocks, is_output};
use sandbox::{Outcome, Sandbox, repository};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The documents.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![repository().join("README.md")];
    let mut docs: Vec<_> =
        std::fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    docs.retain(|path| is_markdown(path));
    docs.sort();
    found.append(&mut docs);
    found
}

fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn read(path: &PathBuf) -> Vec<Block> {
    let text = std::fs::read_to_string(path).unwrap();
    blocks(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Nothing is left out without a reason.
#[test]
fn every_block_can_be_run_or_says_why_not() {
    for path in documents() {
        for block in read(&path).iter().filter(|block| block.language == "rust" && block.order == Order::Run)
        {
            assert!(
                rust::is_compiled(&block.text),
                "{}:{}: tests/documentation/rust.rs lacks this code",
                path.display(),
                block.line
            );
        }
    }
}

/// Links lead somewhere, those of documents without code as well.
#[test]
fn every_link_leads_somewhere() {
    let mut paths = documents();
    for directory in [".", "docs/decisions"] {
        let entries = std::fs::read_dir(repository().join(directory)).unwrap();
        paths.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| is_markdown(path)));
    }
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let target = path.with_file_name(link.split('#').next().unwrap());
            assert!(target.exists(), "{}: {link} leads nowhere", path.display());
        }
    }
}

/// True for a word that is the path of a source file, with its folder.
fn names_a_source(word: &&str) -> bool {
    word.contains('/') && word.ends_with(".rs")
}

/// Adds the source files of a folder, and of the folders in it.
fn add_sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// A path in the header of a module leads to a file of its crate, or of the tree.
#[test]
fn every_path_of_a_module_header_exists() {
    for sources in ["crates/vfs/src", "crates/storage/src"].map(|folder| repository().join(folder)) {
        let mut paths = Vec::new();
        add_sources(&sources, &mut paths);
        for path in paths {
            let text = std::fs::read_to_string(&path).unwrap();
            let header = text.lines().filter_map(|line| line.trim_start().strip_prefix("//!"));
            let words =
                header.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && !"_-./".contains(c)));
            let named = words.map(|word| word.trim_end_matches('.')).filter(names_a_source);
            let missing: Vec<&str> = named
                .filter(|name| ![sources.as_path(), repository()].iter().any(|root| root.join(name).exists()))
                .collect();
            assert!(missing.is_empty(), "{} names what is not there: {missing:?}", path.display());
        }
    }
}

/// A path in the description of the code is a path of the tree: one in backticks that begins with a folder of the tree,
/// and, in a picture, one of a source file, which may lie in `crates/vfs/src`.
#[test]
fn every_path_of_the_description_exists() {
    let folders = ["crates/", "bench/", "fuzz/", "xtask/", "python/", "docs/", "examples/", "data/"];
    let exists = |path: &str| repository().join(path).exists();
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "docs/decisions/README.md"] {
        let text = std::fs::read_to_string(repository().join(name)).unwrap();
        for (place, part) in text.split("```").enumerate() {
            let of_prose = |word: &&str| folders.iter().any(|folder| word.starts_with(folder));
            let missing: Vec<&str> = if place % 2 == 1 {
                let words =
                    part.split(|c: char| c.is_whitespace() || ",()".contains(c)).filter(names_a_source);
                words.filter(|path| !exists(path) && !exists(&format!("crates/vfs/src/{path}"))).collect()
            } else {
                part.split('`').skip(1).step_by(2).filter(of_prose).filter(|path| !exists(path)).collect()
            };
            assert!(missing.is_empty(), "{name} names what is not there: {missing:?}");
        }
    }
}

#[test]
#[ignore = "needs liblitefoot.so; cargo xtask test runs it"]
fn every_block_runs() {
    let mut failures = Vec::new();
    for path in documents() {
        let begun = Instant::now();
        let name = path.strip_prefix(repository()).unwrap().display().to_string();
        let ran = run_document(&name, &read(&path), &mut failures);
        println!("{name}: {ran} blocks run in {:.1} s", begun.elapsed().as_secs_f64());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs the blocks of one document; answers how many.
fn run_document(name: &str, blocks: &[Block], failures: &mut Vec<String>) -> usize {
    let sandbox = Sandbox::new();
    let (mut ran, mut printed) = (0, None::<String>);
    for block in blocks {
        let place = format!("{name}:{}", block.line);
        match &block.order {
            Order::Picture => {}
            Order::Skip(reason) => println!("{place}: not run: {reason}"),
            Order::File(file) => sandbox.write(file, &block.text),
            Order::Output => {
                if let Some(printed) = printed.take()
                    && !is_output(&block.text, &printed)
                {
                    failures.push(format!("{place}: the block before it printed\n{printed}"));
                }
            }
            // They run as tests.
            Order::Run if block.language == "rust" => ran += 1,
            Order::Run => match sandbox.run(block) {
                Outcome::Done(text) => {
                    ran += 1;
                    printed = Some(text);
                }
                Outcome::Missing(what) => println!("{place}: skipped: there is no {what}"),
                Outcome::Failed(why) => failures.push(format!("{place}: {why}")),
            },
        }
    }
    ran
}
