//! One journal mode: an owner, and visitors that come to it until the time is over, or as many as were asked for.

use super::content::{self, DATABASE, TABLES};
use super::owner::{Plan, stock_sees_all};
use super::running::{Running, Told};
use super::slots::Slots;
use super::tally::Tally;
use super::visit::{Kind, Outcome, Visit};
use crate::harness::{Progress, open_stock};
use crate::{Error, Result};
use rusqlite::Connection;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Commits are counted for so long before the first visitor, and after the last one: a share of the time, at most this.
const WINDOW_SHARE: f64 = 0.12;
const WINDOW: Duration = Duration::from_secs(30);
/// So long after the last visitor the owner is as fast as before.
const RECOVERS: Duration = Duration::from_secs(1);
/// Steps of the progress bar in a second.
const STEPS: u64 = 10;
const STEP: Duration = Duration::from_millis(1000 / STEPS);

/// Pauses between visitors in milliseconds: mostly short, and one in [`QUIET_IN`] long enough for the owner to be alone.
const PAUSES_MS: Range<u64> = 0..80;
const QUIET_MS: Range<u64> = 1_000..3_000;
const QUIET_IN: u8 = 15;
/// One in so many visitors is killed, one in so many comes with others, at most so many at once.
const KILLED_IN: u8 = 9;
const BURST_IN: u8 = 10;
const BURST: usize = 4;
/// A visitor is killed so many microseconds after its start at most: two to the power of one of these.
const KILLED_AFTER: Range<u32> = 9..16;
/// How long an owner lives that is killed, and how long a visitor has been there at most then.
const LIVES_MS: Range<u64> = 200..2_500;
const DIES_BESIDE_US: u64 = 25_000;

/// When a phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It takes so long in all.
    Time(Duration),
    /// So many visitors have come.
    Visits(u64),
    /// So many have come, or it takes so long: what is sooner.
    Either(u64, Duration),
}

impl Until {
    fn time(self) -> Option<Duration> {
        match self {
            Until::Time(time) | Until::Either(_, time) => Some(time),
            Until::Visits(_) => None,
        }
    }

    fn visits(self) -> Option<u64> {
        match self {
            Until::Visits(visits) | Until::Either(visits, _) => Some(visits),
            Until::Time(_) => None,
        }
    }

    /// How long commits are counted before the first visitor, and after the last one.
    fn window(self) -> Duration {
        self.time().map_or(WINDOW, |time| time.mul_f64(WINDOW_SHARE).min(WINDOW)).max(RECOVERS)
    }

    /// Steps of the progress bar.
    pub fn steps(self) -> u64 {
        match self {
            Until::Visits(visits) => visits,
            Until::Time(time) | Until::Either(_, time) => time.as_secs() * STEPS,
        }
    }
}

/// What a phase is run with.
pub struct Setup {
    pub plan: Plan,
    /// The kinds of visits with their shares.
    pub kinds: Vec<(Kind, u32)>,
    /// The kind whose time is taken.
    pub timed: Option<Kind>,
    pub until: Until,
    /// True if owners are killed.
    pub kills: bool,
    /// A directory with a database beside which a connection of stock SQLite is idle.
    pub idle: PathBuf,
}

/// A phase that runs.
pub struct Phase<'a> {
    setup: &'a Setup,
    progress: &'a mut dyn Progress,
    random: fastrand::Rng,
    slots: Slots,
    tally: Tally,
    /// The number of the last visit, also of one beside the idle connection.
    last: u64,
    /// Visits to the owner.
    visits: u64,
    /// The numbers of visits whose inserts were acknowledged.
    inserted: Vec<u64>,
    begun: Instant,
    shown: u64,
}

/// Makes the database beside which a connection is idle, and that connection.
pub fn idle(directory: &Path) -> Result<Connection> {
    let path = directory.join(DATABASE);
    let open = || {
        let db = open_stock(&path)?;
        db.execute_batch(&format!("PRAGMA journal_mode=WAL; {TABLES}"))?;
        db.query_row(content::LOOK, [], |_| Ok(()))?;
        Ok(db)
    };
    open().map_err(|source| Error::Sqlite { what: path.display().to_string(), source })
}

fn wrong(what: String) -> Error {
    Error::Wrong(what)
}

impl Phase<'_> {
    /// Runs a phase to its end.
    pub fn run(setup: &Setup, progress: &mut dyn Progress) -> Result<Tally> {
        let directory = &setup.plan.directory;
        std::fs::create_dir(directory).map_err(|source| failed(directory, source))?;
        let mut phase = Phase {
            setup,
            progress,
            random: fastrand::Rng::with_seed(setup.plan.seed),
            slots: Slots::open(directory).map_err(wrong)?,
            tally: Tally::new()?,
            last: 0,
            visits: 0,
            inserted: Vec::new(),
            begun: Instant::now(),
            shown: 0,
        };
        let Some(mut owner) = phase.start()? else { return Ok(phase.tally) };
        let window = setup.until.window();
        phase.tally.before = phase.measure(window)?;
        let (begun, floor) = (Instant::now(), phase.slots.floor().map_err(wrong)?);
        let mut dies = phase.dies();
        while phase.goes_on() {
            phase.visit()?;
            let quiet = phase.random.u8(..QUIET_IN) == 0;
            let pause = phase.random.u64(if quiet { QUIET_MS } else { PAUSES_MS });
            phase.sleep(Duration::from_millis(pause))?;
            if setup.kills && Instant::now() >= dies {
                match phase.kill(owner)? {
                    Some(next) => owner = next,
                    None => return Ok(phase.tally),
                }
                dies = phase.dies();
            }
        }
        let ceiling = phase.slots.floor().map_err(wrong)?;
        for (made, (before, after)) in
            phase.tally.made.iter_mut().zip(floor.numbers.iter().zip(ceiling.numbers))
        {
            *made = after.saturating_sub(*before);
        }
        phase.tally.with = rate(phase.tally.made.iter().sum(), begun.elapsed());
        phase.sleep(RECOVERS)?;
        phase.tally.after = phase.measure(window)?;
        phase.end(owner)?;
        Ok(phase.tally)
    }

    /// True while more visitors shall come.
    fn goes_on(&self) -> bool {
        let until = self.setup.until;
        let in_time = until.time().is_none_or(|time| self.begun.elapsed() + until.window() < time);
        in_time && until.visits().is_none_or(|most| self.visits < most)
    }

    fn start(&mut self) -> Result<Option<Running>> {
        let failed = |source| failed(&self.setup.plan.directory, source);
        let mut owner = Running::start(&self.setup.plan).map_err(failed)?;
        if owner.wait_until_ready().map_err(failed)? {
            return Ok(Some(owner));
        }
        let told = owner.stop().map_err(failed)?;
        self.tally.owner(told);
        Ok(None)
    }

    fn dies(&mut self) -> Instant {
        Instant::now() + Duration::from_millis(self.random.u64(LIVES_MS))
    }

    fn commits(&self) -> Result<u64> {
        self.slots.commits().map_err(wrong)
    }

    /// Commits a second, for so long.
    fn measure(&mut self, length: Duration) -> Result<f64> {
        let (begun, commits) = (Instant::now(), self.commits()?);
        self.sleep(length)?;
        Ok(rate(self.commits()? - commits, begun.elapsed()))
    }

    fn sleep(&mut self, length: Duration) -> Result<()> {
        let end = Instant::now() + length;
        loop {
            let steps = match self.setup.until {
                Until::Visits(_) => self.visits,
                Until::Time(_) | Until::Either(..) => {
                    self.begun.elapsed().as_millis() as u64 / STEP.as_millis() as u64
                }
            };
            let steps = steps.min(self.setup.until.steps());
            self.progress.advance(steps - self.shown)?;
            self.shown = steps;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(STEP));
        }
    }

    fn kind(&mut self, accepts: impl Fn(Kind) -> bool) -> Option<Kind> {
        let kinds = self.setup.kinds.iter().filter(|(kind, _)| accepts(*kind));
        let mut point = self.random.u32(..kinds.clone().map(|(_, share)| share).sum::<u32>().max(1));
        kinds.into_iter().find_map(|(kind, share)| {
            let found = point < *share;
            point = point.saturating_sub(*share);
            found.then_some(*kind)
        })
    }

    fn begin(&mut self, kind: Kind, directory: &Path) -> Result<Visit> {
        self.last += 1;
        let floor = if directory == self.setup.idle {
            Ok(content::Seen::default())
        } else {
            self.visits += 1;
            self.slots.floor()
        };
        Visit::start(kind, self.last, floor.map_err(wrong)?, directory, &self.setup.plan.directory)
            .map_err(|source| failed(&self.setup.plan.directory, source))
    }

    /// One visitor, or some at once.
    fn visit(&mut self) -> Result<()> {
        let many = if self.random.u8(..BURST_IN) == 0 { self.random.usize(2..=BURST) } else { 1 };
        let mut visitors = Vec::with_capacity(many);
        let directory = self.setup.plan.directory.clone();
        for _ in 0..many {
            let Some(kind) = self.kind(|_| true) else { return Ok(()) };
            visitors.push(self.begin(kind, &directory)?);
        }
        for visitor in visitors {
            let kill = (self.random.u8(..KILLED_IN) == 0).then(|| {
                let power = self.random.u32(KILLED_AFTER);
                Duration::from_micros(self.random.u64(..1 << power))
            });
            let kind = visitor.kind;
            let took = self.receive(visitor, kill, many > 1)?;
            if Some(kind) == self.setup.timed && many == 1 && kill.is_none() {
                self.tally.visits_took.record(took);
                let idle = self.begin(kind, &self.setup.idle)?;
                let (_, took) = idle.end(None).map_err(|source| failed(&directory, source))?;
                self.tally.idle_took.record(took);
            }
        }
        Ok(())
    }

    /// Waits for a visitor, and notes what came of it.
    fn receive(&mut self, visitor: Visit, kill: Option<Duration>, in_burst: bool) -> Result<Duration> {
        let (kind, id) = (visitor.kind, visitor.id);
        let ended = visitor.end(kill);
        let (outcome, took) = ended.map_err(|source| failed(&self.setup.plan.directory, source))?;
        if outcome == Outcome::Done && kind.inserts() {
            self.inserted.push(id);
            self.slots.set_visits(self.inserted.len() as u64).map_err(wrong)?;
        }
        self.tally.visit(kind, outcome, in_burst, took);
        Ok(took)
    }

    /// Kills the owner, perhaps beside a visitor that reads, and starts the next; stock SQLite looks between the two where it
    /// knows all files.
    ///
    /// A visitor that came to what a killed owner left before its recovery would read the last checkpoint. So the one that is
    /// there is not judged.
    fn kill(&mut self, owner: Running) -> Result<Option<Running>> {
        let directory = self.setup.plan.directory.clone();
        let failed = |source| failed(&directory, source);
        let beside = match self.random.bool().then(|| self.kind(Kind::only_reads)).flatten() {
            Some(kind) => Some(self.begin(kind, &directory)?),
            None => None,
        };
        std::thread::sleep(Duration::from_micros(self.random.u64(..DIES_BESIDE_US)));
        let told = owner.kill().map_err(failed)?;
        self.tally.kills += 1;
        self.tally.owner(told);
        if let Some(visitor) = beside {
            visitor.end(None).map_err(failed)?;
        }
        if self.random.bool() && stock_sees_all(&directory) {
            let looked = self.open().and_then(|db| self.verify(&db, false));
            self.tally.verdict(looked.map_err(|what| format!("stock after a kill: {what}")));
        }
        self.start()
    }

    fn open(&self) -> std::result::Result<Connection, String> {
        let path = self.setup.plan.directory.join(DATABASE);
        open_stock(&path).map_err(|error| format!("damaged: {error}"))
    }

    fn verify(&self, db: &Connection, newest: bool) -> std::result::Result<(), String> {
        content::verify(db, &self.slots, &self.inserted, newest)
    }

    /// The owner closes its connections, and stock SQLite looks for all that was acknowledged.
    fn end(&mut self, owner: Running) -> Result<()> {
        let directory = &self.setup.plan.directory;
        let told: Told = owner.stop().map_err(|source| failed(directory, source))?;
        self.tally.owner(told);
        self.tally.readers = self.slots.readers().map_err(wrong)?;
        let verdict = self.open().and_then(|db| {
            self.verify(&db, true)?;
            // Two databases with logs of their own are not cut at the same commit.
            if self.setup.kills { Ok(()) } else { content::verify_second(&db, directory) }
        });
        self.tally.verdict(verdict);
        Ok(())
    }
}

fn failed(directory: &Path, source: std::io::Error) -> Error {
    Error::Directory { path: directory.to_owned(), source }
}

fn rate(commits: u64, over: Duration) -> f64 {
    commits as f64 / over.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_visits_is_no_matter_of_time() {
        let minute = Duration::from_secs(60);
        assert_eq!((Until::Visits(7).time(), Until::Visits(7).visits()), (None, Some(7)));
        assert_eq!((Until::Time(minute).time(), Until::Time(minute).visits()), (Some(minute), None));
        assert_eq!(Until::Either(7, minute).time().zip(Until::Either(7, minute).visits()), Some((minute, 7)));
        assert_eq!((Until::Visits(7).steps(), Until::Either(7, minute).steps()), (7, 600));
        for (until, window) in [
            (Until::Visits(1), WINDOW),
            (Until::Time(minute * 60), WINDOW),
            (Until::Time(minute), minute.mul_f64(WINDOW_SHARE)),
            (Until::Time(Duration::from_secs(5)), RECOVERS),
        ] {
            assert_eq!(until.window(), window, "{until:?}");
        }
    }
}
