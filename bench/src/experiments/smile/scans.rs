//! Sequential scans: iterations, page sizes, threads, and a flat buffer.

use super::files::{Files, ms, open, open_with, timed, workers};
use crate::harness::{Progress, interleave, make_cold, median, median_ratio};
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_pagestore::ops::{above, scan};
use litefoot_pagestore::pagefile::{Options, PAGE_SIZES, PageFile};
use litefoot_pagestore::task::{Config, Workers};
use litefoot_storage::os::OsMedium;
use std::path::Path;

/// Half of the random integers are above it.
pub const THRESHOLD: u32 = 1 << 31;
/// Scans of a file that begins cold.
const ITERATIONS: usize = 5;
/// Threads, and partitions of the pool.
pub const THREADS: [usize; 4] = [1, 2, 4, 8];
const PARTITIONS: [usize; 5] = [1, 2, 4, 8, 16];
/// Warm scans in a row where threads are compared, as in the thesis.
pub const WARM_SCANS: usize = 10;
/// The page size that the thesis found best on its server.
pub const PAGE_BYTES: usize = 65_536;

pub fn run(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    over_flat(files, figures, progress)?;
    iterations(files, figures, progress)?;
    page_sizes(files, figures, progress)?;
    threads(files, figures, progress)
}

/// A scan in milliseconds, and what it counted.
fn one_scan(workers: &Workers, file: &PageFile) -> Result<(u64, f64)> {
    let (count, time) = timed(|| Ok(scan(workers, file, &file.extents(), THRESHOLD)?))?;
    Ok((count, ms(time)))
}

fn over_flat(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let path = files.random(PAGE_BYTES, files.sizes.scan_bytes, progress)?;
    let (file, workers) = (open(&OsMedium::new(), &path, files.sizes.scan_bytes, true)?, workers(1)?);
    let bytes = std::fs::read(&path).map_err(|source| Error::Directory { path, source })?;
    let flat = &bytes[PAGE_BYTES..];
    let expected = above(flat, THRESHOLD);
    one_scan(&workers, &file)?;
    let before = file.statistics();
    progress.begin("scans, warm and flat", 2 * files.sizes.rounds as u64);
    let times = interleave(&[true, false], files.sizes.rounds, |_, through_pages| {
        progress.advance(1)?;
        let (count, time) = match through_pages {
            true => one_scan(&workers, &file)?,
            // On a worker, too, so that both run on the same kind of thread.
            false => {
                let (counts, time) = timed(|| Ok(workers.each(1, |_| above(flat, THRESHOLD))?))?;
                (counts.iter().sum(), ms(time))
            }
        };
        if count != expected {
            return Err(Error::Wrong(format!("a scan counted {count} instead of {expected}")));
        }
        Ok(time)
    })?;
    let after = file.statistics();
    figures.set("ratio.scan_warm_over_flat", median_ratio(&times[0], &times[1]));
    let reads = after.missed + after.ahead - before.missed - before.ahead;
    figures.set("reads.second_scan", reads as f64);
    Ok(())
}

fn iterations(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let path = files.random(PAGE_BYTES, files.sizes.cold_bytes, progress)?;
    let workers = workers(1)?;
    progress.begin("scans, one after the other", files.sizes.rounds as u64);
    let mut times = vec![Vec::new(); ITERATIONS];
    for _ in 0..files.sizes.rounds {
        progress.advance(1)?;
        make_cold(&path)?;
        let file = open(&OsMedium::new(), &path, files.sizes.cold_bytes, false)?;
        for times in &mut times {
            times.push(one_scan(&workers, &file)?.1);
        }
    }
    figures.set("ratio.scan_warm_over_first", median_ratio(&times[0], &times[1]));
    for (iteration, times) in times.into_iter().enumerate() {
        figures.set(format!("scan_ms.iteration.{}", iteration + 1), median(times));
    }
    Ok(())
}

/// A cold scan and the mean of so many warm ones, in milliseconds. The threads keep to the memory nodes of the pages.
pub fn cold_and_warm(
    path: &Path,
    threads: usize,
    options: &Options,
    warm_scans: usize,
) -> Result<(f64, f64)> {
    let topology = options.topology.clone();
    let workers = Workers::start(Config { topology, ..Config::with_threads(threads) })?;
    make_cold(path)?;
    let file = open_with(&OsMedium::new(), path, options.clone())?;
    let (_, cold) = one_scan(&workers, &file)?;
    let mut warm = 0.0;
    for _ in 0..warm_scans {
        warm += one_scan(&workers, &file)?.1;
    }
    Ok((cold, warm / warm_scans as f64))
}

fn page_sizes(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let bytes = files.sizes.cold_bytes;
    for page_bytes in PAGE_SIZES {
        files.random(page_bytes, bytes, progress)?;
    }
    progress.begin("scans by page size", (files.sizes.rounds * PAGE_SIZES.len()) as u64);
    let times = interleave(&PAGE_SIZES, files.sizes.rounds, |_, page_bytes| {
        progress.advance(1)?;
        let path = files.directory.join(format!("{page_bytes}-{bytes}.pages"));
        cold_and_warm(&path, 1, &Options { cache_bytes: bytes as usize, ..Options::default() }, 1)
    })?;
    for (page_bytes, times) in PAGE_SIZES.iter().zip(times) {
        let size = format!("page_{}k", page_bytes / 1024);
        figures.set(format!("scan_ms.warm.{size}"), median(times.iter().map(|(_, warm)| *warm)));
        figures.set(format!("scan_ms.cold.{size}"), median(times.iter().map(|(cold, _)| *cold)));
    }
    Ok(())
}

fn threads(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let bytes = files.sizes.cold_bytes;
    let path = files.random(PAGE_BYTES, bytes, progress)?;
    let sides: Vec<(usize, usize)> = PARTITIONS
        .iter()
        .flat_map(|partitions| THREADS.iter().map(move |threads| (*threads, *partitions)))
        .collect();
    progress.begin("scans by threads", (files.sizes.rounds * sides.len()) as u64);
    let times = interleave(&sides, files.sizes.rounds, |_, (threads, partitions)| {
        progress.advance(1)?;
        let options = Options { cache_bytes: bytes as usize, partitions: *partitions, ..Options::default() };
        cold_and_warm(&path, *threads, &options, WARM_SCANS)
    })?;
    let warm_of = |threads: usize, partitions: usize| -> Vec<f64> {
        let place = sides.iter().position(|side| *side == (threads, partitions));
        place.into_iter().flat_map(|place| times[place].iter().map(|(_, warm)| *warm)).collect()
    };
    for ((threads, partitions), times) in sides.iter().zip(&times) {
        let side = format!("threads_{threads}_in_{partitions}");
        let warm = warm_of(*threads, *partitions);
        figures.set(format!("scan_ms.warm.{side}"), median(warm.iter().copied()));
        figures.set(format!("scan_ms.cold.{side}"), median(times.iter().map(|(cold, _)| *cold)));
        let speedup = median_ratio(&warm_of(1, *partitions), &warm);
        figures.set(format!("ratio.scan_warm_speedup.{side}"), speedup);
        let over_one = median_ratio(&warm_of(*threads, 1), &warm);
        figures.set(format!("ratio.scan_warm_partitions.{side}"), over_one);
    }
    Ok(())
}
