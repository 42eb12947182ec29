//! `litefoot ship resync`: all rows once more.

use super::explain;
use super::run::Service;
use litefoot_ship::jobs::Jobs;
use litefoot_ship::resync::resync;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::text::grouped;
use std::process::ExitCode;

/// Send all rows of a database anew, in place of what its destination has.
///
/// For the right database, where the destination has refused a batch: somebody else has delivered as the same source, or one of the two was
/// restored. Also where a table is taken again that was parked. Whoever delivers as this source elsewhere is refused from then on. No service may run
/// meanwhile; the next one goes on behind it. A kill at any point loses nothing: the next service then sends all rows.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  systemctl stop litefoot-ship; litefoot ship resync app.db-postgres; systemctl start litefoot-ship

Exit codes: 0 all rows have arrived; 1 they have not, or a table was not taken.")]
pub struct Args {
    /// The name of the job, as `litefoot ship status` has it
    name: String,
}

/// Runs the command.
pub fn run(args: &Args, jobs: &Jobs) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let resynced = resync(jobs, &args.name, &Service::of(jobs)).map_err(explain)?;
    let mut output = Output::lock();
    let bytes = grouped(resynced.delivered.bytes);
    output.line(format!(
        "{}: all rows have arrived, as epoch {}, in {bytes} bytes",
        args.name, resynced.epoch
    ))?;
    output.flush()?;
    for parked in &resynced.parked {
        Failure::new(format!("{}: {parked}", args.name)).print();
    }
    Ok(if resynced.parked.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
