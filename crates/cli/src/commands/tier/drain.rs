//! `litefoot tier drain`: everything home, the device free.

use crate::commands::release;
use crate::inspect;
use crate::open::{Access, Database, named_with_tier, path_of};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::text::grouped;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bring everything home from the tier device: afterwards the database is one plain file again.
///
/// A crash is recovered first. The device is free for another database then, and keeps its wear counters.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot tier drain app.db
  litefoot tier drain app.db --tier /mnt/app.tier

Exit codes: 0 everything is at home; 1 it is not, and nothing is lost; 130 interrupted, as 1.
Whatever stops it, another drain goes on from there.")]
pub struct Args {
    /// The database
    database: String,

    /// The tier device, where it is no longer where the database says
    #[arg(long, value_name = "PATH")]
    tier: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let path = path_of(&args.database);
    let files = inspect::look(&path)?;
    files.refuse_owned("Close the other program: the last connection that closes brings everything home.")?;
    let mut output = Output::lock();
    if files.away.is_none() {
        if args.json {
            return as_json(&path, files.bytes, false, output);
        }
        output.line(format!("{}: nothing is away", path.display()))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = match &args.tier {
        Some(device) => named_with_tier(&args.database, device),
        None => args.database.clone(),
    };
    let database = Database::open(&name, Access::Alone)?;
    release::bring_home(&database, "keep")?;
    drop(database);
    let files = inspect::look(&path)?;
    if let Some(away) = &files.away {
        return Err(Failure::file(&path, format!("parts of it still live on {}", away.device.display()))
            .advice("Nothing is lost. Look at the system's log for the devices, and try again."));
    }
    if args.json {
        return as_json(&path, files.bytes, true, output);
    }
    output.line(format!("{}: everything is at home, {} bytes", path.display(), grouped(files.bytes)))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(path: &Path, bytes: u64, was_away: bool, mut output: Output) -> Result<ExitCode, Failure> {
    let object = json!({"database": path.to_string_lossy(), "bytes": bytes, "was_away": was_away});
    output.line(format!("{object:#}"))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
