//! Feeds the targets on any compiler: the corpus, and changes of it, from a seed.
//!
//! ```text
//! drive [--seconds N] [--seed N] [TARGET …]    changes inputs for so long, each target
//! drive --replay FILE TARGET                   one input
//! drive --write-seeds                          writes what litefoot itself would write into corpus/
//! ```
//!
//! An input that panics, takes more memory than its target [may](Target::most_bytes), or longer than [`MOST_TIME`], is written to `findings/`,
//! and the driver fails.

use litefoot_fuzz::{Target, target, targets};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[path = "../mutate.rs"]
mod mutate;

use mutate::{Random, mutate};

/// Longest that an input may take, on a machine that is busy.
const MOST_TIME: Duration = Duration::from_secs(20);
/// Longest input.
const MOST_INPUT: usize = 1 << 16;
/// Most inputs that are kept because something else came of them.
const MOST_KEPT: usize = 4096;

/// Counts what is in use. A request beyond the limit is refused. That ends this process, as it would end the program
/// that litefoot is in.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST_IN_USE: AtomicUsize = AtomicUsize::new(0);
/// The most that any input of the target has taken.
static MOST_TAKEN: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: passes everything on to the system's allocator, or refuses it, as an allocator may.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !count(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as for the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !count(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as for the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as for the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn count(bytes: usize) -> bool {
    let now = IN_USE.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if now > LIMIT.load(Ordering::Relaxed) {
        IN_USE.fetch_sub(bytes, Ordering::Relaxed);
        return false;
    }
    MOST_IN_USE.fetch_max(now, Ordering::Relaxed);
    true
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The input that is being parsed, and since when, for the thread that finds the process ending or hanging.
static CURRENT: Mutex<Option<(&'static str, Vec<u8>, Instant)>> = Mutex::new(None);
static DONE: AtomicU64 = AtomicU64::new(0);

struct Arguments {
    seconds: u64,
    seed: u64,
    replay: Option<PathBuf>,
    write_seeds: bool,
    targets: Vec<&'static Target>,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    if arguments.write_seeds {
        return written(write_seeds(&arguments.targets));
    }
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    // SAFETY: the handler has the type that is asked for.
    unsafe { libc::signal(libc::SIGABRT, ended as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    std::thread::spawn(watch);
    let mut failed = false;
    for target in &arguments.targets {
        let found = match &arguments.replay {
            Some(path) => replay(target, path),
            None => drive(target, Duration::from_secs(arguments.seconds), arguments.seed),
        };
        if let Err(what) = found {
            eprintln!("{}: {what}", target.name);
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments { seconds: 5, seed: 1, replay: None, write_seeds: false, targets: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
        match word.as_str() {
            "--seconds" => found.seconds = number(value()?)?,
            "--seed" => found.seed = number(value()?)?,
            "--replay" => found.replay = Some(value()?.into()),
            "--write-seeds" => found.write_seeds = true,
            name => found.targets.push(target(name).ok_or_else(|| {
                let names: Vec<&str> = targets().iter().map(|target| target.name).collect();
                format!("no target is called {name}; there are {}", names.join(", "))
            })?),
        }
    }
    if found.targets.is_empty() {
        found.targets = targets().iter().collect();
    }
    Ok(found)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The seeds: bytes that litefoot itself writes, and inputs that once found a fault.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let mut inputs = (target.seeds)();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(root().join("corpus").join(target.name))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    paths.sort();
    inputs.extend(paths.iter().filter_map(|path| std::fs::read(path).ok()));
    inputs
}

fn replay(target: &'static Target, path: &Path) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(target, &bytes).map(drop)
}

fn drive(target: &'static Target, time: Duration, seed: u64) -> Result<(), String> {
    let begun = Instant::now();
    let mut kept = corpus(target);
    if kept.is_empty() {
        kept.push(Vec::new());
    }
    let mut outcomes = HashSet::new();
    for bytes in &kept {
        outcomes.insert(parse(target, bytes)?);
    }
    let from_corpus = outcomes.len();
    let mut random = Random::new(seed);
    let mut inputs = kept.len() as u64;
    while begun.elapsed() < time {
        let other = random.below(kept.len());
        let mut bytes = kept[random.below(kept.len())].clone();
        mutate(&mut random, &mut bytes, &kept[other], MOST_INPUT);
        inputs += 1;
        if outcomes.insert(parse(target, &bytes)?) && kept.len() < MOST_KEPT {
            kept.push(bytes);
        }
    }
    println!(
        "{:<12} {inputs:>9} inputs, {from_corpus:>3} outcomes of the corpus, {:>5} found, at most {:>5} KB",
        target.name,
        outcomes.len() - from_corpus,
        MOST_TAKEN.swap(0, Ordering::Relaxed) >> 10
    );
    Ok(())
}

/// Parses one input, and says what is wrong where that fails.
fn parse(target: &'static Target, bytes: &[u8]) -> Result<u64, String> {
    *current() = Some((target.name, bytes.to_vec(), Instant::now()));
    let base = IN_USE.load(Ordering::Relaxed);
    MOST_IN_USE.store(base, Ordering::Relaxed);
    LIMIT.store(base + target.most_bytes, Ordering::Relaxed);
    let outcome = catch_unwind(AssertUnwindSafe(|| target.run(bytes)));
    LIMIT.store(usize::MAX, Ordering::Relaxed);
    MOST_TAKEN.fetch_max(MOST_IN_USE.load(Ordering::Relaxed) - base, Ordering::Relaxed);
    DONE.fetch_add(1, Ordering::Relaxed);
    *current() = None;
    outcome.map_err(|_| format!("panicked; the input is {}", keep(target.name, bytes)))
}

fn current() -> std::sync::MutexGuard<'static, Option<(&'static str, Vec<u8>, Instant)>> {
    CURRENT.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Writes an input where it can be looked at.
fn keep(target: &str, bytes: &[u8]) -> String {
    let directory = root().join("findings");
    let name = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let path = directory.join(format!("{target}-{name:016x}"));
    let written = std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(&path, bytes));
    written.map_or_else(|error| format!("lost: {error}"), |()| path.display().to_string())
}

/// The process ends itself, as it does where memory that it cannot do without is refused. This is called by the thread
/// that parses, in the middle of nothing that this needs.
extern "C" fn ended(_signal: libc::c_int) {
    LIMIT.store(usize::MAX, Ordering::Relaxed);
    if let Some((target, bytes, _)) = current().as_ref() {
        eprintln!("{target}: the process was aborted; the input is {}", keep(target, bytes));
    }
    std::process::exit(1);
}

/// Ends the process where an input takes too long.
fn watch() {
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let hung = current().as_ref().filter(|(_, _, begun)| begun.elapsed() > MOST_TIME).map(
            |(target, bytes, _)| {
                format!("{target}: an input takes longer than {MOST_TIME:?}; it is {}", keep(target, bytes))
            },
        );
        if let Some(what) = hung {
            eprintln!("{what}");
            std::process::exit(1);
        }
    }
}

fn write_seeds(targets: &[&'static Target]) -> std::io::Result<()> {
    for target in targets {
        let directory = root().join("corpus").join(target.name);
        std::fs::create_dir_all(&directory)?;
        for (number, bytes) in (target.seeds)().iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{number}")), bytes)?;
        }
    }
    Ok(())
}

fn written(result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the corpus cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}
