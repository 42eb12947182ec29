//! Metrics in the text format of Prometheus, version 0.0.4.
//!
//! | figure | metric |
//! |---|---|
//! | `fallback.CAUSE` | `litefoot_fallbacks_total{cause="CAUSE"}` |
//! | `FILE_writes`, `FILE_syncs`, `FILE_written_bytes`, `FILE_block_bytes` | `litefoot_writes_total{file="FILE"}` and so on |
//! | any other counter `a.b` | `litefoot_a_b_total` |
//! | any other gauge `a.b` | `litefoot_a_b` |
//! | one of milliseconds or microseconds, `a_ms` or `a_us` | `litefoot_a_seconds`, with `_total` for a counter |
//!
//! Every sample has the label `database`. Where no process shows figures there are only those of the files: a
//! counter that nobody counts is absent, and not zero.

use super::Seen;
use crate::inspect::Files;
use litefoot::stats::{DatabaseState, FigureKind, figures};
use litefoot_storage::file::FileKind;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::UNIX_EPOCH;

/// The help text of a metric that this version does not know.
const UNKNOWN: &str = "As the process that has the database open counts it.";
/// Figures of files.
const OF_FILES: [&str; 4] = ["written_bytes", "block_bytes", "writes", "syncs"];

/// Samples of one name.
struct Family {
    name: String,
    kind: FigureKind,
    help: String,
    /// Labels besides the database, and value.
    samples: Vec<(String, String)>,
}

/// All metrics as text.
pub fn exposition(files: &Files, seen: Option<&Seen>) -> String {
    let mut families = of_files(files, seen);
    for family in seen.iter().flat_map(|seen| of_figures(seen)) {
        families.push(family);
    }
    let database = escaped(&files.path.to_string_lossy());
    let mut text = String::new();
    for Family { name, kind, help, samples } in families {
        let kind = if kind == FigureKind::Counter { "counter" } else { "gauge" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{{database=\"{database}\"{labels}}} {value}");
        }
    }
    text
}

fn of_files(files: &Files, seen: Option<&Seen>) -> Vec<Family> {
    let gauge = |name: &str, help: &str, samples| Family {
        name: format!("litefoot_{name}"),
        kind: FigureKind::Gauge,
        help: help.to_owned(),
        samples,
    };
    let one = |value: u64| vec![(String::new(), value.to_string())];
    let sizes = [
        ("database", Some(files.bytes)),
        ("journal", files.journal.as_ref().map(|journal| journal.bytes)),
        ("redo_log", files.wal.as_ref().map(|wal| wal.bytes)),
        ("commit_log", files.commit_log_bytes),
    ];
    let sizes = sizes
        .into_iter()
        .map(|(file, bytes)| (label("file", file), bytes.unwrap_or(0).to_string()))
        .collect();
    let mut families = vec![
        gauge(
            "open",
            "Whether a process has the database open and shows its figures.",
            one(u64::from(seen.is_some())),
        ),
        gauge(
            "file_bytes",
            "Length of the database and of the files beside it; 0 for those that are not there.",
            sizes,
        ),
    ];
    if let Some(seen) = seen {
        let opened = seen.reading.opened.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        families.push(gauge("opened_timestamp_seconds", "When that process opened it.", one(opened)));
        let multi_process = seen.reading.state == DatabaseState::MultiProcess;
        families.push(gauge(
            "multi_process",
            "Whether that process shares it with others, by SQLite's own protocol.",
            one(u64::from(multi_process)),
        ));
    }
    families
}

/// The figures, those of one name together.
fn of_figures(seen: &Seen) -> Vec<Family> {
    let known: HashMap<String, &'static str> = figures().map(|(name, _, help)| (name, help)).collect();
    let mut families: Vec<Family> = Vec::new();
    for (figure, kind, value) in &seen.reading.figures {
        let (name, labels) = metric(figure, *kind);
        let per_second = in_seconds(figure).map(|(_, per_second)| per_second);
        let value = per_second
            .map_or_else(|| value.to_string(), |per_second| (*value as f64 / per_second).to_string());
        let sample = (labels, value);
        match families.iter_mut().find(|family| family.name == name) {
            Some(family) => family.samples.push(sample),
            None => {
                let help = known.get(figure).copied().unwrap_or(UNKNOWN);
                let help = if per_second.is_some() { said_in_seconds(help) } else { help.to_owned() };
                families.push(Family { name, kind: *kind, help, samples: vec![sample] });
            }
        }
    }
    families
}

/// Name and labels of a figure.
fn metric(figure: &str, kind: FigureKind) -> (String, String) {
    let total = if kind == FigureKind::Counter { "_total" } else { "" };
    if let Some(cause) = figure.strip_prefix("fallback.") {
        return (format!("litefoot_fallbacks{total}"), label("cause", cause));
    }
    for file in FileKind::ALL {
        let what = figure.strip_prefix(file.name()).and_then(|rest| rest.strip_prefix('_'));
        if let Some(what) = what.filter(|what| OF_FILES.contains(what)) {
            return (format!("litefoot_{what}{total}"), label("file", file.name()));
        }
    }
    let (figure, unit) = in_seconds(figure).map_or((figure, ""), |(figure, _)| (figure, "_seconds"));
    (format!("litefoot_{}{unit}{total}", figure.replace('.', "_")), String::new())
}

/// The name of a figure of time without its unit, and how many of that make a second: metrics have seconds.
fn in_seconds(figure: &str) -> Option<(&str, f64)> {
    let ms = figure.strip_suffix("_ms").map(|name| (name, 1e3));
    ms.or_else(|| figure.strip_suffix("_us").map(|name| (name, 1e6)))
}

/// A help text that tells of seconds.
fn said_in_seconds(help: &str) -> String {
    help.replace("Milliseconds", "Seconds")
        .replace("milliseconds", "seconds")
        .replace("Microseconds", "Seconds")
}

/// A label behind the first one.
fn label(name: &str, value: &str) -> String {
    format!(",{name}=\"{}\"", escaped(value))
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_metrics() {
        for (figure, kind, name, labels) in [
            ("commits_pages", FigureKind::Counter, "litefoot_commits_pages_total", ""),
            ("fallback.clock", FigureKind::Counter, "litefoot_fallbacks_total", ",cause=\"clock\""),
            ("redo_log_syncs", FigureKind::Counter, "litefoot_syncs_total", ",file=\"redo_log\""),
            ("directory_syncs", FigureKind::Counter, "litefoot_directory_syncs_total", ""),
            ("redo_log_bytes", FigureKind::Gauge, "litefoot_redo_log_bytes", ""),
            ("pool.pinned", FigureKind::Gauge, "litefoot_pool_pinned", ""),
            ("shared_ms", FigureKind::Counter, "litefoot_shared_seconds_total", ""),
            ("spill_wait_us", FigureKind::Counter, "litefoot_spill_wait_seconds_total", ""),
        ] {
            assert_eq!(metric(figure, kind), (name.to_owned(), labels.to_owned()), "{figure}");
        }
    }

    /// A panel of a metric that nobody has would be empty for ever.
    #[test]
    fn the_dashboard_shows_metrics_that_exist() {
        let mut known: Vec<String> = figures().map(|(name, kind, _)| metric(&name, kind).0).collect();
        known.extend(
            ["open", "file_bytes", "opened_timestamp_seconds", "multi_process"]
                .map(|name| format!("litefoot_{name}")),
        );
        let dashboard = include_str!("../../../../../docs/grafana/litefoot.json");
        let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
        let mut seen = 0;
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap();
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                for name in expression.split(|c| !is_word(c)).filter(|word| word.starts_with("litefoot_")) {
                    assert!(known.iter().any(|known| known == name), "{}: {name}", panel["title"]);
                    seen += 1;
                }
            }
        }
        assert!(seen > 20, "{seen}");
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escaped("a\\b\"c\nd"), "a\\\\b\\\"c\\nd");
    }
}
