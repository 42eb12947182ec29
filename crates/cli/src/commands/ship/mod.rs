//! `litefoot ship`: what changed in databases, to places where it is needed.
//!
//! | file | decides |
//! |---|---|
//! | `add` | which jobs there are |
//! | `run` | the service |
//! | `status` | how a job's status is told |
//! | `resync` | all rows once more |
//! | `compact` | which files of a backup are merged |
//! | `door` | how a database is opened beside its application |

mod add;
mod compact;
mod door;
mod resync;
mod run;
mod status;

pub use add::interval;

use clap::Subcommand;
use litefoot_ship::Error;
use litefoot_ship::jobs::Jobs;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Send what changes in a database to another place, all the time.
///
/// A service looks at each database at its interval, beside the application that uses it, and sends what changed: to a directory as a
/// backup that `litefoot restore` and `litestream restore` read. Nothing is sent where nothing changed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot ship add app.db file:///backup/app     back up to a directory
  litefoot ship run                               the service, in the foreground
  litefoot ship run --once                        one look at each database, for cron
  litefoot ship status
  litefoot ship resync app.db-postgres            all rows once more, in place of what is there
  litefoot ship add app.db postgres://fleet@db/fleet  rows, and not a backup
  litefoot ship add app.db collect://centre:8443  rows, by way of `litefoot collect`
  litefoot restore file:///backup/app -o app.db   and back

Jobs and what is remembered of them are in one directory: --directory, else LITEFOOT_SHIP_DIRECTORY, else
/var/lib/litefoot/ship for root and ~/.local/state/litefoot/ship for others.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,

    /// The directory of the jobs
    #[arg(long, global = true, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    Add(add::Args),
    Remove(add::RemoveArgs),
    Run(run::Args),
    Status(status::Args),
    Resync(resync::Args),
    Compact(compact::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let jobs = Jobs::at(&match args.directory {
        Some(directory) => directory,
        None => default_directory()?,
    });
    match args.command {
        Command::Add(args) => add::run(args, &jobs),
        Command::Remove(args) => add::remove(&args, &jobs),
        Command::Run(args) => run::run(&args, &jobs),
        Command::Status(args) => status::run(&args, &jobs),
        Command::Resync(args) => resync::run(&args, &jobs),
        Command::Compact(args) => compact::run(&args),
    }
}

/// The directory that services of this user share.
fn default_directory() -> Result<PathBuf, Failure> {
    let from_environment = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(directory) = from_environment("LITEFOOT_SHIP_DIRECTORY") {
        return Ok(directory);
    }
    // SAFETY: it cannot fail, and touches nothing.
    if unsafe { libc::geteuid() } == 0 {
        return Ok(PathBuf::from("/var/lib/litefoot/ship"));
    }
    let state =
        from_environment("XDG_STATE_HOME").or_else(|| Some(from_environment("HOME")?.join(".local/state")));
    let state = state.ok_or_else(|| {
        Failure::new("ship: there is no place for its files: neither HOME nor XDG_STATE_HOME is set")
            .advice("Name one: --directory DIRECTORY")
    })?;
    Ok(state.join("litefoot/ship"))
}

/// A failure of shipping, in the words of this program.
pub fn explain(error: Error) -> Failure {
    match error {
        Error::Interrupted => {
            interrupt::check().err().unwrap_or_else(|| Failure::interrupted(interrupt::SIGINT))
        }
        other => Failure::new(other.to_string()),
    }
}
