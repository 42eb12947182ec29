//! Each parser of litefoot, fed with foreign bytes.
//!
//! # What a target promises
//! 1. [`run`] returns, for all bytes: it does not panic, and takes no more memory than its bytes justify.
//! 2. It answers the same number whenever it gets the same bytes. Inputs of different numbers are kept.
//! 3. Most formats carry checksums, at which changed bytes would end. So a target reads its bytes twice: as they are,
//!    and with checksums that fit.
//!
//! # How they are driven
//! `cargo xtask fuzz [TARGET] [--seconds N]` changes the corpus at random, on any compiler, from a seed. `cargo fuzz run
//! TARGET --features libfuzzer` does so guided by coverage, and needs cargo-fuzz and a nightly compiler.
//!
//! An input that failed goes into `corpus/TARGET/`, named after what was wrong.

mod targets;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// A parser, and how it is fed.
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// The parser that an input goes to.
    pub does: &'static str,
    /// Parses; answers what came of it, in one number.
    pub parse: fn(&[u8]) -> u64,
    /// Makes the checksums fit; nothing where there are none.
    pub seal: fn(&mut Vec<u8>),
    /// Inputs as litefoot itself writes them.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Most memory that is in use at once while an input is parsed.
    pub most_bytes: usize,
}

/// Memory for most parsers: the largest buffer that a format justifies has 4 MiB, and there may be some.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// All targets.
pub fn targets() -> &'static [Target] {
    targets::ALL
}

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    targets().iter().find(|target| target.name == name)
}

impl Target {
    /// Parses the bytes as they are, and with checksums that fit.
    pub fn run(&self, bytes: &[u8]) -> u64 {
        let as_they_are = (self.parse)(bytes);
        let mut sealed = bytes.to_vec();
        (self.seal)(&mut sealed);
        let outcome = if sealed == bytes { as_they_are } else { (self.parse)(&sealed) };
        outcome_of(&(as_they_are, outcome))
    }
}

/// Runs the target of that name.
///
/// # Panics
/// Where there is none, and where the parser does: that is a finding.
pub fn run(name: &str, bytes: &[u8]) -> u64 {
    match target(name) {
        Some(target) => target.run(bytes),
        None => panic!("no target is called {name}"),
    }
}

/// The outcome of an input, in one number.
pub(crate) fn outcome_of(value: &impl Hash) -> u64 {
    // Its keys are the same in every process.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
