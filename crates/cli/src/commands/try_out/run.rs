//! One run: the program is started, waited for or stopped, and what it did is counted.

use super::super::run::{OPTIONS_VARIABLE, option_list, preload_list};
use super::device::{Device, Given};
use litefoot::stats::{KEEP_VARIABLE, Reading};
use litefoot::trial::{FIGURES, FILES, FOLDER_VARIABLE, PROGRAM_VARIABLE, RUN_VARIABLE, SIDE_VARIABLE};
use litefoot_terminal::text::harmless;
use litefoot_terminal::{Failure, child, interrupt};
use rusqlite::{Connection, OpenFlags};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often the program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long a program may take to end when it is told to.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a program's last words that are shown.
const LAST_WORDS: usize = 2000;
/// The magic of a database file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Kinds of files whose writes need not reach the device: they are needed by no later run.
const SCRATCH: [&str; 2] = ["temporary", "wal_index"];

/// A side of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// SQLite as it is.
    Stock,
    /// SQLite on litefoot.
    Litefoot,
}

impl Side {
    /// The side as the library knows it.
    pub fn name(self) -> &'static str {
        match self {
            Side::Stock => "stock",
            Side::Litefoot => "litefoot",
        }
    }
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct Run {
    /// From start to end.
    pub seconds: f64,
    /// How it ended.
    pub status: ExitStatus,
    /// What was counted above the device.
    pub counted: Counted,
    /// What the device was given meanwhile, where that is counted.
    pub device: Option<Given>,
}

/// What all openings of databases in a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Statistics pages: on litefoot's side one for each opening, on stock's one for each process.
    pub pages: u64,
    /// Commits.
    pub commits: u64,
    /// Bytes of the 4 KiB blocks that writes touched.
    pub bytes: u64,
    /// Syncs of files and directories, durable writes among them.
    pub syncs: u64,
}

impl Counted {
    fn add(&mut self, reading: &Reading) {
        self.pages += 1;
        self.commits += ["commits_deltas", "commits_statements", "commits_pages"]
            .map(|name| reading.get(name))
            .iter()
            .sum::<u64>();
        self.syncs += reading.get("directory_syncs");
        for (name, _, value) in &reading.figures {
            if SCRATCH.iter().any(|kind| name.starts_with(kind)) {
                continue;
            }
            if name.ends_with("_block_bytes") {
                self.bytes += value;
            } else if name.ends_with("_syncs") && name != "directory_syncs" {
                self.syncs += value;
            }
        }
    }

    fn of_folder(folder: &Path) -> Result<Counted, Failure> {
        let mut counted = Counted::default();
        for entry in fs::read_dir(folder).map_err(|error| Failure::file(folder, error))? {
            let path = entry.map_err(|error| Failure::file(folder, error))?.path();
            counted.add(&Reading::of_file(&path).map_err(|error| Failure::file(&path, error))?);
        }
        Ok(counted)
    }
}

/// What is run again and again.
pub struct Task {
    folder: PathBuf,
    program: Vec<OsString>,
    preload: OsString,
    options: String,
    ours: PathBuf,
    limit: Option<Duration>,
    device: Option<Device>,
}

impl Task {
    /// A program to be run in a folder of copies.
    pub fn new(
        folder: &Path,
        program: &[OsString],
        library: PathBuf,
        limit: Option<Duration>,
        set: &[String],
    ) -> Result<Task, Failure> {
        let ours = std::env::current_exe()
            .map_err(|error| Failure::new(format!("cannot tell where this program is: {error}")))?;
        Ok(Task {
            folder: folder.to_owned(),
            program: program.to_vec(),
            preload: preload_list(&library, std::env::var_os("LD_PRELOAD").as_deref())?,
            options: option_list(std::env::var(OPTIONS_VARIABLE).ok(), set),
            ours,
            limit,
            device: Device::beneath(folder),
        })
    }

    /// The copies of a run, under the names of their databases.
    pub fn files(&self, run: &str) -> PathBuf {
        self.folder.join(run).join(FILES)
    }

    /// One run. On litefoot's side stock SQLite checks each database at the end.
    pub fn run(&self, side: Side, name: &str) -> Result<Run, Failure> {
        let folder = self.folder.join(name);
        let make = |path: &Path| fs::create_dir_all(path).map_err(|error| Failure::file(path, error));
        make(&folder.join(FILES))?;
        make(&folder.join(FIGURES))?;
        let output = folder.join("output");
        let mut command = self.command(side, name, &output)?;
        let before = self.device.as_ref().and_then(Device::given);
        let began = Instant::now();
        let mut child =
            command.spawn().map_err(|error| child::refusal(Path::new(&self.program[0]), &error))?;
        let status = self.wait(&mut child, began)?;
        let seconds = began.elapsed().as_secs_f64();
        let after = self.device.as_ref().and_then(Device::given);
        let counted = Counted::of_folder(&folder.join(FIGURES))?;
        if !status.success() && self.limit.is_none() {
            return Err(Failure::new(format!(
                "the program ended with {status} on {}\n{}",
                side.name(),
                last_words(&output)
            ))
            .advice("Nothing was compared. It may not be possible to run it twice."));
        }
        if side == Side::Litefoot {
            database_files(&folder.join(FILES)).iter().try_for_each(|path| check(path))?;
        }
        // The copies of many rounds would fill the disk.
        if name != "0" {
            let _ = fs::remove_dir_all(&folder);
        }
        let device = after.zip(before).map(|(after, before)| after.since(before));
        Ok(Run { seconds, status, counted, device })
    }

    fn command(&self, side: Side, run: &str, output: &Path) -> Result<Command, Failure> {
        let fail = |error| Failure::file(output, error);
        let file = File::create(output).map_err(fail)?;
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).stdin(Stdio::null());
        command.stdout(file.try_clone().map_err(fail)?).stderr(file);
        // A Ctrl-C is this command's alone.
        command.process_group(0).env("LD_PRELOAD", &self.preload);
        command.env(FOLDER_VARIABLE, &self.folder).env(RUN_VARIABLE, run).env(SIDE_VARIABLE, side.name());
        command.env(PROGRAM_VARIABLE, &self.ours);
        if side == Side::Litefoot {
            command.env(KEEP_VARIABLE, self.folder.join(run).join(FIGURES));
        }
        if !self.options.is_empty() {
            command.env(OPTIONS_VARIABLE, &self.options);
        }
        Ok(command)
    }

    /// Waits for the program's end, and ends what it has left.
    fn wait(&self, child: &mut Child, began: Instant) -> Result<ExitStatus, Failure> {
        let fail = |error: std::io::Error| Failure::new(format!("the program cannot be waited for: {error}"));
        let mut asked: Option<Instant> = None;
        loop {
            if let Some(status) = child.try_wait().map_err(fail)? {
                tell_group(child, libc::SIGTERM);
                interrupt::check()?;
                return Ok(status);
            }
            let is_over =
                interrupt::check().is_err() || self.limit.is_some_and(|limit| began.elapsed() >= limit);
            match asked {
                None if is_over => {
                    tell_group(child, libc::SIGTERM);
                    asked = Some(Instant::now());
                }
                Some(since) if since.elapsed() > PATIENCE => tell_group(child, libc::SIGKILL),
                _ => {}
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn tell_group(child: &Child, signal: i32) {
    let Ok(process) = libc::pid_t::try_from(child.id()) else { return };
    // SAFETY: a plain system call; the group was made for this program, and is gone where nobody is in it.
    unsafe { libc::kill(-process, signal) };
}

/// The end of what the program said.
fn last_words(output: &Path) -> String {
    let said = fs::read(output).unwrap_or_default();
    let begin = said.len().saturating_sub(LAST_WORDS);
    harmless(&String::from_utf8_lossy(&said[begin..])).trim().to_owned()
}

/// The databases below a folder.
pub fn database_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(database_files(&path));
        } else if is_database(&path) {
            found.push(path);
        }
    }
    found
}

fn is_database(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && &magic == MAGIC
}

/// Has stock SQLite check a database.
fn check(path: &Path) -> Result<(), Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let verdict = Connection::open_with_flags_and_vfs(path, flags, c"unix")
        .and_then(|db| db.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0)));
    match verdict {
        Ok(verdict) if verdict == "ok" => Ok(()),
        Ok(damage) => {
            Err(Failure::file(path, format!("stock SQLite finds damage after the run on litefoot: {damage}"))
                .advice("Please report this, with the program that did it."))
        }
        Err(error) => Err(Failure::file(
            path,
            format!("stock SQLite cannot check it after the run on litefoot: {error}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot::stats::{DatabaseState, FigureKind};
    use std::time::SystemTime;

    #[test]
    fn scratch_is_not_counted() {
        let figures = [
            ("commits_deltas", 3),
            ("commits_pages", 4),
            ("commits_one_block", 3),
            ("directory_syncs", 2),
            ("database_block_bytes", 8192),
            ("redo_log_block_bytes", 4096),
            ("temporary_block_bytes", 1 << 30),
            ("database_syncs", 1),
            ("redo_log_syncs", 7),
            ("wal_index_syncs", 100),
        ];
        let figures = figures.map(|(name, value)| (name.to_owned(), FigureKind::Counter, value));
        let reading = Reading::new(DatabaseState::Closed, SystemTime::now(), figures.to_vec());
        let mut counted = Counted::default();
        counted.add(&reading);
        assert_eq!(counted, Counted { pages: 1, commits: 7, bytes: 12_288, syncs: 10 });
    }
}
