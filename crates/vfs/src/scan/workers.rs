//! The threads of a scan: each takes piece after piece, and keeps what it finds until all pieces are done.
//!
//! # Invariants
//! 1. The calling thread works as well, and returns when the others have ended.
//! 2. The first thing that is odd ends the scan.

use super::aggregate::State;
use super::groups::Groups;
use super::headers::Headers;
use super::plan::{Aggregation, Plan, Shape};
use super::record::{Node, Odd, Row};
use super::tree::{PageReader, Walk, whole_record};
use crate::ffi::statement::{Owned, Value};
use litefoot_storage::sync::Mutex;
use litefoot_storage::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Rows of an answer.
pub(super) type Answer = Vec<Vec<Owned>>;

/// Most threads.
const MOST_THREADS: usize = 16;
/// Pages that are worth a thread.
const PAGES_OF_A_THREAD: usize = 512;
/// Most bytes of rows that are not aggregated.
const MOST_BYTES: usize = 64 << 20;

const BROKEN: Odd = "a thread of the scan has ended early";
const TOO_LARGE: Odd = "the rows take too much memory";

/// A scan.
struct Job {
    plan: Plan,
    reader: Arc<dyn PageReader>,
    pieces: Vec<u32>,
    next: AtomicUsize,
    /// Pieces that threads look at together: so far ahead pages are asked for.
    together: usize,
    /// Pages that may still be looked at.
    left: AtomicU64,
    /// Bytes of rows so far.
    bytes: AtomicUsize,
    stopped: AtomicBool,
    found: Mutex<Vec<Result<Found, Odd>>>,
}

/// The findings of one thread.
enum Found {
    /// The rows of each piece.
    Rows(Vec<(usize, Answer)>),
    Totals(Vec<State>),
    Groups(Groups),
}

/// Runs a plan; answers the rows and the number of threads.
///
/// # Errors
/// The reason that SQLite has to run the statement.
pub(super) fn run(plan: Plan, reader: Arc<dyn PageReader>) -> Result<(Answer, usize), Odd> {
    let left = Walk::most_pages(&*reader);
    let pieces = Walk::new(&*reader, &left).pieces(plan.root)?;
    pieces.iter().for_each(|piece| reader.read_ahead(*piece, 1));
    let threads = threads(reader.pages() as usize, pieces.len());
    let job = Arc::new(Job {
        plan,
        reader,
        pieces,
        next: AtomicUsize::new(0),
        together: threads,
        left,
        bytes: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
        found: Mutex::new(Vec::new()),
    });
    let others = Others { job: &job, handles: (1..threads).filter_map(|_| help(&job)).collect() };
    let started = 1 + others.handles.len();
    work(&job);
    drop(others);
    let found = std::mem::take(&mut *job.found.lock());
    if found.len() < started {
        return Err(BROKEN);
    }
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok((merge(&job.plan, found)?, started))
}

/// The number of threads for a database of so many pages.
fn threads(pages: usize, pieces: usize) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors.min(MOST_THREADS).min(pages / PAGES_OF_A_THREAD).min(pieces).max(1)
}

/// The other threads; dropping this waits for them.
struct Others<'a> {
    job: &'a Job,
    handles: Vec<thread::Handle>,
}

impl Drop for Others<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.job.stopped.store(true, Ordering::Relaxed);
        }
        self.handles.drain(..).for_each(thread::Handle::join);
    }
}

fn help(job: &Arc<Job>) -> Option<thread::Handle> {
    let job = job.clone();
    thread::spawn("litefoot-scan", move || work(&job)).ok()
}

fn work(job: &Job) {
    let found = find(job);
    if found.is_err() {
        job.stopped.store(true, Ordering::Relaxed);
    }
    job.found.lock().push(found);
}

fn find(job: &Job) -> Result<Found, Odd> {
    let mut walk = Walk::new(&*job.reader, &job.left);
    let mut rows = Rows {
        plan: &job.plan,
        reader: &*job.reader,
        headers: Headers::new(&job.plan.slots),
        record: Vec::new(),
    };
    let mut found = match &job.plan.shape {
        Shape::Rows(_) => Found::Rows(Vec::new()),
        Shape::Aggregation(aggregation) if aggregation.keys.is_empty() => Found::Totals(aggregation.states()),
        Shape::Aggregation(aggregation) => Found::Groups(Groups::new(aggregation)),
    };
    loop {
        let number = job.next.fetch_add(1, Ordering::Relaxed);
        let Some(piece) = job.pieces.get(number) else { return Ok(found) };
        if let Found::Rows(pieces) = &mut found {
            pieces.push((number, Vec::new()));
        }
        if let Some(later) = job.pieces.get(number + job.together) {
            walk.ask_below(*later);
        }
        walk.leaves(*piece, number >= job.together, |number, page| {
            if job.stopped.load(Ordering::Relaxed) {
                return Err(BROKEN);
            }
            rows.leaf(job, number, page, &mut found)
        })?;
    }
}

/// One thread's look at rows.
struct Rows<'a> {
    plan: &'a Plan,
    reader: &'a dyn PageReader,
    headers: Headers,
    /// A record that was put together of several pages.
    record: Vec<u8>,
}

impl Rows<'_> {
    fn leaf(&mut self, job: &Job, number: u32, page: &[u8], found: &mut Found) -> Result<(), Odd> {
        match (&job.plan.shape, found) {
            (Shape::Aggregation(aggregation), Found::Totals(states)) => {
                if self.plan.slots.is_empty() {
                    let Node::Leaf(leaf) = Node::new(number, page)? else { return Err(BROKEN) };
                    states.iter_mut().for_each(|state| state.add_rows(leaf.count() as i64));
                    return Ok(());
                }
                self.each(number, page, |row| add(aggregation, states, row))
            }
            (Shape::Aggregation(aggregation), Found::Groups(groups)) => self.each(number, page, |row| {
                let states = groups.of_row(row, &aggregation.keys)?;
                add(aggregation, states, row)
            }),
            (Shape::Rows(slots), Found::Rows(pieces)) => {
                let Some((_, rows)) = pieces.last_mut() else { return Err(BROKEN) };
                let before = rows.len();
                self.each(number, page, |row| {
                    rows.push(slots.iter().map(|slot| Owned::from(row.value(*slot))).collect());
                    Ok(())
                })?;
                let bytes: usize = rows[before..].iter().flatten().map(Owned::bytes).sum();
                let all = job.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
                if all > MOST_BYTES { Err(TOO_LARGE) } else { Ok(()) }
            }
            _ => Err(BROKEN),
        }
    }

    /// Shows the rows of a leaf that pass the filter.
    #[inline]
    fn each(
        &mut self,
        number: u32,
        page: &[u8],
        mut take: impl FnMut(&Row<'_>) -> Result<(), Odd>,
    ) -> Result<(), Odd> {
        let Node::Leaf(leaf) = Node::new(number, page)? else { return Err(BROKEN) };
        let Plan { slots, layout, filters, .. } = self.plan;
        for number in 0..leaf.count() {
            let cell = leaf.cell(number, layout.has_rowid)?;
            let mut bytes = cell.local;
            let mut fields = self.headers.locate(layout, bytes, cell.payload, slots)?;
            if fields.is_none() {
                whole_record(self.reader, bytes, cell.payload, cell.overflow, &mut self.record)?;
                bytes = &self.record;
                fields = self.headers.locate(layout, bytes, cell.payload, slots)?;
            }
            let Some(fields) = fields else { return Err(BROKEN) };
            let row = Row { rowid: cell.rowid, bytes, fields };
            if filters.iter().all(|filter| filter.passes(&row)) {
                take(&row)?;
            }
        }
        Ok(())
    }
}

#[inline(always)]
fn add(aggregation: &Aggregation, states: &mut [State], row: &Row<'_>) -> Result<(), Odd> {
    let (mut last, mut value) = (None, Value::Null);
    for (state, (_, slot, _)) in states.iter_mut().zip(&aggregation.aggregates) {
        let Some(number) = slot else {
            state.add_rows(1);
            continue;
        };
        if last != *slot {
            (last, value) = (*slot, row.value(*number));
        }
        state.add(value)?;
    }
    Ok(())
}

/// The answer out of what all threads have found.
fn merge(plan: &Plan, found: Vec<Found>) -> Result<Answer, Odd> {
    let Shape::Aggregation(aggregation) = &plan.shape else {
        let mut pieces: Vec<_> = found
            .into_iter()
            .flat_map(|found| if let Found::Rows(pieces) = found { pieces } else { Vec::new() })
            .collect();
        pieces.sort_unstable_by_key(|(number, _)| *number);
        return Ok(pieces.into_iter().flat_map(|(_, rows)| rows).collect());
    };
    let mut totals = aggregation.states();
    let mut groups = Groups::new(aggregation);
    for found in found {
        match found {
            Found::Totals(states) => {
                totals.iter_mut().zip(&states).try_for_each(|(total, state)| total.merge(state))?;
            }
            Found::Groups(other) => groups.merge(&other)?,
            Found::Rows(_) => {}
        }
    }
    if aggregation.keys.is_empty() {
        let totals = totals.into_iter().map(State::finish).collect::<Result<Vec<_>, _>>()?;
        return Ok(vec![aggregation.row(&[], &totals)]);
    }
    let groups = groups.finish()?;
    Ok(groups.iter().map(|(keys, values)| aggregation.row(keys, values)).collect())
}
