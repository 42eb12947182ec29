//! The page files of the experiment.

use super::Sizes;
use crate::Result;
use crate::harness::Progress;
use litefoot_pagestore::ops::PagesMut;
use litefoot_pagestore::pagefile::{Builder, Options, PageFile};
use litefoot_pagestore::task::{Config, Workers};
use litefoot_storage::file::Medium;
use litefoot_storage::io::{IoConfig, IoQueue};
use litefoot_storage::os::OsMedium;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// State that the parts of a run share.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    pub directory: &'a Path,
    pub seed: u64,
    pub sizes: Sizes,
}

impl Files<'_> {
    /// A file of random bytes with pages of that size; made at the first call.
    pub fn random(&self, page_bytes: usize, bytes: u64, progress: &mut dyn Progress) -> Result<PathBuf> {
        let path = self.directory.join(format!("{page_bytes}-{bytes}.pages"));
        if path.exists() {
            return Ok(path);
        }
        let pages = bytes / page_bytes as u64;
        progress.begin("making a file", pages);
        let builder = Builder::create(Arc::new(OsMedium::new()), &path, page_bytes)?;
        let extents = builder.allocate(pages)?;
        let mut random = fastrand::Rng::with_seed(self.seed);
        for page in extents.ranges().iter().cloned().flatten() {
            builder.update(page, &mut |bytes| random.fill(bytes))?;
            progress.advance(1)?;
        }
        builder.finish()?;
        Ok(path)
    }
}

/// Opens a file with memory for so many bytes of its pages.
pub fn open(medium: &dyn Medium, path: &Path, cache_bytes: u64, prefetch: bool) -> Result<PageFile> {
    let cache_bytes = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
    open_with(medium, path, Options { cache_bytes, prefetch, ..Options::default() })
}

/// The same, with any options.
pub fn open_with(medium: &dyn Medium, path: &Path, options: Options) -> Result<PageFile> {
    let io = Arc::new(IoQueue::start(&IoConfig::default())?);
    Ok(PageFile::open(medium, path, io, &options)?)
}

/// Workers on so many threads.
pub fn workers(threads: usize) -> Result<Workers> {
    Ok(Workers::start(Config::with_threads(threads))?)
}

/// How long something takes by the clock.
pub fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let begun = Instant::now();
    let result = work()?;
    Ok((result, begun.elapsed()))
}

/// Milliseconds.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
