//! `litefoot stat`: what a database consists of, who has it, and what that process does to it.
//!
//! Reads the files' bytes, and the figures that the owner keeps in memory that others may read
//! (`litefoot::stats`). Nothing is locked, recovered or changed. A database whose owner is alone with it is not opened.
//!
//! | file | is |
//! |---|---|
//! | `text`, `json`, `prometheus` | the forms of one look |
//! | `sharing` | whether the owner is alone, since when, because of which process |
//! | `rates` | what happened between two looks |
//! | `watch`, `view` | looking again and again |

mod json;
mod prometheus;
mod rates;
mod sharing;
mod text;
mod view;
mod watch;

use crate::inspect;
use crate::open::path_of;
use litefoot::stats::{Published, Reading};
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use litefoot_terminal::table::{Columns, left};
use litefoot_terminal::text::printable;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// Show a database's files, their state, who has it open, and what that program does to it.
///
/// Nothing is changed: logs that wait for recovery are reported and left alone. The figures of a program that
/// has the database open through litefoot are shown to its own user and to root. A program that is alone with the
/// database stays so: the file is not opened then, and what stands in its header is not shown.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot stat app.db
  litefoot stat --json app.db | jq .owner
  litefoot stat --watch app.db                          what the program that has it open does, live
  litefoot stat --watch --interval 10 --count 6 app.db  one minute of it
  litefoot stat --prometheus app.db > /var/lib/node_exporter/app.prom

Bytes per commit are those of the 4 KiB blocks that are handed to the device.

Exit codes: 0 done, or an endless --watch that Ctrl-C has ended; 1 failed; 130 a --watch with
--count was interrupted.")]
pub struct Args {
    /// The database
    database: String,

    /// Print one JSON object
    #[arg(long, conflicts_with_all = ["prometheus", "watch"])]
    json: bool,

    /// Print metrics in the text format of Prometheus
    #[arg(long, conflicts_with = "watch")]
    prometheus: bool,

    /// Show live what the program that has the database open does: a view on a terminal, else a line each time
    #[arg(long)]
    watch: bool,

    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", requires = "watch", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// End after so many
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

/// The statistics page of a process that has the database open.
pub struct Seen {
    /// The process.
    pub process: u32,
    /// Its figures.
    pub reading: Reading,
}

impl Seen {
    /// The figures, if the process is still there.
    pub fn of(published: &Published) -> Option<Seen> {
        Some(Seen { process: published.process, reading: published.read()? })
    }

    /// How long the database has been open, in seconds.
    pub fn open_seconds(&self) -> u64 {
        SystemTime::now().duration_since(self.reading.opened).map_or(0, |time| time.as_secs())
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let path = path_of(&args.database);
    let files = inspect::look(&path)?;
    if args.watch {
        return watch::run(&files, args.interval, args.count);
    }
    let seen = files.published.as_ref().and_then(Seen::of);
    let mut output = Output::lock();
    if args.json {
        output.line(format!("{:#}", json::as_json(&files, seen.as_ref())))?;
    } else if args.prometheus {
        output.text(prometheus::exposition(&files, seen.as_ref()))?;
    } else {
        let mut rows = text::describe(&files);
        rows.extend(seen.iter().flat_map(|seen| text::figures(seen, files.id)));
        let cells: Vec<_> =
            rows.into_iter().map(|(name, value)| vec![left(name), left(printable(&value))]).collect();
        let columns = Columns::fit(cells.iter().map(Vec::as_slice));
        for row in &cells {
            output.line(columns.row(row))?;
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Seconds, with a fraction if need be.
fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: f64 = 0.1;
    const MOST: f64 = 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if (LEAST..=MOST).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("expected seconds, from {LEAST} to {MOST}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_neither_too_short_nor_endless() {
        for (text, good) in
            [("1", true), ("0.5", true), ("0", false), ("-1", false), ("inf", false), ("1s", false)]
        {
            assert_eq!(interval(text).is_ok(), good, "{text}");
        }
    }
}
