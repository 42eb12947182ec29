//! The result of an experiment, and its JSON.
//!
//! ```json
//! {
//!   "experiment": "commit",
//!   "environment": { "cpu": "…", "cores": 2, "kernel": "…", "file_system": "ext4", "sqlite": "3.51.3",
//!                    "sqlite_flags": "…", "litefoot": "0.1.0", "build": "release", "quick": false, "seed": 1 },
//!   "figures": { "txn_per_s.litefoot": 1234.5, "…": 1.0 }
//! }
//! ```
//!
//! # What scripts may rely on
//! 1. These three keys, in this order, and no other.
//! 2. Every figure is a finite number under a name of `a-z`, `0-9`, `_` and `.`, in the order in which the
//!    experiment reports them. Units stand at the end of the first part: `p50_us.wal_full`, `bytes_per_txn.litefoot`.
//! 3. The names of an experiment's figures do not depend on the machine or on `--quick`. `pcg` lacks direct writes
//!    where the file system refuses them, `scan` DuckDB where that is not installed, `atomic` what it has no compiler, no
//!    F2FS or no right to trace for, `peers` and `group` the stores that
//!    were left out of the build, `sweep` the points and `visitors` the modes that were not asked for; the short form of
//!    `group` has fewer threads.

use crate::harness::Environment;
use crate::{Error, Result};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// Named numbers, in the order in which they were set, and what a person must be told beside them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    numbers: Vec<(String, f64)>,
    alarms: Vec<String>,
    notes: Vec<String>,
    is_partial: bool,
}

impl Figures {
    /// No figures yet.
    pub fn new() -> Figures {
        Figures::default()
    }

    /// Sets a figure; a name that is there already gets the new value.
    pub fn set(&mut self, name: impl Into<String>, value: f64) {
        let name = name.into();
        match self.numbers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.numbers.push((name, value)),
        }
    }

    /// Says that something is wrong: it is shown, and the program's exit code is not 0.
    pub fn alarm(&mut self, what: impl Into<String>) {
        self.alarms.push(what.into());
    }

    /// Says what must be known to read them: it is shown below them, and is not in the JSON.
    pub fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }

    /// The figures of an experiment that adds up what it has done, and has `ended` so. One that was stopped has figures, too.
    ///
    /// # Errors
    /// Any other end than [`Error::Stopped`].
    pub(crate) fn at_end(self, ended: Result<()>) -> Result<Figures> {
        match ended {
            Err(Error::Stopped) => Ok(Figures { is_partial: true, ..self }),
            ended => ended.map(|()| self),
        }
    }

    /// True if somebody stopped the experiment: the figures are those of what was done until then.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Notes for the reader.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Alarms.
    pub fn alarms(&self) -> &[String] {
        &self.alarms
    }

    /// A figure by name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.numbers.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// All figures in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.numbers.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// Fails on a figure that JSON or scripts cannot have.
    pub(crate) fn check(&self) -> Result<()> {
        let usable = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.'))
        };
        match self.iter().find(|(name, value)| !value.is_finite() || !usable(name)) {
            None => Ok(()),
            Some((name, value)) => Err(Error::Figure { name: name.to_owned(), value }),
        }
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.numbers.len()))?;
        for (name, value) in &self.numbers {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Figures, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

/// Reads figures in the order of the text.
struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Figures;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object of numbers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Figures, A::Error> {
        let mut figures = Figures::new();
        while let Some((name, value)) = map.next_entry::<String, f64>()? {
            figures.set(name, value);
        }
        Ok(figures)
    }
}

/// The result of an experiment.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// Its name.
    pub experiment: String,
    /// Where it ran.
    pub environment: Environment,
    /// The figures found.
    pub figures: Figures,
}

impl Report {
    /// The JSON of the module's documentation, with a line break at its end.
    ///
    /// # Errors
    /// [`Error::Json`] should the serializer fail.
    pub fn to_json(&self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// A report from its JSON. The JSON does not have the failures of its run.
    ///
    /// # Errors
    /// [`Error::Json`] where the text is no report, [`Error::Figure`] where it has a figure that no report has.
    pub fn from_json(text: &str) -> Result<Report> {
        let report: Report = serde_json::from_str(text)?;
        report.figures.check()?;
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use serde_json::Value;

    fn report(figures: Figures) -> Report {
        let environment = Environment::of(std::path::Path::new("."), &Options::default());
        Report { experiment: "commit".to_owned(), environment, figures }
    }

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn the_schema_is_the_documented_one() {
        let mut figures = Figures::new();
        figures.set("txn_per_s.wal_full", 12.5);
        figures.set("bytes_per_txn.litefoot", 4120.0);
        figures.set("a.later.name", 1e-9);
        figures.set("txn_per_s.wal_full", 13.0);
        let text = report(figures).to_json().unwrap();
        assert!(text.ends_with("}\n"));
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(keys(&json), ["experiment", "environment", "figures"]);
        assert_eq!(json["experiment"], "commit");
        let environment = [
            "cpu",
            "cores",
            "kernel",
            "file_system",
            "sqlite",
            "sqlite_flags",
            "litefoot",
            "build",
            "quick",
            "seed",
        ];
        assert_eq!(keys(&json["environment"]), environment);
        for (name, value) in json["environment"].as_object().unwrap() {
            let is_number = ["cores", "seed"].contains(&name.as_str());
            assert_eq!(value.is_number(), is_number, "{name}");
            assert_eq!(value.is_boolean(), name == "quick", "{name}");
        }
        assert_eq!(keys(&json["figures"]), ["txn_per_s.wal_full", "bytes_per_txn.litefoot", "a.later.name"]);
        assert_eq!(json["figures"]["txn_per_s.wal_full"], 13.0);
        assert_eq!(json["figures"]["a.later.name"], 1e-9);
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let mut figures = Figures::new();
        for (name, value) in [("z.b", 0.1 + 0.2), ("a.b", 5e-324), ("m", 123_456_789.0)] {
            figures.set(name, value);
        }
        let text = report(figures.clone()).to_json().unwrap();
        let read = Report::from_json(&text).unwrap();
        assert_eq!(read.figures, figures);
        assert_eq!(read.to_json().unwrap(), text);
        for wrong in ["", "[]", "{}", &text.replace("0.3", "\"x\""), &text.replace("z.b", "<b>")] {
            assert!(Report::from_json(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn figures_that_scripts_cannot_read_are_refused() {
        for (name, value, good) in [
            ("p50_us.wal_full", 1.5, true),
            ("x", 0.0, true),
            ("x", f64::NAN, false),
            ("x", f64::INFINITY, false),
            ("", 1.0, false),
            ("p50 µs", 1.0, false),
        ] {
            let mut figures = Figures::new();
            figures.set(name, value);
            assert_eq!(figures.check().is_ok(), good, "{name} {value}");
        }
    }
}
