//! Databases of SQLite's own tests, as `cargo xtask suite-rows` keeps them: each moment is compared with the one before.
//!
//! `ROWDIFF_MOMENTS` names the directory: `<file of tests>/<database>/<number>.db`, with `-journal` and `-wal` as a crash would leave them.
//!
//! A moment that SQLite cannot read, or finds damaged, may be refused. Where SQL reads a table at both moments, a difference has the rows that SQL
//! tells, damaged or not.

use super::image::{Image, Truth, readable};
use litefoot_rowdiff::{Changed, Collect, Map, Pages};
use rusqlite::{Connection, ffi};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Where the suite has the page that is never used, so that small databases have one.
const PENDING_BYTE: u32 = 0x10000;

/// A database at a moment.
struct Moment {
    image: Image,
    /// `None` where SQL reads nothing.
    truth: Option<Truth>,
    /// Tables that SQL does not read, and why.
    unread: BTreeMap<String, String>,
    /// The reason for which SQL reads nothing, or what SQLite says of the pages: `ok`.
    said: String,
}

/// The last commit of the files that a crash would leave; `None` where they are no database.
fn moment(path: &Path, scratch: &Path) -> Option<Moment> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let own = scratch.join("a.db");
    for part in ["", "-journal", "-wal", "-shm"] {
        let (from, to) = (path.with_file_name(format!("{name}{part}")), format!("{}{part}", own.display()));
        let _ = fs::remove_file(&to);
        if from.exists() {
            fs::copy(from, &to).unwrap();
        }
    }
    let database = Connection::open(&own).unwrap();
    let number = |pragma: &str| database.query_row(pragma, [], |row| row.get::<_, u32>(0)).ok();
    let read = readable(&database);
    // Brings the log home.
    let _ = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    let pages = read.as_ref().ok().and_then(|_| number("PRAGMA page_count"));
    let checked = database.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0));
    drop(database);
    let image = Image::of_file(fs::read(&own).unwrap(), pages)?;
    let said = match (&read, &checked) {
        (Err(error), _) | (_, Err(error)) => error.to_string(),
        (_, Ok(said)) => said.clone(),
    };
    let (mut truth, unread) =
        read.map_or_else(|_| Default::default(), |(truth, unread)| (Some(truth), unread));
    if image.count() == 0 {
        // SQL has a `sqlite_schema` without rows there.
        truth = truth.map(|_| Truth::new());
    }
    Some(Moment { image, truth, unread, said })
}

/// What was found, over all files.
#[derive(Default)]
struct Sums {
    moments: u64,
    no_databases: u64,
    /// What SQLite says of moments that are not in order.
    damaged: BTreeMap<String, u64>,
    differences: u64,
    tables: u64,
    rows: u64,
    changes: u64,
    /// Differences that SQL cannot tell: it reads nothing at one of the moments.
    untold: u64,
    /// Reasons for which a database was refused that SQLite finds damaged, or in order; reasons for which a table was not read, by SQL or by the differ.
    refused: [BTreeMap<String, u64>; 2],
    unread: [BTreeMap<String, u64>; 2],
    wrong: Vec<String>,
}

/// The first line of a reason behind its heading, without the numbers of one case.
fn kind(why: &str) -> String {
    let line = why.lines().find(|line| !line.starts_with("***")).unwrap_or(why);
    let mut kind: String = line.chars().map(|sign| if sign.is_ascii_digit() { '#' } else { sign }).collect();
    while kind.contains("##") {
        kind = kind.replace("##", "#");
    }
    kind
}

impl Sums {
    fn refuse(&mut self, why: &str, moments: &[&Moment], place: &str) {
        let is_sound = moments.iter().all(|moment| moment.said == "ok");
        let why = if is_sound { format!("{place}: {why}") } else { kind(why) };
        *self.refused[usize::from(is_sound)].entry(why).or_default() += 1;
    }

    /// Compares two moments; answers the map of the newer one.
    fn compare(&mut self, map: Map, [old, new]: [&Moment; 2], place: &str) -> Option<Map> {
        let (mut found, mut map) = (Collect::default(), map);
        let pages = old.image.changed(&new.image);
        let is_alike = old.image.page_bytes() == new.image.page_bytes();
        let changed = if is_alike { Changed::Pages(&pages) } else { Changed::All };
        match map.diff(&old.image, &new.image, &changed, &mut found) {
            Ok(step) => map.apply(step),
            Err(error) => {
                self.refuse(&error.to_string(), &[old, new], place);
                return None;
            }
        }
        // What has not changed is not looked at, and may have been damaged before.
        let verified = map.verify(&new.image);
        match &verified {
            Ok(differs) => assert_eq!(*differs, None, "{place}: the map"),
            Err(error) => self.refuse(&error.to_string(), &[new], place),
        }
        let (Some(older), Some(newer)) = (&old.truth, &new.truth) else {
            self.untold += 1;
            return verified.ok().map(|_| map);
        };
        let mut out: BTreeSet<String> = BTreeSet::new();
        for (name, why) in old.unread.iter().chain(&new.unread) {
            *self.unread[0].entry(kind(why)).or_default() += 1;
            out.insert(name.clone());
        }
        for table in map.tables().iter().filter(|table| table.unreadable.is_some()) {
            *self.unread[1].entry(table.unreadable.clone().unwrap()).or_default() += 1;
            out.insert(table.name.clone());
        }
        // A table that has another name now goes with both.
        for table in &found.tables {
            let both = || table.before.iter().chain(&table.after);
            if both().any(|one| one.unreadable.is_some() || out.contains(&one.name)) {
                out.extend(both().map(|one| one.name.clone()));
            }
        }
        found
            .tables
            .retain(|table| !table.before.iter().chain(&table.after).any(|one| out.contains(&one.name)));
        let known = |truth: &Truth| {
            let known = truth.iter().filter(|(name, _)| !out.contains(*name));
            known.map(|(name, rows)| (name.clone(), rows.clone())).collect::<Truth>()
        };
        let (old, new) = (known(older), known(newer));
        self.changes += super::compare(&old, &new, &found.tables, place);
        self.differences += 1;
        self.tables += new.len() as u64;
        self.rows += old.values().chain(new.values()).map(|rows| rows.rows.len() as u64).sum::<u64>();
        verified.ok().map(|_| map)
    }

    /// Compares the moments of a database, one after the other.
    fn database(&mut self, directory: &Path, scratch: &Path) {
        let mut last: Option<(Moment, Option<Map>)> = None;
        for path in entries(directory).iter().filter(|path| path.extension().is_some_and(|of| of == "db")) {
            self.moments += 1;
            let Some(new) = moment(path, scratch) else {
                self.no_databases += 1;
                last = None;
                continue;
            };
            if new.said != "ok" {
                *self.damaged.entry(kind(&new.said)).or_default() += 1;
            }
            let place = path.display().to_string();
            let is_counted = last.as_ref().is_some_and(|(_, map)| map.is_some());
            let compared = catch_unwind(AssertUnwindSafe(|| {
                let (old, map) = last.take()?;
                self.compare(map?, [&old, &new], &place)
            }));
            let map = compared.unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let why = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
                self.wrong.push(format!("{place} ({}): {why}", new.said));
                None
            });
            let map = map.or_else(|| match catch_unwind(|| Map::of(&new.image)) {
                Ok(Ok(map)) => Some(map),
                // A difference was refused, and is counted.
                Ok(Err(_)) if is_counted => None,
                Ok(Err(error)) => {
                    self.refuse(&error.to_string(), &[&new], &place);
                    None
                }
                Err(_) => {
                    self.wrong.push(format!("{place}: a panic at the first look"));
                    None
                }
            });
            last = Some((new, map));
        }
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

#[test]
#[ignore = "`cargo xtask suite-rows` keeps the databases, and runs it"]
fn databases_of_sqlites_own_tests() {
    let Some(moments) = std::env::var_os("ROWDIFF_MOMENTS") else {
        panic!("ROWDIFF_MOMENTS names no directory")
    };
    let (scratch, mut sums, mut files, mut left) = (tempfile::tempdir().unwrap(), Sums::default(), 0, [0, 0]);
    // SAFETY: nothing of this process has a database open, and this argument is what the call takes.
    unsafe { ffi::sqlite3_test_control(ffi::SQLITE_TESTCTRL_PENDING_BYTE, PENDING_BYTE) };
    std::panic::set_hook(Box::new(|_| {}));
    for file in entries(Path::new(&moments)) {
        let before = sums.moments;
        for entry in entries(&file) {
            match entry.is_dir() {
                true => sums.database(&entry, scratch.path()),
                false => {
                    let text = fs::read_to_string(&entry).unwrap();
                    for (sum, word) in left.iter_mut().zip(text.split_whitespace()) {
                        *sum += word.parse::<u64>().unwrap();
                    }
                }
            }
        }
        files += u64::from(sums.moments > before);
    }
    let _ = std::panic::take_hook();
    let Sums { moments, no_databases, differences, tables, rows, changes, untold, .. } = sums;
    println!(
        "{files} files with {moments} moments of databases; left out {} large ones, {} of many",
        left[0], left[1]
    );
    println!("{no_databases} of these are no databases");
    println!("{differences} differences compared: {tables} tables, {rows} rows, {changes} changes");
    println!("{untold} differences of databases that SQL does not read");
    let told = [
        ("moments that SQLite finds damaged, or does not read", &sums.damaged),
        ("refused, and damaged for SQLite", &sums.refused[0]),
        ("refused, and in order for SQLite", &sums.refused[1]),
        ("tables that SQL does not read", &sums.unread[0]),
        ("tables that the differ does not read", &sums.unread[1]),
    ];
    for (what, reasons) in told {
        println!("{what}: {}", reasons.values().sum::<u64>());
        reasons.iter().for_each(|(why, count)| println!("  {count} {why}"));
    }
    println!("{} wrong", sums.wrong.len());
    sums.wrong.iter().for_each(|wrong| println!("WRONG {wrong}"));
    assert!(
        differences > 0 && sums.wrong.is_empty(),
        "{differences} differences, {} wrong",
        sums.wrong.len()
    );
}
