//! Lines of JSON: to standard output, or a file for each batch in a directory.
//!
//! ```text
//! {"source":"0f…","epoch":1,"batch":7,"token":"00000000000000a1","time_ms":1700000000000,"whole":false,"changes":1}
//! {"table":"t","op":"update","rowid":7,"before":{…},"after":{…}}
//! ```
//! The first line of a batch says how many lines of changes follow. In a history it has `"transactions":"one"` for a batch that is one, committed at
//! `time_ms`, and `"several"` for one that may be several. A table that is new, altered or dropped has a line
//! `{"table":…,"op":"define","sql":…}` before its rows, with null for a dropped one. A line
//! `{"table":…,"op":"forget","above":7,"through":90}` stands for rows that are gone with rowids from 8 to 90; null is no bound.
//! With [`Format::Changeset`] the head has `"changeset":"…"`, and only what a changeset does not tell has lines.
//!
//! # Exactly once
//! A file is written beside its place, synced, and linked to its name. So a batch is there whole or not at all. The names are the position, and a lock on
//! `.<source>.lock` keeps two writers from reading it at the same time. Standard output has no memory; its reader finds a batch that comes again by its number.

use crate::{Applied, Batch, Destination, Error, Origin, Position, Result};
use litefoot_rowdiff::TableChanges;
use litefoot_rowdiff::encode::{changeset, json};
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Most bytes of a changeset.
const MOST_CHANGESET: usize = 512 << 10;

/// What lines are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A head, and a line for each change.
    #[default]
    Changes,
    /// The same, but for changes that SQLite's changeset has: it stands in the head, as Base64.
    Changeset,
    /// An event of Debezium for each change, of a database of this name. There is no head, and no line for ranges of rows: such a batch has all rows.
    Debezium(String),
}

impl Format {
    /// True where lines tell ranges of rows.
    pub(crate) fn takes_ranges(&self) -> bool {
        !matches!(self, Format::Debezium(_))
    }
}

/// The bytes of a batch.
pub fn encode(batch: &Batch, format: &Format) -> Vec<u8> {
    match format {
        Format::Changes => changes(batch, batch.tables.iter(), &[]),
        Format::Changeset => {
            let (told, others): (Vec<_>, Vec<_>) =
                batch.tables.iter().partition(|table| changeset::tells_all(table));
            match changeset::encode(told) {
                // A line has to fit into a message.
                large if large.len() > MOST_CHANGESET => changes(batch, batch.tables.iter(), &[]),
                bytes => changes(batch, others.into_iter(), &bytes),
            }
        }
        Format::Debezium(database) => events(batch, database),
    }
}

fn events(batch: &Batch, database: &str) -> Vec<u8> {
    let name = batch.origin.source_text();
    let source = json::Source {
        name: &name,
        database,
        sequence: batch.sequence,
        time_ms: batch.time_ms,
        is_snapshot: batch.is_whole,
    };
    let mut lines = Vec::new();
    for table in &batch.tables {
        let pair = table.pair();
        if pair.is_altered() {
            lines.push(json::debezium_defined(pair, &source));
        }
        // What the reader has of it is from before.
        if batch.is_whole || table.after.is_none() {
            lines.push(json::debezium_truncated(pair, &source));
        }
        lines.extend(table.changes.iter().map(|change| json::debezium(pair, change, &source)));
    }
    lines.into_iter().flat_map(|line| (line + "\n").into_bytes()).collect()
}

/// A head with a changeset, and lines for the changes of these tables.
fn changes<'a>(batch: &Batch, tables: impl Iterator<Item = &'a TableChanges>, changeset: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    for table in tables {
        let pair = table.pair();
        if pair.is_altered() {
            let sql = table.after.as_ref().map(|after| &after.sql);
            lines.push(json!({ "table": pair.table().name, "op": "define", "sql": sql }).to_string());
        }
        for (above, through) in &table.forgotten {
            let line =
                json!({ "table": pair.table().name, "op": "forget", "above": above, "through": through });
            lines.push(line.to_string());
        }
        lines.extend(table.changes.iter().map(|change| json::line(pair, change)));
    }
    let mut head = json!({
        "source": batch.origin.source_text(),
        "epoch": batch.origin.epoch,
        "batch": batch.sequence,
        "token": format!("{:016x}", batch.token),
        "time_ms": batch.time_ms,
        "whole": batch.is_whole,
        "changes": lines.len(),
    });
    if let Some(history) = batch.history {
        head["transactions"] = history.name().into();
    }
    if !changeset.is_empty() {
        head["changeset"] = json::base64(changeset).into();
    }
    let mut text = head.to_string();
    for line in lines {
        text.push('\n');
        text.push_str(&line);
    }
    text.push('\n');
    text.into_bytes()
}

/// Standard output, or another stream.
pub struct Stream<W> {
    out: W,
    format: Format,
    position: Option<Position>,
}

impl<W: Write + Send> Stream<W> {
    /// A stream that nothing was written to.
    pub fn new(out: W, format: Format) -> Stream<W> {
        Stream { out, format, position: None }
    }
}

impl<W: Write + Send> Destination for Stream<W> {
    fn place(&self) -> &str {
        "standard output"
    }

    fn takes_ranges(&self) -> bool {
        self.format.takes_ranges()
    }

    fn position(&mut self, _: &Origin) -> Result<Option<Position>> {
        Ok(self.position)
    }

    fn apply(&mut self, batch: &Batch) -> Result<Applied> {
        let bytes = encode(batch, &self.format);
        let written = self.out.write_all(&bytes).and_then(|()| self.out.flush());
        // A reader that has gone does not come back.
        written.map_err(|error| Error::Refused { place: self.place().to_owned(), why: error.to_string() })?;
        self.position = Some(batch.position());
        Ok(Applied::Done { bytes: bytes.len() as u64, parked: Vec::new() })
    }
}

/// A directory.
pub struct Directory {
    path: PathBuf,
    place: String,
    format: Format,
}

impl Directory {
    /// A directory, which is made where it is missing.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(path: &Path, format: Format) -> Result<Directory> {
        fs::create_dir_all(path).map_err(|error| Error::local(path, error))?;
        Ok(Directory { path: path.to_owned(), place: path.display().to_string(), format })
    }

    fn of(&self, origin: &Origin) -> PathBuf {
        self.path.join(origin.source_text())
    }

    /// Waits for the right to be the one writer of a source, until the file is dropped.
    fn lock(&self, origin: &Origin) -> Result<File> {
        let path = self.path.join(format!(".{}.lock", origin.source_text()));
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let locked = open.and_then(|file| file.lock().map(|()| file));
        locked.map_err(|error| Error::local(&path, error))
    }
}

/// The name of a batch; names are in the order of batches.
fn name(position: Position) -> String {
    format!("{:010}-{:020}-{:016x}.jsonl", position.epoch, position.sequence, position.token)
}

fn parse(name: &str) -> Option<Position> {
    let mut parts = name.strip_suffix(".jsonl")?.split('-');
    let mut part = || parts.next();
    let (epoch, sequence, token) = (part()?, part()?, part()?);
    Some(Position {
        epoch: epoch.parse().ok()?,
        sequence: sequence.parse().ok()?,
        token: u64::from_str_radix(token, 16).ok()?,
    })
}

impl Destination for Directory {
    fn place(&self) -> &str {
        &self.place
    }

    fn takes_ranges(&self) -> bool {
        self.format.takes_ranges()
    }

    fn position(&mut self, origin: &Origin) -> Result<Option<Position>> {
        let directory = self.of(origin);
        let of = |error: io::Error| Error::local(&directory, error);
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries.map_err(of)?,
        };
        let mut last: Option<Position> = None;
        for entry in entries {
            if let Some(found) = entry.map_err(of)?.file_name().to_str().and_then(parse)
                && last.is_none_or(|last| (last.epoch, last.sequence) < (found.epoch, found.sequence))
            {
                last = Some(found);
            }
        }
        Ok(last)
    }

    fn apply(&mut self, batch: &Batch) -> Result<Applied> {
        let _lock = self.lock(&batch.origin)?;
        let at = self.position(&batch.origin)?;
        let next = match at {
            Some(at) if at.epoch == batch.origin.epoch => at.sequence + 1,
            Some(at) if at.epoch > batch.origin.epoch => return Ok(Applied::NotNext(Some(at))),
            _ => 1,
        };
        if next != batch.sequence {
            return Ok(Applied::NotNext(at));
        }
        let directory = self.of(&batch.origin);
        let of = |error: io::Error| Error::local(&directory, error);
        fs::create_dir_all(&directory).map_err(of)?;
        let bytes = encode(batch, &self.format);
        let mut file = tempfile::NamedTempFile::new_in(&directory).map_err(of)?;
        file.write_all(&bytes).and_then(|()| file.as_file().sync_all()).map_err(of)?;
        match file.persist_noclobber(directory.join(name(batch.position()))) {
            Ok(_) => (),
            Err(error) => return Err(of(error.error)),
        }
        File::open(&directory).and_then(|directory| directory.sync_all()).map_err(of)?;
        Ok(Applied::Done { bytes: bytes.len() as u64, parked: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{History, deliver};
    use litefoot_rowdiff::{Change, Row, Table, TableChanges, Value};

    fn batch(epoch: u64, sequence: u64) -> Batch {
        let table = Table::from_sql("t".into(), 2, "CREATE TABLE t(a)".into());
        let row = Row { rowid: Some(1), values: vec![Value::Integer(sequence as i64)] };
        let tables = vec![TableChanges {
            before: None,
            after: Some(table),
            forgotten: vec![],
            changes: vec![Change::Insert(row)],
        }];
        let origin = Origin { source: [0xab; 16], epoch };
        Batch {
            origin,
            sequence,
            token: 10 * epoch + sequence,
            time_ms: 5,
            is_whole: sequence == 1,
            history: None,
            tables,
        }
    }

    #[test]
    fn a_batch_is_a_line_and_its_changes() {
        let lines = String::from_utf8(encode(&batch(1, 1), &Format::Changes)).unwrap();
        assert_eq!(
            lines,
            "{\"source\":\"abababab-abab-abab-abab-abababababab\",\"epoch\":1,\"batch\":1,\"token\":\"000000000000000b\",\"time_ms\":5,\"whole\":true,\"changes\":2}\n\
             {\"table\":\"t\",\"op\":\"define\",\"sql\":\"CREATE TABLE t(a)\"}\n\
             {\"table\":\"t\",\"op\":\"insert\",\"rowid\":1,\"after\":{\"a\":1}}\n"
        );
    }

    #[test]
    fn a_batch_is_events_of_debezium() {
        let mut dropped = batch(1, 2);
        dropped.tables[0].before = dropped.tables[0].after.take();
        dropped.tables[0].changes.clear();
        let events: Vec<serde_json::Value> = [batch(1, 1), batch(1, 2), dropped]
            .iter()
            .flat_map(|batch| {
                encode(batch, &Format::Debezium("app".into()))
                    .split_inclusive(|byte| *byte == b'\n')
                    .map(|line| serde_json::from_slice(line).unwrap())
                    .collect::<Vec<_>>()
            })
            .collect();
        let ops: Vec<&str> = events.iter().map(|event| event["op"].as_str().unwrap()).collect();
        // All rows; a table that is new, and its row; a table that has gone.
        assert_eq!(ops, ["m", "t", "r", "m", "c", "m", "t"]);
        assert!(events.iter().all(|event| event["source"]["db"] == "app" && event["source"]["table"] == "t"));
        assert_eq!((&events[4]["after"]["a"], &events[4]["source"]["sequence"]), (&2.into(), &"2".into()));
        assert_eq!(events[5]["message"]["content"], serde_json::Value::Null);
    }

    #[test]
    fn a_changeset_has_what_it_can_tell_and_lines_have_the_rest() {
        let of = |sql: &str, key: i64| {
            let table = Table::from_sql("t".into(), 2, sql.into());
            let row = Row { rowid: Some(key), values: vec![Value::Integer(key), Value::Null] };
            let (before, after) = (Some(table.clone()), Some(table));
            TableChanges { before, after, forgotten: vec![], changes: vec![Change::Insert(row)] }
        };
        let (keyed, plain) =
            (of("CREATE TABLE t(a INTEGER PRIMARY KEY, b)", 7), of("CREATE TABLE t(a, b)", 8));
        let null_key = of("CREATE TABLE t(a, b PRIMARY KEY)", 9);
        let tables = vec![keyed.clone(), plain, null_key];
        let lines = String::from_utf8(encode(&Batch { tables, ..batch(1, 2) }, &Format::Changeset)).unwrap();
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["changeset"], json::base64(&changeset::encode([&keyed])));
        let rowids: Vec<_> = lines[1..].iter().map(|line| line["rowid"].as_i64().unwrap()).collect();
        assert_eq!((lines[0]["changes"].as_u64(), rowids), (Some(2), vec![8, 9]));
        // A new table is none that a changeset has, and one that is too large has lines.
        let new = String::from_utf8(encode(&batch(1, 1), &Format::Changeset)).unwrap();
        assert!(!new.contains("changeset") && new.lines().count() == 3);
        let mut large = keyed;
        let Change::Insert(row) = &mut large.changes[0] else { panic!() };
        row.values[1] = Value::Blob(vec![0; MOST_CHANGESET]);
        let large = encode(&Batch { tables: vec![large], ..batch(1, 2) }, &Format::Changeset);
        assert!(!String::from_utf8(large).unwrap().contains("changeset"));
    }

    #[test]
    fn a_batch_of_a_history_says_what_it_is() {
        for (history, name) in [(History::Transaction, "one"), (History::Several, "several")] {
            let lines =
                String::from_utf8(encode(&Batch { history: Some(history), ..batch(1, 2) }, &Format::Changes))
                    .unwrap();
            assert!(
                lines.lines().next().unwrap().ends_with(&format!(",\"transactions\":\"{name}\"}}")),
                "{lines}"
            );
        }
    }

    #[test]
    fn a_directory_takes_each_batch_once_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let mut one = Directory::open(&directory.path().join("out"), Format::Changes).unwrap();
        let mut two = Directory::open(&directory.path().join("out"), Format::Changes).unwrap();
        let origin = batch(1, 1).origin;
        assert_eq!(one.position(&origin).unwrap(), None);
        assert!(matches!(deliver(&mut one, &batch(1, 2)), Err(Error::Fenced { .. })));
        for sequence in 1..=12 {
            assert!(deliver(&mut one, &batch(1, sequence)).unwrap().bytes > 0);
            // The answer was lost: the same batch again.
            assert_eq!(deliver(&mut two, &batch(1, sequence)).unwrap().bytes, 0);
        }
        assert_eq!(two.position(&origin).unwrap(), Some(batch(1, 12).position()));
        // A copy of the device has sent another batch of that number.
        let copy = Batch { token: 7, ..batch(1, 12) };
        assert!(matches!(deliver(&mut two, &copy), Err(Error::Fenced { .. })));
        for (epoch, sequence) in [(1, 11), (1, 14), (2, 2), (0, 13)] {
            assert!(
                matches!(deliver(&mut two, &batch(epoch, sequence)), Err(Error::Fenced { .. })),
                "{sequence}"
            );
        }
        assert!(deliver(&mut two, &batch(2, 1)).is_ok() && deliver(&mut one, &batch(1, 13)).is_err());
        let files = fs::read_dir(directory.path().join("out").join(origin.source_text())).unwrap();
        assert_eq!(files.count(), 13);
    }

    #[test]
    fn of_two_writers_at_the_same_moment_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        for sequence in 1..=60 {
            let outcomes = std::thread::scope(|scope| {
                let deliver = |token| {
                    let mut writer = Directory::open(directory.path(), Format::Changes).unwrap();
                    deliver(&mut writer, &Batch { token, ..batch(1, sequence) }).is_ok()
                };
                let other = scope.spawn(move || deliver(1));
                [deliver(2), other.join().unwrap()]
            });
            assert_eq!(outcomes.iter().filter(|is_taken| **is_taken).count(), 1, "batch {sequence}");
        }
    }

    #[test]
    fn a_stream_has_all_batches() {
        let mut out = Vec::new();
        let mut stream = Stream::new(&mut out, Format::Changes);
        (1..4).for_each(|sequence| assert!(deliver(&mut stream, &batch(1, sequence)).is_ok()));
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 9);
    }
}
