//! Reading ahead: cold scans and random reads, with it and without.

use super::files::{Files, make_cold, ms, open, timed, workers};
use super::scans::THRESHOLD;
use crate::harness::{Progress, interleave, median, median_ratio};
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_engine::device::{CountingMedium, Device, FileKind, ModelledMedium, OsMedium};
use litefoot_engine::ops::{above, scan};
use litefoot_engine::pagefile::PageFile;
use std::path::Path;
use std::sync::{Arc, Barrier};

/// The page size that the thesis found best on its board.
const PAGE_BYTES: usize = 4096;
/// Memory while the patterns are measured, as a share of the file.
const MEMORY_SHARE: u64 = 10;

pub fn run(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let path = files.random(PAGE_BYTES, files.sizes.cold_bytes, progress)?;
    let rounds = files.sizes.rounds;
    let sides = [true, false];
    progress.begin("cold scans on this disk", 2 * rounds as u64);
    let disk = interleave(&sides, rounds, |_, prefetch| {
        progress.advance(1)?;
        cold_scan(files, &path, *prefetch)
    })?;
    progress.begin("cold scans on a modelled SD card", 2 * rounds as u64);
    let modelled = interleave(&sides, rounds, |_, prefetch| {
        progress.advance(1)?;
        modelled_scan(files, &path, *prefetch)
    })?;
    progress.begin("random reads", 2);
    let mut bytes = Vec::new();
    for prefetch in sides {
        progress.advance(1)?;
        bytes.push(random_bytes(files, &path, prefetch)?);
    }
    figures.set("scan_ms.cold.prefetch_on", median(disk[0].iter().copied()));
    figures.set("scan_ms.cold.prefetch_off", median(disk[1].iter().copied()));
    figures.set("ratio.cold_prefetch_speedup", median_ratio(&modelled[1], &modelled[0]));
    figures.set("ratio.cold_prefetch_speedup.disk", median_ratio(&disk[1], &disk[0]));
    figures.set("ratio.random_prefetch_bytes", bytes[0] / bytes[1]);
    Ok(())
}

/// Milliseconds by the clock.
fn cold_scan(files: &Files<'_>, path: &Path, prefetch: bool) -> Result<f64> {
    let workers = workers(1)?;
    make_cold(path)?;
    let file = open(&OsMedium::new(), path, files.sizes.cold_bytes / MEMORY_SHARE, prefetch)?;
    let (_, time) = timed(|| Ok(scan(&workers, &file, &file.extents(), THRESHOLD)?))?;
    Ok(ms(time))
}

/// Two threads scan a half each. Microseconds of the device; it has seen nothing of the file before.
fn modelled_scan(files: &Files<'_>, path: &Path, prefetch: bool) -> Result<f64> {
    let medium = ModelledMedium::new(Arc::new(OsMedium::new()));
    let file = open(&medium, path, files.sizes.cold_bytes / MEMORY_SHARE, prefetch)?;
    let pages = file.extents().len();
    let barrier = Barrier::new(2);
    let half = |thread: u64| -> Result<u64> {
        let mut count = 0;
        for page in 1 + thread * (pages / 2)..1 + (thread + 1) * (pages / 2) {
            count += above(&hold_in_turn(&file, &barrier, page)?, THRESHOLD);
        }
        Ok(count)
    };
    let halves: Vec<Result<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|thread| scope.spawn(move || half(thread))).collect();
        let panicked = |_| Err(Error::Wrong("a thread panicked".to_owned()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    for count in halves {
        count?;
    }
    Ok(medium.virtual_us(Device::SdCardA1))
}

/// Both threads ask for their next page at the same time: two scans that go on at the same pace, whatever the
/// scheduler of this machine makes of it.
fn hold_in_turn(
    file: &PageFile,
    barrier: &Barrier,
    page: u64,
) -> Result<impl std::ops::Deref<Target = [u8]>> {
    barrier.wait();
    Ok(file.hold(page)?)
}

/// Bytes that random requests read from the medium, with memory for a tenth of the file.
fn random_bytes(files: &Files<'_>, path: &Path, prefetch: bool) -> Result<f64> {
    let medium = CountingMedium::new(Arc::new(OsMedium::new()));
    let file = open(&medium, path, files.sizes.cold_bytes / MEMORY_SHARE, prefetch)?;
    let pages = file.extents().len();
    let mut random = fastrand::Rng::with_seed(files.seed);
    let before = medium.snapshot();
    for _ in 0..pages {
        file.hold(random.u64(1..=pages))?;
    }
    drop(file);
    Ok((medium.snapshot() - before).of(FileKind::Database).bytes_read as f64)
}
