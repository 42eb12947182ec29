//! Many devices, a collector between them and PostgreSQL: refused, stopped, and with wrong bytes.

use super::server::Server;
use super::{Device, compare};
use litefoot_rowdiff::{Change, Row, Table, TableChanges, Value};
use litefoot_rowsink::collect::{self, Collector, Line, Settings};
use litefoot_rowsink::{Batch, Destination, Error, Origin, deliver};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const TOKEN: &str = "a-token-of-the-tests";

/// What a collector has said.
#[derive(Clone, Default)]
pub struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    pub fn has(&self, part: &str) -> bool {
        self.0.lock().unwrap().iter().any(|line| line.contains(part))
    }

    /// Waits for a line.
    pub fn wait(&self, part: &str) {
        for _ in 0..600 {
            if self.has(part) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{part:?} was not said: {:?}", self.0.lock().unwrap());
    }
}

pub fn settings(server: &Server, said: &Said) -> Settings {
    let said = said.clone();
    settings_of(server.url(server.port), 0, move |line| said.0.lock().unwrap().push(line.to_owned()))
}

pub fn settings_of(url: String, port: u16, say: impl Fn(&str) + Send + Sync + 'static) -> Settings {
    Settings {
        listen: SocketAddr::from(([127, 0, 0, 1], port)),
        url,
        password: None,
        schema: "public".into(),
        token: Some(TOKEN.into()),
        certificate: None,
        client_authorities: None,
        connections: 64,
        say: Arc::new(say),
    }
}

/// A collector before a server of its own, and what it has said.
/// Taken apart in this order, the collector ends before its server.
pub struct Running {
    pub server: Server,
    said: Said,
    pub collector: collect::Server,
    pub address: String,
}

impl Running {
    /// Starts both; `None`, with a message, where there is no server.
    pub fn start() -> Option<Running> {
        let (server, said) = (Server::start()?, Said::default());
        let collector = collect::Server::start(settings(&server, &said)).unwrap();
        let address = collector.address().to_string();
        Some(Running { server, said, collector, address })
    }
}

pub fn device_of(address: &str) -> Collector {
    Collector::new(address, Some(TOKEN), &Line::Plain).unwrap().with_silence_of(Duration::from_secs(3))
}

/// Makes the server note each position that any source has had.
pub fn note_positions(server: &Server) {
    let statements = "CREATE TABLE noted(source uuid, epoch bigint, seq bigint);
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN INSERT INTO noted VALUES (NEW.source, NEW.epoch, NEW.seq); RETURN NULL; END';
        CREATE TRIGGER note AFTER INSERT OR UPDATE ON litefoot.source FOR EACH ROW EXECUTE FUNCTION note();";
    server.ask(async |client| client.batch_execute(statements).await);
}

/// Checks that a source has had the positions from 1 to `last`, each once.
pub fn check_positions(server: &Server, origin: &Origin, last: u64) {
    let source = origin.source_text();
    let noted: Vec<i64> = server.ask(async |client| {
        let select = "SELECT seq FROM noted WHERE source = $1::text::uuid ORDER BY seq";
        Ok(client.query(select, &[&source]).await?.iter().map(|row| row.get(0)).collect())
    });
    assert_eq!(noted, (1..=last as i64).collect::<Vec<_>>(), "{source}");
}

#[test]
fn histories_of_many_devices_arrive_row_for_row() {
    let Some(server) = Server::start() else { return };
    let said = Said::default();
    let collector = collect::Server::start(settings(&server, &said)).unwrap();
    note_positions(&server);
    let address = collector.address().to_string();
    let devices: Vec<Device> = std::thread::scope(|scope| {
        let work = |seed| {
            let address = &address;
            scope.spawn(move || {
                let mut device = Device::new(seed);
                let mut destination = device_of(address);
                for number in 0..20 {
                    let batch = device.batch();
                    deliver(&mut destination, &batch).unwrap();
                    if number % 5 == 0 {
                        // Once more: it has arrived.
                        assert_eq!(deliver(&mut destination, &batch).unwrap().bytes, 0);
                    }
                    if number % 7 == 3 {
                        destination = device_of(address);
                    }
                }
                device
            })
        };
        let threads: Vec<_> = (30..36).map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut rows = 0;
    for device in &devices {
        rows += compare(&server, device, &device.history.settings);
        check_positions(&server, &device.origin, 20);
    }
    assert!(rows > 500, "{rows}");
    collector.stop();
}

pub fn table(sql: &str) -> Table {
    Table::from_sql("reading".into(), 0, sql.into())
}

/// A batch of a plain table.
pub fn readings(source: u8, sequence: u64, table: &Table, changes: Vec<Change>) -> Batch {
    let before = (sequence > 1).then(|| table.clone());
    let tables = vec![TableChanges { before, after: Some(table.clone()), forgotten: vec![], changes }];
    let origin = Origin { source: [source; 16], epoch: 1 };
    let token = u64::from(source) << 32 | sequence;
    Batch { origin, sequence, token, time_ms: 0, is_whole: sequence == 1, history: None, tables }
}

/// A batch of the first source with one row, which is told from others of its number.
fn reading(table: &Table, sequence: u64, (token, is_whole): (u64, bool), rowid: i64) -> Batch {
    Batch { token, is_whole, ..readings(1, sequence, table, vec![insert(rowid, Value::Real(1.0))]) }
}

pub fn insert(rowid: i64, value: Value) -> Change {
    Change::Insert(Row { rowid: Some(rowid), values: vec![Value::Integer(rowid), value] })
}

pub fn count(server: &Server, condition: &str) -> i64 {
    let select = format!("SELECT count(*) FROM reading WHERE {condition}");
    server.ask(async |client| Ok(client.query_one(&select, &[]).await?.get(0)))
}

pub const READING: &str = "CREATE TABLE reading(at INTEGER PRIMARY KEY, celsius REAL)";

#[test]
fn a_device_that_is_refused_harms_no_other() {
    let Some(Running { server, said, collector: _collector, address }) = Running::start() else { return };
    let table = table(READING);
    let mut devices: Vec<Collector> = (0..8).map(|_| device_of(&address)).collect();
    for (number, device) in devices.iter_mut().enumerate() {
        deliver(device, &readings(number as u8, 1, &table, vec![insert(1, Value::Real(1.0))])).unwrap();
    }
    server.ask(async |client| client.batch_execute("ALTER TABLE reading ADD CHECK (celsius < 100)").await);
    std::thread::scope(|scope| {
        for (number, device) in devices.iter_mut().enumerate() {
            let table = &table;
            scope.spawn(move || {
                for sequence in 2..30 {
                    let value = if number == 3 && sequence == 9 { 1000.0 } else { 2.0 };
                    let batch = readings(
                        number as u8,
                        sequence,
                        table,
                        vec![insert(sequence as i64, Value::Real(value))],
                    );
                    match deliver(device, &batch) {
                        Ok(_) => {}
                        Err(error) => {
                            assert!(number == 3 && sequence == 9 && !error.is_transient(), "{error}");
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(count(&server, "true"), 7 * 29 + 8);
    assert!(said.has("source 03030303") && said.has("batch 9"), "{:?}", said.0);
    // A row that is said to be new, and is there: it is replaced, as a device by itself would do.
    let batch = readings(5, 30, &table, vec![insert(7, Value::Real(50.0)), insert(31, Value::from("odd"))]);
    deliver(&mut devices[5], &batch).unwrap();
    assert_eq!(
        count(&server, "_source = '05050505-0505-0505-0505-050505050505' AND at = 7 AND celsius = 50"),
        1
    );
    assert_eq!(count(&server, "_misfit->>'celsius' = 'odd' AND celsius IS NULL"), 1);
    // Updates and deletions, and a column whose type somebody has changed.
    server
        .ask(async |client| client.batch_execute("ALTER TABLE reading ALTER at TYPE double precision").await);
    let row = |rowid: i64, value: f64| Row {
        rowid: Some(rowid),
        values: vec![Value::Integer(rowid), Value::Real(value)],
    };
    let changes = vec![
        Change::Update { before: row(7, 50.0), after: row(7, 51.0) },
        Change::Delete(row(8, 2.0)),
        Change::Update { before: row(9, 2.0), after: row(9, 52.0) },
    ];
    deliver(&mut devices[5], &readings(5, 31, &table, changes)).unwrap();
    let of_five = "_source = '05050505-0505-0505-0505-050505050505' AND";
    assert_eq!(count(&server, &format!("{of_five} celsius IN (51, 52)")), 2);
    assert_eq!(count(&server, &format!("{of_five} _rowid = 8")), 0);
}

#[test]
fn a_copy_of_a_device_is_refused_loudly() {
    let Some(Running { server, said, collector: _collector, address }) = Running::start() else { return };
    let (mut one, mut two) = (device_of(&address), device_of(&address));
    let table = table(READING);
    let batch = |sequence, token, is_whole| reading(&table, sequence, (token, is_whole), sequence as i64);
    deliver(&mut one, &batch(1, 1, true)).unwrap();
    deliver(&mut one, &batch(2, 2, false)).unwrap();
    // A copy of the device comes: it asks where the source stands, and sends all that it has.
    assert_eq!(two.position(&batch(1, 0, true).origin).unwrap().unwrap().sequence, 2);
    deliver(&mut two, &batch(3, 33, true)).unwrap();
    // The first one goes on, over a new connection: its own was taken for a dead one.
    let error = loop {
        match deliver(&mut one, &batch(3, 3, false)) {
            Err(error) if error.is_transient() => {}
            other => break other.unwrap_err(),
        }
    };
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    assert!(said.has("a copy of the device"), "{:?}", said.0);
    // One that was restored has older numbers.
    let error = deliver(&mut device_of(&address), &batch(2, 22, false)).unwrap_err();
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    assert_eq!(count(&server, "true"), 1);
}

#[test]
fn an_answer_comes_behind_the_commit() {
    let Some(Running { server, collector: _collector, address, .. }) = Running::start() else { return };
    let table = table(READING);
    let mut device = device_of(&address);
    deliver(&mut device, &readings(1, 1, &table, vec![insert(1, Value::Real(1.0))])).unwrap();
    // The server says no at the commit, and not before.
    let statements = "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN IF NEW.celsius > 100 THEN RAISE EXCEPTION ''too hot''; END IF; RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER never AFTER INSERT ON reading DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION never();";
    server.ask(async |client| client.batch_execute(statements).await);
    let error =
        deliver(&mut device, &readings(1, 2, &table, vec![insert(2, Value::Real(200.0))])).unwrap_err();
    assert!(error.to_string().contains("too hot") && !error.is_transient(), "{error}");
    assert_eq!(count(&server, "true"), 1);
    assert_eq!(device.position(&Origin { source: [1; 16], epoch: 1 }).unwrap().unwrap().sequence, 1);
    deliver(&mut device, &readings(1, 2, &table, vec![insert(2, Value::Real(20.0))])).unwrap();
    assert_eq!(count(&server, "true"), 2);
}

/// A line that keeps the last byte of what a device sends, once it is told to, until it is told to go on.
fn holding_line(collector: &str) -> (String, Arc<AtomicBool>, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, collector) = (listener.local_addr().unwrap().to_string(), collector.to_owned());
    let (holds, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let flags = (holds.clone(), goes_on.clone());
    std::thread::spawn(move || {
        let (mut device, _) = listener.accept().unwrap();
        let mut there = TcpStream::connect(collector).unwrap();
        let (mut back, mut to_device) = (there.try_clone().unwrap(), device.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back, &mut to_device));
        let mut buf = vec![0; 64 << 10];
        while let Ok(read @ 1..) = device.read(&mut buf) {
            let kept = usize::from(flags.0.load(Ordering::SeqCst));
            there.write_all(&buf[..read - kept]).unwrap();
            if kept > 0 {
                while !flags.1.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                // The collector may have closed the line.
                let _ = there.write_all(&buf[read - kept..read]);
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    });
    (address, holds, goes_on)
}

#[test]
fn what_an_older_connection_brings_late_is_not_taken() {
    let Some(Running { server, collector: _collector, address, .. }) = Running::start() else { return };
    let (line, holds, goes_on) = holding_line(&address);
    let table = table(READING);
    let batch = |sequence, token, is_whole| reading(&table, sequence, (token, is_whole), token as i64);
    let mut older = device_of(&line);
    deliver(&mut older, &batch(1, 1, true)).unwrap();
    holds.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let late = scope.spawn(|| older.apply(&batch(2, 2, false)));
        std::thread::sleep(Duration::from_millis(300));
        // A new shipper asks where it stands, and makes its batch by that. Meanwhile the older one's arrives.
        let mut newer = device_of(&address);
        let at = newer.position(&batch(1, 0, true).origin).unwrap().unwrap();
        assert_eq!(at.sequence, 1);
        goes_on.store(true, Ordering::SeqCst);
        let error = late.join().unwrap().unwrap_err();
        assert!(error.is_transient(), "{error}");
        std::thread::sleep(Duration::from_millis(300));
        deliver(&mut newer, &batch(2, 22, true)).unwrap();
    });
    assert_eq!(count(&server, "at = 22"), 1);
    assert_eq!(count(&server, "true"), 1);
}

/// Sends bytes; answers what comes back until the other side closes.
fn exchange(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(payload);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

#[test]
fn wrong_bytes_get_a_clear_line_and_harm_nobody() {
    let Some(Running { server, said, collector, address }) = Running::start() else { return };
    let table = table(READING);
    let mut device = device_of(&address);
    deliver(&mut device, &readings(1, 1, &table, vec![insert(1, Value::Real(1.0))])).unwrap();
    let hello = frame(1, &[b"LFRC\x01", TOKEN.as_bytes()].concat());
    let with_hello = |bytes: &[u8]| [&hello, bytes].concat();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();

    let mut wrong = Collector::new(&address, Some("another-token-of-the-tests"), &Line::Plain).unwrap();
    let error = wrong.position(&Origin { source: [1; 16], epoch: 1 }).unwrap_err();
    assert!(error.to_string().contains("token") && !error.is_transient(), "{error}");
    said.wait("the token is another one");

    assert!(text(exchange(&address, b"GET / HTTP/1.1\r\nHost: collector\r\n\r\n")).contains("frame of"));
    said.wait("a frame of");
    assert!(text(exchange(&address, &frame(3, b"no greeting"))).contains("greeting"));
    said.wait("a greeting is expected");
    assert!(text(exchange(&address, &with_hello(&[3, 0xff, 0xff, 0xff, 0xff]))).contains("4294967295"));
    said.wait("4294967295");
    assert!(text(exchange(&address, &with_hello(&frame(3, b"no part")))).contains("damaged"));
    let mut damaged = frame(2, &[1; 16]);
    damaged[7] ^= 1;
    assert!(text(exchange(&address, &with_hello(&damaged))).contains("checksum"));
    assert!(text(exchange(&address, &with_hello(&frame(2, b"short")))).contains("16 bytes"));
    assert!(text(exchange(&address, &with_hello(&frame(77, b"")))).contains("kind 77"));
    let two = [frame(2, &[1; 16]), frame(2, &[2; 16])].concat();
    assert!(text(exchange(&address, &with_hello(&two))).contains("one source"));
    // Lines on which the rest never comes stay open, and the device goes on.
    let mut half: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for (number, stream) in half.iter_mut().enumerate() {
        stream.write_all(&with_hello(&[3, 0, 0, 0xff, 0])[..number * 2 + 1]).unwrap();
    }
    for sequence in 2..20 {
        let batch = readings(1, sequence, &table, vec![insert(sequence as i64, Value::Real(1.0))]);
        deliver(&mut device, &batch).unwrap_or_else(|error| {
            // A connection of the test has claimed the device's source.
            assert!(error.is_transient(), "{error}");
            deliver(&mut device, &batch).unwrap()
        });
    }
    assert_eq!(count(&server, "true"), 19);
    let all = said.0.lock().unwrap().join("\n");
    assert!(!all.contains(TOKEN) && !all.contains("another-token"), "{all}");
    // The end does not wait for them.
    collector.stop();
    drop(half);
}

#[test]
fn a_batch_larger_than_memory_may_be_comes_in_parts() {
    let Some(Running { server, said, collector: _collector, address }) = Running::start() else { return };
    let table = table(READING);
    let mut device = device_of(&address);
    let rows = |from: i64, to: i64| (from..to).map(|at| insert(at, Value::Real(at as f64 / 10.0))).collect();
    deliver(&mut device, &readings(1, 1, &table, rows(0, 150_000))).unwrap();
    deliver(&mut device, &readings(1, 2, &table, rows(150_000, 150_060))).unwrap();
    deliver(&mut device, &readings(1, 3, &table, rows(200_000, 300_000))).unwrap();
    assert_eq!(count(&server, "_rowid = at AND celsius = at / 10.0::float8"), 250_060);
    // A new start has all rows, and replaces them.
    deliver(&mut device_of(&address), &Batch { is_whole: true, ..readings(1, 4, &table, rows(5, 70_005)) })
        .unwrap();
    assert_eq!(count(&server, "true"), 70_000);
    assert_eq!(said.0.lock().unwrap().len(), 0, "{:?}", said.0);
}

#[test]
fn a_collector_that_is_stopped_answers_what_it_has_taken() {
    let Some(server) = Server::start() else { return };
    let said = Said::default();
    let first = collect::Server::start(settings(&server, &said)).unwrap();
    note_positions(&server);
    let address = Mutex::new(first.address().to_string());
    let table = table(READING);
    let _last = std::thread::scope(|scope| {
        for source in 1..5 {
            let (address, table) = (&address, &table);
            scope.spawn(move || {
                let mut device = device_of(&address.lock().unwrap());
                for sequence in 1..200 {
                    let batch =
                        readings(source, sequence, table, vec![insert(sequence as i64, Value::Real(1.0))]);
                    while let Err(error) = deliver(&mut device, &batch) {
                        assert!(error.is_transient(), "{error}");
                        std::thread::sleep(Duration::from_millis(20));
                        device = device_of(&address.lock().unwrap());
                    }
                }
            });
        }
        let mut collector = first;
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(100));
            collector.stop();
            collector = collect::Server::start(settings(&server, &said)).unwrap();
            *address.lock().unwrap() = collector.address().to_string();
        }
        // It serves until the devices are done.
        collector
    });
    assert_eq!(count(&server, "true"), 4 * 199);
    for source in 1..5 {
        check_positions(&server, &Origin { source: [source; 16], epoch: 1 }, 199);
    }
}

#[test]
fn a_collector_says_why_it_does_not_start() {
    let Some(server) = Server::start() else { return };
    let said = Said::default();
    let refused = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings(&server, &said);
        change(&mut settings);
        collect::Server::start(settings).err().unwrap().to_string()
    };
    assert!(refused(&|settings| settings.token = Some("short".into())).contains("16"));
    assert!(refused(&|settings| settings.url = "postgres://u:geheim@[bad/x".into()).contains("URL"));
    let url = format!("postgres://litefoot@127.0.0.1:{}/none", server.port);
    assert!(refused(&|settings| settings.url.clone_from(&url)).contains("none"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(refused(&|settings| settings.listen = taken.local_addr().unwrap()).contains("listen"));
    // A database that is away is waited for.
    let mut settings = settings(&server, &said);
    settings.url = "postgres://litefoot@127.0.0.1:1/x".into();
    let collector = collect::Server::start(settings).unwrap();
    let mut device = device_of(&collector.address().to_string());
    let error = device.position(&Origin { source: [1; 16], epoch: 1 }).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("cannot be reached"), "{error}");
}
