//! `instructions`: what a warm query and a commit cost, in instructions of the processor.
//!
//! Times of a busy machine say little about a difference of one percent; instructions hold. `valgrind --tool=callgrind` counts those of a
//! process with all its threads. A process opens a database and does the same thing so often; the figure is the difference
//! between many and few times, over the times between. So whatever is done once does not count, and every page is in memory
//! before that. Instructions of the system do not count either, which are most of a commit's: SQLite's own needs more of them.
//!
//! Both sides use the SQLite that is built into this program. Stock SQLite has the file mapped, as litefoot has its pool.
//!
//! | figure | meaning |
//! |---|---|
//! | `KIND.MODE.SIDE` | instructions each: `primary_key`, `index` and `range` are SELECTs of one row, of one row by an index and of fifty rows; `insert` is a commit of one row at `synchronous=FULL`; `MODE` is `wal` or `delete` |
//! | `ratio.KIND.MODE` | litefoot over stock SQLite: below 1 litefoot needs fewer |
//! | `lease.KIND.MODE` | litefoot over itself with `sharing=exclusive`: what it costs to share the database when somebody comes |

use super::commit::work_directory;
use crate::harness::{Progress, child, open_stock, program};
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use rusqlite::Connection;
use std::path::Path;
use std::process::{Command, Stdio};

/// The name of the process for [`crate::child`].
pub(crate) const CHILD: &str = "instructions";

const MODES: [&str; 2] = ["wal", "delete"];
const STOCK: &str = "stock";
const LITEFOOT: &str = "litefoot";
/// Litefoot without a lease on the file.
const EXCLUSIVE: &str = "exclusive";
const SIDES: [&str; 3] = [STOCK, LITEFOOT, EXCLUSIVE];

/// What is counted.
struct Kind {
    name: &'static str,
    sql: &'static str,
    /// Times in the shorter run, and in the longer one.
    times: [u64; 2],
}

const KINDS: [Kind; 4] = [
    Kind { name: "primary_key", sql: "SELECT v FROM t WHERE id = ?1", times: [4_000, 8_000] },
    Kind { name: "index", sql: "SELECT v FROM t WHERE k = ?1", times: [4_000, 8_000] },
    Kind { name: "range", sql: "SELECT v FROM t WHERE id BETWEEN ?1 AND ?1 + 49", times: [2_000, 4_000] },
    Kind { name: "insert", sql: "INSERT INTO t(k, v) VALUES(?1, 'some text')", times: [400, 1_200] },
];

const ROWS: i64 = 20_000;
const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, v TEXT); CREATE INDEX i ON t(k)";
const FILL: &str = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
     INSERT INTO t SELECT i, i * 7919 % ?1, 'some text of about fifty bytes for each row ' || i FROM n";

/// Checks that the program is there that counts.
///
/// # Errors
/// [`Error::Missing`] where it is not.
pub(super) fn prepared() -> Result<()> {
    program("valgrind", "valgrind: apt-get install valgrind")
}

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    prepared()?;
    let scratch = work_directory(&options.directory)?;
    let mut figures = Figures::new();
    progress.begin("counts", (MODES.len() * KINDS.len() * SIDES.len()) as u64);
    for mode in MODES {
        for kind in &KINDS {
            let mut each = [0.0; SIDES.len()];
            for (side, each) in SIDES.iter().zip(&mut each) {
                let path = scratch.path().join(format!("{}-{mode}-{side}.db", kind.name));
                make(&path, mode)?;
                *each = instructions(side, kind, &path, options.quick)?;
                figures.set(format!("{}.{mode}.{side}", kind.name), *each);
                progress.advance(1)?;
            }
            let [stock, litefoot, exclusive] = each;
            figures.set(format!("ratio.{}.{mode}", kind.name), litefoot / stock);
            figures.set(format!("lease.{}.{mode}", kind.name), litefoot / exclusive);
        }
    }
    Ok(figures)
}

/// A database as both sides find it.
fn make(path: &Path, mode: &str) -> Result<()> {
    let explain = |source| Error::Sqlite { what: format!("filling {}", path.display()), source };
    let db = open_stock(path).map_err(explain)?;
    db.execute_batch(TABLE).and_then(|()| db.execute(FILL, [ROWS])).map_err(explain)?;
    db.pragma_update(None, "journal_mode", mode).map_err(explain)?;
    db.close().map_err(|(_, source)| explain(source))
}

/// Instructions of one of a kind: two processes, of which one does it more often.
fn instructions(side: &str, kind: &Kind, path: &Path, quick: bool) -> Result<f64> {
    let [few, many] = kind.times.map(|times| if quick { times / 2 } else { times });
    let more = count(side, kind, path, many)? - count(side, kind, path, few)?;
    Ok(more / (many - few) as f64)
}

/// Instructions of a process.
fn count(side: &str, kind: &Kind, path: &Path, times: u64) -> Result<f64> {
    let failed = |source| Error::Directory { path: path.to_owned(), source };
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(std::env::current_exe().map_err(failed)?).args([child::COMMAND, CHILD]);
    valgrind.args([side, kind.name, &times.to_string()]).arg(path);
    let output = valgrind.stdin(Stdio::null()).output().map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stderr);
    match collected(&said).filter(|_| output.status.success()) {
        Some(count) => Ok(count),
        None => Err(Error::Wrong(format!("{side}, {}: valgrind said: {}", kind.name, said.trim()))),
    }
}

/// The count in what callgrind says.
fn collected(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

/// The process that is counted.
pub(crate) fn be_counted(arguments: &[String]) -> std::result::Result<(), String> {
    let [side, kind, times, path] = arguments else { return Err("SIDE KIND TIMES PATH".to_owned()) };
    let kind = KINDS.iter().find(|one| one.name == kind).ok_or("no such kind")?;
    let times: u64 = times.parse().map_err(|_| "TIMES is a number")?;
    let db = open(side, Path::new(path)).map_err(|error| error.to_string())?;
    repeat(&db, kind, times).map_err(|error| error.to_string())
}

fn open(side: &str, path: &Path) -> Result<Connection> {
    let explain = |source| Error::Sqlite { what: format!("opening {}", path.display()), source };
    match side {
        LITEFOOT => return Ok(litefoot::Connection::open(path)?.into_inner()),
        EXCLUSIVE => {
            let name = format!("file:{}?sharing=exclusive", path.display());
            return Ok(litefoot::Connection::open(name)?.into_inner());
        }
        _ => {}
    }
    let db = open_stock(path).map_err(explain)?;
    db.pragma_update(None, "mmap_size", 256 << 20).map_err(explain)?;
    Ok(db)
}

fn repeat(db: &Connection, kind: &Kind, times: u64) -> rusqlite::Result<()> {
    let mut statement = db.prepare(kind.sql)?;
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..times {
        let mut rows = statement.query([random.i64(1..=ROWS)])?;
        while let Some(row) = rows.next()? {
            row.get_ref(0)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_runs_on_both_sides_and_callgrinds_count_is_read() {
        let directory = tempfile::tempdir().unwrap();
        for mode in MODES {
            for side in SIDES {
                let path = directory.path().join(format!("{mode}-{side}.db"));
                make(&path, mode).unwrap();
                for kind in &KINDS {
                    repeat(&open(side, &path).unwrap(), kind, 3).unwrap();
                }
                let rows =
                    |db: Connection| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
                assert_eq!(rows(open(STOCK, &path).unwrap()), Ok(ROWS + 3), "{mode} {side}");
            }
        }
        let said =
            "==1== \n==1== Events    : Ir\n==1== Collected : 123456\n==1== \n==1== I   refs:      123,456";
        assert_eq!(collected(said), Some(123_456.0));
        assert_eq!(collected("valgrind: no such file"), None);
        let wrong = ["stock", "nothing", "3", "/none"].map(str::to_owned);
        assert!(be_counted(&wrong).is_err() && be_counted(&[]).is_err());
    }
}
