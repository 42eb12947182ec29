//! The queries, and what they must answer.

use super::data::Data;
use super::source::Source;
use crate::{Error, Result};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Rows of a range.
const RANGE_ROWS: i64 = 50;
/// Rows of `link` that a join begins with.
const JOIN_ROWS: i64 = 1000;

/// A kind of query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A row by the table's key, each in a transaction of its own.
    PointAuto,
    /// The same, all in one transaction, as are those below.
    Point,
    /// A row by the index.
    Index,
    /// 50 rows by the table's key.
    Range,
    /// The whole table.
    Scan,
    /// A part of it, so that threads share the work.
    ScanPart,
    /// 1000 rows of one table, each with its row of the other.
    Join,
    /// Rows by a range of the index, which does not cover them.
    IndexRange,
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::PointAuto => "point_auto",
            Workload::Point => "point",
            Workload::Index => "index",
            Workload::Range => "range",
            Workload::Scan | Workload::ScanPart => "scan",
            Workload::Join => "join",
            Workload::IndexRange => "index_range",
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Workload::PointAuto | Workload::Point => "SELECT n, body FROM item WHERE id = ?1",
            Workload::Index => "SELECT n, body FROM item WHERE k = ?1",
            Workload::Range => "SELECT n, body FROM item WHERE id BETWEEN ?1 AND ?2",
            Workload::Scan => "SELECT sum(n), count(*) FROM item",
            Workload::ScanPart => "SELECT sum(n), count(*) FROM item WHERE id BETWEEN ?1 AND ?2",
            Workload::Join => {
                "SELECT sum(item.n), sum(link.n) FROM link CROSS JOIN item ON item.id = link.item \
                 WHERE link.id BETWEEN ?1 AND ?2"
            }
            Workload::IndexRange => {
                "SELECT sum(n), count(*) FROM item INDEXED BY item_k WHERE k BETWEEN ?1 AND ?2"
            }
        }
    }
}

/// Queries of one kind for one connection, and the sum of all their answers.
pub struct Plan {
    workload: Workload,
    /// True if one transaction is around all of them.
    transaction: bool,
    queries: Vec<(i64, i64)>,
    expected: u64,
}

impl Plan {
    /// So many random queries.
    pub fn random(workload: Workload, data: &Data, count: usize, random: &mut fastrand::Rng) -> Plan {
        let (most, width) = match workload {
            Workload::PointAuto | Workload::Point | Workload::Index => (data.rows(), 1),
            Workload::Range | Workload::IndexRange => (data.rows(), RANGE_ROWS),
            Workload::Join => (data.links(), JOIN_ROWS),
            Workload::Scan | Workload::ScanPart => (data.rows(), data.rows()),
        };
        let width = width.min(most);
        let first = |_| random.i64(1..=most - width + 1);
        Plan::new(workload, data, (0..count).map(first).map(|first| (first, first + width - 1)).collect())
    }

    /// Points at these rows.
    pub fn points(data: &Data, ids: impl Iterator<Item = i64>) -> Plan {
        Plan::new(Workload::Point, data, ids.map(|id| (id, id)).collect())
    }

    /// The whole table, `times` over, or one part of so many.
    pub fn scan(data: &Data, part: usize, parts: usize, times: usize) -> Plan {
        let bound = |part: usize| data.rows() * part as i64 / parts as i64;
        let workload = if parts == 1 { Workload::Scan } else { Workload::ScanPart };
        Plan::new(workload, data, vec![(bound(part) + 1, bound(part + 1)); times])
    }

    /// One range of the index with so many rows.
    pub fn index_range(data: &Data, rows: i64, random: &mut fastrand::Rng) -> Plan {
        let rows = rows.clamp(1, data.rows());
        let first = random.i64(1..=data.rows() - rows + 1);
        Plan::new(Workload::IndexRange, data, vec![(first, first + rows - 1)])
    }

    fn new(workload: Workload, data: &Data, queries: Vec<(i64, i64)>) -> Plan {
        let answers = queries.iter().map(|(from, to)| answer(workload, data, *from, *to));
        let expected = answers.fold(0, u64::wrapping_add);
        Plan { workload, transaction: workload != Workload::PointAuto, queries, expected }
    }

    /// The same with a transaction for each query.
    pub fn autocommit(self) -> Plan {
        Plan { transaction: false, ..self }
    }

    /// How many queries.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Runs all queries, once everybody is ready; when they began and ended.
    pub fn run(
        &self,
        source: &Source,
        connection: &Connection,
        ready: &Barrier,
    ) -> Result<(Instant, Instant)> {
        let prepared = connection.prepare(self.workload.sql());
        // A thread that fails must not leave the others waiting.
        ready.wait();
        let begun = Instant::now();
        let sum = prepared.and_then(|mut statement| self.sum(connection, &mut statement));
        let ended = Instant::now();
        let sum = sum.map_err(|error| source.explain(error))?;
        if sum == self.expected {
            return Ok((begun, ended));
        }
        let (side, what, expected) = (source.name, self.workload.name(), self.expected);
        Err(Error::Wrong(format!("side {side}, {what}: the answers' sum is {sum} instead of {expected}")))
    }

    fn sum(&self, connection: &Connection, statement: &mut Statement<'_>) -> rusqlite::Result<u64> {
        if self.transaction {
            connection.execute_batch("BEGIN")?;
        }
        let parameters = statement.parameter_count();
        let mut sum = 0u64;
        for (from, to) in &self.queries {
            for (number, value) in [from, to].into_iter().take(parameters).enumerate() {
                statement.raw_bind_parameter(number + 1, value)?;
            }
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                sum = sum.wrapping_add(number(row.get_ref(0)?)).wrapping_add(number(row.get_ref(1)?));
            }
        }
        if self.transaction {
            connection.execute_batch("COMMIT")?;
        }
        Ok(sum)
    }
}

/// An integer as it is, a blob by its first eight bytes.
fn number(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Integer(integer) => integer as u64,
        ValueRef::Blob(bytes) => bytes.first_chunk().map_or(0, |head| u64::from_le_bytes(*head)),
        _ => 0,
    }
}

/// The expected answer of a query, all columns of all rows added up.
fn answer(workload: Workload, data: &Data, from: i64, to: i64) -> u64 {
    let row = |id| (data.number(id) as u64).wrapping_add(data.head(id));
    let counted = |id| data.number(id) as u64 + 1;
    let joined = |link| data.number(data.linked(link)) as u64 + data.weight(link) as u64;
    let sum = |of: &dyn Fn(i64) -> u64| (from..=to).map(of).fold(0, u64::wrapping_add);
    match workload {
        Workload::PointAuto | Workload::Point => row(from),
        Workload::Index => row(data.id(from)),
        Workload::Range => sum(&row),
        Workload::Scan | Workload::ScanPart => sum(&counted),
        Workload::Join => sum(&joined),
        Workload::IndexRange => sum(&|key| counted(data.id(key))),
    }
}

/// Runs a plan on each connection, all at once, each on a thread of its own. Answers the time from the first beginning
/// to the last end.
pub fn together(source: &Source, connections: &mut [Connection], plans: &[Plan]) -> Result<Duration> {
    let ready = Barrier::new(plans.len().min(connections.len()));
    let spans = std::thread::scope(|scope| {
        let ready = &ready;
        let threads: Vec<_> = connections
            .iter_mut()
            .zip(plans)
            .map(|(connection, plan)| scope.spawn(move || plan.run(source, connection, ready)))
            .collect();
        let panicked = |_| Err(Error::Wrong("a reader has panicked".to_owned()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect::<Result<Vec<_>>>()
    })?;
    let begun = spans.iter().map(|(begun, _)| *begun).min();
    let ended = spans.iter().map(|(_, ended)| *ended).max();
    Ok(begun.zip(ended).map_or(Duration::ZERO, |(begun, ended)| ended - begun))
}

/// Brings all of the database to memory, as far as there is room: both tables and the index.
pub fn touch_everything(source: &Source, connection: &Connection, data: &Data) -> Result<()> {
    let sum = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let sums = || -> rusqlite::Result<[i64; 3]> {
        Ok([
            sum("SELECT sum(n) FROM item NOT INDEXED")?,
            sum("SELECT sum(k) FROM item INDEXED BY item_k WHERE k > 0")?,
            sum("SELECT count(*) FROM link")?,
        ])
    };
    let found = sums().map_err(|error| source.explain(error))?;
    let numbers = (1..=data.rows()).map(|id| data.number(id)).sum();
    if found == [numbers, data.rows() * (data.rows() + 1) / 2, data.links()] {
        return Ok(());
    }
    Err(Error::Wrong(format!("side {}: the database does not hold what was loaded", source.name)))
}
