//! Page files as the commands see them: sizes on the command line, and how a file is opened and made.

use crate::failure::Failure;
use litefoot_engine::device::{OsMedium, parent_directory};
use litefoot_engine::pagefile::{Builder, Error, Options, PAGE_SIZES, PageFile};
use litefoot_engine::task::io::{IoConfig, IoQueue};
use litefoot_engine::task::{Config, Workers};
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
    Builder::create(Arc::new(OsMedium::new()), path, page_bytes.0).map_err(|error| explain(path, &error))
}

/// Gives a page file its name.
pub fn finish(builder: Builder, path: &Path) -> Result<(), Failure> {
    builder.finish().map_err(|error| explain(path, &error))
}

/// Opens a page file.
pub fn open(path: &Path, options: &Options) -> Result<PageFile, Failure> {
    if !path.exists() {
        return Err(Failure::file(path, "no such file").advice("Check the path; nothing was created."));
    }
    if path.is_dir() {
        return Err(Failure::file(path, "is a directory").advice("Name a page file."));
    }
    let io = IoQueue::start(&IoConfig::default()).map_err(|error| Failure::new(error.to_string()))?;
    PageFile::open(&OsMedium::new(), path, Arc::new(io), options).map_err(|error| explain(path, &error))
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
        for (text, good) in [("4096", true), ("64K", true), ("2K", false), ("5000", false), ("128K", false)] {
            assert_eq!(text.parse::<PageBytes>().is_ok(), good, "{text}");
        }
    }
}
