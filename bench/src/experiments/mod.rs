//! The experiments, by name.
//!
//! A new one is a module here and a line in [`ALL`]; the program lists and runs it without further ado.

mod apps;
mod atomic;
mod commit;
mod crash;
pub(crate) mod faults;
mod group;
pub(crate) mod histories;
pub(crate) mod instructions;
pub(crate) mod kill;
pub(crate) mod members;
mod pcg;
pub(crate) mod peers;
mod psqlite;
mod read;
mod scan;
mod setups;
pub(crate) mod ship;
mod smile;
mod ssl;
pub mod sweep;
pub(crate) mod visitors;

use crate::Result;
use crate::harness::{Environment, Progress, compiler};
use crate::options::{Flag, Options};
use crate::random;
use crate::report::{Figures, Report};

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name, in lower case.
    pub name: &'static str,
    /// A description in one line.
    pub description: &'static str,
    /// True if it measures something that the page shows; else it looks for faults.
    pub measures: bool,
    /// The options of its own that it takes.
    pub flags: &'static [Flag],
    run: fn(&Options, &mut dyn Progress) -> Result<Figures>,
}

/// All experiments, in the order in which they are listed.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "commit",
        description: "what a small durable transaction costs: time, bytes, syncs, and time on modelled devices",
        measures: true,
        flags: &[],
        run: commit::run,
    },
    Experiment {
        name: "atomic",
        description: "rollback-journal transactions: time, and one insert by kind of call, and memory",
        measures: true,
        flags: &[],
        run: atomic::run,
    },
    Experiment {
        name: "group",
        description: "1 to 64 threads that write one database: throughput, latency, fairness, syncs; fixed rates",
        measures: true,
        flags: &[],
        run: group::run,
    },
    Experiment {
        name: "sweep",
        description: "transactions of 1 to 100,000 rows: speed, processor time, bytes, syncs, over stock SQLite's",
        measures: true,
        flags: &[Flag::Rounds, Flag::Rows, Flag::Modes],
        run: sweep::run,
    },
    Experiment {
        name: "ssl",
        description: "mobile applications' transactions in WAL mode, and how long recovery from a crash takes",
        measures: true,
        flags: &[],
        run: ssl::run,
    },
    Experiment {
        name: "apps",
        description: "commits of real applications' libraries: bytes and flushes at a device of their own",
        measures: true,
        flags: &[Flag::Patterns, Flag::Commits, Flag::Install],
        run: apps::run,
    },
    Experiment {
        name: "setups",
        description: "applications of several processes: requests, errors, bytes, and whether anything is lost",
        measures: false,
        flags: &[Flag::Patterns, Flag::Install, Flag::Seconds],
        run: setups::run,
    },
    Experiment {
        name: "crash",
        description: "power cuts on a simulated medium: nothing acknowledged may be lost, nothing be there in part",
        measures: true,
        flags: &[Flag::Cuts, Flag::Journal, Flag::Tier, Flag::Visitors],
        run: crash::run,
    },
    Experiment {
        name: "faults",
        description: "every system call of a program failed in turn: nothing acknowledged may be lost, nothing hang",
        measures: false,
        flags: &[Flag::Journal, Flag::Case],
        run: faults::run,
    },
    Experiment {
        name: "kill",
        description: "processes killed at work and while they recover: nothing acknowledged may be lost",
        measures: false,
        flags: &[Flag::Rounds],
        run: kill::run,
    },
    Experiment {
        name: "members",
        description: "1, 2, 4 and 8 processes that write: as a group with one owner, beside one another, on stock SQLite",
        measures: false,
        flags: &[Flag::Seconds, Flag::Case],
        run: members::run,
    },
    Experiment {
        name: "member-kills",
        description: "processes of a group killed at work, their owner among them: nothing acknowledged may be lost",
        measures: false,
        flags: &[Flag::Seconds, Flag::Case, Flag::KillAtCalls, Flag::KillAtStores],
        run: members::run_kills,
    },
    Experiment {
        name: "histories",
        description: "kills, stock readers and writers, copies, renames and restored files: nothing is lost in silence",
        measures: false,
        flags: &[Flag::Count],
        run: histories::run,
    },
    Experiment {
        name: "ship",
        description: "rows to PostgreSQL: bytes on the wire, lag, what a commit of the application takes, bytes and syncs at the disk",
        measures: false,
        flags: &[Flag::Case, Flag::Rounds],
        run: ship::run,
    },
    Experiment {
        name: "ship-kills",
        description: "device, shipper, collector, line and PostgreSQL killed: each row arrives, in order, and once",
        measures: false,
        flags: &[Flag::Rounds],
        run: ship::run_kills,
    },
    Experiment {
        name: "ship-fleet",
        description: "a hundred devices with a bad line to one collector, or one that is away for thirty days: nothing is lost or doubled",
        measures: false,
        flags: &[Flag::Count, Flag::Seconds, Flag::Case],
        run: ship::run_fleet,
    },
    Experiment {
        name: "visitors",
        description: "sqlite3, backups, copies and kills beside a working application: nothing stale, nothing lost",
        measures: false,
        flags: &[
            Flag::Journal,
            Flag::Case,
            Flag::Rounds,
            Flag::Seconds,
            Flag::Stock,
            Flag::Tight,
            Flag::OwnerKill,
            Flag::KillAtCalls,
        ],
        run: visitors::run,
    },
    Experiment {
        name: "random",
        description: "random statements on three connections and a crash: all as by stock SQLite",
        measures: false,
        flags: &[Flag::Sequences],
        run: random::run,
    },
    Experiment {
        name: "smile",
        description: "the page engine: pins, scans, reading ahead, hit rates; operators, graphs and the page store beside SQLite",
        measures: true,
        flags: &[],
        run: smile::run,
    },
    Experiment {
        name: "pcg",
        description: "transactions larger than the page cache: speed, latency, readers, bytes written, memory",
        measures: true,
        flags: &[],
        run: pcg::run,
    },
    Experiment {
        name: "read",
        description: "reading: warm, cold, by sixteen connections, skewed, against SQLite's own cache and mapped files",
        measures: true,
        flags: &[],
        run: read::run,
    },
    Experiment {
        name: "scan",
        description: "aggregates over a table of 1 GB by all cores: SQLite, litefoot_scan, DuckDB's reader, warm and cold",
        measures: true,
        flags: &[],
        run: scan::run,
    },
    Experiment {
        name: "instructions",
        description: "a warm query and a commit in instructions of the processor, counted by valgrind, over SQLite's",
        measures: false,
        flags: &[],
        run: instructions::run,
    },
    Experiment {
        name: "psqlite",
        description: "hot chunks on a fast non-volatile device: NAND writes, erases and time of a phone's databases",
        measures: true,
        flags: &[],
        run: psqlite::run,
    },
    Experiment {
        name: "peers",
        description: "durable commits and reads of redb, LMDB, fjall, RocksDB and libSQL, in the same rounds",
        measures: true,
        flags: &[],
        run: peers::run,
    },
];

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

impl Experiment {
    /// Checks the experiment's requirements: `peers` has a program that is built apart, `faults` compiles two, and `instructions` runs
    /// under valgrind.
    ///
    /// # Errors
    /// That of its run, [`Error::Peers`](crate::Error::Peers) or [`Error::Missing`](crate::Error::Missing).
    pub fn prepared(&self) -> Result<()> {
        match self.name {
            "peers" => peers::prepared(),
            "faults" => compiler(),
            "instructions" => instructions::prepared(),
            _ => Ok(()),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// Whatever keeps it from a result, [`Error::Stopped`](crate::Error::Stopped) where `progress` says so.
    pub fn run(&self, options: &Options, progress: &mut dyn Progress) -> Result<Report> {
        let figures = (self.run)(options, progress)?;
        figures.check()?;
        Ok(Report {
            experiment: self.name.to_owned(),
            environment: Environment::of(&options.directory, options),
            figures,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_found_by_their_names_which_differ() {
        for (index, experiment) in ALL.iter().enumerate() {
            assert_eq!(find(experiment.name).map(|found| found.description), Some(experiment.description));
            assert!(ALL[..index].iter().all(|other| other.name != experiment.name), "{}", experiment.name);
            assert!(!experiment.description.is_empty());
        }
        assert!(find("no such experiment").is_none());
    }
}
