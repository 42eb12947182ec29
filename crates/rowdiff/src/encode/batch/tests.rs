use super::*;
use crate::Row;
use crate::schema::Table;
use crate::value::Value;
use crate::visitor::{Change, TableChanges};

const ENVELOPE: Envelope =
    Envelope { source: [7; 16], epoch: 1, first: 5, last: 14, time_ms: 1_700_000_000_000 };

fn any(random: &mut fastrand::Rng) -> Value {
    match random.u8(..8) {
        0 => Value::Null,
        1 => Value::Integer(random.i64(..)),
        2 => Value::Integer(random.i64(-3..3)),
        3 => Value::Real(random.i32(..) as f64 / 100.0),
        4 => Value::Real(random.f64() - 0.5),
        5 => Value::Real(-0.0),
        6 => Value::Text((0..random.u8(..9)).map(|_| random.u8(..)).collect()),
        _ => Value::Blob((0..random.u8(..9)).map(|_| random.u8(..)).collect()),
    }
}

fn table(number: usize, random: &mut fastrand::Rng) -> Table {
    let columns = [
        "(i INTEGER PRIMARY KEY, a, b)",
        "(a, b, c)",
        "(a, b, c, d, e, f, g, h, i, PRIMARY KEY(b, a)) WITHOUT ROWID",
        "(k TEXT PRIMARY KEY, v)",
    ];
    let number = format!("t{number}");
    let sql = format!("CREATE TABLE {number}{}", columns[random.usize(..columns.len())]);
    Table::from_sql(number, 2, sql)
}

/// Changes as they can be, with their decoded form.
fn changes(table: &Table, random: &mut fastrand::Rng) -> (Vec<Change>, Vec<RowChange>) {
    let row = |random: &mut fastrand::Rng| {
        let rowid = table.has_rowid().then(|| random.i64(0..50));
        let mut values: Vec<Value> = table.columns.iter().map(|_| any(random)).collect();
        if let Some(alias) = table.alias() {
            values[alias] = Value::Integer(rowid.unwrap());
        }
        Row { rowid, values }
    };
    let key =
        |row: &Row| table.sent_key().iter().map(|column| row.values[*column].clone()).collect::<Vec<_>>();
    let one = |random: &mut fastrand::Rng| {
        let before = row(random);
        match random.u8(..3) {
            0 => {
                let (rowid, values) = (before.rowid, before.values.clone());
                (Change::Insert(before), RowChange::Insert { rowid, values })
            }
            1 => {
                let (rowid, key) = (before.rowid, key(&before));
                (Change::Delete(before), RowChange::Delete { rowid, key })
            }
            _ => {
                let mut after = before.clone();
                let column = random.usize(..after.values.len());
                if table.alias() != Some(column) {
                    after.values[column] = any(random);
                }
                let is_new = |at: &usize| before.values[*at] != after.values[*at];
                let changed =
                    (0..after.values.len()).filter(is_new).map(|at| (at, after.values[at].clone())).collect();
                let told = RowChange::Update { rowid: after.rowid, key: key(&before), changed };
                (Change::Update { before, after }, told)
            }
        }
    };
    (0..random.u8(1..30)).map(|_| one(random)).unzip()
}

#[test]
fn batches_come_back() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..200 {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let tables: Vec<Table> = (0..3).map(|number| table(number, &mut random)).collect();
        for number in 0..4 {
            let mut told = Vec::new();
            let mut expected = Vec::new();
            for table in &tables {
                if random.bool() {
                    continue;
                }
                let (changes, rows) = changes(table, &mut random);
                let mut bound = || [None, Some(random.i64(..))][random.usize(..2)];
                let ranges: Vec<_> = (0..number % 3).map(|_| (bound(), bound())).collect();
                told.push(TableChanges {
                    before: Some(table.clone()),
                    after: Some(table.clone()),
                    forgotten: ranges.clone(),
                    changes,
                });
                expected.push((table.name.clone(), ranges.clone(), rows));
            }
            let bytes = encoder.batch(&ENVELOPE, &told).unwrap();
            let batch = decoder.decode(&bytes).unwrap();
            assert_eq!(batch.envelope, ENVELOPE);
            let name = |number: u64| decoder.table(number).unwrap().name.clone();
            let found: Vec<_> =
                batch.tables.into_iter().map(|of| (name(of.table), of.forgotten, of.changes)).collect();
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn definitions_are_sent_once_and_when_they_change() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let older = Table::from_sql("t".into(), 2, "CREATE TABLE t(a)".into());
    let newer = Table::from_sql("u".into(), 2, "CREATE TABLE u(a, b)".into());
    let insert = |values: usize| Change::Insert(Row { rowid: Some(1), values: vec![Value::Null; values] });
    let mut batch = |before: Option<&Table>, after: Option<&Table>, changes: Vec<Change>| {
        let table =
            TableChanges { before: before.cloned(), after: after.cloned(), forgotten: vec![], changes };
        encoder.batch(&ENVELOPE, &[table]).unwrap()
    };
    let batches = [
        batch(None, Some(&older), vec![insert(1)]),
        batch(Some(&older), Some(&older), vec![insert(1)]),
        batch(Some(&older), Some(&newer), vec![insert(2)]),
        batch(Some(&newer), None, vec![]),
    ];
    let read: Vec<Batch> = batches.iter().map(|bytes| decoder.decode(bytes).unwrap()).collect();
    let definitions: Vec<_> = read.iter().map(|batch| batch.definitions.len()).collect();
    assert_eq!(definitions, [1, 0, 1, 1]);
    assert_eq!(read[2].tables[0].table, read[0].tables[0].table);
    assert_eq!(read[3].definitions[0].2, None);
    assert_eq!(Decoder::default().decode(&batches[1]), Err(DecodeError::Undefined(0)));
}

#[test]
fn changed_bytes_are_no_batch() {
    let mut random = fastrand::Rng::with_seed(9);
    let table = table(0, &mut random);
    let (changes, _) = changes(&table, &mut random);
    let told = TableChanges { before: None, after: Some(table), forgotten: vec![], changes };
    let bytes = Encoder::default().batch(&ENVELOPE, &[told]).unwrap();
    for cut in 0..bytes.len() {
        assert!(Decoder::default().decode(&bytes[..cut]).is_err(), "{cut}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(Decoder::default().decode(&changed).is_err(), "{at}");
    }
    // And with a checksum that fits: any answer but a panic.
    for _ in 0..20_000 {
        let mut changed = bytes.clone();
        let end = changed.len() - CRC_BYTES;
        for _ in 0..random.u8(1..4) {
            let at = random.usize(5..end);
            changed[at] = random.u8(..);
        }
        let crc = crc32c::crc32c(&changed[..end]).to_le_bytes();
        changed[end..].copy_from_slice(&crc);
        let _ = Decoder::default().decode(&changed);
    }
}

#[test]
fn numbers_with_signs_become_small_ones() {
    for (number, expected) in
        [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)]
    {
        assert_eq!((zigzag(number), unzigzag(expected)), (expected, number));
    }
}
