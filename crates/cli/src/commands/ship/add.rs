//! `litefoot ship add` and `remove`: which jobs there are.

use super::explain;
use crate::open::path_of;
use litefoot_ship::backup::last_writer;
use litefoot_ship::destination;
use litefoot_ship::jobs::{Format, Job, Jobs, name_for};
use litefoot_ship::service::Window;
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Add a database and a destination to what is shipped.
///
/// Nothing is sent yet: `litefoot ship run` does that. A destination is for one database of one machine.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot ship add app.db file:///backup/app
  litefoot ship add app.db 's3://bucket/app?region=eu-central-1' --credentials /etc/litefoot/s3.env
  litefoot ship add app.db file:///mnt/nas/app --interval 1m --name nightly
  litefoot ship add app.db postgres://fleet@db/fleet --table reading --keep-deleted reading
  litefoot ship add app.db jsonl:///var/audit --history --interval 0
  litefoot ship add app.db file:///backup/app --take-over     on the machine that replaces another one")]
pub struct Args {
    /// The database
    database: String,

    /// The destination
    url: String,

    /// The time between two looks at the database: 500ms, 10s, 5m, 1h; 0 for a look as soon as something changes
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = interval_or_zero)]
    interval: Duration,

    /// The name of the job [default: the database's, and the kind of the destination]
    #[arg(long)]
    name: Option<String>,

    /// A file with the credentials of the destination, a KEY=value a line, which nobody else can read
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,

    /// Ship the rows of this table only; may be repeated
    #[arg(long = "table", value_name = "TABLE")]
    tables: Vec<String>,

    /// Rows that are deleted from this table stay at the destination; may be repeated
    #[arg(long = "keep-deleted", value_name = "TABLE")]
    keep_deleted: Vec<String>,

    /// Send each transaction as a batch of its own, as far as the application on litefoot tells them
    #[arg(long)]
    history: bool,

    /// Send at this time of the day only, by the clock of this machine: 02:00-04:00
    #[arg(long, value_name = "FROM-UNTIL")]
    window: Option<Window>,

    /// Send outside of the window as well, where the last look is older than this
    #[arg(long, value_name = "TIME", value_parser = interval, requires = "window")]
    max_lag: Option<Duration>,

    /// What lines are, at jsonl: and NATS: json; changeset, which has SQLite's own; or debezium, for its consumers
    #[arg(long, value_name = "FORMAT", default_value = "json", value_parser = format)]
    format: Format,

    /// Go on where another machine has stopped, whose database this one has
    #[arg(long)]
    take_over: bool,
}

/// Remove a job. What was sent stays where it is.
#[derive(clap::Args)]
pub struct RemoveArgs {
    /// The name of the job, as `litefoot ship status` has it
    name: String,
}

/// The number of the shipper of a backup: a new one, or that of the machine that has stopped.
fn node_of_backup(args: &Args) -> Result<u64, Failure> {
    let store = destination::store(&args.url, args.credentials.as_deref()).map_err(explain)?;
    let there = last_writer(&*store).map_err(explain)?;
    match (there, args.take_over) {
        (None, _) => {
            store.check_fence().map_err(explain)?;
            Ok(fastrand::u64(1..))
        }
        (Some(node), true) => Ok(node),
        (Some(_), false) => Err(Failure::new(format!("{}: there is a backup already", args.url)).advice(
            "Name another place; or, where this machine goes on with that database, say --take-over.",
        )),
    }
}

/// Adds a job.
pub fn run(args: Args, jobs: &Jobs) -> Result<ExitCode, Failure> {
    let path = path_of(&args.database);
    let database = std::fs::canonicalize(&path)
        .map_err(|error| Failure::file(&path, error).advice("Check the path; nothing was added."))?;
    let takes_rows = destination::takes_rows(&args.url, args.credentials.as_deref()).map_err(explain)?;
    if args.interval.is_zero() && !takes_rows {
        return Err(Failure::new(format!("{}: a backup has an interval", args.url))
            .advice("--interval 0 is for destinations of rows."));
    }
    let node = match takes_rows {
        true => fastrand::u64(1..),
        false if args.tables.is_empty() && args.keep_deleted.is_empty() && !args.history => {
            node_of_backup(&args)?
        }
        false => {
            return Err(Failure::new(format!("{}: a backup has all tables", args.url))
                .advice("--table, --keep-deleted and --history are for destinations of rows."));
        }
    };
    if args.format != Format::Json && !destination::takes_lines(&args.url) {
        return Err(
            Failure::new(format!("{}: takes no lines", args.url)).advice("--format is for jsonl: and NATS.")
        );
    }
    let name = args.name.unwrap_or_else(|| name_for(&database, &args.url));
    let credentials = match args.credentials {
        Some(path) => Some(std::path::absolute(&path).map_err(|error| Failure::file(&path, error))?),
        None => None,
    };
    let interval_ms = args.interval.as_millis() as u64;
    let job = Job {
        name: name.clone(),
        database,
        url: args.url,
        interval_ms,
        node: format!("{node:016x}"),
        credentials,
        epoch: 1,
        tables: args.tables,
        keep_deleted: args.keep_deleted,
        window: args.window,
        max_lag_ms: args.max_lag.map(|lag| lag.as_millis() as u64),
        format: args.format,
        history: args.history,
    };
    jobs.add(job).map_err(explain)?;
    let mut output = Output::lock();
    output.line(format!("{name}: added; `litefoot ship run` sends it"))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Removes a job.
pub fn remove(args: &RemoveArgs, jobs: &Jobs) -> Result<ExitCode, Failure> {
    if !jobs.remove(&args.name).map_err(explain)? {
        return Err(Failure::new(format!("there is no job {:?}", args.name))
            .advice("`litefoot ship status` lists those that there are."));
    }
    let mut output = Output::lock();
    output.line(format!("{}: removed; a service that runs hears of it at its next start", args.name))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// What lines are.
fn format(text: &str) -> Result<Format, String> {
    match text {
        "json" => Ok(Format::Json),
        "changeset" => Ok(Format::Changeset),
        "debezium" => Ok(Format::Debezium),
        _ => Err("the formats are json, changeset and debezium".into()),
    }
}

/// A time with its unit, or 0.
fn interval_or_zero(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        _ => interval(text).map_err(|error| format!("{error}, or 0")),
    }
}

/// A time with its unit.
pub fn interval(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("a time is a number and ms, s, m or h: 10s".into()),
    };
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms)) {
        Some(ms @ 100..=86_400_000) => Ok(Duration::from_millis(ms)),
        _ => Err("a time from 100ms to 24h is meant".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, ms) in [("100ms", 100), ("10s", 10_000), ("5m", 300_000), ("24h", 86_400_000)] {
            assert_eq!(interval(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(interval_or_zero("0"), Ok(Duration::ZERO));
        assert_eq!(interval_or_zero("1s"), Ok(Duration::from_secs(1)));
        for text in ["", "0", "10", "s", "10 s", "-1s", "0s", "99ms", "25h", "1d", "99999999999999999999s"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}
