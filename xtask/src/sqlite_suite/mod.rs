//! `cargo xtask sqlite-suite`: SQLite's own tests, on SQLite as it is and on litefoot, side by side.
//!
//! ```text
//! cargo xtask sqlite-suite [--short] [--jobs N] [--redo] [--report] [--library FILE] [FILE…]
//! cargo xtask sqlite-suite --mptest [--sharing auto|group|separate|exclusive|passthrough] [--times N] [--jobs N]
//! cargo xtask sqlite-suite --threadtest
//! ```
//!
//! Each file runs in a process of its own, first on stock, then on litefoot. Its result is kept in
//! `target/sqlite-suite/results` (`.result`, and `.out` with its output). So a run that was broken off goes on where it
//! was; a new library begins litefoot's side anew. Files that are named, and all with `--redo`, are run again.
//!
//! A file passes if litefoot fails only tests that stock fails, ends as stock ends, and runs as many tests, but for 2
//! percent. `xtask/sqlite-suite/differences.toml` names the files that differ, what differs, and why. A file that waits
//! for a second process may be left out.
//!
//! | file | is |
//! |---|---|
//! | `mod` | which files, in which order, and the table at the end |
//! | `build` | the source package, and what is built of it |
//! | `harness.c` | how the test program gets litefoot |
//! | `prelude.tcl` | what every file is run by |
//! | `room` | where a test runs, and as whom |
//! | `result` | what it has shown |
//! | `differences` | what may differ |
//! | `programs` | SQLite's tests of processes and threads |
//! | `rows`, `moments.tcl` | the row differ on the databases of these tests |

mod build;
mod differences;
mod programs;
mod result;
mod room;
pub mod rows;

use crate::process::{self, Result, Tally};
pub use build::Cache;
use differences::Differences;
use programs::Request;
use result::{Report, Side};
use room::Room;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The subset for every change: a few files of each room, none of which takes long.
const SHORT: [&str; 21] = [
    "attach.test",
    "autovacuum.test",
    "backup.test",
    "backup2.test",
    "capi3.test",
    "exclusive.test",
    "external_reader.test",
    "incrblob.test",
    "ioerr2.test",
    "jrnlmode.test",
    "mmap3.test",
    "pager3.test",
    "resetdb.test",
    "savepoint.test",
    "shared3.test",
    "tempdb.test",
    "uri.test",
    "vacuum.test",
    "wal2.test",
    "wal3.test",
    "walmode.test",
];

/// Files of every day (SQLite's `veryquick`), and those that test a VFS, its errors among them.
const SETS: &str = "
    set testdir [file join [lindex $argv 0] test]
    set argv0 $testdir/sets.test
    source $testdir/permutations.test
    array set options $testspec(veryquick)
    set files $options(-files)
    foreach pattern {
        *ioerr* *fault* *crash* *_err* *malloc* wal*.test *journal* pager*.test *lock*.test *shared*.test
        mmap*.test *vfs*.test exclusive*.test savepoint*.test superlock.test atomic*.test delete_db.test
        io.test sync*.test nolock.test quota*.test multiplex*.test uri*.test e_uri.test e_wal*.test
        incrvacuum*.test autovacuum*.test backup*.test corrupt*.test recover*.test snapshot*.test
        zerodamage.test external_reader.test filectrl.test oserror.test syscall.test sysfault.test
        symlink*.test cksumvfs.test diskfull.test memsubsys*.test rollback*.test thread*.test
    } {
        foreach file [glob -nocomplain $testdir/$pattern] {
            if {[file extension $file] eq {.test}} { lappend files [file tail $file] }
        }
    }
    set skipped {all.test full.test quick.test extraquick.test veryquick.test main.test permutations.test
        soak.test rtree.test fts3.test mallocAll.test valgrind.test memleak.test session.test
        async.test}
    foreach file [lsort -unique $files] {
        if {[lsearch $skipped [file tail $file]] < 0} { puts \"file: $file\" }
    }
";

/// The script that runs every file.
const PRELUDE: &str = include_str!("prelude.tcl");
const PRELUDE_FILE: &str = "prelude.tcl";

/// How many files run at once.
const JOBS: usize = 2;

/// How processes may share a database.
const SHARINGS: [&str; 5] = ["auto", "group", "separate", "exclusive", "passthrough"];

/// The request of a user.
struct Wish {
    short: bool,
    redo: bool,
    report: bool,
    jobs: Option<usize>,
    library: Option<PathBuf>,
    program: Option<&'static str>,
    /// How the processes of `--mptest` share their database.
    sharing: String,
    /// How often each of its scripts runs in each mode.
    times: usize,
    files: Vec<String>,
}

impl Wish {
    fn of(words: &[&str]) -> Result<Wish> {
        let mut wish = Wish {
            short: false,
            redo: false,
            report: false,
            jobs: None,
            library: None,
            program: None,
            sharing: programs::SHARING.to_owned(),
            times: programs::TIMES,
            files: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--short" => wish.short = true,
                "--redo" => wish.redo = true,
                "--report" => wish.report = true,
                "--mptest" => wish.program = Some("mptester"),
                "--threadtest" => wish.program = Some("threadtest3"),
                "--library" => {
                    let file = words.next().ok_or("--library takes a file")?;
                    wish.library = Some(PathBuf::from(file));
                }
                "--sharing" => {
                    let sharing = words.next().filter(|word| SHARINGS.contains(word));
                    wish.sharing = sharing
                        .ok_or("--sharing takes auto, group, separate, exclusive or passthrough")?
                        .to_string();
                }
                "--times" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    wish.times = number.filter(|times| *times > 0).ok_or("--times takes a number")?;
                }
                "--jobs" | "-j" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    wish.jobs = Some(number.filter(|jobs| *jobs > 0).ok_or("--jobs takes a number")?);
                }
                file if !file.starts_with('-') => wish.files.push(file.to_owned()),
                other => return Err(format!("sqlite-suite: unknown option {other}")),
            }
        }
        Ok(wish)
    }

    /// The library to test: the one that is named, or the one of this tree, built.
    fn library(&self) -> Result<PathBuf> {
        if let Some(named) = &self.library {
            return Ok(named.clone());
        }
        process::build(&["-q"])?;
        let [library, _] = process::built()?;
        Ok(library)
    }
}

/// Runs what is asked for.
pub fn run(words: &[&str]) -> Result<Tally> {
    let wish = Wish::of(words)?;
    let cache = Cache::open()?;
    let Some(source) = cache.source()? else {
        println!("sqlite-suite: NOT CHECKED, it takes the source package that apt-get source sqlite3 brings");
        return Ok(Tally { passed: 1, failed: 0 });
    };
    cache.build(&source)?;
    let library = wish.library()?;
    if let Some(program) = wish.program {
        let jobs = wish.jobs.unwrap_or(if program == "mptester" { programs::JOBS } else { 1 });
        let request = Request { program, sharing: &wish.sharing, times: wish.times, jobs };
        return programs::check(&cache, &source, &library, &request);
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let differences = Differences::read(&own.join("sqlite-suite/differences.toml"))?;
    let room = Room::new(&cache, &source, Some(&library))?;
    build::write(&room.source(PRELUDE_FILE), PRELUDE)?;
    let files = files(&wish, &room)?;
    let results = cache.results();
    forget_other_library(&results, &library)?;
    let suite = Suite { wish, room, differences, results, files };
    Ok(suite.run())
}

/// The files to run, as paths in SQLite's source.
fn files(wish: &Wish, room: &Room) -> Result<Vec<String>> {
    if wish.short {
        return Ok(SHORT.iter().map(|name| format!("test/{name}")).collect());
    }
    if !wish.files.is_empty() {
        let path = |name: &String| if name.contains('/') { name.clone() } else { format!("test/{name}") };
        return Ok(wish.files.iter().map(path).collect());
    }
    let script = room.source("sets.tcl");
    build::write(&script, SETS)?;
    let (script, source) = (script.to_string_lossy(), room.source(""));
    let arguments = [&*script, &source.to_string_lossy()];
    let outcome = room.run(Side::Stock, "sets", "testfixture", &arguments, Duration::from_secs(60))?;
    let prefix = source.to_string_lossy().into_owned();
    let paths = outcome.output.lines().filter_map(|line| line.strip_prefix("file: ")).map(|file| match file
        .strip_prefix(&prefix)
    {
        Some(inside) => inside.trim_start_matches('/').trim_start_matches("test/../").to_owned(),
        None => format!("test/{file}").trim_start_matches("test/../").to_owned(),
    });
    let mut paths: Vec<String> = paths.collect();
    paths.sort();
    paths.dedup();
    if paths.len() < 500 {
        return Err(format!("SQLite's list of tests has only {} files:\n{}", paths.len(), outcome.output));
    }
    Ok(paths)
}

/// Results of another library say nothing of this one.
fn forget_other_library(results: &Path, library: &Path) -> Result<()> {
    build::make(results)?;
    let bytes = fs::read(library).map_err(|error| format!("{}: {error}", library.display()))?;
    let kept = results.join("liblitefoot.so");
    if fs::read(&kept).is_ok_and(|before| before == bytes) {
        return Ok(());
    }
    let _ = fs::remove_dir_all(results.join(Side::Litefoot.name()));
    fs::write(&kept, bytes).map_err(|error| format!("{}: {error}", kept.display()))
}

struct Suite {
    wish: Wish,
    room: Room,
    differences: Differences,
    results: PathBuf,
    files: Vec<String>,
}

/// Tests that were run and that failed, on stock and on litefoot.
#[derive(Default)]
struct Counts([[AtomicU64; 2]; 2]);

impl Counts {
    fn add(&self, reports: &[&Report; 2]) {
        for (sums, report) in self.0.iter().zip(reports) {
            sums[0].fetch_add(report.tests, Ordering::Relaxed);
            sums[1].fetch_add(report.failures.len() as u64, Ordering::Relaxed);
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [[stock, failed], [tests, failures]] =
            self.0.each_ref().map(|sums| sums.each_ref().map(|sum| sum.load(Ordering::Relaxed)));
        let percent = 100.0 * tests as f64 / stock.max(1) as f64;
        write!(
            to,
            "stock: {stock} tests, {failed} failed; litefoot: {tests} tests ({percent:.2} %), {failures} failed"
        )
    }
}

/// Sums over the files.
#[derive(Default)]
struct Sums {
    /// Of all files, of those that are not on the list, and of those of errors of the medium.
    counts: [Counts; 3],
    explained: AtomicU64,
    passed: AtomicU64,
}

impl Suite {
    fn run(&self) -> Tally {
        let next = AtomicUsize::new(0);
        let sums = Sums::default();
        let complaints = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..self.wish.jobs.unwrap_or(JOBS) {
                scope.spawn(|| {
                    while let Some(file) = self.files.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match self.file(file, &sums) {
                            Ok(said) if said.is_empty() => {}
                            Ok(said) => keep(&complaints, format!("{file}: {}", said.join("; "))),
                            Err(why) => keep(&complaints, format!("{file}: {why}")),
                        }
                    }
                });
            }
        });
        let complaints = complaints.into_inner().unwrap_or_default();
        let sum = |of: &AtomicU64| of.load(Ordering::Relaxed);
        println!("\n{} files", self.files.len());
        for (what, counts) in ["all", "not on the list", "ioerr"].into_iter().zip(&sums.counts) {
            println!("{what}: {counts}");
        }
        println!(
            "{} files differ as the list says; {} differ otherwise",
            sum(&sums.explained),
            complaints.len()
        );
        complaints.iter().for_each(|complaint| println!("UNEXPLAINED {complaint}"));
        Tally { passed: sum(&sums.passed), failed: complaints.len() as u64 }
    }

    /// Runs a file on both sides, as far as it was not; tells what is not explained.
    fn file(&self, file: &str, sums: &Sums) -> Result<Vec<String>> {
        let name = file.rsplit('/').next().unwrap_or(file);
        if self.differences.skips(name) {
            sums.passed.fetch_add(1, Ordering::Relaxed);
            sums.explained.fetch_add(1, Ordering::Relaxed);
            println!("{file}: left out, as the list says");
            return Ok(Vec::new());
        }
        let [stock, litefoot] = [self.report(Side::Stock, file)?, self.report(Side::Litefoot, file)?];
        let counted = [true, !self.differences.has(name), name.contains("ioerr")];
        for (counts, _) in sums.counts.iter().zip(counted).filter(|(_, counted)| *counted) {
            counts.add(&[&stock, &litefoot]);
        }
        let mut said = self.differences.unexplained(name, &stock, &litefoot);
        for pattern in self.differences.obsolete(name, &litefoot) {
            said.push(format!("the list names {pattern}, which does not fail"));
        }
        let verdict = if !said.is_empty() {
            said.join("; ")
        } else {
            sums.passed.fetch_add(1, Ordering::Relaxed);
            if self.differences.has(name) {
                sums.explained.fetch_add(1, Ordering::Relaxed);
                "differs as the list says".to_owned()
            } else {
                "ok".to_owned()
            }
        };
        println!(
            "{file}: {} / {} tests, {} / {} failed, {:.1} / {:.1} s: {verdict}",
            stock.tests,
            litefoot.tests,
            stock.failures.len(),
            litefoot.failures.len(),
            stock.seconds,
            litefoot.seconds
        );
        Ok(said)
    }

    fn report(&self, side: Side, file: &str) -> Result<Report> {
        let name = file.trim_end_matches(".test").replace(['/', '.'], "_");
        let again = side == Side::Litefoot && (self.wish.redo || !self.wish.files.is_empty());
        let kept = Report::kept(&self.results, side, &name);
        if let Some(report) = kept.filter(|_| !again || self.wish.report) {
            return Ok(report);
        }
        let seconds = if self.wish.short { 120 } else { 1800 };
        let [prelude, script] = [PRELUDE_FILE, file].map(|path| self.room.source(path));
        let arguments = [&*prelude.to_string_lossy(), &*script.to_string_lossy()];
        let outcome = self.room.run(side, &name, "testfixture", &arguments, Duration::from_secs(seconds))?;
        let report = Report::of(&outcome);
        report.keep(&self.results, side, &name, &outcome.output)?;
        Ok(report)
    }
}

fn keep(list: &Mutex<Vec<String>>, text: String) {
    if let Ok(mut list) = list.lock() {
        list.push(text);
    }
}
