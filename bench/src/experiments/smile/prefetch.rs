//! Reading ahead: cold scans and random reads, with it and without.

use super::files::{Files, ms, open, timed, workers};
use super::plain::WithoutReadahead;
use super::scans::THRESHOLD;
use crate::harness::{Progress, interleave, make_cold, median, median_ratio};
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_pagestore::ops::{above, scan};
use litefoot_sim::{CountingMedium, Device, ModelledMedium};
use litefoot_storage::file::{FileKind, Medium};
use litefoot_storage::os::OsMedium;
use std::path::Path;
use std::sync::Arc;

/// The page size that the thesis found best on its board.
const PAGE_BYTES: usize = 4096;
/// Memory while the patterns are measured, as a share of the file.
const MEMORY_SHARE: u64 = 10;
/// Threads of the scans by workers.
const THREADS: [usize; 4] = [1, 2, 4, 8];

pub fn run(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let path = files.random(PAGE_BYTES, files.sizes.cold_bytes, progress)?;
    let rounds = files.sizes.rounds;
    let sides = [true, false];
    progress.begin("cold scans on this disk", 4 * rounds as u64);
    let disk = interleave(&sides, rounds, |_, prefetch| {
        progress.advance(1)?;
        cold_scan(&OsMedium::new(), files, &path, *prefetch)
    })?;
    let bare = interleave(&sides, rounds, |_, prefetch| {
        progress.advance(1)?;
        cold_scan(&WithoutReadahead::new(), files, &path, *prefetch)
    })?;
    progress.begin("cold scans on a modelled SD card", 2 * rounds as u64);
    let modelled = interleave(&sides, rounds, |_, prefetch| {
        progress.advance(1)?;
        modelled_scans(files, &path, *prefetch)
    })?;
    by_threads(files, &path, figures, progress)?;
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
    figures.set("ratio.cold_prefetch_speedup.disk_without_readahead", median_ratio(&bare[1], &bare[0]));
    figures.set("ratio.random_prefetch_bytes", bytes[0] / bytes[1]);
    Ok(())
}

/// Cold scans by workers, which share the file as the threads of the thesis do.
fn by_threads(
    files: &Files<'_>,
    path: &Path,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let sides: Vec<(usize, bool)> =
        THREADS.iter().flat_map(|threads| [(*threads, true), (*threads, false)]).collect();
    progress.begin("cold scans by threads", (files.sizes.rounds * sides.len()) as u64);
    let times = interleave(&sides, files.sizes.rounds, |_, (threads, prefetch)| {
        progress.advance(1)?;
        let workers = workers(*threads)?;
        make_cold(path)?;
        let file = open(&OsMedium::new(), path, files.sizes.cold_bytes, *prefetch)?;
        let (_, time) = timed(|| Ok(scan(&workers, &file, &file.extents(), THRESHOLD)?))?;
        Ok(ms(time))
    })?;
    for (pair, threads) in times.chunks(2).zip(THREADS) {
        figures.set(format!("scan_ms.cold.prefetch_on_threads_{threads}"), median(pair[0].iter().copied()));
        figures.set(format!("scan_ms.cold.prefetch_off_threads_{threads}"), median(pair[1].iter().copied()));
        figures.set(format!("ratio.cold_prefetch_time.threads_{threads}"), median_ratio(&pair[0], &pair[1]));
    }
    Ok(())
}

/// Milliseconds by the clock, for a plain thread that scans. Without prefetch it reads each page itself, with
/// whatever the system reads ahead: there is no faster way to do without.
fn cold_scan(medium: &dyn Medium, files: &Files<'_>, path: &Path, prefetch: bool) -> Result<f64> {
    make_cold(path)?;
    let file = open(medium, path, files.sizes.cold_bytes / MEMORY_SHARE, prefetch)?;
    let pages = file.extents().len();
    let (_, time) = timed(|| {
        (1..=pages).try_fold(0, |count, page| Ok::<_, Error>(count + above(&file.pin(page)?, THRESHOLD)))
    })?;
    Ok(ms(time))
}

/// Two scans of a half each, page by page in turn, as a merge join reads. Microseconds of the device, which has
/// seen nothing of the file before.
fn modelled_scans(files: &Files<'_>, path: &Path, prefetch: bool) -> Result<f64> {
    let medium = ModelledMedium::new(Arc::new(OsMedium::new()));
    let file = open(&medium, path, files.sizes.cold_bytes / MEMORY_SHARE, prefetch)?;
    let half = file.extents().len() / 2;
    let mut count = 0;
    for page in 1..=half {
        for page in [page, half + page] {
            count += above(&file.pin(page)?, THRESHOLD);
        }
    }
    std::hint::black_box(count);
    Ok(medium.virtual_us(Device::SdCardA1))
}

/// Bytes that random requests read from the medium, with memory for a tenth of the file.
fn random_bytes(files: &Files<'_>, path: &Path, prefetch: bool) -> Result<f64> {
    let medium = CountingMedium::new(Arc::new(OsMedium::new()));
    let file = open(&medium, path, files.sizes.cold_bytes / MEMORY_SHARE, prefetch)?;
    let pages = file.extents().len();
    let mut random = fastrand::Rng::with_seed(files.seed);
    let before = medium.snapshot();
    for _ in 0..pages {
        file.pin(random.u64(1..=pages))?;
    }
    drop(file);
    Ok((medium.snapshot() - before).of(FileKind::Database).bytes_read as f64)
}
