//! The list of files that differ, and whether a difference is on it.

use super::result::Report;
use crate::process::Result;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

/// The largest difference between the numbers of tests, in percent. The second is for tests that make each call of a
/// VFS fail: litefoot has a few other calls.
const TOLERANCE: u64 = 2;
const TOLERANCE_OF_FAULTS: u64 = 10;

/// A file that is known to differ.
#[derive(Debug)]
struct Known {
    /// The tests that fail, `*` for any characters.
    fails: Vec<String>,
    /// A different number of tests is explained.
    count: bool,
    /// The words with which the file stops before its end, if it does.
    stops: Option<String>,
    /// The file is not run on litefoot.
    skip: bool,
}

/// The list.
pub struct Differences {
    files: BTreeMap<String, Known>,
}

impl Differences {
    /// Reads the list.
    pub fn read(path: &Path) -> Result<Differences> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Differences::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    fn parse(text: &str) -> Result<Differences> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let mut files = BTreeMap::new();
        for (file, entry) in table {
            let entry = entry.as_table().ok_or_else(|| format!("{file}: is no table"))?;
            let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
            if text("why").is_none_or(|why| why.is_empty()) {
                return Err(format!("{file}: says not why"));
            }
            if let Some(unknown) =
                entry.keys().find(|key| !["why", "fails", "count", "stops", "skip"].contains(&key.as_str()))
            {
                return Err(format!("{file}: what is {unknown:?}?"));
            }
            let fails = entry.get("fails").and_then(Value::as_array).map_or_else(Vec::new, |names| {
                names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
            });
            let is_set = |name: &str| entry.get(name).and_then(Value::as_bool).unwrap_or(false);
            let (count, skip) = (is_set("count"), is_set("skip"));
            files.insert(file, Known { fails, count, stops: text("stops"), skip });
        }
        Ok(Differences { files })
    }

    /// Answers whether a file is on the list.
    pub fn has(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// Answers whether a file is left out on litefoot: it would wait for another process, in vain.
    pub fn skips(&self, file: &str) -> bool {
        self.files.get(file).is_some_and(|known| known.skip)
    }

    /// The differences of a file that are not explained.
    pub fn unexplained(&self, file: &str, stock: &Report, litefoot: &Report) -> Vec<String> {
        let known = self.files.get(file);
        let mut complaints = Vec::new();
        if let Some(broken) = &litefoot.broken {
            let stops = known.and_then(|known| known.stops.as_deref());
            if stock.broken.as_ref() != Some(broken) && !stops.is_some_and(|words| broken.ends_with(words)) {
                complaints.push(broken.clone());
            }
        }
        let fails = known.map_or(&[][..], |known| &known.fails);
        let new = litefoot.failures.iter().filter(|name| !stock.failures.contains(name));
        let new: Vec<&str> = new
            .map(String::as_str)
            .filter(|name| !fails.iter().any(|pattern| matches(pattern, name)))
            .collect();
        if !new.is_empty() {
            let shown = new.iter().take(12).copied().collect::<Vec<_>>().join(" ");
            complaints.push(format!(
                "{} failed: {shown}{}",
                new.len(),
                if new.len() > 12 { " …" } else { "" }
            ));
        }
        let percent = if file.contains("ioerr") { TOLERANCE_OF_FAULTS } else { TOLERANCE };
        let differs = litefoot.tests.abs_diff(stock.tests) * 100 > stock.tests * percent;
        let may_differ = known.is_some_and(|known| known.count || known.stops.is_some());
        if differs && !may_differ && complaints.iter().all(|complaint| !complaint.starts_with("stopped")) {
            complaints.push(format!("{} tests instead of {}", litefoot.tests, stock.tests));
        }
        complaints
    }

    /// Entries of a file's that nothing answers to any more.
    pub fn obsolete(&self, file: &str, litefoot: &Report) -> Vec<String> {
        let Some(known) = self.files.get(file) else { return Vec::new() };
        let unused =
            known.fails.iter().filter(|pattern| !litefoot.failures.iter().any(|name| matches(pattern, name)));
        unused.cloned().collect()
    }
}

/// Matches a name with a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            (0..=name.len()).any(|at| name.is_char_boundary(at) && matches(rest, &name[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tests: u64, failures: &[&str], broken: Option<&str>) -> Report {
        let failures = failures.iter().map(|name| (*name).to_owned()).collect();
        Report { tests, failures, broken: broken.map(str::to_owned), seconds: 0.0 }
    }

    #[test]
    fn only_what_the_list_names_is_explained() {
        let list = "[\"a.test\"]\nwhy = \"reason\"\nfails = [\"a-1.*\", \"a-2\"]\n[\"b.test\"]\nwhy = \"r\"\ncount = true\nstops = \"no such VFS\"\n";
        let list = Differences::parse(list).unwrap();
        let stock = report(100, &["a-9"], None);
        for (file, litefoot, complaints) in [
            ("a.test", report(100, &["a-1.1", "a-2", "a-9"], None), 0),
            ("a.test", report(100, &["a-2.1"], None), 1),
            ("a.test", report(97, &[], None), 1),
            ("b.test", report(50, &[], None), 0),
            ("b.test", report(50, &[], Some("stopped: no such VFS")), 0),
            ("b.test", report(50, &[], Some("crashed: signal 11")), 1),
            ("c.test", report(99, &[], None), 0),
            ("c.test", report(100, &["c-1"], None), 1),
        ] {
            let said = list.unexplained(file, &stock, &litefoot);
            assert_eq!(said.len(), complaints, "{file} {litefoot:?}: {said:?}");
        }
        assert_eq!(list.obsolete("a.test", &report(100, &["a-1.1"], None)), ["a-2"]);
    }

    #[test]
    fn an_entry_without_a_reason_is_refused() {
        assert!(Differences::parse("[\"a.test\"]\nfails = []\n").is_err());
        assert!(Differences::parse("[\"a.test\"]\nwhy = \"x\"\nfial = []\n").is_err());
    }
}
