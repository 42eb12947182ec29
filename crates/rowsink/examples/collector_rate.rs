//! Rows a second of a collector: simulated devices, the collector and PostgreSQL, all on this machine. PostgreSQL syncs each commit.
//!
//! ```sh
//! cargo run --release -p litefoot-rowsink --example collector_rate -- [DEVICES [ROWS [SECONDS]]]
//! ```

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../tests/postgres/server.rs"]
mod server;

use litefoot_rowdiff::{Change, Row, Table, TableChanges, Value};
use litefoot_rowsink::collect::{self, Collector, Line, Settings};
use litefoot_rowsink::{Batch, Origin, deliver};
use server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TOKEN: &str = "a-token-of-the-benchmark";

/// A batch of new readings of a device.
fn batch(device: u64, sequence: u64, rows: u64, table: &Table) -> Batch {
    let row = |number: u64| {
        let at = (sequence * rows + number) as i64;
        let celsius = 20.0 + (at * 37 % 200) as f64 / 10.0;
        let values =
            vec![Value::Integer(at), Value::Integer(at % 4), Value::Real(celsius), Value::from("ok")];
        Change::Insert(Row { rowid: Some(at), values })
    };
    let before = (sequence > 1).then(|| table.clone());
    let changes = (0..rows).map(row).collect();
    let mut source = [0; 16];
    source[8..].copy_from_slice(&device.to_be_bytes());
    Batch {
        origin: Origin { source, epoch: 1 },
        sequence,
        token: device << 32 | sequence,
        time_ms: 0,
        is_whole: sequence == 1,
        history: None,
        tables: vec![TableChanges { before, after: Some(table.clone()), forgotten: vec![], changes }],
    }
}

fn main() {
    let argument =
        |at: usize, other: u64| std::env::args().nth(at).map_or(other, |text| text.parse().unwrap());
    let (devices, rows, seconds) = (argument(1, 100), argument(2, 60), argument(3, 20));
    let Some(server) = Server::with(&["shared_buffers=128MB", "max_wal_size=4GB"]) else { return };
    let settings = Settings {
        listen: std::net::SocketAddr::from(([127, 0, 0, 1], 0)),
        url: server.url(server.port),
        password: None,
        schema: "public".into(),
        token: Some(TOKEN.into()),
        certificate: None,
        client_authorities: None,
        connections: devices as usize,
        say: Arc::new(|line: &str| eprintln!("{line}")),
    };
    let collector = collect::Server::start(settings).unwrap();
    let address = collector.address().to_string();
    let sql = "CREATE TABLE reading(at INTEGER PRIMARY KEY, sensor INT, celsius REAL, state TEXT)";
    let table = Table::from_sql("reading".into(), 0, sql.into());
    let (arrived, sent, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let mut rates: Vec<f64> = Vec::new();
    std::thread::scope(|scope| {
        for device in 1..=devices {
            let (address, table, arrived, sent, is_over) = (&address, &table, &arrived, &sent, &is_over);
            scope.spawn(move || {
                let mut destination = Collector::new(address, Some(TOKEN), &Line::Plain).unwrap();
                for sequence in 1.. {
                    let told = deliver(&mut destination, &batch(device, sequence, rows, table)).unwrap();
                    sent.fetch_add(told.bytes, Ordering::Relaxed);
                    arrived.fetch_add(rows, Ordering::Relaxed);
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        // All tables are there, and all devices have begun.
        while arrived.load(Ordering::Relaxed) < 3 * devices * rows {
            std::thread::sleep(Duration::from_millis(20));
        }
        for _ in 0..seconds {
            let (began, before) = (Instant::now(), arrived.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_secs(1));
            let count = arrived.load(Ordering::Relaxed) - before;
            rates.push(count as f64 / began.elapsed().as_secs_f64());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    rates.sort_by(f64::total_cmp);
    let select = "SELECT count(*), (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) FROM reading";
    let (count, commits): (i64, i64) = server.ask(async |client| {
        let row = client.query_one(select, &[]).await?;
        Ok((row.get(0), row.get(1)))
    });
    let arrived = arrived.into_inner();
    assert_eq!(count as u64, arrived, "rows are missing, or there are too many");
    println!(
        "{devices} devices, {rows} rows a batch, {seconds} s: {arrived} rows, {commits} transactions, all there"
    );
    println!(
        "rows/s: median {:.0}, of one second {:.0} to {:.0}",
        rates[rates.len() / 2],
        rates[0],
        rates[rates.len() - 1]
    );
}
