//! Page files and databases of pages as the commands see them: sizes on the command line, and how they are opened
//! and made.

use litefoot_pagestore::ops::{self, Extents, Pages};
use litefoot_pagestore::pagefile::{Builder, Error, Options, PAGE_SIZES, PageFile, Pinned};
use litefoot_pagestore::store::{self, Database};
use litefoot_pagestore::task::{Config, Workers};
use litefoot_storage::buffer_pool::{FEWEST_FRAMES, Statistics};
use litefoot_storage::file::{Medium, parent_directory};
use litefoot_storage::io::{IoConfig, IoQueue};
use litefoot_storage::os::OsMedium;
use litefoot_terminal::Failure;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// A number of bytes on the command line, with K, M or G for 1,024 of them and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub usize);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let wrong = || format!("{text:?} is no number of bytes, such as 4096, 64K or 16M");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            _ => return Err(wrong()),
        };
        let number: usize = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).map(Bytes).ok_or_else(wrong)
    }
}

/// The size of a page on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageBytes(pub usize);

impl FromStr for PageBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<PageBytes, String> {
        let Bytes(bytes) = text.parse()?;
        if PAGE_SIZES.contains(&bytes) {
            Ok(PageBytes(bytes))
        } else {
            Err(Error::PageSize(bytes).to_string())
        }
    }
}

/// Begins a page file; dropping the builder leaves nothing.
pub fn create(path: &Path, page_bytes: PageBytes) -> Result<Builder, Failure> {
    if path.is_dir() {
        return Err(Failure::file(path, "is a directory").advice("Name the file to make."));
    }
    let directory = parent_directory(path);
    if !directory.exists() {
        let what = format!("the directory {} does not exist", directory.display());
        return Err(Failure::file(path, what).advice(format!("Make it: mkdir -p {}", directory.display())));
    }
    Builder::create(medium(), path, page_bytes.0).map_err(|error| explain(path, &error))
}

/// Gives a page file its name.
pub fn finish(builder: Builder, path: &Path) -> Result<(), Failure> {
    builder.finish().map_err(|error| explain(path, &error))
}

/// Opens a page file.
pub fn open(path: &Path, options: &Options) -> Result<PageFile, Failure> {
    look(path)?;
    PageFile::open(&OsMedium::new(), path, queue()?, options).map_err(|error| explain(path, &error))
}

fn look(path: &Path) -> Result<(), Failure> {
    if !path.exists() {
        return Err(Failure::file(path, "no such file").advice("Check the path; nothing was created."));
    }
    if path.is_dir() {
        return Err(Failure::file(path, "is a directory").advice("Name a page file."));
    }
    Ok(())
}

fn queue() -> Result<Arc<IoQueue>, Failure> {
    IoQueue::start(&IoConfig::default()).map(Arc::new).map_err(|error| Failure::new(error.to_string()))
}

/// The home of pages: a file that is written once, or a database.
pub enum Opened {
    File(Box<PageFile>),
    Database(Database),
}

impl Pages for Opened {
    type Guard<'a> = Pinned<'a>;

    fn page_bytes(&self) -> usize {
        match self {
            Opened::File(file) => file.page_bytes(),
            Opened::Database(database) => database.page_bytes(),
        }
    }

    fn page(&self, page: u64) -> ops::Result<Pinned<'_>> {
        match self {
            Opened::File(file) => file.page(page),
            Opened::Database(database) => database.page(page),
        }
    }
}

impl Opened {
    /// The pages that hold something.
    pub fn extents(&self) -> Extents {
        match self {
            Opened::File(file) => file.extents(),
            Opened::Database(database) => database.extents(),
        }
    }

    pub fn statistics(&self) -> Statistics {
        match self {
            Opened::File(file) => file.statistics(),
            Opened::Database(database) => database.statistics().pool,
        }
    }
}

/// Opens a page file or a database of pages, whichever is there.
pub fn open_any(path: &Path, options: &Options) -> Result<Opened, Failure> {
    if Database::exists(&OsMedium::new(), path).map_err(said)? {
        open_database(path, options).map(Opened::Database)
    } else {
        open(path, options).map(|file| Opened::File(Box::new(file)))
    }
}

/// Makes a database of pages, and opens it.
pub fn create_database(path: &Path, page_bytes: PageBytes) -> Result<Database, Failure> {
    Database::create(&medium(), path, page_bytes.0).map_err(said)?;
    open_database(path, &Options::default())
}

/// Removes a database that was not finished.
pub fn remove_database(path: &Path) {
    // A file that cannot be removed keeps its name, and the next attempt says so.
    let _ = Database::remove(&OsMedium::new(), path);
}

fn medium() -> Arc<dyn Medium> {
    Arc::new(OsMedium::new())
}

/// An error of a database of pages: it names its file itself.
fn said(error: store::Error) -> Failure {
    Failure::new(error.to_string())
}

/// Opens a database of pages.
pub fn open_database(path: &Path, options: &Options) -> Result<Database, Failure> {
    look(path)?;
    // Pages of the largest size fit any pool of whole ones.
    let most = store::PAGE_SIZES[store::PAGE_SIZES.len() - 1];
    let options = store::Options {
        pool_bytes: options.cache_bytes.next_multiple_of(most).max(FEWEST_FRAMES * most),
        partitions: options.partitions,
        prefetch: options.prefetch,
        ..store::Options::default()
    };
    Database::open(&medium(), path, queue()?, &options).map_err(said)
}

/// Starts workers: one for each processor where no number is given.
pub fn workers(threads: Option<u16>) -> Result<Workers, Failure> {
    let config = threads.map_or_else(Config::default, |threads| Config::with_threads(usize::from(threads)));
    Workers::start(config).map_err(|error| Failure::new(error.to_string()))
}

/// An error of a page file, in words.
fn explain(path: &Path, error: &Error) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        Error::NotAPageFile { .. } => failure.advice(
            "Check the path. Page files are made by `litefoot graph load` and `litefoot pages create`.",
        ),
        Error::Device(error) if error.source.kind() == std::io::ErrorKind::PermissionDenied => {
            Failure::file(path, "this user may not read or write it").advice("Look at the permissions: ls -l")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("0", Some(0)), ("4096", Some(4096)), ("64k", Some(65_536)), ("16M", Some(1 << 24))]
        {
            assert_eq!(text.parse().ok().map(|Bytes(bytes)| bytes), bytes, "{text}");
        }
        for text in ["", "K", "-1", "1.5M", "4 K", "4T", "99999999999999999999", "18014398509481984K"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        for (text, good) in
            [("4096", true), ("64K", true), ("2K", false), ("5000", false), ("256K", true), ("512K", false)]
        {
            assert_eq!(text.parse::<PageBytes>().is_ok(), good, "{text}");
        }
    }
}
