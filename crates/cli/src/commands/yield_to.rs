//! `litefoot yield`: a program that finds the database shared.
//!
//! A program that opens a file with `O_NONBLOCK`, as GNU tar does, is refused by the system (`EAGAIN`) while the owner is alone with the
//! database: such a program would not wait. This command opens the file first, and waits. As long as the file is open here,
//! its owner shares it, and whoever opens it need not wait.

use crate::inspect::{self, Presence, process};
use crate::open::path_of;
use litefoot_terminal::interrupt;
use litefoot_terminal::{Failure, child};
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The pause between two looks at the owner.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Have the owner of a database share it while a program runs.
///
/// For programs that open files without waiting, such as GNU tar: beside a program that is alone with its database
/// through litefoot they fail with "Resource temporarily unavailable". Others need no help. A copy that is one moment
/// of the database is made by litefoot backup, and not by copying the files.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot yield app.db -- tar czf app.tgz app.db app.db-wal
  litefoot yield app.db -- sh -c 'tar c . | ssh host tar x'

Signals are passed on to the program.

Exit codes: the program's own; 1 the owner does not share the database, and the program was not run;
127 when the program is not found, 126 when it cannot be run.")]
pub struct Args {
    /// The database
    database: String,

    /// Seconds to wait for the owner to share it
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..86_400))]
    wait: u64,

    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let path = path_of(&args.database);
    let Some((program, arguments)) = args.program.split_first() else {
        return Err(Failure::new("yield: no program given").code(2));
    };
    // Open until the program has ended. The system lets this wait for the owner.
    let _open = open(&path)?;
    await_sharing(&path, Duration::from_secs(args.wait))?;
    child::run(Command::new(program).args(arguments))
}

fn open(path: &Path) -> Result<File, Failure> {
    inspect::regular_file(path)?;
    File::open(path).map_err(|error| Failure::file(path, error).advice(crate::open::PERMISSIONS))
}

/// Waits until no process owns the database.
fn await_sharing(path: &Path, patience: Duration) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        interrupt::check()?;
        let owner = match Presence::find(inspect::regular_file(path)?.id) {
            Presence::Owned(owner) => owner,
            Presence::MultiProcess(_) => return Ok(()),
            Presence::None => {
                let what = "no program that can be seen has it open through litefoot; the program is run all the same";
                Failure::file(path, what).print();
                return Ok(());
            }
        };
        if began.elapsed() >= patience {
            let owner = process(owner.map(|owner| owner.process));
            return Err(Failure::file(path, format!("{owner} does not share this database")).advice(
                "It is in a long transaction, or was told not to (option sharing). Try again, or close it first.",
            ));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
