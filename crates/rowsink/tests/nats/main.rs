//! Batches in a real stream of JetStream: each arrives once and whole, over a line that breaks, at a server that is killed.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../rowdiff/tests/histories/history.rs"]
mod history;
#[allow(dead_code)]
#[path = "../../../rowdiff/tests/histories/image.rs"]
mod image;
#[path = "../postgres/proxy.rs"]
mod proxy;
mod server;

use history::History;
use image::Image;
use litefoot_rowdiff::{Changed, Collect, Empty, Map, Pages};
use litefoot_rowsink::nats::{Credentials, Nats};
use litefoot_rowsink::{Batch, Destination, Error, Origin, Position, deliver, lines};
use proxy::Proxy;
use server::Server;
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
        let origin = Origin { source: [seed as u8; 16], epoch: 1 };
        Device { history: History::new(seed, true), origin, map: Map::default(), image: None, sequence: 0 }
    }

    fn batch(&mut self) -> Batch {
        self.history.advance();
        // Now and then more than one message takes.
        if self.sequence.is_multiple_of(4) {
            let bulk = "CREATE TABLE IF NOT EXISTS bulk(a, b); DELETE FROM bulk; \
                        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300) \
                        INSERT INTO bulk SELECT i, randomblob(300) FROM n";
            self.history.database.execute_batch(bulk).unwrap();
        }
        let after = Image::of(&mut self.history.database);
        let changed = self.image.as_ref().map(|before| before.changed(&after));
        let before: &dyn Pages = self.image.as_ref().map_or(&Empty, |before| before);
        let changed = changed.as_ref().map_or(Changed::All, |changed| Changed::Pages(changed));
        let mut found = Collect::default();
        let step = self.map.diff(before, &after, &changed, &mut found).unwrap();
        self.map.apply(step);
        let is_whole = self.image.replace(after).is_none();
        self.sequence += 1;
        let token = self.history.random.u64(..);
        Batch {
            origin: self.origin,
            sequence: self.sequence,
            token,
            time_ms: 0,
            is_whole,
            history: None,
            tables: found.tables,
        }
    }
}

fn open(server: &Server, port: u16) -> Nats {
    let opened = Nats::new(&server.url(port), Credentials::default()).unwrap();
    opened.with_answer_within(Duration::from_secs(1))
}

/// The batches of a source as a reader has them, and how many messages there are.
fn read(server: &Server, origin: &Origin) -> (Vec<(String, Vec<u8>)>, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let subject = format!("rows.{}", origin.source_text());
    runtime.block_on(async {
        let client = async_nats::connect(format!("127.0.0.1:{}", server.port)).await.unwrap();
        let stream = async_nats::jetstream::new(client).get_stream("rows").await.unwrap();
        let last = stream.cached_info().state.last_sequence;
        let (mut batches, mut parts) = (Vec::new(), Vec::new());
        for sequence in 1..=last {
            let message = stream.get_raw_message(sequence).await.unwrap();
            if message.subject.as_str() != subject {
                continue;
            }
            let header = |name: &str| message.headers.get(name).unwrap().as_str().to_owned();
            let (batch, part) = (header("Litefoot-Batch"), header("Litefoot-Part"));
            let (number, count): (usize, usize) = part
                .split_once('/')
                .map(|(number, count)| (number.parse().unwrap(), count.parse().unwrap()))
                .unwrap();
            if number == 1 {
                parts.clear();
            }
            assert_eq!(parts.len() + 1, number, "{batch}: parts follow one another");
            assert!(parts.iter().all(|(of, _)| *of == batch), "{batch}: parts of one batch");
            parts.push((batch.clone(), message.payload.to_vec()));
            if number == count {
                batches.push((batch, parts.drain(..).flat_map(|(_, bytes)| bytes).collect()));
            }
        }
        (batches, last)
    })
}

fn text(at: Position) -> String {
    format!("{}.{}.{:016x}", at.epoch, at.sequence, at.token)
}

#[test]
fn batches_arrive_once_and_copies_are_told_apart() {
    let Some(server) = Server::start("max_payload: 66000") else { return };
    let mut batches = 0;
    for seed in 1..5 {
        let (mut destination, mut device) = (open(&server, server.port), Device::new(seed));
        let mut sent = Vec::new();
        assert_eq!(destination.position(&device.origin).unwrap(), None);
        for _ in 0..10 {
            let batch = device.batch();
            assert!(deliver(&mut destination, &batch).unwrap().bytes > 0);
            // Once more: it has arrived.
            assert_eq!(deliver(&mut destination, &batch).unwrap().bytes, 0);
            sent.push((text(batch.position()), lines::encode(&batch, &lines::Format::Changes)));
        }
        let stands = destination.position(&device.origin).unwrap().unwrap();
        assert_eq!(text(stands), sent.last().unwrap().0);
        for sequence in [7, 10, 12] {
            let copy = Batch { sequence, ..device.batch() };
            assert!(matches!(deliver(&mut destination, &copy), Err(Error::Fenced { .. })), "{sequence}");
        }
        let (found, messages) = read(&server, &device.origin);
        assert!(found == sent, "seed {seed}");
        batches = messages;
    }
    assert!(batches > 40, "no batch was cut into parts");
}

#[test]
fn each_batch_arrives_once_over_a_line_that_breaks_at_a_server_that_is_killed() {
    let Some(mut server) = Server::start("max_payload: 66000") else { return };
    let proxy = Proxy::start(server.port, 12);
    let mut destination = open(&server, proxy.port);
    let mut device = Device::new(3);
    let mut random = fastrand::Rng::with_seed(5);
    let (mut sent, mut retries, mut deaths) = (Vec::new(), 0, 0);
    for number in 0..40 {
        let mut batch = device.batch();
        for attempt in 0.. {
            // The line is good in the end.
            proxy.set_bad(attempt < 6);
            match deliver(&mut destination, &batch) {
                Ok(_) => break,
                Err(error) => assert!(error.is_transient(), "batch {number}: {error}"),
            }
            retries += 1;
            if random.u8(..2) == 0 {
                // The shipper died. A new one asks where the stream stands, and has another token.
                destination = open(&server, proxy.port);
                proxy.set_bad(false);
                if destination.position(&batch.origin).unwrap() == Some(batch.position()) {
                    break;
                }
                batch.token = random.u64(..);
                deaths += 1;
            }
        }
        sent.push((text(batch.position()), lines::encode(&batch, &lines::Format::Changes)));
        if number % 15 == 7 {
            server.kill();
        }
    }
    let (found, messages) = read(&server, &device.origin);
    assert!(messages > 60, "{messages}: no batch was cut into parts");
    assert_eq!(found.len(), sent.len());
    assert!(found == sent, "a batch is there twice, or is another one");
    assert!(
        proxy.faults() > 8 && retries > 8 && deaths > 0,
        "{} faults, {retries} retries, {deaths} deaths",
        proxy.faults()
    );
}

#[test]
fn refusals_say_why_without_secrets() {
    for url in ["nats://", "nats://host/a/b", "nats://host/a.b", "host"] {
        assert!(Nats::new(url, Credentials::default()).is_err(), "{url}");
    }
    let origin = Origin { source: [1; 16], epoch: 1 };
    let ask = |url: &str, token: &str| {
        let credentials = Credentials { token: Some(token.to_owned()), ..Credentials::default() };
        Nats::new(url, credentials).unwrap().position(&origin)
    };
    let error = ask("nats://127.0.0.1:1/rows", "hush").unwrap_err();
    assert!(error.is_transient() && !error.to_string().contains("hush"), "{error}");
    let Some(server) = Server::start("authorization { token: right }") else { return };
    let error = ask(&server.url(server.port), "hush").unwrap_err();
    assert!(!error.is_transient() && error.to_string().contains("NATS_TOKEN"), "{error}");
    assert!(!error.to_string().contains("hush"), "{error}");
    assert_eq!(ask(&server.url(server.port), "right").unwrap(), None);
}
