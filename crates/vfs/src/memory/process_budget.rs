//! Process budget: what all databases of a process share, the memory of their pages and the queue of their reads ahead.
//!
//! A forked child has neither threads nor databases of its parent, and starts with a budget of its own.

use litefoot_storage::budget::Budget;
use litefoot_storage::io::{IoConfig, IoQueue};
use litefoot_storage::sync::{AcrossFork, Global, Mutex};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Most bytes of a budget that no database has asked for.
const MOST_BY_DEFAULT: usize = 256 << 20;
/// Fewest bytes of a budget.
pub const FEWEST: usize = 1 << 20;

/// Bytes of dirty pages that SQLite keeps in a connection's cache before it spills, unless the application says otherwise.
const SPILL_BYTES: usize = 2 << 20;

/// Bytes of a log in memory, or of a transaction's dirty pages, where there is no pool and so no budget.
const WITHOUT_BUDGET: usize = 16 << 20;

/// The process budget.
pub struct ProcessBudget {
    /// Memory.
    budget: Arc<Budget>,
    /// The queue of reads ahead.
    io: Arc<IoQueue>,
    /// Databases by the bytes that they ask for.
    asked: Mutex<BTreeMap<usize, usize>>,
}

/// Request of a database for a share of the process budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareRequest {
    /// Bytes of pages; `None` for as many as suit the machine.
    pub pool_bytes: Option<usize>,
    /// Bytes of a log in memory, or of a transaction's dirty pages, whatever is free; `None` for a limit by the budget.
    pub write_bytes: Option<usize>,
    /// Set where its pages are kept in a pool.
    pub is_pooled: bool,
}

/// A database's share of the process budget.
pub struct BudgetShare {
    process: Arc<ProcessBudget>,
    /// Most bytes that this database may have.
    bytes: usize,
    write_bytes: Option<usize>,
    is_pooled: bool,
}

/// The process budget, while a database uses it.
#[derive(Default)]
struct Current(Option<Weak<ProcessBudget>>);

impl AcrossFork for Current {
    fn inherit(parents: Current) -> Current {
        // The parent's threads are not here.
        std::mem::forget(parents);
        Current(None)
    }
}

static CURRENT: Global<Current> = Global::new(Current(None));

impl BudgetShare {
    /// Joins the databases of this process. All of them together have as many bytes as the database that asks for most.
    pub fn join(request: &ShareRequest) -> BudgetShare {
        let ShareRequest { pool_bytes, write_bytes, is_pooled } = *request;
        let bytes = pool_bytes.unwrap_or_else(by_default).max(FEWEST);
        let process = current();
        let mut asked = process.asked.lock();
        *asked.entry(bytes).or_default() += 1;
        process.follow(&asked);
        drop(asked);
        BudgetShare { process, bytes, write_bytes, is_pooled }
    }

    /// Most bytes that this database may have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Most bytes of a log in memory, or of a transaction's dirty pages, whatever is free; `None` where that depends on the
    /// budget.
    pub fn write_bytes(&self) -> Option<usize> {
        self.write_bytes.or_else(|| (!self.is_pooled).then_some(WITHOUT_BUDGET))
    }

    /// Most bytes of dirty pages that count for SQLite's cache in a connection that writes. Without a pool there is no budget
    /// to count them against.
    pub fn spill_bytes(&self) -> usize {
        if self.is_pooled { SPILL_BYTES.min(self.bytes) } else { 0 }
    }

    /// Memory of all databases.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.process.budget
    }

    /// The queue of reads ahead.
    pub fn io(&self) -> &Arc<IoQueue> {
        &self.process.io
    }
}

impl Drop for BudgetShare {
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

impl ProcessBudget {
    /// Sets the limit to what the greediest database asks for.
    fn follow(&self, asked: &BTreeMap<usize, usize>) {
        if let Some((most, _)) = asked.last_key_value() {
            self.budget.set_limit(*most);
        }
    }
}

/// The budget of this process, made where there is none.
fn current() -> Arc<ProcessBudget> {
    let mut current = CURRENT.lock();
    let known = current.0.as_ref().and_then(Weak::upgrade);
    known.unwrap_or_else(|| {
        let process = Arc::new(ProcessBudget {
            budget: Arc::new(Budget::new(FEWEST)),
            io: Arc::new(IoQueue::idle(&IoConfig::default())),
            asked: Mutex::default(),
        });
        current.0 = Some(Arc::downgrade(&process));
        process
    })
}

/// A quarter of the free memory, within bounds.
fn by_default() -> usize {
    free_memory().map_or(MOST_BY_DEFAULT, |free| (free / 4).min(MOST_BY_DEFAULT))
}

/// Bytes of memory that are free or can be freed at once, where the system tells.
pub fn free_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    available(&text)
}

/// The line of `/proc/meminfo` that tells free memory, in bytes.
fn available(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(bytes: usize) -> BudgetShare {
        BudgetShare::join(&ShareRequest {
            pool_bytes: Some(bytes),
            is_pooled: true,
            ..ShareRequest::default()
        })
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
            let share = BudgetShare::join(&request);
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
