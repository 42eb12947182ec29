//! Rows in a real PostgreSQL: random histories arrive, once, over a line that breaks, at a server whose processes die.

#![allow(clippy::unwrap_used)]

mod collect;
mod collector_kills;
mod dashboard;
#[path = "../../../rowdiff/tests/histories/history.rs"]
mod history;
#[allow(dead_code)]
#[path = "../../../rowdiff/tests/histories/image.rs"]
mod image;
mod past;
mod proxy;
mod server;
#[cfg(feature = "tls")]
mod tls;

use history::History;
use image::{Image, Truth, key_bytes, truth};
use litefoot_rowdiff::{Change, Changed, Collect, Empty, Map, Pages, TablePair, Value, Visitor};
use litefoot_rowsink::postgres::Postgres;
use litefoot_rowsink::{Batch, Destination, Error, Origin, Position, deliver};
use proxy::Proxy;
use server::Server;
use std::collections::BTreeMap;
use std::time::Duration;

/// A device: a history, and batches of its changes.
struct Device {
    history: History,
    origin: Origin,
    map: Map,
    image: Option<Image>,
    sequence: u64,
}

impl Device {
    fn new(seed: u64) -> Device {
        let history = History::new(seed, true);
        let origin = Origin { source: [seed as u8; 16], epoch: 1 };
        Device { history, origin, map: Map::default(), image: None, sequence: 0 }
    }

    /// The shipper begins anew, where the destination stands.
    fn restart(&mut self, sequence: u64) {
        (self.map, self.image, self.sequence) = (Map::default(), None, sequence);
    }

    /// The next batch: what has changed since the last one, or, without one, everything.
    fn batch(&mut self) -> Batch {
        self.history.advance();
        let after = Image::of(&mut self.history.database);
        let changed = self.image.as_ref().map(|before| before.changed(&after));
        let before: &dyn Pages = self.image.as_ref().map_or(&Empty, |before| before);
        let changed = changed.as_ref().map_or(Changed::All, |changed| Changed::Pages(changed));
        let mut found = Shipped::default();
        let step = self.map.diff(before, &after, &changed, &mut found).unwrap();
        self.map.apply(step);
        let is_whole = self.image.replace(after).is_none();
        self.sequence += 1;
        Batch {
            origin: self.origin,
            sequence: self.sequence,
            token: self.history.random.u64(..),
            time_ms: 0,
            is_whole,
            history: None,
            tables: found.0.tables,
        }
    }
}

/// All tables but SQLite's own.
#[derive(Default)]
struct Shipped(Collect);

impl Visitor for Shipped {
    fn table(&mut self, pair: TablePair<'_>) -> Result<litefoot_rowdiff::Rows, litefoot_rowdiff::Failure> {
        match pair.table().name.starts_with("sqlite_") {
            true => Ok(litefoot_rowdiff::Rows::Skipped),
            false => self.0.table(pair),
        }
    }

    fn row(&mut self, pair: TablePair<'_>, change: Change) -> Result<(), litefoot_rowdiff::Failure> {
        self.0.row(pair, change)
    }
}

/// Compares all rows of a source with the database; answers how many there are.
fn compare(server: &Server, device: &Device, place: &str) -> usize {
    let source = device.origin.source_text();
    let expected: Truth = truth(&device.history.database);
    let parked: BTreeMap<String, Option<String>> = server.ask(async |client| {
        let select = "SELECT name, parked FROM litefoot.source_table WHERE source = $1::text::uuid";
        let rows = client.query(select, &[&source]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    });
    let mut count = 0;
    for (name, rows) in expected.iter().filter(|(name, _)| !name.starts_with("sqlite_")) {
        match parked.get(name) {
            None => panic!("{place}: table {name} did not arrive"),
            Some(Some(_)) => continue,
            Some(None) => (),
        }
        let found = server.ask(async |client| {
            let select = "SELECT column_name::text, data_type::text FROM information_schema.columns WHERE table_name = $1::text";
            let types: BTreeMap<String, String> =
                client.query(select, &[name]).await?.iter().map(|row| (row.get(0), row.get(1))).collect();
            let columns: Vec<String> = rows.columns.iter().map(|column| as_text(column, &types[column])).collect();
            let all = columns.iter().map(|column| format!(", {column}")).collect::<String>();
            let key = if rows.has_rowid { "_rowid::text" } else { "encode(_key, 'hex')" };
            let select = format!("SELECT {key}, _misfit::text{all} FROM \"{name}\" WHERE _source = $1::text::uuid");
            let found = client.query(&select, &[&source]).await?;
            let mut values: Vec<(String, Vec<Value>)> = Vec::new();
            for row in found {
                let misfit: Option<String> = row.get(1);
                let misfit: serde_json::Value = misfit.map_or_else(Default::default, |text| serde_json::from_str(&text).unwrap());
                let value = |(at, column): (usize, &String)| {
                    let text: Option<String> = row.get(at + 2);
                    match misfit.get(column) {
                        Some(odd) => of_json(odd),
                        None => of_text(text, &types[column]),
                    }
                };
                values.push((row.get(0), rows.columns.iter().enumerate().map(value).collect()));
            }
            Ok(values)
        });
        count += found.len();
        let mut found: Vec<String> =
            found.into_iter().map(|(key, row)| of_rowid(rows.has_rowid, &key, &row)).collect();
        let mut expected: Vec<String> = rows
            .rows
            .iter()
            .map(|(key, row)| {
                if rows.has_rowid {
                    format!("{} {row:?}", String::from_utf8_lossy(key))
                } else {
                    format!("{row:?}")
                }
            })
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{place}: table {name}");
    }
    for name in parked.keys() {
        assert!(expected.contains_key(name), "{place}: table {name} is still there");
    }
    count
}

fn of_rowid(has_rowid: bool, key: &str, row: &[Value]) -> String {
    match has_rowid {
        true => format!(
            "{} {row:?}",
            String::from_utf8_lossy(&key_bytes(&[Value::Integer(key.parse().unwrap())]))
        ),
        false => format!("{row:?}"),
    }
}

fn as_text(column: &str, kind: &str) -> String {
    let name = format!("\"{}\"", column.replace('"', "\"\""));
    if kind == "bytea" { format!("encode({name}, 'hex')") } else { format!("{name}::text") }
}

fn of_text(text: Option<String>, kind: &str) -> Value {
    let Some(text) = text else { return Value::Null };
    match kind {
        "bigint" => Value::Integer(text.parse().unwrap()),
        "double precision" => Value::Real(text.replace("Infinity", "inf").parse().unwrap()),
        "bytea" => Value::Blob(unhex(&text)),
        "numeric" => text.parse().map_or_else(|_| Value::Real(text.parse().unwrap()), Value::Integer),
        _ => Value::Text(text.into_bytes()),
    }
}

fn of_json(value: &serde_json::Value) -> Value {
    let entry = |name: &str| value.get(name).and_then(|entry| entry.as_str());
    if let Some(hex) = entry("blob") {
        return Value::Blob(unhex(hex));
    }
    if let Some(hex) = entry("text") {
        return Value::Text(unhex(hex));
    }
    if let Some(real) = entry("real") {
        return Value::Real(real.parse().unwrap());
    }
    match value {
        serde_json::Value::Number(number) => {
            number.as_i64().map_or_else(|| Value::Real(number.as_f64().unwrap()), Value::Integer)
        }
        serde_json::Value::String(text) => Value::from(text.as_str()),
        other => panic!("{other} is no misfit"),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().as_chunks::<2>().0;
    digits.iter().map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

#[test]
fn histories_arrive_row_for_row() {
    let Some(server) = Server::start() else { return };
    let mut rows = 0;
    for seed in 0..6 {
        // A schema for each: their tables have the same names, and other columns.
        server.ask(async |client| {
            client.batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await
        });
        let mut destination = Postgres::new(&server.url(server.port), "public").unwrap();
        let mut device = Device::new(seed);
        for _ in 0..10 {
            let batch = device.batch();
            deliver(&mut destination, &batch).unwrap();
            // Once more: it has arrived.
            assert_eq!(deliver(&mut destination, &batch).unwrap().bytes, 0);
            rows += compare(&server, &device, &device.history.settings);
        }
        let stands = |at: Option<Position>| at.map(|at| (at.epoch, at.sequence));
        assert_eq!(stands(destination.position(&device.origin).unwrap()), Some((1, 10)));
        // Copies of the device are told apart, also one that has sent as many batches.
        for sequence in [7, 10, 12] {
            let copy = Batch { sequence, ..device.batch() };
            assert!(matches!(deliver(&mut destination, &copy), Err(Error::Fenced { .. })), "{sequence}");
        }
    }
    assert!(rows > 1000, "{rows}");
}

#[test]
fn each_batch_arrives_once_over_a_line_that_breaks() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::start(server.port, 11);
    let mut destination =
        Postgres::new(&server.url(proxy.port), "public").unwrap().with_answer_within(Duration::from_secs(2));
    let mut device = Device::new(3);
    let mut random = fastrand::Rng::with_seed(4);
    let (mut retries, mut last) = (0, Position { epoch: 0, sequence: 0, token: 0 });
    for number in 0..30 {
        let batch = device.batch();
        last = batch.position();
        proxy.set_bad(true);
        for attempt in 0.. {
            // The line is good in the end.
            proxy.set_bad(attempt < 6);
            match deliver(&mut destination, &batch) {
                Ok(_) => break,
                Err(error) => assert!(error.is_transient(), "batch {number}: {error}"),
            }
            retries += 1;
            if random.u8(..8) == 0 {
                // The shipper died, and a new one takes over.
                destination = Postgres::new(&server.url(proxy.port), "public")
                    .unwrap()
                    .with_answer_within(Duration::from_secs(2));
            }
        }
        if number % 20 == 10 {
            kill_a_process(&server);
        }
        if number % 10 == 9 {
            compare(&server, &device, &device.history.settings);
        }
    }
    proxy.set_bad(false);
    assert_eq!(destination.position(&device.origin).unwrap(), Some(last));
    assert!(proxy.faults() > 3 && retries > 3, "{} faults, {retries} retries", proxy.faults());
}

/// Kills a process of the server: all others end, and it recovers.
fn kill_a_process(server: &Server) {
    let pid: i32 = server.ask(async |client| {
        let select = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'";
        Ok(client.query_one(select, &[]).await?.get(0))
    });
    // SAFETY: the process is one of the server that this test has started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    std::thread::sleep(Duration::from_millis(100));
    server.wait();
}

#[test]
fn refusals_say_why_without_secrets() {
    let refused = |url: &str| match Postgres::new(url, "public") {
        Ok(mut destination) => destination.position(&Origin { source: [1; 16], epoch: 1 }).unwrap_err(),
        Err(error) => error,
    };
    let error = refused("postgres://u:geheim@[bad/x");
    assert!(!error.to_string().contains("geheim") && !error.is_transient(), "{error}");
    let error = refused("postgres://u:geheim@127.0.0.1:1/x");
    assert!(!error.to_string().contains("geheim") && error.is_transient(), "{error}");
    let Some(server) = Server::start() else { return };
    let error = refused(&format!("postgres://litefoot:geheim@127.0.0.1:{}/none", server.port));
    assert!(error.to_string().contains("none") && !error.to_string().contains("geheim"), "{error}");
    assert!(!error.is_transient(), "{error}");
}
