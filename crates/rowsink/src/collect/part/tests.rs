use super::*;

fn any(random: &mut fastrand::Rng) -> Value {
    match random.u8(..6) {
        0 => Value::Null,
        1 => Value::Integer(random.i64(..)),
        2 => Value::Real(random.i32(..) as f64 / 100.0),
        3 => Value::Real(-0.0),
        4 => Value::from(["", "a", "größe"][random.usize(..3)]),
        _ => Value::Blob((0..random.u8(..9)).map(|_| random.u8(..)).collect()),
    }
}

fn table(name: &str, shape: usize) -> Table {
    let columns = [
        "(i INTEGER PRIMARY KEY, a, b)",
        "(a, b, c)",
        "(a, b, c, PRIMARY KEY(b, a)) WITHOUT ROWID",
        "(k TEXT PRIMARY KEY, v)",
    ];
    Table::from_sql(name.into(), 0, format!("CREATE TABLE {name}{}", columns[shape]))
}

fn changes(table: &Table, count: usize, random: &mut fastrand::Rng) -> Vec<Change> {
    let row = |random: &mut fastrand::Rng, number: usize| {
        let rowid = table.has_rowid().then_some(number as i64 * 3 - 50);
        let mut values: Vec<Value> = table.columns.iter().map(|_| any(random)).collect();
        if let Some((alias, rowid)) = table.alias().zip(rowid) {
            values[alias] = Value::Integer(rowid);
        }
        Row { rowid, values }
    };
    let one = |number| match random.u8(..3) {
        0 => Change::Insert(row(random, number)),
        1 => Change::Delete(row(random, number)),
        _ => {
            let before = row(random, number);
            let mut after = row(random, number);
            for column in table.primary_key().into_iter().filter(|_| !table.has_rowid()) {
                after.values[column] = before.values[column].clone();
            }
            Change::Update { before, after }
        }
    };
    (0..count).map(one).collect()
}

/// What a destination reads of changes: newer rows, and the keys of those that are gone.
fn told(tables: &[TableChanges]) -> Vec<String> {
    let mut told = Vec::new();
    for table in tables {
        let name =
            |table: &Option<Table>| table.as_ref().map(|table| (table.name.clone(), table.sql.clone()));
        told.push(format!("{:?} {:?} {:?}", name(&table.before), name(&table.after), table.forgotten));
        for change in &table.changes {
            told.push(match (change, &table.after) {
                (Change::Insert(row), _) => format!("insert {row:?}"),
                (Change::Update { after, .. }, _) => format!("update {after:?}"),
                (Change::Delete(row), Some(table)) => {
                    let key: Vec<&Value> = table.primary_key().iter().map(|at| &row.values[*at]).collect();
                    format!("delete {:?} {key:?}", row.rowid)
                }
                (Change::Delete(_), None) => unreachable!(),
            });
        }
    }
    told
}

fn batch(sequence: u64, is_whole: bool, tables: Vec<TableChanges>) -> Batch {
    Batch {
        origin: Origin { source: [9; 16], epoch: 4 },
        sequence,
        token: 77 + sequence,
        time_ms: 5,
        is_whole,
        history: [None, Some(History::Transaction), Some(History::Several)][sequence as usize % 3],
        tables,
    }
}

fn same(found: &[TableChanges], expected: &[TableChanges]) {
    let (found, expected) = (told(found), told(expected));
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

/// Sends a batch, and reads what arrives: the number of parts, and the tables.
fn send(sender: &mut Sender, receiver: &mut Receiver, batch: &Batch) -> (usize, Vec<TableChanges>) {
    let parts: Vec<Vec<u8>> = sender.parts("a test", batch).map(Result::unwrap).collect();
    let mut own = Receiver::default();
    let receiver = if parts.len() > 1 { &mut own } else { receiver };
    let mut tables = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let label = label(part).unwrap();
        assert_eq!((label.is_first(), label.is_last()), (number == 0, number + 1 == parts.len()));
        let of = label.batch(Vec::new());
        assert_eq!((of.origin, of.position(), of.is_whole), (batch.origin, batch.position(), batch.is_whole));
        assert_eq!(of.history, batch.history);
        tables.extend(receiver.tables(part).unwrap());
    }
    (parts.len(), tables)
}

#[test]
fn batches_come_back() {
    let mut random = fastrand::Rng::with_seed(21);
    let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
    for sequence in 1..200 {
        if random.u8(..10) == 0 {
            // A connection ends, and with it what both sides know.
            (sender, receiver) = (Sender::default(), Receiver::default());
        }
        let mut tables = Vec::new();
        for shape in 0..4 {
            let after = table(&format!("t{shape}"), shape);
            let before = match random.u8(..30) {
                0 => None,
                1 => Some(table("other", shape)),
                _ => Some(after.clone()),
            };
            let count = random.usize(1..20);
            let forgotten = if random.bool() { vec![(None, Some(random.i64(..)))] } else { vec![] };
            let changes = changes(&after, count, &mut random);
            match random.u8(..30) {
                0 => tables.insert(
                    0,
                    TableChanges { before: Some(after), after: None, forgotten: vec![], changes: vec![] },
                ),
                _ => tables.push(TableChanges { before, after: Some(after), forgotten, changes }),
            }
        }
        let batch = batch(sequence, sequence == 1, tables);
        let (parts, found) = send(&mut sender, &mut receiver, &batch);
        same(&found, &batch.tables);
        assert_eq!(parts, 1);
    }
}

#[test]
fn a_large_batch_is_divided() {
    let mut random = fastrand::Rng::with_seed(22);
    let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
    let long =
        Row { rowid: Some(5), values: vec![Value::Blob(vec![1; PART_BYTES]), Value::Null, Value::Null] };
    for sequence in 1..3 {
        let mut tables = Vec::new();
        for (name, shape, count) in
            [("empty", 0, 0), ("large", 1, 50_000), ("small", 2, 10), ("t", 3, 40_000)]
        {
            let after = table(name, shape);
            let changes = changes(&after, count, &mut random);
            tables.push(TableChanges {
                before: None,
                after: Some(after),
                forgotten: vec![(Some(1), None)],
                changes,
            });
        }
        tables[1].changes.splice(3..3, [Change::Insert(long.clone()), Change::Insert(long.clone())]);
        let batch = batch(sequence, sequence == 1, tables);
        let (parts, mut found) = send(&mut sender, &mut receiver, &batch);
        assert_eq!(parts, 7, "{sequence}");
        // Pieces of one table follow each other; the first one is altered, and has the ranges.
        let mut whole: Vec<TableChanges> = Vec::new();
        for piece in found.drain(..) {
            match whole.last_mut().filter(|last| last.after == piece.after) {
                Some(last) => {
                    assert!(!piece.pair().is_altered() && piece.forgotten.is_empty());
                    last.changes.extend(piece.changes);
                }
                None => whole.push(piece),
            }
        }
        same(&whole, &batch.tables);
        // The next one is read by the connection's own decoder.
        let after = table("small", 2);
        let rows = changes(&after, 3, &mut random);
        let next = TableChanges {
            before: Some(after.clone()),
            after: Some(after),
            forgotten: vec![],
            changes: rows,
        };
        let next = self::batch(sequence + 10, false, vec![next]);
        same(&send(&mut sender, &mut receiver, &next).1, &next.tables);
    }
}

#[test]
fn a_row_beyond_all_bounds_is_refused() {
    let after = table("t", 1);
    let values = vec![
        Value::Blob(fastrand::Rng::with_seed(1).u128(..).to_le_bytes().repeat(1 << 21)),
        Value::Null,
        Value::Null,
    ];
    let changes = vec![Change::Insert(Row { rowid: Some(1), values })];
    let batch =
        batch(1, false, vec![TableChanges { before: None, after: Some(after), forgotten: vec![], changes }]);
    let error = Sender::default().parts("there", &batch).find_map(Result::err).unwrap();
    assert!(!error.is_transient() && error.to_string().contains("larger"), "{error}");
}

#[test]
fn wrong_bytes_are_no_parts() {
    let mut random = fastrand::Rng::with_seed(23);
    let after = table("t", 0);
    let rows = changes(&after, 12, &mut random);
    let batch = batch(
        1,
        true,
        vec![TableChanges { before: None, after: Some(after), forgotten: vec![], changes: rows }],
    );
    let part = Sender::default().parts("a test", &batch).next().unwrap().unwrap();
    for cut in 0..part.len() {
        assert!(label(&part[..cut]).is_err() && Receiver::default().tables(&part[..cut]).is_err(), "{cut}");
    }
    for _ in 0..50_000 {
        let mut changed = part.clone();
        for _ in 0..random.u8(1..4) {
            let at = random.usize(..changed.len());
            changed[at] = random.u8(..);
        }
        // Any answer but a panic; the frame has a checksum for what stands before the rows.
        let _ = label(&changed);
        let _ = Receiver::default().tables(&changed);
    }
    // Rows of a table whose definition was in a part that did not come.
    let mut sender = Sender::default();
    assert_eq!(sender.parts("a test", &batch).count(), 1);
    let next = Batch {
        is_whole: false,
        tables: vec![TableChanges { before: batch.tables[0].after.clone(), ..batch.tables[0].clone() }],
        ..batch
    };
    let part = sender.parts("a test", &next).next().unwrap().unwrap();
    assert!(Receiver::default().tables(&part).unwrap_err().contains("definition"));
}
