//! Work in batches, on as many threads as there are processors.

use crate::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

/// A part of the work, for one thread.
pub struct Batch<'a, T> {
    /// The number of its first piece, from 0.
    pub first: u64,
    /// How many pieces it has.
    pub many: u64,
    stop: &'a AtomicBool,
    results: &'a Sender<Result<T>>,
}

impl<T> Batch<'_, T> {
    /// Hands a result over; whether to go on.
    pub fn tell(&self, result: T) -> bool {
        self.results.send(Ok(result)).is_ok() && !self.stop.load(Ordering::Relaxed)
    }
}

/// Does `all` pieces of work, in batches of at most so many; `take` gets the results in no order.
///
/// # Errors
/// The first of `work` or `take`, after which no batch begins.
pub fn in_batches<T: Send>(
    all: u64,
    most: u64,
    work: impl Fn(&Batch<'_, T>) -> Result<()> + Sync,
    take: &mut dyn FnMut(T) -> Result<()>,
) -> Result<()> {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let (sender, results) = channel();
        for _ in 0..threads {
            let (sender, next, stop, work) = (sender.clone(), &next, &stop, &work);
            scope.spawn(move || {
                loop {
                    let first = next.fetch_add(most, Ordering::Relaxed);
                    let many = most.min(all.saturating_sub(first));
                    if many == 0 || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    if let Err(error) = work(&Batch { first, many, stop, results: &sender }) {
                        return drop(sender.send(Err(error)));
                    }
                }
            });
        }
        drop(sender);
        for result in results {
            let taken = result.and_then(&mut *take);
            if taken.is_err() {
                stop.store(true, Ordering::Relaxed);
                return taken;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn every_piece_is_done_once_and_the_first_failure_ends_it() {
        let mut done = Vec::new();
        let work = |batch: &Batch<'_, u64>| {
            (batch.first..batch.first + batch.many).for_each(|piece| assert!(batch.tell(piece)));
            Ok(())
        };
        in_batches(103, 10, work, &mut |piece| {
            done.push(piece);
            Ok(())
        })
        .unwrap();
        done.sort_unstable();
        assert_eq!(done, (0..103).collect::<Vec<_>>());
        let work = |batch: &Batch<'_, u64>| {
            if batch.first == 0 { Err(Error::Stopped) } else { Ok(()) }
        };
        assert!(in_batches(u64::MAX / 2, 1, work, &mut |_| Ok(())).is_err());
        let endless = |batch: &Batch<'_, u64>| {
            while batch.tell(0) {}
            Ok(())
        };
        assert!(in_batches(10, 1, endless, &mut |_| Err(Error::Stopped)).is_err());
    }
}
