//! One history: what happens to a database, step by step, and what is then found.

use super::application::{End, Plan};
use super::content::{self, TABLES, Table};
use super::files;
use super::model::{Met, Model, Verdict};
use super::process::{Kill, Outcome, Running};
use crate::harness::open_stock;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a process opens, or works, before it is killed: at most, in microseconds.
const OPENS_US: u64 = 12_000;
const WORKS_US: u64 = 15_000;
/// Most commits of a process, and of one that nobody kills.
const MANY: u64 = 400;
const FEW: u64 = 40;
/// How long a process waits for another one, where there is none, and where there is one that does not give way.
const PATIENCE: Duration = Duration::from_secs(20);
const IMPATIENCE: Duration = Duration::from_millis(20);
/// Tokens of two processes lie apart.
const TOKENS: u64 = 10_000;

/// A step of a history, and how often it is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Application,
    Reader,
    Writer(Table),
    SecondOpen,
    Copy { all: bool },
    Restore { all: bool },
    RenameAll,
    RenameAlone,
    RemoveAlone,
}

const STEPS: [(Step, u32); 12] = [
    (Step::Application, 50),
    (Step::Reader, 16),
    (Step::Writer(Table::Done), 5),
    (Step::Writer(Table::Other), 5),
    (Step::SecondOpen, 3),
    (Step::Copy { all: true }, 6),
    (Step::Copy { all: false }, 5),
    (Step::Restore { all: true }, 10),
    (Step::Restore { all: false }, 14),
    (Step::RenameAll, 4),
    (Step::RenameAlone, 2),
    (Step::RemoveAlone, 3),
];

/// A copy of a database.
struct Backup {
    path: PathBuf,
    model: Model,
    /// What its data file alone holds; `None` once nothing tells it from a later state.
    alone: Option<Vec<u64>>,
}

/// What has happened, for the figures.
#[derive(Debug, Default)]
pub struct Tally {
    pub processes: u64,
    pub killed: u64,
    pub looks_by_stock: u64,
    pub acknowledged: u64,
    /// Openings after which commits were missing, and a line said so.
    pub told: u64,
    pub refused: u64,
    /// Messages, with how often each came.
    pub messages: BTreeMap<String, u64>,
}

/// The end of a step: an error is a violation, or one of the system's.
type Done = Result<(), String>;

/// A history.
pub struct History {
    random: fastrand::Rng,
    directory: PathBuf,
    path: PathBuf,
    journal: &'static str,
    form: (&'static str, &'static str),
    /// True if stock SQLite sees each commit.
    newest_for_stock: bool,
    model: Model,
    backups: Vec<Backup>,
    processes: u64,
    /// False while stock SQLite itself would apply a log to a file that it does not belong to, or remove it.
    stock_is_safe: bool,
    /// True once only the last openings are to come: now every advice is followed.
    ends: bool,
    pub tally: Tally,
    /// What has happened, for a person who looks into a failure.
    pub events: Vec<String>,
}

fn system(error: std::io::Error) -> String {
    format!("the system: {error}")
}

impl History {
    /// A history in a directory of its own.
    pub fn new(directory: &Path, seed: u64) -> History {
        let mut random = fastrand::Rng::with_seed(seed);
        let is_wal = random.u8(..5) > 1;
        let journal = if is_wal { "WAL" } else { ["DELETE", "TRUNCATE", "PERSIST"][random.usize(..3)] };
        let (form, newest_for_stock) = super::FORMS[random.usize(..super::FORMS.len())];
        History {
            random,
            directory: directory.to_owned(),
            path: directory.join("app.db"),
            journal,
            form,
            newest_for_stock: newest_for_stock || (form.1 == "auto" && !is_wal),
            model: Model::default(),
            backups: Vec::new(),
            processes: 0,
            stock_is_safe: true,
            ends: false,
            tally: Tally::default(),
            events: vec![format!("{journal}, {}={}", form.0, form.1)],
        }
    }

    /// Lives it to its end.
    ///
    /// # Errors
    /// The first thing that must not be.
    pub fn run(&mut self) -> Done {
        for _ in 0..self.random.u32(3..14) {
            let step = self.choose();
            self.step(step)?;
        }
        // Whatever has happened: the application can go on, and leave everything to stock SQLite.
        self.ends = true;
        for _ in 0..3 {
            let outcome = self.application(Kill::Never, End::Close, FEW)?;
            if outcome.refused.is_empty() {
                return self.read();
            }
        }
        Err("the application is refused again and again".to_owned())
    }

    fn choose(&mut self) -> Step {
        let all: u32 = STEPS.iter().map(|(_, weight)| weight).sum();
        let mut number = self.random.u32(..all);
        let chosen = STEPS.iter().find(|(_, weight)| {
            let is_it = number < *weight;
            number = number.saturating_sub(*weight);
            is_it
        });
        chosen.map_or(Step::Application, |(step, _)| *step)
    }

    fn step(&mut self, step: Step) -> Done {
        match step {
            Step::Application => {
                let (kill, end, commits) = match self.random.u8(..10) {
                    0 => (Kill::Never, End::Close, FEW),
                    1 => (Kill::Never, End::Exit, FEW),
                    2..5 => {
                        let after = Duration::from_micros(self.random.u64(..OPENS_US));
                        (Kill::AtOpening(after), End::Wait, MANY)
                    }
                    _ => {
                        let after = Duration::from_micros(self.random.u64(..WORKS_US));
                        let commits = if self.random.bool() { MANY } else { self.random.u64(..FEW) };
                        (Kill::AtWork(after), End::Wait, commits)
                    }
                };
                self.application(kill, end, commits).map(drop)
            }
            Step::Reader => self.read(),
            Step::Writer(table) => self.write(table),
            Step::SecondOpen => self.second_open(),
            Step::Copy { all } => self.copy(all),
            Step::Restore { all } => self.restore(all),
            Step::RenameAll => self.rename_all(),
            Step::RenameAlone => self.rename_alone(),
            Step::RemoveAlone => self.remove_alone(),
        }
    }

    fn event(&mut self, text: impl Into<String>) {
        let text: String = text.into();
        self.events.push(format!("{text} [{}]", files::listing(&self.path)));
    }

    /// What the files hold without litefoot: with the logs that stock SQLite reads, and the data file alone.
    fn without(&self) -> Result<[Option<Vec<u64>>; 2], String> {
        let scratch = self.directory.join("view.db");
        let view = |with_logs| files::view(&self.path, &scratch, with_logs).map_err(system);
        Ok([view(true)?, view(false)?])
    }

    fn alone(&self) -> Result<Option<Vec<u64>>, String> {
        Ok(self.without()?[1].take())
    }

    fn plan(&mut self, end: End, commits: u64) -> Plan {
        self.processes += 1;
        self.tally.processes += 1;
        let options = vec![
            self.form,
            ("buffer_pool_size", ["auto", "auto", "0", "256K"][self.random.usize(..4)]),
            ("write_buffer_size", ["auto", "auto", "0", "64K"][self.random.usize(..4)]),
            ("max_wal_size", ["4M", "64K"][self.random.usize(..2)]),
            ("checkpoint_timeout", ["300", "1"][self.random.usize(..2)]),
            ("commit_log_size", ["4M", "64K", "16K"][self.random.usize(..3)]),
        ];
        Plan {
            path: self.path.clone(),
            said: self.directory.join(format!("said-{}", self.processes)),
            journal: self.journal,
            synchronous: ["FULL", "FULL", "NORMAL"][self.random.usize(..3)],
            options,
            first: self.processes * TOKENS + self.random.u64(..100),
            commits,
            end,
            patience: PATIENCE,
        }
    }

    /// The application opens the database, and what it meets is judged.
    fn application(&mut self, kill: Kill, end: End, commits: u64) -> Result<Outcome, String> {
        let without = self.without()?;
        let aside = files::set_aside(&self.path);
        let plan = self.plan(end, commits);
        let outcome = Running::start(&plan).and_then(|process| process.end(kill, end)).map_err(system)?;
        self.tally.killed += u64::from(kill != Kill::Never);
        self.event(format!("application {}: {kill:?}, {end:?}: {}", self.processes, summary(&outcome)));
        if outcome.state.is_none() && files::set_aside(&self.path) > aside {
            self.model.set_aside_unsaid = true;
        }
        self.note_messages(&outcome);
        self.judge(&outcome, &without)?;
        if outcome.closed {
            self.settled_for_stock()?;
        }
        Ok(outcome)
    }

    fn judge(&mut self, outcome: &Outcome, without: &[Option<Vec<u64>>; 2]) -> Done {
        if let Some(wrong) = &outcome.wrong {
            return Err(wrong.clone());
        }
        if let Some(text) = outcome.unadvised() {
            return Err(format!("refused without advice: {text}"));
        }
        if let (Some(text), false) = (outcome.refused.first(), self.model.disturbed) {
            return Err(format!("refused after readers only: {text}"));
        }
        if let Some(seen) = &outcome.state {
            let told = std::mem::take(&mut self.model.set_aside_unsaid) || outcome.told();
            let without = [0, 1].map(|place: usize| without[place].as_deref());
            match self.model.judge(&Met { seen, without, told }) {
                Verdict::Wrong(what) => return Err(what),
                Verdict::Told(_) => self.tally.told += 1,
                Verdict::Whole => {}
            }
            self.stock_is_safe = true;
            // One that was killed before it wrote has left as it found what the next one refuses.
            if outcome.refused.is_empty() && !outcome.is_read_only() {
                self.model.settle(seen);
            }
        }
        self.tally.acknowledged += outcome.acknowledged.len() as u64;
        self.model.acknowledged.extend(&outcome.acknowledged);
        self.model.perhaps.extend(outcome.perhaps);
        if outcome.refused.is_empty() { Ok(()) } else { self.follow_the_advice() }
    }

    /// Mostly: somebody looks at the log that was kept, and discards it.
    fn follow_the_advice(&mut self) -> Done {
        self.tally.refused += 1;
        if !self.ends && self.random.u8(..4) == 0 {
            return Ok(());
        }
        let log = files::beside(&self.path, "-commits");
        let kept = self.directory.join(format!("discarded-{}", self.processes));
        if log.exists() {
            std::fs::rename(&log, kept).map_err(system)?;
        }
        self.event("the commit log is discarded");
        if let [Some(seen), _] = self.without()? {
            self.model.settle(&seen);
            self.model.disturbed = true;
        }
        Ok(())
    }

    fn note_messages(&mut self, outcome: &Outcome) {
        for text in outcome.lines.iter().chain(&outcome.refused) {
            let general = text.replace(&*self.directory.to_string_lossy(), "");
            let general: String =
                general.chars().map(|letter| if letter.is_ascii_digit() { '#' } else { letter }).collect();
            let mut general = general.replace("other-", "app-").replace("app-#.db", "app.db");
            while general.contains("##") {
                general = general.replace("##", "#");
            }
            *self.tally.messages.entry(general).or_default() += 1;
        }
    }

    /// After a clean close stock SQLite sees everything.
    fn settled_for_stock(&mut self) -> Done {
        let [Some(seen), _] = self.without()? else {
            return Err("damaged after a clean close".to_owned());
        };
        match self.model.judge_stock(&seen, true) {
            Verdict::Wrong(what) => Err(format!("after a clean close: {what}")),
            _ => Ok(()),
        }
    }

    /// Stock SQLite reads everything, and closes.
    fn read(&mut self) -> Done {
        self.by_stock(None)
    }

    fn write(&mut self, table: Table) -> Done {
        self.processes += 1;
        self.by_stock(Some((table, self.processes * TOKENS)))
    }

    fn by_stock(&mut self, writes: Option<(Table, u64)>) -> Done {
        if !self.stock_is_safe {
            return Ok(());
        }
        self.tally.looks_by_stock += 1;
        let failed = |error: rusqlite::Error| format!("stock SQLite: {error}");
        let db = open_stock(&self.path).map_err(failed)?;
        let seen = content::look(&db).map_err(|what| format!("stock SQLite: {what}"))?;
        self.event(format!("stock SQLite sees {}, writes {writes:?}", short(&seen)));
        let newest = self.newest_for_stock && !self.model.disturbed;
        if let Verdict::Wrong(what) = self.model.judge_stock(&seen, newest) {
            return Err(what);
        }
        self.model.acknowledged.extend(&seen);
        let writes_to_log =
            writes.is_some() && self.journal != "WAL" && files::beside(&self.path, "-wal").exists();
        if let Some((table, token)) = writes {
            let written = db.execute_batch(TABLES).and_then(|()| content::commit(&db, token, table));
            written.map_err(failed)?;
            self.model.acknowledged.insert(token);
            self.model.disturbed = true;
        }
        db.close().map_err(|(_, error)| failed(error))?;
        if writes_to_log { self.drop_indistinct_copies() } else { Ok(()) }
    }

    /// SQLite's commit in a log leaves the change counter. A copy of the data file alone that has the same first sector
    /// as the file is then not told from it, and is not restored (`docs/durability.md`, "What opening does").
    fn drop_indistinct_copies(&mut self) -> Done {
        let sector = files::first_sector(&self.path).map_err(system)?;
        for backup in &mut self.backups {
            if files::first_sector(&backup.path).map_err(system)? == sector {
                backup.alone = None;
            }
        }
        Ok(())
    }

    /// While one process works, another opens the same database.
    fn second_open(&mut self) -> Done {
        let without = self.without()?;
        let first = self.plan(End::Wait, MANY);
        let second = Plan { patience: IMPATIENCE, ..self.plan(End::Close, FEW) };
        let mut running = Running::start(&first).map_err(system)?;
        running.wait_until_ready().map_err(system)?;
        let other = Running::start(&second).and_then(|process| process.end(Kill::Never, End::Close));
        let other = other.map_err(system)?;
        let outcome = running.end(Kill::AtWork(Duration::ZERO), End::Wait).map_err(system)?;
        self.event(format!("two at once: {}; {}", summary(&outcome), summary(&other)));
        self.note_messages(&outcome);
        self.note_messages(&other);
        if let Some(wrong) = other.wrong {
            return Err(format!("the second process: {wrong}"));
        }
        self.tally.acknowledged += other.acknowledged.len() as u64;
        self.model.perhaps.extend(other.perhaps);
        self.model.perhaps.extend(&other.acknowledged);
        self.judge(&outcome, &without)?;
        self.model.acknowledged.extend(&other.acknowledged);
        Ok(())
    }

    fn copy(&mut self, all: bool) -> Done {
        if !self.path.exists() {
            return Ok(());
        }
        // A data file whose journal may be hot is in the middle of a transaction. Without the journal it is no database.
        let alone = if files::beside(&self.path, "-journal").exists() { None } else { self.alone()? };
        if !all && alone.is_none() {
            return Ok(());
        }
        let path = self.directory.join(format!("backup-{}.db", self.backups.len()));
        files::copy_database(&self.path, &path, all, true).map_err(system)?;
        let model = if all {
            self.model.clone()
        } else if let Some(commits) = &alone {
            Model { acknowledged: commits.iter().copied().collect(), ..Model::default() }
        } else {
            return Ok(());
        };
        self.event(format!("copy {}, all: {all}", self.backups.len()));
        self.backups.push(Backup { path, model, alone });
        Ok(())
    }

    fn restore(&mut self, all: bool) -> Done {
        if self.backups.is_empty() {
            return self.copy(all);
        }
        if !all && !files::has_log(&self.path) {
            // Most is at stake where a log lies beside the file.
            let after = Duration::from_micros(self.random.u64(..WORKS_US));
            self.application(Kill::AtWork(after), End::Wait, MANY)?;
        }
        let number = self.random.usize(..self.backups.len());
        let (keeps_time, in_place) = (self.random.bool(), self.random.bool());
        let backup = &self.backups[number];
        let (from, model, alone) = (backup.path.clone(), backup.model.clone(), backup.alone.clone());
        if all {
            files::remove_companions(&self.path).map_err(system)?;
            self.stock_is_safe = true;
            self.model = Model { disturbed: true, ..model };
        } else {
            // Stock SQLite, and litefoot like it in WAL mode, would apply a log to any file.
            let applies = files::has_stock_log(&self.path);
            let (Some(alone), Some(visible), false) =
                (alone, self.alone()?, applies && self.journal == "WAL")
            else {
                return Ok(());
            };
            if files::beside(&self.path, "-journal").exists() {
                return Ok(());
            }
            self.stock_is_safe &= !applies;
            self.model.replace_file(&alone, &visible);
        }
        if !in_place {
            files::remove(&self.path).map_err(system)?;
        }
        files::copy_database(&from, &self.path, all, keeps_time).map_err(system)?;
        self.event(format!("copy {number} restored, all: {all}, -p: {keeps_time}, in place: {in_place}"));
        Ok(())
    }

    fn rename_all(&mut self) -> Done {
        self.processes += 1;
        let to = self.directory.join(format!("other-{}.db", self.processes));
        files::rename_database(&self.path, &to).map_err(system)?;
        self.event(format!("all renamed to {}", to.display()));
        self.path = to;
        Ok(())
    }

    /// The data file alone gets another name, and is used under it.
    fn rename_alone(&mut self) -> Done {
        let Some(alone) = self.alone()? else { return Ok(()) };
        if !self.path.exists() || files::beside(&self.path, "-journal").exists() {
            return Ok(());
        }
        self.processes += 1;
        let to = self.directory.join(format!("other-{}.db", self.processes));
        std::fs::rename(&self.path, &to).map_err(system)?;
        self.event(format!("the data file renamed to {}", to.display()));
        self.model.replace_file(&[], &alone);
        self.stock_is_safe &= !files::has_stock_log(&self.path);
        let (model, safe) = (std::mem::take(&mut self.model), self.stock_is_safe);
        let path = std::mem::replace(&mut self.path, to);
        self.model.acknowledged.extend(&alone);
        self.application(Kill::Never, End::Close, FEW)?;
        (self.path, self.model, self.stock_is_safe) = (path, model, safe);
        Ok(())
    }

    fn remove_alone(&mut self) -> Done {
        let Some(alone) = self.alone()? else { return Ok(()) };
        files::remove(&self.path).map_err(system)?;
        self.event("the data file removed");
        self.model.replace_file(&[], &alone);
        self.stock_is_safe &= !files::has_stock_log(&self.path);
        Ok(())
    }
}

/// Commits, in few words.
fn short(commits: &[u64]) -> String {
    match commits {
        [] => "nothing".to_owned(),
        [.., last] => format!("{} commits to {last}", commits.len()),
    }
}

fn summary(outcome: &Outcome) -> String {
    let state = outcome.state.as_deref().map_or("nothing seen".to_owned(), short);
    let mut text = format!("{state}; acknowledged {}", short(&outcome.acknowledged));
    for more in outcome.refused.iter().chain(&outcome.lines).chain(&outcome.wrong) {
        text += &format!("; {more}");
    }
    text
}
