//! `litefoot follow`: a copy that keeps up with a backup, for readers.

use super::ship::{explain, interval};
use litefoot_ship::follow::Follower;
use litefoot_ship::service::{Next, next};
use litefoot_ship::{Error, destination};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How soon a request to end is heard.
const HEARING: Duration = Duration::from_millis(100);

/// Keep a read-only copy that follows a backup.
///
/// Programs read the copy with any SQLite meanwhile. Each change appears whole; a reader waits for it some milliseconds at most. What others write
/// to the copy is undone. A kill at any point leaves it in order.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot follow file:///backup/app -o copy.db
  litefoot follow 's3://bucket/app?region=eu-central-1' -o copy.db --interval 5s --credentials /etc/litefoot/s3.env
  litefoot follow file:///backup/app -o copy.db --once          for cron

Exit codes: 0 it was asked to end, or, with --once, the copy is current; 1 it cannot go on, and said why.")]
pub struct Args {
    /// The place of the backup
    url: String,

    /// A file with the credentials of the place, a KEY=value a line
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,

    /// The copy, which is made where it is missing
    #[arg(short, long, value_name = "DATABASE")]
    output: PathBuf,

    /// The time between two looks at the place: 500ms, 10s, 5m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// Bring the copy up to date, and end
    #[arg(long)]
    once: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let store = destination::store(&args.url, args.credentials.as_deref()).map_err(explain)?;
    let mut follower = Follower::new(store, &args.output);
    let (mut failures, mut said) = (0, String::new());
    loop {
        let is_first = follower.position().is_none();
        let outcome = follower.look();
        let failed = outcome.as_ref().err();
        failures = if failed.is_some() { failures + 1 } else { 0 };
        let after = next(args.interval, failed, failures);
        let now = failed.map_or_else(String::new, ToString::to_string);
        if now != said && !args.once {
            let line = if failed.is_some() { &now } else { "goes on" };
            Failure::new(format!("{}: {line}", args.output.display())).print();
            said = now;
        }
        if outcome.is_ok() && is_first {
            tell(&args, &follower)?;
        }
        let pause = match (outcome, after) {
            // More may be there.
            (Ok(true), _) => Duration::ZERO,
            (Ok(false), _) if args.once => return Ok(ExitCode::SUCCESS),
            (Err(error), _) if args.once || is_final(&error) => return Err(explain(error)),
            (_, Next::After(pause)) => pause,
            (_, Next::Stop) => return Ok(ExitCode::SUCCESS),
        };
        if !wait(pause) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// True where somebody has to do something before a look can succeed.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Refused { .. } | Error::Interrupted)
}

fn tell(args: &Args, follower: &Follower) -> Result<(), Failure> {
    let Some(at) = follower.position() else { return Ok(()) };
    let mut output = Output::lock();
    output.line(format!(
        "{}: follows, as of transaction {:x} at {}",
        args.output.display(),
        at.transaction,
        litefoot_ship::time::rfc3339(at.timestamp_ms)
    ))?;
    output.flush()
}

/// Waits; `false` once somebody asked for the end.
fn wait(pause: Duration) -> bool {
    let began = Instant::now();
    loop {
        if interrupt::check().is_err() {
            return false;
        }
        let left = pause.saturating_sub(began.elapsed());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(HEARING));
    }
}
