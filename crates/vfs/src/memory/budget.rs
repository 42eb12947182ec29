//! What all databases of a process share: the memory of their pages, and the queue that reads ahead.
//!
//! A forked child has neither threads nor databases of its parent's, and begins with its own.

use litefoot_engine::pool::Budget;
use litefoot_engine::sync::{AcrossFork, Global, Mutex};
use litefoot_engine::task::io::{IoConfig, IoQueue};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Most bytes that are taken where nobody says how many.
const MOST_BY_DEFAULT: usize = 256 << 20;
/// Fewest bytes, whatever is said.
pub const FEWEST: usize = 1 << 20;

/// Bytes of changed pages that SQLite keeps in a connection's cache before it writes some away, unless the application
/// says otherwise.
const SPILL_BYTES: usize = 2 << 20;

/// The resources of a process.
pub struct Process {
    /// The memory.
    pub budget: Arc<Budget>,
    /// The queue.
    pub io: Arc<IoQueue>,
    /// How many databases ask for so many bytes.
    asked: Mutex<BTreeMap<usize, usize>>,
}

/// A database's share in them.
pub struct Share {
    process: Arc<Process>,
    /// Most bytes that this database may have.
    bytes: usize,
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
    /// Joins the databases of this process, with so many bytes, or as many as suit the machine. All of them
    /// together have as many as the one that asks for most.
    pub fn join(bytes: Option<usize>) -> Share {
        let bytes = bytes.unwrap_or_else(by_default).max(FEWEST);
        let process = current();
        let mut asked = process.asked.lock();
        *asked.entry(bytes).or_default() += 1;
        process.follow(&asked);
        drop(asked);
        Share { process, bytes }
    }

    /// Most bytes that this database may have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Most bytes of changed pages that are taken to be in the cache of a connection whose transaction is under way.
    pub fn spill_bytes(&self) -> usize {
        SPILL_BYTES.min(self.bytes)
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

    #[test]
    fn the_limit_is_what_the_greediest_database_asks_for() {
        let small = Share::join(Some(2 << 20));
        let budget = small.budget().clone();
        assert!(budget.limit() >= 2 << 20);
        let large = Share::join(Some(1 << 40));
        assert!(Arc::ptr_eq(&budget, large.budget()));
        assert_eq!((budget.limit(), small.bytes()), (1 << 40, 2 << 20));
        drop(large);
        assert!(budget.limit() < 1 << 40);
        assert_eq!(Share::join(Some(5)).bytes(), FEWEST);
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
