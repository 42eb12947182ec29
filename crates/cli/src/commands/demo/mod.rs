//! `litefoot demo`: what litefoot is worth on this machine.
//!
//! | file | does |
//! |---|---|
//! | `series` | the readings, and the comparison with what a database holds |
//! | `race` | the sides take turns on the real disk: commits a second, latencies |
//! | `count` | the same readings once more, with bytes and syncs counted |
//! | `plug` | the power is cut on the simulated medium, and what was acknowledged is looked for |
//! | `mod` | says what happens, and prints the table |

mod count;
mod plug;
mod race;
mod series;

use count::Cost;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::table::{Cell, aligned, left, right};
use litefoot_terminal::text::grouped;
use plug::Loss;
use race::{Race, SIDES, Timing};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Store real sensor readings on stock SQLite and on litefoot, side by side, and pull the plug.
///
/// Each reading is a durable transaction of its own. The sides take turns on the disk of the directory, and at
/// the end stock SQLite reads back what each of them stored. Then each side stores readings on a simulated
/// medium whose power is cut at random moments, and every acknowledged reading is looked for. Everything
/// happens in a temporary directory that is removed at the end.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot demo
  litefoot demo --dir /media/sdcard               on another device
  litefoot demo --readings 20000                  longer")]
pub struct Args {
    /// How many readings each side stores [default: 5000, or what 30 seconds allow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    readings: Option<u64>,

    /// A directory on the device to be measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Where the random moments of the power cuts come from; the same seed gives the same cuts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Readings that each side stores unless told otherwise, and how long they may take.
const READINGS: u64 = 5000;
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// A commit that is faster than this did not wait for any device.
const IMPLAUSIBLE_COMMIT_US: f64 = 60.0;

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let readings = series::load()?;
    let directory = work_directory(&args.dir)?;
    let limit = args.readings.is_none().then_some(TIME_LIMIT);
    let count = args.readings.unwrap_or(READINGS);
    let mut output = Output::lock();
    if args.json {
        let race = race::run(directory.path(), &readings, count, limit)?;
        let costs = count::run(directory.path(), &readings, race.readings.min(count::READINGS))?;
        let losses = plug::pull(&readings, args.seed)?;
        output.line(format!("{:#}", as_json(&race, &costs, &losses)))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    output.line(format!(
        "Storing {} readings of a machine's temperature, each a durable transaction of its own,\n\
         in {} (removed at the end).\n",
        grouped(count),
        directory.path().display()
    ))?;
    output.flush()?;
    let race = race::run(directory.path(), &readings, count, limit)?;
    let costs = count::run(directory.path(), &readings, race.readings.min(count::READINGS))?;
    let losses = plug::pull(&readings, args.seed)?;
    output.text(results(&race.timings, &costs, &losses))?;
    output.text(remarks(&race, count, &losses))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The table as an object.
fn as_json(race: &Race, costs: &[Cost], losses: &[Loss]) -> Value {
    let sides = SIDES.iter().zip(&race.timings).zip(costs.iter().zip(losses));
    let sides: serde_json::Map<String, Value> = sides
        .map(|((side, timing), (cost, loss))| {
            let object = json!({
                "commits_per_s": timing.commits_per_s(),
                "p50_us": timing.percentile_us(0.5),
                "p99_us": timing.percentile_us(0.99),
                "p999_us": timing.percentile_us(0.999),
                "bytes_per_commit": cost.bytes_per_commit(),
                "syncs_per_commit": cost.syncs_per_commit(),
                "lost": loss.lost,
                "invented": loss.invented,
                "unreadable": loss.unreadable,
            });
            (side.short.to_owned(), object)
        })
        .collect();
    json!({"readings": race.readings, "power_cuts": plug::CUTS, "sides": sides})
}

/// Notes for the reader of the table.
fn remarks(race: &Race, wanted: u64, losses: &[Loss]) -> String {
    let mut text = format!(
        "\nStock SQLite has read back all {} readings of each side.\n\
         Lost: acknowledged readings missing after {} power cuts a side on a simulated medium.\n",
        grouped(race.readings),
        plug::CUTS
    );
    for (side, loss) in SIDES.iter().zip(losses) {
        if loss.unreadable + loss.invented > 0 {
            text.push_str(&format!(
                "{}: unreadable after {} cuts, readings that nobody had stored after {}.\n",
                side.name, loss.unreadable, loss.invented
            ));
        }
    }
    if losses.iter().zip(&SIDES).any(|(loss, side)| loss.lost > 0 && !side.litefoot) {
        text.push_str(
            "SQLite's defaults do not promise that a deleted journal stays deleted (synchronous=EXTRA does):\n\
             when its name comes back, the last transaction is rolled back although it was acknowledged.\n",
        );
    }
    if race.readings < wanted {
        text.push_str("Time was up before all readings were stored; --readings N takes the time it needs.\n");
    }
    // The first side is stock SQLite, whose commits wait for the device several times each.
    if race.timings.first().is_some_and(|stock| stock.percentile_us(0.5) < IMPLAUSIBLE_COMMIT_US) {
        text.push_str(
            "Commits cost almost nothing here: this is memory, or a disk that does not wait for its flash.\n\
             Name a directory on the device that counts: --dir DIR\n",
        );
    }
    text
}

fn work_directory(parent: &Path) -> Result<tempfile::TempDir, Failure> {
    std::fs::canonicalize(parent)
        .and_then(|parent| tempfile::Builder::new().prefix("litefoot-demo-").tempdir_in(parent))
        .map_err(|error| {
            Failure::file(parent, format!("cannot make a directory here: {error}"))
                .advice("Name a directory that you may write to: --dir DIR")
        })
}

fn results(timings: &[Timing], costs: &[Cost], losses: &[Loss]) -> String {
    let heading: Vec<Cell> = vec![
        left(""),
        right("commits/s"),
        right("p50 µs"),
        right("p99 µs"),
        right("p99.9 µs"),
        right("bytes/commit"),
        right("syncs/commit"),
        right("lost"),
    ];
    let rows: Vec<Vec<Cell>> = SIDES
        .iter()
        .zip(timings)
        .zip(costs.iter().zip(losses))
        .map(|((side, timing), (cost, loss))| {
            let us = |share| right(grouped(timing.percentile_us(share).round() as u64));
            vec![
                left(side.name),
                right(grouped(timing.commits_per_s().round() as u64)),
                us(0.5),
                us(0.99),
                us(0.999),
                right(grouped(cost.bytes_per_commit().round() as u64)),
                right(format!("{:.2}", cost.syncs_per_commit())),
                right(grouped(loss.lost)),
            ]
        })
        .collect();
    aligned(&heading, &rows)
}
