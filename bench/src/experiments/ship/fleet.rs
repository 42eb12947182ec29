//! `ship-fleet`: many devices with a bad line to one collector, and one device that is away for long.
//!
//! A device is an application on litefoot, in WAL mode or with a rollback journal, and a shipper, each a process. The line of all of them to the
//! collector is drawn to break, as in `ship-kills`, and is down altogether now and then. At the end the line is good, what is there arrives, and each
//! device is compared with PostgreSQL: its rows, and the numbers of its batches.
//!
//! With `--case away` there is one device, which commits [`AWAY_COMMITS`] times, one for each minute of thirty days, while the collector
//! cannot be reached. Then it can.
//!
//! | figure | meaning |
//! |---|---|
//! | `devices`, `seconds`, `commits` | what was done |
//! | `faults`, `outages` | connections that were drawn to break; times that the line was down |
//! | `rows`, `batches` | that were compared |
//! | `wrong` | devices in which something was missing, doubled or out of order |
//! | `shipper_mb`, `collector_mb` | most memory of a shipper and of the collector (`VmHWM`) |
//! | `shipper_files_kb` | most bytes of files of a device's shipper |
//! | `collector_files_kb` | most bytes of files in the collector's directory for temporary files |

use super::application::{self, Application, Plan, Workload};
use super::comparison::{self, prepare, source_of};
use super::line::Line;
use super::server::Server;
use super::shipper::{Service, Shipping};
use super::{Side, delivered, failed, sqlite, wait_for_delivery};
use crate::experiments::commit::work_directory;
use crate::harness::Progress;
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const DEVICES: u64 = 100;
const QUICK_DEVICES: u64 = 3;
const SECONDS: u64 = 600;
const QUICK_SECONDS: u64 = 4;
/// Commits of a device a second.
const PER_S: u32 = 1;
/// A commit for each minute of thirty days, and how fast they are made.
const AWAY_COMMITS: u32 = 30 * 24 * 60;
const QUICK_AWAY_COMMITS: u32 = 500;
const AWAY_PER_S: u32 = 2000;
/// Of a hundred seconds, those in which the line goes down, and the longest time for which it does.
const OUTAGES: u8 = 2;
const LONGEST_OUTAGE: u64 = 20;
const DESCRIBED: usize = 10;
const CASES: [&str; 2] = ["fleet", "away"];

/// A device, and its processes.
struct Device {
    name: String,
    plan: Plan,
    shipping: Shipping,
    application: Option<Application>,
    shipper: Service,
    source: String,
    scratch: tempfile::TempDir,
}

/// Runs the experiment.
pub(in crate::experiments) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    super::shipper::program()?;
    let directory = work_directory(&options.directory)?;
    let mut server = Server::start(directory.path(), false)?;
    match options.case.as_deref() {
        None | Some("fleet") => fleet(options, directory.path(), &mut server, progress),
        Some("away") => away(options, directory.path(), &mut server, progress),
        Some(name) => Err(Error::Unknown { what: "case", name: name.to_owned(), known: CASES.join(", ") }),
    }
}

/// The collector, and the line to it.
struct Centre {
    service: Service,
    line: Line,
    port: u16,
    temporary: PathBuf,
}

impl Centre {
    fn start(parent: &Path, server: &Server, seed: u64) -> Result<Centre> {
        prepare(server, parent)?;
        let port = super::free_port()?;
        let temporary = parent.join("collector/tmp");
        fs::create_dir_all(&temporary).map_err(|error| failed(&temporary, error))?;
        let shipping = Shipping::new(&parent.join("collector"))?;
        let service = shipping.collect_in(port, &server.url(server.port), &temporary)?;
        Ok(Centre { service, line: Line::to(port, seed)?, port, temporary })
    }

    fn url(&self) -> String {
        format!("collect+tcp://127.0.0.1:{}", self.line.port)
    }
}

fn fleet(
    options: &Options,
    parent: &Path,
    server: &mut Server,
    progress: &mut dyn Progress,
) -> Result<Figures> {
    let devices = options.count.unwrap_or(if options.quick { QUICK_DEVICES } else { DEVICES });
    let seconds = options.seconds.unwrap_or(if options.quick { QUICK_SECONDS } else { SECONDS });
    let centre = Centre::start(parent, server, options.seed)?;
    progress.begin("devices", devices);
    let mut all = Vec::new();
    for number in 0..devices {
        let mut device = Device::new(parent, &centre.url(), number, (PER_S, 0))?;
        device.application = Some(device.run()?);
        all.push(device);
        progress.advance(1)?;
    }
    centre.line.set_bad(true);
    let (mut random, mut peaks, mut outages) =
        (fastrand::Rng::with_seed(options.seed), Peaks::default(), 0_u32);
    let mut down_until = None;
    progress.begin("seconds", seconds);
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        let now = Instant::now();
        if down_until.is_some_and(|end| end <= now) {
            down_until = None;
            centre.line.lead_to(centre.port);
        } else if down_until.is_none() && random.u8(..100) < OUTAGES {
            down_until = Some(now + Duration::from_secs(random.u64(1..=LONGEST_OUTAGE)));
            outages += 1;
            centre.line.lead_to(0);
            centre.line.cut();
        }
        peaks.look(&all, &centre);
        progress.advance(1)?;
    }
    let mut figures = Figures::new();
    figures.set("devices", devices as f64);
    figures.set("seconds", seconds as f64);
    figures.set("outages", f64::from(outages));
    end(all, server, centre, peaks, figures, progress)
}

fn away(
    options: &Options,
    parent: &Path,
    server: &mut Server,
    progress: &mut dyn Progress,
) -> Result<Figures> {
    let commits = if options.quick { QUICK_AWAY_COMMITS } else { AWAY_COMMITS };
    let centre = Centre::start(parent, server, options.seed)?;
    let before = delivered(server)?;
    let device = Device::new(parent, &centre.url(), 0, (AWAY_PER_S, commits))?;
    // Something has arrived before it goes.
    wait_for_delivery(server, before, &device.shipping)?;
    centre.line.lead_to(0);
    centre.line.cut();
    progress.begin("commits", 1);
    let mut peaks = Peaks::default();
    let committed = device.run()?.finish(false).map_err(Error::Wrong)?;
    peaks.look(std::slice::from_ref(&device), &centre);
    progress.advance(1)?;
    centre.line.lead_to(centre.port);
    let mut figures = Figures::new();
    figures.set("devices", 1.0);
    figures.set("commits", committed.len() as f64);
    end(vec![device], server, centre, peaks, figures, progress)
}

/// The most that was seen.
#[derive(Default)]
struct Peaks {
    shipper_kb: u64,
    collector_kb: u64,
    shipper_files: u64,
    collector_files: u64,
}

impl Peaks {
    fn look(&mut self, devices: &[Device], centre: &Centre) {
        for device in devices {
            self.shipper_kb = self.shipper_kb.max(peak_kb(device.shipper.0.id()));
            self.shipper_files = self.shipper_files.max(bytes_in(&device.scratch.path().join("ship")));
        }
        self.collector_kb = self.collector_kb.max(peak_kb(centre.service.0.id()));
        self.collector_files = self.collector_files.max(bytes_in(&centre.temporary));
    }
}

/// The most memory that a process has had, as far as that is known.
fn peak_kb(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Bytes of the files of a directory.
fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|file| file.is_file())
        .map(|file| file.len())
        .sum()
}

/// What is there arrives, and is compared.
fn end(
    devices: Vec<Device>,
    server: &mut Server,
    centre: Centre,
    mut peaks: Peaks,
    mut figures: Figures,
    progress: &mut dyn Progress,
) -> Result<Figures> {
    centre.line.set_bad(false);
    centre.line.lead_to(centre.port);
    centre.line.cut();
    let (mut rows, mut batches, mut wrong) = (0, 0, Vec::new());
    progress.begin("comparisons", devices.len() as u64);
    peaks.look(&devices, &centre);
    for device in devices {
        let name = device.name.clone();
        let compared = device.end(server)?;
        rows += compared.rows;
        batches += compared.batches;
        wrong.extend(compared.wrong.into_iter().map(|what| format!("{name}: {what}")));
        progress.advance(1)?;
    }
    figures.set("faults", centre.line.faults() as f64);
    figures.set("rows", rows as f64);
    figures.set("batches", batches as f64);
    figures.set("shipper_mb", peaks.shipper_kb as f64 / 1024.0);
    figures.set("collector_mb", peaks.collector_kb as f64 / 1024.0);
    figures.set("shipper_files_kb", peaks.shipper_files as f64 / 1024.0);
    figures.set("collector_files_kb", peaks.collector_files as f64 / 1024.0);
    figures.set("wrong", wrong.len() as f64);
    wrong.into_iter().take(DESCRIBED).for_each(|what| figures.alarm(what));
    Ok(figures)
}

impl Device {
    /// A device that commits so many times a second, and in all; 0 without an end.
    fn new(parent: &Path, url: &str, number: u64, (per_s, commits): (u32, u32)) -> Result<Device> {
        let scratch = tempfile::tempdir_in(parent).map_err(|error| failed(parent, error))?;
        let database = scratch.path().join("app.db");
        let journal = if number.is_multiple_of(2) { "wal" } else { "delete" };
        application::create(&database, Workload::Mixed, journal).map_err(|error| sqlite(&database, error))?;
        let shipping = Shipping::new(scratch.path())?;
        shipping.add(&database, url, "1s", "job")?;
        let source = source_of(scratch.path())?;
        let plan =
            Plan { database, side: Side::Litefoot, workload: Workload::Mixed, per_s, commits, seed: number };
        let shipper = shipping.serve()?;
        let name = format!("device {number}, {journal}");
        Ok(Device { name, plan, shipping, application: None, shipper, source, scratch })
    }

    fn run(&self) -> Result<Application> {
        Application::start(&self.plan).map_err(|error| failed(self.scratch.path(), error))
    }

    fn end(mut self, server: &Server) -> Result<comparison::Compared> {
        let mut wrong = Vec::new();
        if let Ok(Some(status)) = self.shipper.0.try_wait() {
            wrong.push(format!("the shipper has ended, {status}: {}", self.shipping.said("ship.said")));
        }
        if let Some(Err(why)) = self.application.take().map(|application| application.finish(true)) {
            wrong.push(why);
        }
        self.shipper.kill();
        if let Err(why) = self.shipping.last_look() {
            wrong.push(format!("the last look: {why}"));
        }
        let mut compared = comparison::compare(server, &self.plan.database, &self.source)?;
        compared.wrong.append(&mut wrong);
        Ok(compared)
    }
}
