//! The state file: what this machine knows of a destination, across restarts.
//!
//! It is no part of what makes a delivery right: where it is missing, old or damaged, the destination is asked, and in the worst case the whole
//! database is sent once more. So it is written seldom, and never in place.
//!
//! ```text
//!  0 "LFSHIPST"              32 checksum of the database    u64
//!  8 version 1        u32    40 a checksum for each page  n u64
//! 12 bytes of a page  u32       CRC-64/GO-ISO of all above  u64
//! 16 pages n          u32    (little-endian)
//! 20 zeros            u32
//! 24 last delivery    u64
//! ```

use super::PageMap;
use crate::{Error, Result};
use litefoot_ltx::{Checksum, Digest, is_page_size};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"LFSHIPST";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;

/// What is known of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The number of the last delivery.
    pub sequence: u64,
    /// The pages of the database behind it.
    pub map: PageMap,
}

/// Reads a state file; `None` where there is none that can be used.
pub fn load(path: &Path) -> Result<Option<Known>> {
    match fs::read(path) {
        Ok(bytes) => Ok(decode(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::local(path, error)),
    }
}

/// Writes a state file beside the old one, and puts it in its place once it is on the disk.
pub fn save(path: &Path, known: &Known) -> Result<()> {
    let fail = |error: io::Error| Error::local(path, format!("the state cannot be written: {error}"));
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".litefoot-ship-").tempfile_in(directory).map_err(fail)?;
    file.write_all(&encode(known)).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(fail)
}

/// The bytes of a state file.
pub fn encode(known: &Known) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + 8 * (known.map.len() as usize + 1));
    bytes.extend(MAGIC);
    for number in [VERSION, known.map.page_size(), known.map.len(), 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(known.sequence.to_le_bytes());
    bytes.extend(known.map.sum().bits().to_le_bytes());
    known.map.checksums().iter().for_each(|page| bytes.extend(page.bits().to_le_bytes()));
    let mut digest = Digest::default();
    digest.update(&bytes);
    bytes.extend(digest.checksum().bits().to_le_bytes());
    bytes
}

/// Reads the bytes of a state file; `None` where they are no whole one.
pub fn decode(bytes: &[u8]) -> Option<Known> {
    let (covered, checksum) = bytes.split_last_chunk()?;
    let mut digest = Digest::default();
    digest.update(covered);
    if digest.checksum().bits() != u64::from_le_bytes(*checksum) || covered.get(..8)? != MAGIC {
        return None;
    }
    let u32_at = |at: usize| Some(u32::from_le_bytes(covered.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(covered.get(at..at + 8)?.try_into().ok()?));
    let (page_size, pages) = (u32_at(12)?, u32_at(16)?);
    let is_whole = covered.len() == HEADER_BYTES.checked_add((pages as usize).checked_mul(8)?)?;
    if u32_at(8)? != VERSION || !is_page_size(page_size) || !is_whole {
        return None;
    }
    let mut map = PageMap::new(page_size);
    map.resize(pages);
    for (page, place) in (1..=pages).zip((HEADER_BYTES..).step_by(8)) {
        let checksum = Checksum::from_bits(u64_at(place)?);
        if checksum.is_some() {
            map.set(page, checksum);
        }
    }
    (map.sum().bits() == u64_at(32)?).then_some(Known { sequence: u64_at(24)?, map })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(pages: u32) -> Known {
        let mut map = PageMap::new(4096);
        (1..=pages).for_each(|page| {
            map.set(page, Checksum::of_page(page, &[3]));
        });
        Known { sequence: 77, map }
    }

    #[test]
    fn it_comes_back_whole_or_not_at_all() {
        for pages in [0, 1, 100] {
            let bytes = encode(&known(pages));
            assert_eq!(decode(&bytes), Some(known(pages)));
            for at in 0..bytes.len() {
                assert_eq!(decode(&bytes[..at]), None);
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert_eq!(decode(&damaged), None, "{at}");
            }
        }
    }

    #[test]
    fn a_new_one_takes_the_place_of_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        assert_eq!(load(&path).unwrap(), None);
        for pages in [5, 2] {
            save(&path, &known(pages)).unwrap();
            assert_eq!(load(&path).unwrap(), Some(known(pages)));
        }
        fs::write(&path, "of another program").unwrap();
        assert_eq!(load(&path).unwrap(), None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing stays beside it");
    }
}
