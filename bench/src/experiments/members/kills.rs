//! `member-kills`: SIGKILL to processes of a group, the owner among them. In every second life of a mode a stranger comes and goes. There the owner
//! is killed now and then while all others are stopped, at any instruction: they go on one after the other, in any order.

use super::process::{self, DATABASE, GROUP, Plan, Side, TORN, acknowledged};
use super::{ALL_MODES, command, create, look, said};
use crate::harness::{Progress, open_stock};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_storage::sync::Mutex;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SECONDS: u64 = 300;
const QUICK_SECONDS: u64 = 20;
/// How long one database lives.
const LIFE: Duration = Duration::from_secs(5);
/// How many processes there are at a time.
const PROCESSES: usize = 4;
/// The longest time between two kills, in microseconds.
const PAUSE_US: u64 = 60_000;
/// The longest time between two visits of the stranger, in microseconds.
const VISIT_PAUSE_US: u64 = 60_000;
/// The longest time between two processes that go on.
const RESUME_PAUSE_US: u64 = 30_000;
/// The flag of a socket that listens, in `/proc/net/unix`.
const LISTENS: &str = "00010000";
/// Failures that are described.
const DESCRIBED: usize = 10;

/// Runs the experiment.
pub(in super::super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    if options.kill_at_calls || options.kill_at_stores {
        return super::calls::run(options, progress);
    }
    let seconds = options.seconds.unwrap_or(if options.quick { QUICK_SECONDS } else { SECONDS });
    let mut figures = Figures::new();
    for name in [
        "lives",
        "kills",
        "acknowledged",
        "failed",
        "failed_beside_stranger",
        "visits",
        "longest_ms",
        "longest_seed",
        "longest_beside_stranger_ms",
        "longest_beside_stranger_seed",
        "wrong",
    ] {
        figures.set(name, 0.0);
    }
    figures.set("seed", options.seed as f64);
    let lives = seconds.div_ceil(LIFE.as_secs()).max(1);
    progress.begin("lives", lives);
    let is_wanted = |seed: &u64| options.case.as_deref().is_none_or(|case| name(*seed).starts_with(case));
    if !(0..KINDS).any(|seed| is_wanted(&seed)) {
        return Err(Error::Wrong(format!(
            "no life is called {:?}",
            options.case.as_deref().unwrap_or_default()
        )));
    }
    let seeds = (options.seed..).filter(is_wanted);
    for seed in seeds.take(lives as usize) {
        let mode = mode(seed);
        let life = live(&options.directory, mode, seed)?;
        for (name, more) in [
            ("lives", 1),
            ("kills", life.kills),
            ("acknowledged", life.acknowledged),
            (if has_stranger(seed) { "failed_beside_stranger" } else { "failed" }, life.failed),
            ("visits", life.visits),
            ("wrong", u64::from(life.wrong.is_some())),
        ] {
            let sum = figures.get(name).unwrap_or_default() + more as f64;
            figures.set(name, sum);
        }
        let [longest, its_seed] = if has_stranger(seed) {
            ["longest_beside_stranger_ms", "longest_beside_stranger_seed"]
        } else {
            ["longest_ms", "longest_seed"]
        };
        if figures.get(longest).unwrap_or_default() < life.longest_ms {
            figures.set(longest, life.longest_ms);
            figures.set(its_seed, seed as f64);
        }
        if let Some(wrong) = life.wrong.filter(|_| figures.alarms().len() < DESCRIBED) {
            let kept = life.kept.map(|kept| format!("; its files: {}", kept.display())).unwrap_or_default();
            figures.alarm(format!(
                "{}: {wrong}; again: --seed {seed} --seconds {}{kept}",
                name(seed),
                LIFE.as_secs()
            ));
        }
        progress.advance(1)?;
    }
    Ok(figures)
}

/// What one database has come to.
#[derive(Default)]
struct Life {
    kills: u64,
    acknowledged: u64,
    /// Transactions that have failed with an owner.
    failed: u64,
    visits: u64,
    /// How many processes there have been.
    processes: i64,
    /// The longest transaction of all that have ended.
    longest_ms: f64,
    wrong: Option<String>,
    /// Where the files of a life are that went wrong.
    kept: Option<PathBuf>,
}

/// The processes of one database; those that live are killed when this is dropped.
struct Processes(Vec<(i64, Child)>);

impl Processes {
    /// Kills the owner while all others are stopped; `false` where there is none.
    fn kill_owner(&mut self, directory: &Path, random: &mut fastrand::Rng) -> std::io::Result<bool> {
        let Some(at) = self.owner(directory)? else { return Ok(false) };
        let mut others: Vec<u32> = self.0.iter().map(|(_, process)| process.id()).collect();
        others.swap_remove(at);
        others.iter().for_each(|process| signal(*process, libc::SIGSTOP));
        let killed = self.kill(at);
        random.shuffle(&mut others);
        for process in others {
            signal(process, libc::SIGCONT);
            std::thread::sleep(Duration::from_micros(random.u64(..RESUME_PAUSE_US)));
        }
        killed.map(|()| true)
    }

    /// The one that listens by the group's name, which says which file it is.
    fn owner(&self, directory: &Path) -> std::io::Result<Option<usize>> {
        let file = std::fs::metadata(directory.join(DATABASE))?;
        let name = format!("@litefoot-{:x}-{:x}", file.dev(), file.ino());
        let sockets = std::fs::read_to_string("/proc/net/unix")?;
        let listening = sockets.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, _, _, flags, _, _, inode, path] = fields[..] else { return None };
            (path == name && flags == LISTENS).then(|| format!("socket:[{inode}]"))
        });
        let Some(listening) = listening else { return Ok(None) };
        let has_it = |process: &Child| {
            let open = std::fs::read_dir(format!("/proc/{}/fd", process.id()));
            let mut open = open.into_iter().flatten().flatten();
            open.any(|file| {
                std::fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == listening.as_str())
            })
        };
        Ok(self.0.iter().position(|(_, process)| has_it(process)))
    }

    /// Waits until one of them has committed, or none seems to: then all is recovered that there was.
    fn await_commit(&self, directory: &Path) {
        let begun = Instant::now();
        let has_committed = |(writer, _): &(i64, Child)| {
            std::fs::metadata(acknowledged(directory, *writer)).is_ok_and(|file| file.len() > 0)
        };
        while begun.elapsed() < LIFE && !self.0.iter().any(has_committed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn kill(&mut self, at: usize) -> std::io::Result<()> {
        let (_, mut process) = self.0.swap_remove(at);
        process.kill()?;
        process.wait().map(drop)
    }
}

fn signal(process: u32, signal: libc::c_int) {
    // SAFETY: a plain call, to a child that was not waited for.
    unsafe { libc::kill(process as libc::pid_t, signal) };
}

impl Drop for Processes {
    fn drop(&mut self) {
        while !self.0.is_empty() {
            let _ = self.kill(0);
        }
    }
}

fn live(parent: &Path, mode: &str, seed: u64) -> Result<Life> {
    let failed = |source| Error::Directory { path: parent.to_owned(), source };
    let scratch = tempfile::tempdir_in(parent).map_err(failed)?;
    let mut life = live_in(scratch.path(), mode, seed)?;
    if life.wrong.is_some() {
        life.kept = Some(scratch.keep());
    }
    Ok(life)
}

fn live_in(directory: &Path, mode: &str, seed: u64) -> Result<Life> {
    create(directory, mode)?;
    open_stock(&directory.join(DATABASE))
        .and_then(|db| db.execute_batch(process::BALANCES))
        .map_err(|source| Error::Sqlite { what: "the balances".to_owned(), source })?;
    let (end, is_left) = (AtomicBool::new(!has_stranger(seed)), Mutex::new(false));
    let (mut life, visited) = std::thread::scope(|scope| {
        let stranger = scope.spawn(|| visit(directory, seed, &end, &is_left));
        let life = members(directory, seed, &is_left);
        end.store(true, Ordering::Relaxed);
        let visited = stranger.join().unwrap_or_else(|_| Err("the stranger has panicked".to_owned()));
        life.map(|life| (life, visited))
    })?;
    match visited {
        Ok(visits) => life.visits = visits,
        Err(wrong) => life.wrong = life.wrong.or(Some(format!("a stranger: {wrong}"))),
    }
    if life.wrong.is_some() {
        return Ok(life);
    }
    for side in [GROUP, Side::Stock] {
        if let Some(wrong) = look(directory, 0..life.processes, side)? {
            life.wrong = Some(wrong);
            return Ok(life);
        }
    }
    for writer in 0..life.processes {
        let text = std::fs::read_to_string(acknowledged(directory, writer)).unwrap_or_default();
        life.acknowledged += text.lines().count() as u64;
        let text = std::fs::read_to_string(process::failures(directory, writer)).unwrap_or_default();
        life.failed += text.lines().count() as u64;
        life.longest_ms = life.longest_ms.max(process::longest_ms(directory, writer));
    }
    Ok(life)
}

/// The names of lives repeat after so many seeds.
const KINDS: u64 = 2 * ALL_MODES.len() as u64;

fn mode(seed: u64) -> &'static str {
    ALL_MODES[(seed % ALL_MODES.len() as u64) as usize]
}

/// What a life is called: its mode, and whether a stranger comes.
fn name(seed: u64) -> String {
    format!("{}{}", mode(seed), if has_stranger(seed) { "_stranger" } else { "" })
}

/// True where a stranger comes and goes: in every other life of a mode.
fn has_stranger(seed: u64) -> bool {
    seed / ALL_MODES.len() as u64 % 2 == 1
}

/// Stock SQLite comes, looks and leaves, until the end: how often, or what it found wrong. Now and then it writes, or makes a checkpoint. It stays away where all
/// processes were killed (`is_left`): what they have committed last is in logs that only litefoot reads (docs/limitations.md). Nor are they killed during a visit.
fn visit(
    directory: &Path,
    seed: u64,
    end: &AtomicBool,
    is_left: &Mutex<bool>,
) -> std::result::Result<u64, String> {
    let (mut random, mut visits) = (fastrand::Rng::with_seed(seed), 0);
    while !end.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_micros(random.u64(..VISIT_PAUSE_US)));
        let is_left = is_left.lock();
        if *is_left {
            continue;
        }
        let mut ask = || {
            let db = open_stock(&directory.join(DATABASE))?;
            db.busy_timeout(process::BUSY_TIMEOUT)?;
            let torn = db.query_row(TORN, [], |row| row.get::<_, i64>(0))?;
            match random.u8(..8) {
                0 => db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?,
                1 => db.execute_batch("UPDATE v SET balance = -balance")?,
                _ => {}
            }
            Ok(torn)
        };
        match ask() {
            Ok(0) => visits += 1,
            Ok(torn) => return Err(format!("{torn} transactions are there in part")),
            // Beside those that are killed it meets locks, as anybody does.
            Err(error) if process::is_busy(&error) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(visits)
}

/// Begins processes and kills them, until the time is over.
fn members(directory: &Path, seed: u64, is_left: &Mutex<bool>) -> Result<Life> {
    let mut processes = Processes(Vec::new());
    let life = kill_members(directory, seed, is_left, &mut processes);
    *is_left.lock() = true;
    drop(processes);
    life
}

/// The same; those that live at its end are the caller's.
fn kill_members(
    directory: &Path,
    seed: u64,
    is_left: &Mutex<bool>,
    processes: &mut Processes,
) -> Result<Life> {
    let failed = |source| Error::Directory { path: directory.to_owned(), source };
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut life, mut next) = (Life::default(), 0);
    let begun = Instant::now();
    while begun.elapsed() < LIFE {
        while processes.0.len() < PROCESSES {
            let (mode, directory) = (mode(seed), directory.to_owned());
            let plan = Plan { directory, writer: next, side: GROUP, mode, time: None };
            processes.0.push((next, command(&plan)?.spawn().map_err(failed)?));
            next += 1;
        }
        let was_left = *is_left.lock();
        if was_left {
            processes.await_commit(directory);
            *is_left.lock() = false;
        }
        std::thread::sleep(Duration::from_micros(random.u64(..PAUSE_US)));
        for (writer, process) in &mut processes.0 {
            if let Some(status) = process.try_wait().map_err(failed)? {
                let complaints = said(directory, *writer);
                let said: Vec<&str> = complaints.lines().collect();
                life.wrong =
                    Some(format!("process {writer} has ended by itself: {status}: {}", said.join("; ")));
                return Ok(life);
            }
        }
        if has_stranger(seed)
            && random.bool()
            && processes.kill_owner(directory, &mut random).map_err(failed)?
        {
            life.kills += 1;
            continue;
        }
        // Now and then all of them: the next one recovers.
        let many = if random.u8(..20) == 0 { PROCESSES } else { 1 };
        let mut is_left = (many == PROCESSES).then(|| is_left.lock());
        for _ in 0..many {
            let at = random.usize(..processes.0.len());
            processes.kill(at).map_err(failed)?;
            life.kills += 1;
        }
        if let Some(is_left) = &mut is_left {
            **is_left = true;
        }
    }
    life.processes = next;
    Ok(life)
}
