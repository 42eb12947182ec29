//! The history of a source in PostgreSQL: each change of each transaction, whichever way it comes.

use super::collect::Running;
use litefoot_rowdiff::{Change, Row, Table, TableChanges, Value};
use litefoot_rowsink::postgres::Postgres;
use litefoot_rowsink::{Batch, Destination, History, Origin, deliver};

/// Batches of a table with rowids and of one without.
fn batches(source: u8) -> Vec<Batch> {
    let by_rowid = Table::from_sql("r".into(), 0, "CREATE TABLE r(id INTEGER PRIMARY KEY, v)".into());
    let by_key = "CREATE TABLE k(name TEXT PRIMARY KEY, v) WITHOUT ROWID";
    let by_key = Table::from_sql("k".into(), 0, by_key.into());
    let row = |id: i64, v: &str| Row { rowid: Some(id), values: vec![Value::Integer(id), Value::from(v)] };
    let keyed = |name: &str, v: i64| Row { rowid: None, values: vec![Value::from(name), Value::Integer(v)] };
    let of = |table: &Table, is_new: bool, changes: Vec<Change>| TableChanges {
        before: (!is_new).then(|| table.clone()),
        after: Some(table.clone()),
        forgotten: Vec::new(),
        changes,
    };
    let mut forgotten = of(&by_rowid, false, vec![Change::Insert(row(2, "again"))]);
    forgotten.forgotten = vec![(Some(1), None)];
    let tables = [
        vec![of(&by_rowid, true, vec![Change::Insert(row(1, "before"))])],
        vec![
            of(&by_rowid, false, vec![Change::Insert(row(2, "a NUL: \0"))]),
            of(&by_key, true, vec![Change::Insert(keyed("x", 1))]),
        ],
        vec![of(&by_rowid, false, vec![Change::Update { before: row(1, "before"), after: row(1, "1") }])],
        vec![of(&by_rowid, false, vec![Change::Update { before: row(1, "1"), after: row(1, "2") }])],
        vec![
            of(&by_rowid, false, vec![Change::Delete(row(1, "2"))]),
            of(&by_key, false, vec![Change::Delete(keyed("x", 1))]),
        ],
        vec![forgotten],
    ];
    let batch = |(tables, sequence): (Vec<TableChanges>, u64)| Batch {
        origin: Origin { source: [source; 16], epoch: 1 },
        sequence,
        token: sequence,
        time_ms: 1_700_000_000_000 + sequence,
        is_whole: sequence == 1,
        history: Some(if sequence == 6 { History::Several } else { History::Transaction }),
        tables,
    };
    tables.into_iter().zip(1..).map(batch).collect()
}

#[test]
fn each_change_of_a_history_stays() {
    let Some(Running { server, collector: _collector, address, .. }) = Running::start() else { return };
    let mut direct = Postgres::new(&server.url(server.port), "public").unwrap();
    let mut collected = super::collect::device_of(&address);
    let ways: [&mut dyn Destination; 2] = [&mut direct, &mut collected];
    for (source, destination) in (1..).zip(ways) {
        for batch in batches(source) {
            deliver(destination, &batch).unwrap();
            // Once more: it has arrived.
            deliver(destination, &batch).unwrap();
        }
        let source = Origin { source: [source; 16], epoch: 1 }.source_text();
        let found: Vec<String> = server.ask(async |client| {
            let select = "SELECT format('%s.%s %s %s %s %s %s %s', seq, number, extract(epoch FROM at) * 1000 - 1700000000000, transactions, name, op, rowid, row)
                          FROM litefoot.history WHERE source = $1::text::uuid AND epoch = 1 ORDER BY seq, number";
            Ok(client.query(select, &[&source]).await?.iter().map(|row| row.get(0)).collect())
        });
        let found: Vec<String> =
            found.iter().map(|line| line.replace(".000000", "").replace(".0000", "")).collect();
        assert_eq!(
            found,
            [
                "1.1 1 one  whole  ",
                "2.1 2 one r insert 2 {\"id\":2,\"v\":\"a NUL: \\u0000\"}",
                "2.2 2 one k define  {\"sql\":\"CREATE TABLE k(name TEXT PRIMARY KEY, v) WITHOUT ROWID\"}",
                "2.3 2 one k insert  {\"name\":\"x\",\"v\":1}",
                "3.1 3 one r update 1 {\"id\":1,\"v\":\"1\"}",
                "4.1 4 one r update 1 {\"id\":1,\"v\":\"2\"}",
                "5.1 5 one r delete 1 ",
                "5.2 5 one k delete  {\"name\":\"x\"}",
                "6.1 6 several r forget  {\"above\":1,\"through\":null}",
                "6.2 6 several r insert 2 {\"id\":2,\"v\":\"again\"}",
            ]
        );
        let rows: Vec<String> = server.ask(async |client| {
            let select = "SELECT format('%s %s', id, v) FROM r WHERE _source = $1::text::uuid ORDER BY id";
            Ok(client.query(select, &[&source]).await?.iter().map(|row| row.get(0)).collect())
        });
        assert_eq!(rows, ["2 again"], "the table has the newest rows");
    }
}
