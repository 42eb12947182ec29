//! Holding pages that are in memory.

use super::files::{Files, open};
use crate::harness::{Progress, interleave, median, thread_cpu};
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_pagestore::pagefile::PageFile;
use litefoot_storage::os::OsMedium;
use std::hint::black_box;
use std::sync::Barrier;

struct Side {
    name: &'static str,
    page_bytes: usize,
    /// True for one page a thread, false for random pages.
    hot: bool,
    threads: u64,
}

const fn side(name: &'static str, page_bytes: usize, hot: bool, threads: u64) -> Side {
    Side { name, page_bytes, hot, threads }
}

const SIDES: [Side; 6] = [
    side("hot", 4096, true, 1),
    side("random_64k", 65_536, false, 1),
    side("random_4k", 4096, false, 1),
    side("hot_2t", 4096, true, 2),
    side("random_64k_2t", 65_536, false, 2),
    side("random_4k_2t", 4096, false, 2),
];

pub fn run(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let bytes = files.sizes.file_bytes;
    let mut opened = Vec::new();
    for page_bytes in [4096, 65_536] {
        let path = files.random(page_bytes, bytes, progress)?;
        let file = open(&OsMedium::new(), &path, bytes, true)?;
        warm(&file)?;
        opened.push((page_bytes, file));
    }
    let rounds = files.sizes.rounds;
    progress.begin("pins", (rounds * SIDES.len()) as u64);
    let results = interleave(&SIDES, rounds, |round, side| {
        progress.advance(1)?;
        let file = opened.iter().find(|(page_bytes, _)| *page_bytes == side.page_bytes).map(|(_, file)| file);
        let file = file.ok_or_else(|| Error::Wrong("a side without a file".to_owned()))?;
        one_round(file, side, files, round as u64)
    })?;
    for (side, rounds) in SIDES.iter().zip(results) {
        figures.set(format!("pin_unpin_ns.{}", side.name), median(rounds));
    }
    Ok(())
}

/// Every page in memory.
fn warm(file: &PageFile) -> Result<()> {
    for page in file.extents().ranges().iter().cloned().flatten() {
        black_box(&file.pin(page)?[0]);
    }
    Ok(())
}

/// Nanoseconds of CPU time for a hold, per thread. The pages to hold are drawn beforehand.
fn one_round(file: &PageFile, side: &Side, files: &Files<'_>, round: u64) -> Result<f64> {
    let barrier = Barrier::new(side.threads as usize);
    let one_thread = |thread: u64| -> Result<f64> {
        let order = order(file.extents().len(), side, files, thread, round);
        barrier.wait();
        let begun = thread_cpu();
        for page in &order {
            black_box(file.pin(*page)?.as_ptr());
        }
        Ok((thread_cpu() - begun).as_nanos() as f64 / order.len() as f64)
    };
    let times: Vec<Result<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..side.threads).map(|thread| scope.spawn(move || one_thread(thread))).collect();
        let panicked = |_| Err(Error::Wrong("a thread panicked".to_owned()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    let times = times.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(times.iter().sum::<f64>() / times.len() as f64)
}

/// The threads' pages are distinct.
fn order(pages: u64, side: &Side, files: &Files<'_>, thread: u64, round: u64) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(files.seed ^ thread << 32 ^ round << 40);
    let own = pages / side.threads;
    let draw = |random: &mut fastrand::Rng| if side.hot { own / 2 } else { random.u64(0..own) };
    (0..files.sizes.pins).map(|_| 1 + draw(&mut random) * side.threads + thread).collect()
}
