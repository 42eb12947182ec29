//! Visits: what other programs do with a database beside its owner, without any busy timeout.
//!
//! A visit is the `sqlite3` program, `python3`, or `cp`. It must see everything that was acknowledged before it was
//! started.

use super::content::{DATABASE, LOOK, Seen};
use crate::harness::open_stock;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// After this a visitor counts as hung: longer than the kernel makes it wait for a lease.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// One statement on a database, and its row as the `sqlite3` program prints it.
const PYTHON: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
print(*db.execute(sys.argv[2]).fetchone(), sep='|')
db.close()
";

/// What a visitor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Select,
    Insert,
    PythonSelect,
    PythonInsert,
    Backup,
    Dump,
    Vacuum,
    JournalMode,
    Checkpoint,
    Copy,
}

/// All kinds with their names, and how many of a hundred visits they are.
pub const KINDS: [(Kind, &str, u32); 10] = [
    (Kind::Select, "select", 32),
    (Kind::Insert, "insert", 22),
    (Kind::PythonSelect, "python_select", 8),
    (Kind::PythonInsert, "python_insert", 8),
    (Kind::Backup, "backup", 6),
    (Kind::Dump, "dump", 6),
    (Kind::Vacuum, "vacuum", 3),
    (Kind::JournalMode, "journal_mode", 4),
    (Kind::Checkpoint, "checkpoint", 6),
    (Kind::Copy, "cp", 5),
];

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, name, _)| name)
    }

    /// The program that does it.
    pub fn program(self) -> &'static str {
        match self {
            Kind::PythonSelect | Kind::PythonInsert => "python3",
            Kind::Copy => "cp",
            _ => "sqlite3",
        }
    }

    /// True if it changes nothing, and so leaves alone what the next owner recovers.
    pub fn only_reads(self) -> bool {
        matches!(self, Kind::Select | Kind::PythonSelect | Kind::Backup | Kind::Dump | Kind::Copy)
    }

    /// True if it puts its number into the table of visits.
    pub fn inserts(self) -> bool {
        matches!(self, Kind::Insert | Kind::PythonInsert)
    }
}

/// A visitor that runs.
pub struct Visit {
    pub kind: Kind,
    /// A number that no other visit has.
    pub id: u64,
    /// All that it must see.
    floor: Seen,
    room: PathBuf,
    child: Child,
    begun: Instant,
}

/// What came of a visit.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// It has done what it came for.
    Done,
    /// The program has refused, with this message.
    Refused(String),
    /// It has seen less than was acknowledged before.
    Stale(String),
    /// What it has read is damaged.
    Damaged(String),
    /// It was killed.
    Killed,
}

impl Visit {
    /// Starts a visitor; `room` is its own.
    pub fn start(kind: Kind, id: u64, floor: Seen, directory: &Path, room: &Path) -> io::Result<Visit> {
        let room = room.join(id.to_string());
        fs::create_dir(&room)?;
        let mut command = command(kind, id, directory, &room);
        command.stdin(Stdio::null()).process_group(0).env("HOME", &room).env_remove("LD_PRELOAD");
        command.stdout(File::create(room.join("out"))?).stderr(File::create(room.join("err"))?);
        let begun = Instant::now();
        let child = command.spawn()?;
        Ok(Visit { kind, id, floor, room, child, begun })
    }

    /// Waits for the end of a visitor, and kills it so long after its start; what came of it, and how long it took.
    pub fn end(mut self, kill: Option<Duration>) -> io::Result<(Outcome, Duration)> {
        let limit = kill.unwrap_or(PATIENCE);
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if self.begun.elapsed() > limit {
                self.child.kill()?;
                break self.child.wait()?;
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let took = self.begun.elapsed();
        let outcome = match status.signal() {
            Some(libc::SIGKILL) if kill.is_some() => Outcome::Killed,
            Some(libc::SIGKILL) => Outcome::Refused(format!("hangs for {} s", PATIENCE.as_secs())),
            _ => self.judge(status)?,
        };
        fs::remove_dir_all(&self.room)?;
        Ok((outcome, took))
    }

    fn judge(&self, status: ExitStatus) -> io::Result<Outcome> {
        let text =
            |name| fs::read(self.room.join(name)).map(|text| String::from_utf8_lossy(&text).into_owned());
        let (out, err) = (text("out")?, text("err")?);
        // `.dump` says what it meets in what it prints, and succeeds. Where it is refused the tables, it leaves them out in
        // silence.
        let is_whole = out.trim_end().ends_with("COMMIT;") && out.contains("\nCREATE TABLE ");
        let dumped = self.kind != Kind::Dump || is_whole;
        // A journal that ends between being listed and being copied is no error of the database's.
        let vanished = self.kind == Kind::Copy && err.lines().all(|line| line.contains("No such file"));
        if (!status.success() && !vanished) || !dumped {
            let text = if err.trim().is_empty() { &out } else { &err };
            let telling =
                text.lines().find(|line| line.to_lowercase().contains("error")).or(text.lines().next_back());
            return Ok(Outcome::Refused(telling.unwrap_or("no reason given").trim().to_owned()));
        }
        Ok(match self.kind {
            Kind::Select | Kind::PythonSelect => match Seen::parse(&out) {
                Some(seen) => self.compare(seen),
                None => Outcome::Damaged(format!("{:?} is no answer", out.trim())),
            },
            Kind::Dump => self.compare(dumped_content(&out)),
            Kind::Backup => match checked(&self.room.join("copy.db")) {
                Ok(seen) => self.compare(seen),
                Err(why) => Outcome::Damaged(format!("a backup: {why}")),
            },
            _ => Outcome::Done,
        })
    }

    fn compare(&self, seen: Seen) -> Outcome {
        seen.lacks(&self.floor).map_or(Outcome::Done, Outcome::Stale)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        // One that has ended needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(kind: Kind, id: u64, directory: &Path, room: &Path) -> Command {
    let database = directory.join(DATABASE);
    let insert = format!("INSERT INTO visits VALUES({id}, zeroblob(100)) RETURNING id");
    let mut command = Command::new(kind.program());
    match kind {
        Kind::PythonSelect => command.args(["-S", "-c", PYTHON]).arg(&database).arg(LOOK),
        Kind::PythonInsert => command.args(["-S", "-c", PYTHON]).arg(&database).arg(insert),
        Kind::Copy => {
            let names = ["", "-wal", "-journal"].map(|suffix| directory.join(format!("{DATABASE}{suffix}")));
            command.args(names.iter().filter(|name| name.exists())).arg(room)
        }
        _ => {
            let backup = format!(".backup '{}'", room.join("copy.db").display());
            let sql = match kind {
                Kind::Insert => &insert,
                Kind::Backup => &backup,
                Kind::Dump => ".dump",
                Kind::Vacuum => "VACUUM",
                Kind::JournalMode => "PRAGMA journal_mode=WAL; PRAGMA journal_mode=DELETE",
                Kind::Checkpoint => "PRAGMA wal_checkpoint(TRUNCATE)",
                _ => LOOK,
            };
            command.args(["-batch", "-bail"]).arg(&database).arg(sql)
        }
    };
    command
}

/// What a dump has of the counters and of the visits.
fn dumped_content(dump: &str) -> Seen {
    let mut seen = Seen::default();
    for line in dump.lines() {
        if let Some(rest) = line.strip_prefix("INSERT INTO counter VALUES(") {
            let (writer, number) = rest.trim_end_matches(");").split_once(',').unwrap_or_default();
            let slot = writer.parse().ok().and_then(|writer: usize| seen.numbers.get_mut(writer));
            if let (Some(slot), Ok(number)) = (slot, number.parse()) {
                *slot = number;
            }
        }
        seen.visits += u64::from(line.starts_with("INSERT INTO visits VALUES("));
        seen.large += u64::from(line.starts_with("INSERT INTO large VALUES("));
    }
    seen
}

/// What a copy holds, which SQLite finds sound.
fn checked(path: &Path) -> Result<Seen, String> {
    let text = |error: rusqlite::Error| error.to_string();
    let db = open_stock(path).map_err(text)?;
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(text)?;
    if verdict == "ok" { Seen::of(&db).map_err(text) } else { Err(verdict) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::visitors::content::TABLES;

    #[test]
    fn a_hundred_visits_have_every_kind_under_its_own_name() {
        assert_eq!(KINDS.iter().map(|(.., share)| share).sum::<u32>(), 100);
        for (index, (kind, name, _)) in KINDS.iter().enumerate() {
            assert_eq!(kind.name(), *name);
            assert!(KINDS[..index].iter().all(|(_, other, _)| other != name), "{name}");
        }
    }

    #[test]
    fn a_dump_is_read() {
        let dump = "INSERT INTO counter VALUES(0,12);\nINSERT INTO counter VALUES(2,5);\n\
                    INSERT INTO visits VALUES(4,X'00');\nINSERT INTO large VALUES(1,2,X'00');\nCOMMIT;\n";
        assert_eq!(dumped_content(dump), Seen { numbers: [12, 0, 5], visits: 1, large: 1 });
    }

    #[test]
    fn python_visits_without_an_owner_and_sees_what_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let db = open_stock(&directory.path().join(DATABASE)).unwrap();
        db.execute_batch(&format!("PRAGMA synchronous=OFF; {TABLES}")).unwrap();
        let visit = |kind, id, floor| {
            Visit::start(kind, id, floor, directory.path(), directory.path()).unwrap().end(None).unwrap().0
        };
        let floor = Seen::default();
        assert_eq!(visit(Kind::PythonSelect, 1, floor), Outcome::Done);
        assert_eq!(visit(Kind::PythonInsert, 2, floor), Outcome::Done);
        assert_eq!(visit(Kind::PythonSelect, 3, Seen { visits: 1, ..floor }), Outcome::Done);
        let stale = visit(Kind::PythonSelect, 4, Seen { visits: 2, ..floor });
        assert!(matches!(stale, Outcome::Stale(_)), "{stale:?}");
        assert_eq!(visit(Kind::Copy, 5, floor), Outcome::Done);
        db.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let refused = visit(Kind::PythonInsert, 6, floor);
        assert_eq!(refused, Outcome::Refused("sqlite3.OperationalError: database is locked".to_owned()));
    }
}
