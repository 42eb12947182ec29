//! Medians of the rounds, as a table and as an object.

use super::run::Run;
use litefoot_terminal::table::{Cell, aligned, left, right};
use litefoot_terminal::text::{grouped, printable};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Databases that are named.
const MOST_NAMED: usize = 8;
/// Below so many syncs a commit, commits do not wait for the device each.
const SYNCED: f64 = 0.9;
/// The magic number of file systems in memory (`statfs(2)`).
const TMPFS: i64 = 0x0102_1994;

/// One run of each side.
pub struct Round {
    /// SQLite as it is.
    pub stock: Run,
    /// SQLite on litefoot.
    pub litefoot: Run,
}

/// What all rounds have shown.
pub struct Result {
    program: Vec<String>,
    rounds: Vec<Round>,
    databases: Vec<PathBuf>,
    /// The program was stopped, and did as much as it could until then.
    is_limited: bool,
    notes: Vec<String>,
}

/// Figures of a side: medians of its runs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    seconds: f64,
    commits: f64,
    per_second: f64,
    bytes: f64,
    syncs: f64,
    device_bytes: Option<f64>,
    device_flushes: Option<f64>,
}

impl Figures {
    fn of<'a>(runs: impl Iterator<Item = &'a Run> + Clone) -> Figures {
        let by = |figure: &dyn Fn(&Run) -> f64| median(runs.clone().map(figure).collect());
        let commits = |run: &Run| (run.counted.commits as f64).max(1.0);
        let device = |figure: &dyn Fn(&Run) -> Option<f64>| {
            let all: Option<Vec<f64>> = runs.clone().map(figure).collect();
            all.map(median)
        };
        Figures {
            seconds: by(&|run| run.seconds),
            commits: by(&|run| run.counted.commits as f64),
            per_second: by(&|run| run.counted.commits as f64 / run.seconds.max(1e-9)),
            bytes: by(&|run| run.counted.bytes as f64 / commits(run)),
            syncs: by(&|run| run.counted.syncs as f64 / commits(run)),
            device_bytes: device(&|run| run.device.map(|given| given.bytes as f64 / commits(run))),
            device_flushes: device(&|run| run.device.map(|given| given.flushes as f64 / commits(run))),
        }
    }

    fn as_json(&self) -> Value {
        json!({
            "seconds": self.seconds,
            "commits": self.commits,
            "commits_per_s": self.per_second,
            "ms_per_commit": 1e3 / self.per_second.max(1e-9),
            "bytes_per_commit": self.bytes,
            "syncs_per_commit": self.syncs,
            "device_bytes_per_commit": self.device_bytes,
            "device_flushes_per_commit": self.device_flushes,
        })
    }
}

impl Result {
    /// The result of these rounds; `folder` is where the copies were.
    pub fn new(
        program: &[OsString],
        rounds: Vec<Round>,
        databases: Vec<PathBuf>,
        is_limited: bool,
        folder: &Path,
    ) -> Result {
        let program = program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let mut result = Result { program, rounds, databases, is_limited, notes: Vec::new() };
        result.notes = result.remarks(folder);
        result
    }

    fn sides(&self) -> [Figures; 2] {
        [
            Figures::of(self.rounds.iter().map(|round| &round.stock)),
            Figures::of(self.rounds.iter().map(|round| &round.litefoot)),
        ]
    }

    fn remarks(&self, folder: &Path) -> Vec<String> {
        let [stock, litefoot] = self.sides();
        let mut notes = Vec::new();
        if stock.syncs >= SYNCED {
            notes.push(
                "Both sides keep the program's own settings, and a commit that has returned survives a power cut on both.".to_owned(),
            );
        } else {
            notes.push(
                "The program's commits do not wait for the device each (synchronous=NORMAL in WAL mode, or OFF): a power cut may cost the \
                 last ones. On litefoot they follow within 10 ms; see docs/durability.md."
                    .to_owned(),
            );
        }
        if stock.device_bytes.is_some() {
            notes.push(
                "The device is not this trial's own: what others wrote there meanwhile is counted as well."
                    .to_owned(),
            );
        } else {
            notes.push("The system counts nothing for the device of these copies; what the file system writes itself is not shown.".to_owned());
        }
        if !self.is_limited && (stock.commits - litefoot.commits).abs() > 0.02 * stock.commits {
            notes.push("The sides made different numbers of commits: empty ones count on stock's side only, or the program varies.".to_owned());
        }
        if self.rounds.iter().any(|round| round.stock.status != round.litefoot.status) {
            notes.push(
                "The program ended in different ways; look at its output: litefoot run -- PROGRAM."
                    .to_owned(),
            );
        }
        if is_memory(folder) {
            notes.push("The copies were in memory, where syncs cost nothing: name a directory on the device that counts, --dir DIR.".to_owned());
        } else if let Some(database) = self.databases.iter().find(|database| is_elsewhere(database, folder)) {
            notes.push(format!(
                "{} is on another device than the copies were: --dir DIR names a directory on it.",
                printable(&database.to_string_lossy())
            ));
        }
        notes
    }

    /// The table and the remarks.
    pub fn text(&self) -> String {
        let sides = self.sides();
        let heading = vec![left(""), right("stock"), right("litefoot"), right("ratio")];
        let row = |name: &str, value: &dyn Fn(&Figures) -> f64, digits: usize| -> Vec<Cell> {
            let [stock, litefoot] = [value(&sides[0]), value(&sides[1])];
            let shown = |value: f64| {
                if digits == 0 { grouped(value.round() as u64) } else { format!("{value:.digits$}") }
            };
            let ratio = if stock > 0.0 { format!("{:.2}", litefoot / stock) } else { "-".to_owned() };
            vec![left(name), right(shown(stock)), right(shown(litefoot)), right(ratio)]
        };
        let mut rows = vec![
            row("commits", &|side| side.commits, 0),
            row("seconds", &|side| side.seconds, 2),
            row("commits/s", &|side| side.per_second, 0),
            row("ms/commit, all in all", &|side| 1e3 / side.per_second.max(1e-9), 3),
            row("bytes/commit", &|side| side.bytes, 0),
            row("syncs/commit", &|side| side.syncs, 2),
        ];
        if sides.iter().all(|side| side.device_bytes.is_some()) {
            rows.push(row("device: bytes/commit", &|side| side.device_bytes.unwrap_or(0.0), 0));
            rows.push(row("device: flushes/commit", &|side| side.device_flushes.unwrap_or(0.0), 2));
        }
        let mut text = String::new();
        for database in self.databases.iter().take(MOST_NAMED) {
            text.push_str(&format!("database   {}\n", printable(&database.to_string_lossy())));
        }
        if self.databases.len() > MOST_NAMED {
            text.push_str(&format!("           and {} more\n", self.databases.len() - MOST_NAMED));
        }
        let runs = match self.rounds.len() {
            1 => "One run of each side".to_owned(),
            count => format!("Medians of {count} runs of each side, in turns"),
        };
        text.push_str(&format!("\n{runs}, on copies:\n\n"));
        text.push_str(&aligned(&heading, &rows));
        text.push('\n');
        for note in &self.notes {
            text.push_str(note);
            text.push('\n');
        }
        text
    }

    /// One object. Keys are stable; figures of the device are null where nobody counts them.
    pub fn as_json(&self) -> Value {
        let [stock, litefoot] = self.sides();
        json!({
            "program": self.program,
            "rounds": self.rounds.len(),
            "databases": self.databases.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
            "stock": stock.as_json(),
            "litefoot": litefoot.as_json(),
            "notes": self.notes,
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

/// True for a database that lies on another device than a folder.
fn is_elsewhere(database: &Path, folder: &Path) -> bool {
    let device = |path: &Path| path.metadata().ok().map(|metadata| metadata.dev());
    let of_database = device(database).or_else(|| device(database.parent()?));
    of_database.zip(device(folder)).is_some_and(|(one, other)| one != other)
}

fn is_memory(folder: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: statfs is plain data.
    let mut info: libc::statfs = unsafe { std::mem::zeroed() };
    #[allow(clippy::unnecessary_cast)] // narrower on 32-bit machines
    // SAFETY: the name ends with NUL, and `info` can be written.
    let is_memory = unsafe { libc::statfs(path.as_ptr(), &raw mut info) } == 0 && info.f_type as i64 == TMPFS;
    is_memory
}

#[cfg(test)]
mod tests {
    use super::super::run::Counted;
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn run(seconds: f64, commits: u64, bytes: u64, syncs: u64) -> Run {
        let counted = Counted { pages: 1, commits, bytes, syncs };
        Run { seconds, status: ExitStatus::from_raw(0), counted, device: None }
    }

    #[test]
    fn medians_of_the_rounds_are_compared() {
        let round = |factor: f64| Round {
            stock: run(2.0 * factor, 100, 400_000, 400),
            litefoot: run(factor, 100, 100_000, 100),
        };
        let rounds = [1.0, 5.0, 1.5].map(round).into_iter().collect();
        let result =
            Result::new(&["app".into()], rounds, vec![PathBuf::from("/a.db")], false, Path::new("/"));
        let object = result.as_json();
        assert_eq!(object["stock"]["seconds"], 3.0);
        assert_eq!(object["litefoot"]["seconds"], 1.5);
        assert_eq!(object["litefoot"]["bytes_per_commit"], 1000.0);
        assert_eq!(object["stock"]["device_bytes_per_commit"], Value::Null);
        let text = result.text();
        assert!(
            text.contains("survives a power cut on both")
                && text.contains("0.25")
                && !text.contains("device:"),
            "{text}"
        );
    }

    #[test]
    fn commits_that_do_not_wait_are_told() {
        let rounds = vec![Round { stock: run(1.0, 100, 400_000, 3), litefoot: run(1.0, 90, 400_000, 3) }];
        let notes = Result::new(&["app".into()], rounds, vec![], false, Path::new("/")).notes.join("\n");
        assert!(
            notes.contains("do not wait for the device each") && notes.contains("different numbers"),
            "{notes}"
        );
    }

    #[test]
    fn a_median_is_in_the_middle() {
        for (values, expected) in
            [(vec![], 0.0), (vec![3.0], 3.0), (vec![3.0, 1.0], 2.0), (vec![9.0, 1.0, 2.0], 2.0)]
        {
            assert!((median(values) - expected).abs() < 1e-9);
        }
    }
}
