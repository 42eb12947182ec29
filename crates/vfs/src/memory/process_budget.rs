//! What all databases of a process share: the memory of their pages, and the queue that reads ahead.
//!
//! A forked child has neither threads nor databases of its parent's, and begins with its own.

use litefoot_storage::buffer_pool::Budget;
use litefoot_storage::io::{IoConfig, IoQueue};
use litefoot_storage::sync::{AcrossFork, Global, Mutex};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Most bytes that are taken where nobody says how many.
const MOST_BY_DEFAULT: usize = 256 << 20;
/// Fewest bytes, whatever is said.
pub const FEWEST: usize = 1 << 20;

/// Bytes of changed pages that SQLite keeps in a connection's cache before it writes some away, unless the application
/// says otherwise.
const SPILL_BYTES: usize = 2 << 20;

/// Bytes of a log in memory, or of dirty pages, where no pool is wanted, and so no budget.
const WITHOUT_BUDGET: usize = 16 << 20;

/// The resources of a process.
pub struct Process {
    /// The memory.
    pub budget: Arc<Budget>,
    /// The queue.
    pub io: Arc<IoQueue>,
    /// How many databases ask for so many bytes.
    asked: Mutex<BTreeMap<usize, usize>>,
}

/// What a database asks of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareRequest {
    /// Bytes of pages; as many as suit the machine where nothing is said.
    pub pool_bytes: Option<usize>,
    /// Bytes of a log in memory, or of a transaction's dirty pages, whatever is free.
    pub write_bytes: Option<usize>,
    /// Whether its pages are kept in the pool.
    pub is_pooled: bool,
}

/// A database's share in them.
pub struct Share {
    process: Arc<Process>,
    /// Most bytes that this database may have.
    bytes: usize,
    write_bytes: Option<usize>,
    is_pooled: bool,
}

/// The resources, while anybody uses them.
#[derive(Default)]
struct Current(Option<Weak<Process>>);

impl AcrossFork for Current {
    fn inherit(parents: Current) -> Current {
        // Their threads are not here.
        std::mem::forget(parents);
        Current(None)
    }
}

static CURRENT: Global<Current> = Global::new(Current(None));

impl Share {
    /// Joins the databases of this process. All of them together have as many bytes as the one that asks for most.
    pub fn join(request: &ShareRequest) -> Share {
        let ShareRequest { pool_bytes, write_bytes, is_pooled } = *request;
        let bytes = pool_bytes.unwrap_or_else(by_default).max(FEWEST);
        let process = current();
        let mut asked = process.asked.lock();
        *asked.entry(bytes).or_default() += 1;
        process.follow(&asked);
        drop(asked);
        Share { process, bytes, write_bytes, is_pooled }
    }

    /// Most bytes that this database may have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that a log in memory, or a transaction's dirty pages, may have whatever is free; `None` where that depends on
    /// the budget.
    pub fn write_bytes(&self) -> Option<usize> {
        self.write_bytes.or_else(|| (!self.is_pooled).then_some(WITHOUT_BUDGET))
    }

    /// Most bytes of changed pages that are taken to be in the cache of a connection whose transaction is under way. Without
    /// a pool there is no budget that they could count against.
    pub fn spill_bytes(&self) -> usize {
        if self.is_pooled { SPILL_BYTES.min(self.bytes) } else { 0 }
    }

    /// The memory.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.process.budget
    }

    /// The queue.
    pub fn io(&self) -> &Arc<IoQueue> {
        &self.process.io
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut asked = self.process.asked.lock();
        if let Some(count) = asked.get_mut(&self.bytes) {
            *count -= 1;
            if *count == 0 {
                asked.remove(&self.bytes);
            }
        }
        self.process.follow(&asked);
    }
}

impl Process {
    fn follow(&self, asked: &BTreeMap<usize, usize>) {
        if let Some((most, _)) = asked.last_key_value() {
            self.budget.set_limit(*most);
        }
    }
}

fn current() -> Arc<Process> {
    let mut current = CURRENT.lock();
    let known = current.0.as_ref().and_then(Weak::upgrade);
    known.unwrap_or_else(|| {
        let process = Arc::new(Process {
            budget: Arc::new(Budget::new(FEWEST)),
            io: Arc::new(IoQueue::idle(&IoConfig::default())),
            asked: Mutex::default(),
        });
        current.0 = Some(Arc::downgrade(&process));
        process
    })
}

/// A quarter of the memory that is free.
fn by_default() -> usize {
    free_memory().map_or(MOST_BY_DEFAULT, |free| (free / 4).min(MOST_BY_DEFAULT))
}

/// Bytes of memory that could be had without anybody being pushed out of it, where the system tells.
pub fn free_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    available(&text)
}

fn available(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(bytes: usize) -> Share {
        Share::join(&ShareRequest { pool_bytes: Some(bytes), is_pooled: true, ..ShareRequest::default() })
    }

    #[test]
    fn a_share_says_what_writes_may_take() {
        for (pool_bytes, write_bytes, is_pooled, writes, spills) in [
            (8 << 20, None, true, None, SPILL_BYTES),
            (1 << 20, None, true, None, 1 << 20),
            (8 << 20, Some(5), true, Some(5), SPILL_BYTES),
            (8 << 20, None, false, Some(WITHOUT_BUDGET), 0),
            (8 << 20, Some(5), false, Some(5), 0),
        ] {
            let request = ShareRequest { pool_bytes: Some(pool_bytes), write_bytes, is_pooled };
            let share = Share::join(&request);
            assert_eq!((share.write_bytes(), share.spill_bytes()), (writes, spills), "{request:?}");
        }
    }

    #[test]
    fn the_limit_is_what_the_greediest_database_asks_for() {
        let small = join(2 << 20);
        let budget = small.budget().clone();
        assert!(budget.limit() >= 2 << 20);
        let large = join(1 << 40);
        assert!(Arc::ptr_eq(&budget, large.budget()));
        assert_eq!((budget.limit(), small.bytes()), (1 << 40, 2 << 20));
        drop(large);
        assert!(budget.limit() < 1 << 40);
        assert_eq!(join(5).bytes(), FEWEST);
    }

    #[test]
    fn free_memory_is_read_from_the_systems_text() {
        let text = "MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:    512 kB\n";
        assert_eq!(available(text), Some(512 << 10));
        for text in ["", "MemAvailable: many kB", "MemAvailable: 5"] {
            assert_eq!(available(text), None, "{text:?}");
        }
    }
}
