//! `litefoot doctor`: which SQLite a program carries, whether litefoot reaches it, and which way in fits.
//!
//! The findings are the room [`reach`](crate::reach)'s; this command shows them, as text or as one object.

mod json;
mod text;

use crate::reach::carriers::{Carrier, Found};
use crate::reach::elf::{Depth, Image};
use crate::reach::obstacle::Obstacle;
use crate::reach::process::Running;
use crate::reach::program::Program;
use litefoot_terminal::Failure;
use litefoot_terminal::installed::{self, LIBRARY, NOT_FOUND};
use litefoot_terminal::output::Output;
use litefoot_terminal::text::printable;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Explain which SQLite a program carries, whether litefoot reaches it, and which way in fits.
///
/// A program is not run: its file and its libraries are read. A Python is asked where its module is, which imports only
/// sqlite3. For a process that runs, its mappings are read, and its databases are shown: who owns them, and who else has
/// them open. Processes of other users show themselves to root.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot doctor -- python3 app.py
  litefoot doctor -- node app.js          packages in node_modules beside the script are looked at
  litefoot doctor 1234                    a process that runs, and its databases
  litefoot doctor --json -- ./server | jq .reached

Exit codes: 0 litefoot reaches all of its SQLite, or none was found to be out of reach; 1 something is not reached;
127 no such program or process.")]
pub struct Args {
    /// A process that runs
    #[arg(value_name = "PID", required_unless_present = "program", conflicts_with = "program")]
    process: Option<u32>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// A program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// The answer to the question whether litefoot reaches a program's SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// All of it.
    Yes,
    /// One and not another.
    Partly,
    /// Nothing of it.
    No,
    /// No SQLite was found.
    Unknown,
}

impl Reached {
    fn of(carriers: &[Carrier], is_prevented: bool) -> Reached {
        let reached = carriers.iter().filter(|carrier| carrier.kind.is_reached()).count();
        match (carriers.len(), reached) {
            _ if is_prevented => Reached::No,
            (0, _) => Reached::Unknown,
            (all, reached) if all == reached => Reached::Yes,
            (_, 0) => Reached::No,
            _ => Reached::Partly,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Reached::Yes => "yes",
            Reached::Partly => "partly",
            Reached::No => "no",
            Reached::Unknown => "unknown",
        }
    }
}

/// What is said about a program, or about a process.
struct Report {
    subject: Subject,
    carriers: Vec<Carrier>,
    obstacle: Option<Obstacle>,
    reached: Reached,
    notes: Vec<String>,
    python_loads_extensions: Option<bool>,
    /// The library's path without its ending, as extensions are named.
    library: String,
}

enum Subject {
    Program(Program),
    Process(Running),
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let library = installed::library().unwrap_or_else(|_| PathBuf::from(LIBRARY));
    let report = match (args.process, args.program.split_first()) {
        (Some(process), _) => of_process(process, &library)?,
        (None, Some((word, arguments))) => of_program(word.clone(), arguments, &library)?,
        (None, None) => return Err(Failure::new("doctor: no program and no process given").code(2)),
    };
    let mut output = Output::lock();
    if args.json {
        output.line(format!("{:#}", json::as_json(&report)))?;
    } else {
        for line in text::lines(&report) {
            output.line(printable(&line))?;
        }
    }
    output.flush()?;
    let is_out_of_reach = matches!(report.reached, Reached::No | Reached::Partly);
    Ok(if is_out_of_reach { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn of_program(word: OsString, arguments: &[OsString], library: &Path) -> Result<Report, Failure> {
    let Some(program) = Program::find(&word, arguments) else {
        return Err(Failure::file(Path::new(&word), "no such program")
            .advice("Check the name, or give its path.")
            .code(NOT_FOUND));
    };
    let image = Image::read(&program.image, Depth::Headers).map_err(|error| {
        Failure::file(&program.image, error)
            .advice("Its file has to be readable; ask as a user who may, or as root.")
    })?;
    let ours = Image::read(library, Depth::Headers).ok().flatten();
    let obstacle = Obstacle::of(&program, image.as_ref(), ours.as_ref());
    let Found { carriers, notes, python_loads_extensions } = Found::of(&program, image.as_ref());
    let reached = Reached::of(&carriers, obstacle.is_some());
    let library = without_ending(library);
    Ok(Report {
        subject: Subject::Program(program),
        carriers,
        obstacle,
        reached,
        notes,
        python_loads_extensions,
        library,
    })
}

fn of_process(process: u32, library: &Path) -> Result<Report, Failure> {
    let Some(mut running) = Running::look(process) else {
        return Err(Failure::new(format!("process {process}: there is none of that number")).code(NOT_FOUND));
    };
    let carriers = std::mem::take(&mut running.carriers);
    let notes = std::mem::take(&mut running.notes);
    let reached = Reached::of(&carriers, false);
    let library = without_ending(library);
    Ok(Report {
        subject: Subject::Process(running),
        carriers,
        obstacle: None,
        reached,
        notes,
        python_loads_extensions: None,
        library,
    })
}

/// SQLite finds the file with its ending.
fn without_ending(library: &Path) -> String {
    library.with_extension("").to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::carriers::Kind;

    #[test]
    fn one_that_is_out_of_reach_decides() {
        let carrier = |kind| Carrier { file: PathBuf::from("a"), kind, version: None, source_day: None };
        for (kinds, is_prevented, expected) in [
            (&[][..], false, Reached::Unknown),
            (&[Kind::Open], false, Reached::Yes),
            (&[Kind::Open], true, Reached::No),
            (&[], true, Reached::No),
            (&[Kind::Open, Kind::Hidden], false, Reached::Partly),
            (&[Kind::Hidden, Kind::Fixed], false, Reached::No),
        ] {
            let carriers: Vec<_> = kinds.iter().map(|kind| carrier(*kind)).collect();
            assert_eq!(Reached::of(&carriers, is_prevented), expected, "{kinds:?} {is_prevented}");
        }
    }
}
