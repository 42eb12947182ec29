//! `ship`: rows of an application that runs, by `litefoot ship` to PostgreSQL; `ship-kills`: the same, and everything is killed.
//!
//! The application, the shipper, the collector and PostgreSQL are processes of their own on this machine, which share its processors. The application
//! commits at a rate, at random times, each commit synced (`synchronous=FULL`, WAL), on stock SQLite or on litefoot; PostgreSQL syncs, too. Sides take turns.
//!
//! | file | is |
//! |---|---|
//! | `mod` | the runs, and what is made of them |
//! | `application` | the application |
//! | `shipper` | the program `litefoot` |
//! | `server` | PostgreSQL |
//! | `line` | a line that counts, and breaks |
//! | `kills` | `ship-kills` |
//! | `fleet` | `ship-fleet` |
//! | `comparison` | is everything there, once and in order? |
//!
//! Figures of `ship`, by cases (`--case wire`, `latency`, `disk`). `tick` is an interval of 1 s, `zero` the interval 0, `history` a history at an interval of 1 s, `off` no shipper. A side is
//! `litefoot` or `stock`.
//!
//! | figure | meaning |
//! |---|---|
//! | `wire_bytes.WORKLOAD` | bytes to a collector for each commit, ten commits a second, at an interval of 1 s |
//! | `wire_answer_bytes.WORKLOAD` | bytes from it |
//! | `lag_p50_ms.tick.SIDE`, `lag_p99_ms.tick.SIDE` | from the end of a commit until others see its row in PostgreSQL; all rounds together |
//! | `commit_p50_us.tick.SIDE`, `commit_p99_us.tick.SIDE` | what a commit of the application takes; median of the rounds |
//! | `commit_p50_ratio.tick.SIDE`, `commit_p99_ratio.tick.SIDE` | over `off`; median of the rounds' ratios |
//! | `disk_bytes_per_tick.tick.SIDE`, `disk_flushes_per_tick.tick.SIDE` | at a device with the database and the shipper's files, over `off`, each second of the run; median of the rounds |
//! | `disk_bytes_per_commit.off.SIDE`, `disk_flushes_per_commit.off.SIDE` | the application alone |

mod application;
mod comparison;
mod fleet;
mod kills;
mod line;
mod server;
mod shipper;

use super::commit::work_directory;
use crate::harness::device::{Counters, Device};
use crate::harness::{Latencies, Progress, median, median_ratio, take_turns};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use application::{Application, Committed, Plan, Workload};
pub(crate) use application::{CHILD, run as be_shipped};
pub(super) use fleet::run as run_fleet;
pub(super) use kills::run as run_kills;
use line::Line;
use server::Server;
use shipper::Shipping;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
/// The longest that a delivery may take.
const DELIVERED_WITHIN: Duration = Duration::from_secs(60);
const CASES: [&str; 3] = ["wire", "latency", "disk"];

/// What carries the application's SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Litefoot,
    Stock,
}

const SIDES: [(Side, &str); 2] = [(Side::Litefoot, "litefoot"), (Side::Stock, "stock")];

impl Side {
    fn name(self) -> &'static str {
        SIDES.iter().find(|known| known.0 == self).map_or("", |known| known.1)
    }

    fn of(name: &str) -> Option<Side> {
        SIDES.iter().find(|known| known.1 == name).map(|known| known.0)
    }
}

/// How it is shipped: a name, and the options of the job; none for no shipper.
type Setting = (&'static str, Option<&'static [&'static str]>);
const OFF: Setting = ("off", None);
const TICK: Setting = ("tick", Some(&["--interval", "1s"]));
const ZERO: Setting = ("zero", Some(&["--interval", "0"]));
const HISTORY: Setting = ("history", Some(&["--interval", "1s", "--history"]));
const SETTINGS: [Setting; 4] = [OFF, TICK, ZERO, HISTORY];

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::Directory { path: path.to_owned(), source }
}

fn sqlite(path: &Path, source: rusqlite::Error) -> Error {
    Error::Sqlite { what: path.display().to_string(), source }
}

/// The time of a clock that all processes share.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a plain system call, which writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// A port for a server that is started again and again: it is none of those that the system gives to connections.
fn free_port() -> Result<u16> {
    const PORTS: std::ops::Range<u16> = 15_000..30_000;
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (0..100).map(|_| fastrand::u16(PORTS)).find(is_free);
    port.ok_or_else(|| Error::Missing("a free port of this machine".to_owned()))
}

/// Sizes of the runs.
struct Sizes {
    rounds: usize,
    seconds: u32,
    wire_seconds: u32,
}

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let is_wanted = |case: &str| options.case.as_deref().is_none_or(|wanted| case.starts_with(wanted));
    if let Some(name) = options.case.as_ref().filter(|_| !CASES.iter().any(|case| is_wanted(case))) {
        return Err(Error::Unknown { what: "case", name: name.clone(), known: CASES.join(", ") });
    }
    let sizes = match options.quick {
        true => Sizes { rounds: 1, seconds: 2, wire_seconds: 4 },
        false => Sizes {
            rounds: options.rounds.map_or(ROUNDS, |rounds| usize::try_from(rounds).unwrap_or(ROUNDS)),
            seconds: 8,
            wire_seconds: 30,
        },
    };
    shipper::program()?;
    let directory = work_directory(&options.directory)?;
    let server = Server::start(directory.path(), true)?;
    let mut figures = Figures::new();
    if is_wanted("wire") {
        wire(directory.path(), &server, &sizes, &mut figures, progress)?;
    }
    if is_wanted("latency") {
        latency(directory.path(), &server, &sizes, &mut figures, progress)?;
    }
    if is_wanted("disk") {
        match Device::new(directory.path()) {
            Ok(device) => disk(&device, &server, &sizes, &mut figures, progress)?,
            Err(why) => figures.note(format!("The disk is not counted: {why}.")),
        }
    }
    Ok(figures)
}

/// Deliveries of all sources.
fn delivered(server: &Server) -> Result<i64> {
    let count = "SELECT coalesce(sum(seq), 0)::bigint::text FROM litefoot.source";
    // The schema is made with the first delivery.
    let exists = server.rows("SELECT coalesce(to_regclass('litefoot.source')::text, '')")?;
    match exists.first().map(String::as_str) {
        Some("") | None => Ok(0),
        Some(_) => Ok(server.rows(count)?.first().and_then(|sum| sum.parse().ok()).unwrap_or_default()),
    }
}

/// Waits until something more is delivered.
fn wait_for_delivery(server: &Server, before: i64, shipping: &Shipping) -> Result<()> {
    let began = Instant::now();
    while delivered(server)? <= before {
        if began.elapsed() > DELIVERED_WITHIN {
            return Err(Error::Wrong(format!("nothing is delivered: {}", shipping.said("ship.said"))));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Bytes on the wire to a collector.
fn wire(
    parent: &Path,
    server: &Server,
    sizes: &Sizes,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    const PER_S: u32 = 10;
    let workloads = [Workload::Sensor, Workload::HomeAssistant];
    progress.begin("wire", workloads.len() as u64);
    for workload in workloads {
        let scratch = tempfile::tempdir_in(parent).map_err(|error| failed(parent, error))?;
        let (directory, database) = (scratch.path(), scratch.path().join("app.db"));
        application::create(&database, workload, "wal").map_err(|error| sqlite(&database, error))?;
        let shipping = Shipping::new(directory)?;
        let port = free_port()?;
        let line = Line::to(port, 1)?;
        let before = delivered(server)?;
        let url = format!("collect+tcp://127.0.0.1:{}", line.port);
        shipping.add(&database, &url, "1s", "job")?;
        let _collector = shipping.collect(port, &server.url(server.port))?;
        let _service = shipping.serve()?;
        wait_for_delivery(server, before, &shipping)?;
        // The first batch has all rows, and its answer has passed.
        std::thread::sleep(Duration::from_secs(1));
        let bytes = line.bytes();
        let commits = sizes.wire_seconds * PER_S;
        let plan = Plan { database, side: Side::Litefoot, workload, per_s: PER_S, commits, seed: 1 };
        let running = Application::start(&plan).map_err(|error| failed(directory, error))?;
        let told = running.finish(false).map_err(Error::Wrong)?;
        std::thread::sleep(Duration::from_secs(3));
        let [sent, answered] = [0, 1].map(|at| (line.bytes()[at] - bytes[at]) as f64 / told.len() as f64);
        let (table, rows_each) = workload.inserts();
        let rows = i64::from(commits) * rows_each + application::FIRST * rows_each;
        let counted = server.rows(&format!("SELECT count(*)::text FROM public.{table}"))?;
        if counted != [rows.to_string()] {
            figures.alarm(format!("{rows} rows of {table} were shipped, and there are {counted:?}"));
        }
        figures.set(format!("wire_bytes.{}", workload.name()), sent);
        figures.set(format!("wire_answer_bytes.{}", workload.name()), answered);
        progress.advance(1)?;
    }
    Ok(())
}

/// A run of the application, with a shipper or without.
struct Round {
    latencies: Latencies,
    lag: Latencies,
    /// Commits of which no arrival was heard.
    unheard: usize,
    counted: Counters,
    commits: usize,
}

/// Where a round takes place, and what is in it.
struct Scene<'a> {
    parent: &'a Path,
    server: &'a Server,
    device: Option<&'a Device>,
    per_s: u32,
    seconds: u32,
}

impl Scene<'_> {
    /// The rounds of a side, which its settings take turns in: of each setting, in the order of [`SETTINGS`].
    fn rounds(&self, side: Side, count: usize, progress: &mut dyn Progress) -> Result<Vec<Vec<Round>>> {
        take_turns(&SETTINGS, count, |round, setting| {
            let done = self.round(side, *setting, round as u64)?;
            progress.advance(1)?;
            Ok(done)
        })
    }

    fn round(&self, side: Side, setting: Setting, seed: u64) -> Result<Round> {
        let scratch = tempfile::tempdir_in(self.parent).map_err(|error| failed(self.parent, error))?;
        let (directory, database) = (scratch.path(), scratch.path().join("app.db"));
        let workload = Workload::Sensor;
        application::create(&database, workload, "wal").map_err(|error| sqlite(&database, error))?;
        let shipping = Shipping::new(directory)?;
        let mut heard = None;
        let service = match setting.1 {
            None => None,
            Some(options) => {
                let before = delivered(self.server)?;
                shipping.add_with(&database, &self.server.url(self.server.port), options)?;
                let service = shipping.serve()?;
                wait_for_delivery(self.server, before, &shipping)?;
                self.server.ask(async |client| client.batch_execute(TELL).await)?;
                heard = Some(self.server.listen("arrived")?);
                Some(service)
            }
        };
        // Whatever the beginning has set in motion is over.
        std::thread::sleep(Duration::from_millis(1200));
        let before = self.device.map(Device::synced).transpose()?;
        let commits = self.per_s * self.seconds;
        let plan = Plan { database, side, workload, per_s: self.per_s, commits, seed };
        let running = Application::start(&plan).map_err(|error| failed(directory, error))?;
        let told = running.finish(false).map_err(Error::Wrong)?;
        let mut round = Round {
            latencies: Latencies::new()?,
            lag: Latencies::new()?,
            unheard: 0,
            counted: Counters::default(),
            commits: told.len(),
        };
        if let Some(heard) = heard {
            round.note_lag(&told, &heard);
        } else {
            std::thread::sleep(Duration::from_millis(1500));
        }
        if let (Some(device), Some(before)) = (self.device, before) {
            round.counted = device.synced()?.since(before);
        }
        for commit in &told {
            round.latencies.record(Duration::from_nanos(commit.took_ns));
        }
        drop(service);
        Ok(round)
    }
}

/// Has PostgreSQL tell others, with each commit, up to which row all are there.
const TELL: &str = "CREATE OR REPLACE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_notify(''arrived'', (SELECT max(id) FROM fresh)::text); RETURN NULL; END';
    DROP TRIGGER IF EXISTS tell ON public.reading;
    CREATE TRIGGER tell AFTER INSERT ON public.reading REFERENCING NEW TABLE AS fresh
      FOR EACH STATEMENT EXECUTE FUNCTION tell()";

impl Round {
    fn note_lag(&mut self, told: &[Committed], heard: &std::sync::mpsc::Receiver<(String, u64)>) {
        let mut waiting = told.iter().peekable();
        while waiting.peek().is_some() {
            let Ok((row, at_ns)) = heard.recv_timeout(Duration::from_secs(5)) else { break };
            let Ok(row) = row.parse::<u64>() else { continue };
            while let Some(commit) = waiting.next_if(|commit| commit.row <= row) {
                self.lag.record(Duration::from_nanos(at_ns.saturating_sub(commit.at_ns)));
            }
        }
        self.unheard = waiting.count();
    }
}

/// Lag, and what a commit takes.
fn latency(
    parent: &Path,
    server: &Server,
    sizes: &Sizes,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let scene = Scene { parent, server, device: None, per_s: 50, seconds: sizes.seconds };
    progress.begin("latency", (sizes.rounds * SETTINGS.len() * SIDES.len()) as u64);
    for (side, name) in SIDES {
        let rounds = scene.rounds(side, sizes.rounds, progress)?;
        let values = |rounds: &[Round], share| -> Vec<f64> {
            rounds.iter().map(|round| round.latencies.percentile_us(share)).collect()
        };
        for ((setting, options), of_setting) in SETTINGS.iter().zip(&rounds) {
            for (share, percentile) in [(0.5, "p50"), (0.99, "p99")] {
                let (values, off) = (values(of_setting, share), values(&rounds[0], share));
                figures
                    .set(format!("commit_{percentile}_us.{setting}.{name}"), median(values.iter().copied()));
                if options.is_some() {
                    figures.set(
                        format!("commit_{percentile}_ratio.{setting}.{name}"),
                        median_ratio(&values, &off),
                    );
                }
            }
            let mut lag = Latencies::new()?;
            of_setting.iter().try_for_each(|round| lag.add(&round.lag))?;
            if options.is_some() {
                for (share, percentile) in [(0.5, "p50"), (0.99, "p99")] {
                    let ms = lag.percentile_us(share) / 1000.0;
                    figures.set(format!("lag_{percentile}_ms.{setting}.{name}"), ms);
                }
            }
            let unheard: usize = of_setting.iter().map(|round| round.unheard).sum();
            if unheard > 0 {
                figures.alarm(format!("{unheard} commits of {setting}.{name} did not arrive in time"));
            }
        }
    }
    Ok(())
}

/// Bytes and flushes at a device.
fn disk(
    device: &Device,
    server: &Server,
    sizes: &Sizes,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let seconds = sizes.seconds;
    let scene = Scene { parent: device.directory(), server, device: Some(device), per_s: 10, seconds };
    progress.begin("disk", (sizes.rounds * SETTINGS.len() * SIDES.len()) as u64);
    for (side, name) in SIDES {
        let rounds = scene.rounds(side, sizes.rounds, progress)?;
        for what in ["bytes", "flushes"] {
            let of = |round: &Round| match what {
                "bytes" => round.counted.bytes as f64,
                _ => round.counted.flushes as f64,
            };
            let off: Vec<f64> = rounds[0].iter().map(of).collect();
            let commits = rounds[0].iter().map(|round| round.commits as f64);
            let each_commit = off.iter().zip(commits).map(|(all, commits)| all / commits);
            figures.set(format!("disk_{what}_per_commit.off.{name}"), median(each_commit));
            for ((setting, _), of_setting) in SETTINGS.iter().zip(&rounds).skip(1) {
                let added =
                    of_setting.iter().zip(&off).map(|(round, off)| (of(round) - off) / f64::from(seconds));
                figures.set(format!("disk_{what}_per_tick.{setting}.{name}"), median(added));
            }
        }
    }
    Ok(())
}
