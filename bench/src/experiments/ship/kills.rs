//! `ship-kills`: everything between an application and PostgreSQL is killed, again and again; then the rows are compared.
//!
//! A life is a database, an application on litefoot or on stock SQLite, in WAL mode or with a rollback journal, and a shipper, to PostgreSQL or to a
//! collector before it. The line between them is drawn to break: requests and answers are cut or truncated, answers are late, are lost, or never come
//! (half open). Meanwhile the application, the shipper, the collector, a process of PostgreSQL or all of PostgreSQL is killed with SIGKILL and started again, or
//! all connections are cut. After [`KILLS_OF_LIFE`] kills the application ends, one more look delivers, and then
//! 1. PostgreSQL has the rows of the database, each once, and no other,
//! 2. PostgreSQL has noted, in the transactions that brought rows, each number of a batch from 1 to the last, once.
//!
//! Half of the lives have a history: there each batch that is said to be one transaction has to be the one behind the batch before.
//!
//! While kills go on, PostgreSQL never has half of a transaction: two numbers of the database have the sum 0 at every moment.
//!
//! | figure | meaning |
//! |---|---|
//! | `kills` | of all kinds; `kills.KIND` of one |
//! | `faults` | connections that were drawn to break |
//! | `lives`, `batches`, `rows` | that were compared |
//! | `transactions` | batches of a history that were one transaction |
//! | `wrong` | lives in which something was missing, doubled, out of order or torn |

use super::application::{self, Application, Plan, Workload};
use super::comparison::{self, prepare, source_of};
use super::line::Line;
use super::server::Server;
use super::shipper::{Service, Shipping};
use super::{Side, failed, sqlite};
use crate::Result;
use crate::experiments::commit::work_directory;
use crate::harness::Progress;
use crate::options::Options;
use crate::report::Figures;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const KILLS: u64 = 500;
const QUICK_KILLS: u64 = 20;
/// Kills between two comparisons.
const KILLS_OF_LIFE: u64 = 50;
/// Failures that are described.
const DESCRIBED: usize = 10;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Application,
    Shipper,
    Collector,
    Backend,
    Server,
    Line,
}

impl Kind {
    fn draw(random: &mut fastrand::Rng) -> Kind {
        match random.u8(..20) {
            0..5 => Kind::Application,
            5..11 => Kind::Shipper,
            11..13 => Kind::Collector,
            13..15 => Kind::Backend,
            15 => Kind::Server,
            _ => Kind::Line,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Application => "application",
            Kind::Shipper => "shipper",
            Kind::Collector => "collector",
            Kind::Backend => "backend",
            Kind::Server => "server",
            Kind::Line => "line",
        }
    }
}

/// Runs the experiment.
pub(in crate::experiments) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let kills = options.rounds.unwrap_or(if options.quick { QUICK_KILLS } else { KILLS });
    super::shipper::program()?;
    let directory = work_directory(&options.directory)?;
    let mut server = Server::start(directory.path(), false)?;
    let mut tally = Tally::default();
    progress.begin("kills", kills);
    let ended = (|| {
        for number in 0.. {
            let left = kills.saturating_sub(tally.all());
            if left == 0 {
                break;
            }
            let seed = options.seed.wrapping_mul(1_000_003).wrapping_add(number);
            let mut life = Life::begin(directory.path(), &mut server, seed)?;
            for _ in 0..left.min(KILLS_OF_LIFE) {
                let kind = life.kill(&mut server)?;
                *tally.kills.entry(kind.name()).or_default() += 1;
                progress.advance(1)?;
            }
            life.end(&mut server, &mut tally)?;
        }
        Ok(())
    })();
    tally.figures().at_end(ended)
}

/// What was done, and what was found.
#[derive(Default)]
struct Tally {
    kills: BTreeMap<&'static str, u64>,
    faults: u64,
    lives: u64,
    batches: u64,
    transactions: u64,
    rows: u64,
    wrong: Vec<String>,
}

impl Tally {
    fn all(&self) -> u64 {
        self.kills.values().sum()
    }

    fn figures(self) -> Figures {
        let mut figures = Figures::new();
        figures.set("kills", self.all() as f64);
        for (kind, count) in &self.kills {
            figures.set(format!("kills.{kind}"), *count as f64);
        }
        for (name, count) in [
            ("faults", self.faults),
            ("lives", self.lives),
            ("batches", self.batches),
            ("transactions", self.transactions),
            ("rows", self.rows),
        ] {
            figures.set(name, count as f64);
        }
        figures.set("wrong", self.wrong.len() as f64);
        for what in self.wrong.into_iter().take(DESCRIBED) {
            figures.alarm(what);
        }
        figures
    }
}

/// A database, and all processes about it.
struct Life {
    random: fastrand::Rng,
    name: String,
    plan: Plan,
    shipping: Shipping,
    /// The port at which a collector listens, where there is one.
    port: Option<u16>,
    line: Line,
    application: Application,
    shipper: Service,
    collector: Option<Service>,
    source: String,
    has_history: bool,
    wrong: Vec<String>,
    scratch: tempfile::TempDir,
}

impl Life {
    fn begin(parent: &Path, server: &mut Server, seed: u64) -> Result<Life> {
        let mut random = fastrand::Rng::with_seed(seed);
        let scratch = tempfile::tempdir_in(parent).map_err(|error| failed(parent, error))?;
        let database: PathBuf = scratch.path().join("app.db");
        let side = if random.bool() { Side::Litefoot } else { Side::Stock };
        let journal = if random.u8(..3) > 0 { "wal" } else { "delete" };
        let has_collector = random.bool();
        let (interval, has_history) = (["0", "100ms"][random.usize(..2)], random.bool());
        let place = if has_collector { "collector" } else { "postgres" };
        let kind = if has_history { "history" } else { "net" };
        let name =
            format!("seed {seed}, {}, {journal}, to {place}, interval {interval}, {kind}", side.name());
        application::create(&database, Workload::Mixed, journal).map_err(|error| sqlite(&database, error))?;
        server.wait()?;
        // The schema is made by an earlier life, or by a look at another database here.
        let shipping = Shipping::new(scratch.path())?;
        let port = match has_collector {
            true => Some(super::free_port()?),
            false => None,
        };
        let line = Line::to(port.unwrap_or(server.port), seed)?;
        let url = match port {
            Some(_) => format!("collect+tcp://127.0.0.1:{}", line.port),
            None => server.url(line.port),
        };
        prepare(server, parent)?;
        let options = ["--interval", interval, "--name", "job", "--history"];
        shipping.add_with(&database, &url, &options[..if has_history { 5 } else { 4 }])?;
        let source = source_of(scratch.path())?;
        let plan = Plan { database, side, workload: Workload::Mixed, per_s: 40, commits: 0, seed };
        let start = || Application::start(&plan).map_err(|error| failed(parent, error));
        let (application, shipper) = (start()?, shipping.serve()?);
        let collector = port.map(|port| shipping.collect(port, &server.url(server.port))).transpose()?;
        line.set_bad(true);
        Ok(Life {
            random,
            name,
            plan,
            shipping,
            port,
            line,
            application,
            shipper,
            collector,
            source,
            has_history,
            wrong: Vec::new(),
            scratch,
        })
    }

    /// Waits a random while, and kills something that is there.
    fn kill(&mut self, server: &mut Server) -> Result<Kind> {
        loop {
            let longest = [5, 40, 150, 400][self.random.usize(..4)];
            std::thread::sleep(Duration::from_millis(self.random.u64(..longest)));
            let kind = Kind::draw(&mut self.random);
            match kind {
                Kind::Application => {
                    self.application.kill();
                    self.plan.seed += 1;
                    self.application =
                        Application::start(&self.plan).map_err(|error| failed(self.scratch.path(), error))?;
                }
                Kind::Shipper => {
                    self.note_end()?;
                    self.shipper.kill();
                    self.shipper = self.shipping.serve()?;
                }
                Kind::Collector => match (&mut self.collector, self.port) {
                    (Some(collector), Some(port)) => {
                        collector.kill();
                        *collector = self.shipping.collect(port, &server.url(server.port))?;
                    }
                    _ => continue,
                },
                // The server may be on its way back from the last one.
                Kind::Backend => match server.kill_backend() {
                    Ok(true) => {}
                    _ => continue,
                },
                Kind::Server => {
                    server.kill()?;
                    self.look_for_halves(server);
                }
                Kind::Line if self.line.cut() => {}
                Kind::Line => continue,
            }
            return Ok(kind);
        }
    }

    /// A shipper that nobody has killed runs.
    fn note_end(&mut self) -> Result<()> {
        let ended = self.shipper.0.try_wait().map_err(|error| failed(self.scratch.path(), error))?;
        if let Some(status) = ended {
            let said = self.shipping.said("ship.said");
            self.wrong.push(format!("{}: the shipper has ended, {status}: {said}", self.name));
        }
        Ok(())
    }

    /// Half of a transaction is never there.
    fn look_for_halves(&mut self, server: &Server) {
        let source = &self.source;
        let select = format!(
            "SELECT (coalesce((SELECT n FROM public.item WHERE _source = '{source}' AND id = 0), 0)
               + coalesce((SELECT v FROM public.tag WHERE _source = '{source}' AND k = 'balance'), 0))::text"
        );
        // Without the tables there is nothing yet.
        if let Ok(sum) = server.rows(&select)
            && sum != ["0"]
        {
            self.wrong.push(format!("{}: half of a transaction is there: {sum:?}", self.name));
        }
    }

    /// Ends it: what is there arrives, and is compared.
    fn end(mut self, server: &mut Server, tally: &mut Tally) -> Result<()> {
        self.note_end()?;
        self.shipper.kill();
        self.line.set_bad(false);
        self.line.cut();
        server.wait()?;
        self.look_for_halves(server);
        if let Err(why) = self.application.finish(true) {
            self.wrong.push(format!("{}: {why}", self.name));
        }
        if let Err(why) = self.shipping.last_look() {
            self.wrong.push(format!("{}: the last look: {why}", self.name));
        }
        let compared = comparison::compare(server, &self.plan.database, &self.source)?;
        self.wrong.extend(compared.wrong.into_iter().map(|what| format!("{}: {what}", self.name)));
        if self.has_history {
            let (transactions, wrong) = comparison::compare_history(server, &self.source)?;
            tally.transactions += transactions;
            self.wrong.extend(wrong.into_iter().map(|what| format!("{}: {what}", self.name)));
        }
        tally.faults += self.line.faults();
        tally.lives += 1;
        tally.batches += compared.batches;
        tally.rows += compared.rows;
        tally.wrong.append(&mut self.wrong);
        // Rows of former lives would only slow the server.
        let source = &self.source;
        let remove = format!(
            "DELETE FROM public.item WHERE _source = '{source}'; DELETE FROM public.tag WHERE _source = '{source}'"
        );
        server.ask(async |client| client.batch_execute(&remove).await)?;
        // Should a collector be left, it leads nowhere.
        self.line.lead_to(0);
        Ok(())
    }
}
