//! `litefoot pages dump`: the allocation table.

use crate::pagefile::{self, Opened};
use litefoot_pagestore::pagefile::Options;
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show which pages are in use: a line for each run of them, first and last page, and `used` or `free`.
///
/// Pages of the allocation table itself count as used. All pages of a page file are.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot pages dump test.store
  litefoot pages dump test.store | grep free
  litefoot pages dump --json test.store | jq '.[] | select(.used)'")]
pub struct Args {
    /// The database of pages, or page file
    database: PathBuf,

    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let runs = match pagefile::open_any(&args.database, &Options::default())? {
        Opened::Database(database) => database.dump(),
        Opened::File(file) => vec![(0..file.extents().len() + 1, true)],
    };
    let mut output = Output::lock();
    if args.json {
        let rows: Vec<_> = runs
            .iter()
            .map(|(run, used)| json!({"first": run.start, "last": run.end - 1, "used": used}))
            .collect();
        output.line(format!("{:#}", json!(rows)))?;
    } else {
        for (run, used) in runs {
            let state = if used { "used" } else { "free" };
            output.line(format!("{} {} {state}", run.start, run.end - 1))?;
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
