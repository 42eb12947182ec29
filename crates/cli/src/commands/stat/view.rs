//! How `litefoot stat --watch` shows what happens: a page for a terminal, a line for everything else.

use super::Seen;
use super::rates::Rates;
use super::sharing::Sharing;
use litefoot_terminal::table::{Cell, Columns, left, right};
use litefoot_terminal::text::{duration, grouped};
use std::path::Path;
use std::time::Duration;

/// The headings of the lines.
const HEADINGS: [&str; 12] = [
    "   seconds",
    "commits/s",
    "statements/s",
    "pages/s",
    "in place/s",
    "fallbacks/s",
    "main fallback",
    "log %",
    "pool hit %",
    "bytes/commit",
    "syncs/commit",
    "flash bytes so far",
];
/// Where the names are, among numbers.
const NAMES: usize = 6;
/// Characters of a bar.
const BAR: u64 = 30;

fn headings() -> Vec<Cell> {
    let heading = |(place, name): (usize, &&str)| if place == NAMES { left(*name) } else { right(*name) };
    HEADINGS.iter().enumerate().map(heading).collect()
}

fn columns() -> Columns {
    Columns::fit([headings().as_slice()])
}

/// The headings above the lines.
pub fn heading() -> String {
    columns().row(&headings())
}

/// One line: what happened since the last, after so many seconds of watching.
pub fn line(elapsed: Duration, rates: &Rates, all: &Rates) -> String {
    let rate = |count: u64| right(decimal(rates.per_second(count)));
    let per_commit = |count: u64, digits: usize| match rates.per_commit(count) {
        Some(value) if digits == 0 => right(grouped(value.round() as u64)),
        Some(value) => right(format!("{value:.digits$}")),
        None => right("-"),
    };
    let fill = rates.fills().iter().map(super::rates::Fill::percent).max().unwrap_or(0);
    let cells = vec![
        right(format!("{:.1}", elapsed.as_secs_f64())),
        rate(rates.commits()),
        rate(rates.get("commits_statements")),
        rate(rates.get("commits_pages")),
        rate(rates.get("commits_in_place")),
        rate(rates.fallbacks().map(|(_, count)| count).sum()),
        left(rates.main_fallback().map_or("-", |(cause, _)| cause)),
        right(fill),
        right(rates.pool_hit_percent().map_or("-".to_owned(), |percent| format!("{percent:.1}"))),
        per_commit(rates.flash_bytes(), 0),
        per_commit(rates.syncs(), 2),
        right(grouped(all.flash_bytes())),
    ];
    columns().row(&cells)
}

/// The line of a moment at which nobody has the database open.
pub fn idle_line(elapsed: Duration) -> String {
    let mut cells = vec![right(format!("{:.1}", elapsed.as_secs_f64()))];
    cells.push(left("nobody whose figures can be seen has it open"));
    columns().row(&cells)
}

/// The page: what happened since the last one (`None` on the first) and since the database was opened.
pub fn page(
    path: &Path,
    seen: Option<&Seen>,
    rates: Option<&Rates>,
    all: &Rates,
    interval: Duration,
) -> Vec<String> {
    let seconds = interval.as_secs_f64();
    let mut lines = vec![format!("{}   every {seconds} s, Ctrl-C leaves", path.display())];
    let Some(seen) = seen else {
        lines.push("nobody whose figures can be seen has it open".to_owned());
        return lines;
    };
    let process = crate::inspect::process(Some(seen.process));
    lines.push(format!("{process} has it open, for {}", duration(seen.open_seconds())));
    lines.extend(Sharing::of(seen).line());
    lines.push(String::new());
    lines.extend(table(rates, all));
    lines.extend(logs(all));
    lines.extend(pool(rates, all));
    lines
}

/// Counters: a second, a commit, and altogether.
fn table(rates: Option<&Rates>, all: &Rates) -> Vec<String> {
    let mut rows: Vec<Vec<Cell>> =
        vec![vec![left(""), right("a second"), right("a commit"), right("since it was opened")]];
    let mut add = |name: &str, per_commit: bool, get: &dyn Fn(&Rates) -> u64| {
        let second = rates.map_or("-".to_owned(), |rates| decimal(rates.per_second(get(rates))));
        let commit = rates.and_then(|rates| rates.per_commit(get(rates))).map_or("-".to_owned(), decimal);
        let commit = if per_commit { commit } else { String::new() };
        rows.push(vec![left(name), right(second), right(commit), right(grouped(get(all)))]);
    };
    add("commits", false, &Rates::commits);
    add("  as statements", false, &|rates| rates.get("commits_statements"));
    add("  as pages", false, &|rates| rates.get("commits_pages"));
    add("    in place", false, &|rates| rates.get("commits_in_place"));
    let of = |list: &mut dyn Iterator<Item = (&str, u64)>, name: &str| -> u64 {
        list.filter(|(known, _)| *known == name).map(|(_, count)| count).sum()
    };
    for (cause, _) in all.fallbacks().filter(|(_, count)| *count > 0) {
        add(&format!("  pages because of: {cause}"), false, &|rates| of(&mut rates.fallbacks(), cause));
    }
    add("checkpoint waits", false, &|rates| rates.get("checkpoint_waits"));
    add("syncs", true, &Rates::syncs);
    add("flash bytes", true, &Rates::flash_bytes);
    for (file, _) in all.flash_bytes_by_file().filter(|(_, bytes)| *bytes > 0) {
        add(&format!("  {}", file.replace('_', " ")), true, &|rates| {
            of(&mut rates.flash_bytes_by_file(), file)
        });
    }
    let columns = Columns::fit(rows.iter().map(Vec::as_slice));
    rows.iter().map(|row| columns.row(row)).collect()
}

/// How full the logs are.
fn logs(all: &Rates) -> Vec<String> {
    let rows: Vec<Vec<Cell>> = all
        .fills()
        .iter()
        .map(|fill| {
            let full = (fill.percent().min(100) * BAR / 100) as usize;
            let bar = format!("[{}{}]", "#".repeat(full), ".".repeat(BAR as usize - full));
            let of = format!("{} of {} bytes", grouped(fill.used), grouped(fill.limit));
            vec![left(fill.name), left(bar), right(format!("{} %", fill.percent())), left(of)]
        })
        .collect();
    let columns = Columns::fit(rows.iter().map(Vec::as_slice));
    let heading = (!rows.is_empty()).then(String::new);
    heading.into_iter().chain(rows.iter().map(|row| columns.row(row))).collect()
}

/// The buffer pool, where there is one.
fn pool(rates: Option<&Rates>, all: &Rates) -> Vec<String> {
    let mut parts: Vec<String> =
        all.pool().map(|(name, value)| format!("{} {}", name.replace('_', " "), grouped(value))).collect();
    if parts.is_empty() {
        return parts;
    }
    if let Some(percent) = rates.unwrap_or(all).pool_hit_percent() {
        parts.insert(0, format!("{percent:.1} % hits"));
    }
    vec![String::new(), format!("pool  {}", parts.join(", "))]
}

/// Large numbers without a fraction, small ones with two digits of it.
fn decimal(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if value >= 100.0 {
        grouped(value.round() as u64)
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::reading;
    use super::*;
    use litefoot::stats::FigureKind::{Counter, Gauge};

    fn two() -> (Rates, Rates, Seen) {
        let before = reading(&[("commits_statements", Counter, 1000)]);
        let after = reading(&[
            ("commits_statements", Counter, 3000),
            ("commits_pages", Counter, 1),
            ("commit_log_syncs", Counter, 1990),
            ("commit_log_block_bytes", Counter, 8_196_096),
            ("commit_log_bytes", Gauge, 1 << 20),
            ("commit_log_limit_bytes", Gauge, 4 << 20),
            ("fallback.schema", Counter, 1),
            ("pool.hits", Counter, 99),
            ("pool.misses", Counter, 1),
            ("pool.pinned", Gauge, 7),
        ]);
        let rates = Rates::between(Some(&before), &after, 2.0);
        let all = Rates::between(None, &after, 60.0);
        (rates, all, Seen { process: std::process::id(), reading: after })
    }

    #[test]
    fn a_line_has_a_cell_for_each_heading() {
        let (rates, all, _) = two();
        let line = line(Duration::from_secs(4), &rates, &all);
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let expected = [
            "4.0",
            "1,001",
            "1,000",
            "0.50",
            "0",
            "0.50",
            "schema",
            "25",
            "99.0",
            "4,096",
            "0.99",
            "8,196,096",
        ];
        assert_eq!(cells, expected);
        assert_eq!(heading().len(), line.len(), "{}\n{line}", heading());
    }

    #[test]
    fn a_page_shows_what_is_there_and_no_more() {
        let (rates, all, seen) = two();
        let path = Path::new("a.db");
        let text = page(path, Some(&seen), Some(&rates), &all, Duration::from_secs(2)).join("\n");
        for part in [
            "every 2 s",
            "pages because of: schema",
            "  commit log",
            "[#######.......................]  25 %  1,048,576 of 4,194,304 bytes",
            "pool  99.0 % hits, hits 99, misses 1, pinned 7",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("redo") && !text.contains("clock"), "{text}");
        let first = page(path, Some(&seen), None, &all, Duration::from_secs(2)).join("\n");
        let commits = first.lines().find(|line| line.starts_with("commits")).unwrap();
        assert_eq!(commits.split_whitespace().collect::<Vec<_>>(), ["commits", "-", "3,001"], "{first}");
        assert_eq!(page(path, None, None, &Rates::default(), Duration::from_secs(2)).len(), 2);
    }
}
