//! The bytes of a tier device, and of the mark on the flash file. All fields are little-endian.
//!
//! ```text
//! tier device
//! 0            4096                    data                        data + 2048 · slots
//! | header …    | entries, 32 bytes each … | slots, 2048 bytes each … |
//!                                          data = 4096 + 32 · slots, rounded up to 4096
//!
//! header, its first sector
//!  0                   16        20       24      32       40         48          56      60
//! | "litefoot tier 1\n" | version | state  | slots | pairing | session | generation | length | 0 … flash path … | CRC-32C |
//!                                   0 home, 1 crossing, 2 away         of the path       64                    508     512
//!
//! stamp, the second sector; anything else tells none
//!  0                   16        20      24        32       40
//! | "litefoot stamped" | version | 0 …   | pairing | number | 0 … | 508 CRC-32C 512 |
//!
//! slot entry, one for each slot, in their order
//!  0       4       8            16             24     28        32
//! | state | chunk | generation | slot's writes | slot | CRC-32C |
//!   0 never used (all zeros), 1 holds the chunk, 2 holds nothing
//!
//! mark, the first sector of the flash file while chunks live away
//!  0                   16        20              24        32        40
//! | "litefoot tiered\0" | version | path's length | pairing | session | path of the tier … | 508 CRC-32C 512 |
//! ```
//!
//! An entry counts if its generation is at least that of the header: what older pairings have left is void. Of two
//! entries that say they hold one chunk, the higher generation is right.
//!
//! The mark replaces the first 16 bytes, in which a SQLite database has its own magic (file format, section 1.3.1).
//! Stock SQLite then answers "file is not a database".

use litefoot_storage::file::SECTOR_BYTES;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Bytes of a chunk (P-SQLITE, section IV.A).
pub const CHUNK_BYTES: usize = 2048;
/// Most slots of a device, 32 GiB: each takes some memory as soon as a header says that it is there.
pub const MOST_SLOTS: u32 = 1 << 24;
/// Bytes of a slot entry.
pub const ENTRY_BYTES: usize = 32;
/// The offset of the entries; the header has all before.
pub const ENTRIES_AT: u64 = 4096;
/// Bytes of the header, of the mark, and of a stamp.
pub const HEADER_BYTES: usize = SECTOR_BYTES;
/// The offset of the stamp.
pub const STAMP_AT: u64 = HEADER_BYTES as u64;

const HEADER_MAGIC: &[u8; 16] = b"litefoot tier 1\n";
const MARK_MAGIC: &[u8; 16] = b"litefoot tiered\0";
const STAMP_MAGIC: &[u8; 16] = b"litefoot stamped";
const VERSION: u32 = 1;
const CRC_AT: usize = 508;
const HEADER_PATH_AT: usize = 64;
const MARK_PATH_AT: usize = 40;

/// The place of the chunks, as the header tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderState {
    /// All in the flash file; nothing on the device counts.
    Home,
    /// They leave or come back: the flash file's mark decides. Without it the flash file has everything.
    Crossing,
    /// Some on the device; the flash file is marked.
    Away,
}

/// The header of a tier device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The place of the chunks.
    pub state: HeaderState,
    /// Slots of the device.
    pub slots: u32,
    /// Drawn anew whenever chunks leave: tells the flash file and the device that they belong together.
    pub pairing: u64,
    /// Counts how often the pair was opened: tells an old copy of either.
    pub session: u64,
    /// Entries of a lower generation are void.
    pub generation: u64,
    /// The flash file, for messages; long ones are cut.
    pub flash_path: PathBuf,
}

/// The mark of a flash file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// As in the header.
    pub pairing: u64,
    /// As in the header, or one less.
    pub session: u64,
    /// The tier device, for messages; long ones are cut.
    pub tier_path: PathBuf,
}

/// The stamp of a file that has chunks away: nothing was written since it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierStamp {
    /// As in the header: another pairing's tells nothing.
    pub pairing: u64,
    /// Drawn anew for each stamp.
    pub number: u64,
}

/// A slot entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The chunk in the slot.
    pub chunk: Option<u32>,
    /// Counts up over all entries.
    pub generation: u64,
    /// Writes of the slot when the entry was written.
    pub writes: u64,
}

/// The kind of some bytes, as parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<T> {
    /// Foreign bytes.
    Other,
    /// Ours, but of a version that this program does not know.
    Version(u32),
    /// Ours, but the checksum does not fit.
    Damaged,
    /// It.
    Valid(T),
}

impl Header {
    /// Its sector.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let state: u32 = match self.state {
            HeaderState::Home => 0,
            HeaderState::Crossing => 1,
            HeaderState::Away => 2,
        };
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, HEADER_MAGIC);
        put(&mut bytes, 16, &VERSION.to_le_bytes());
        put(&mut bytes, 20, &state.to_le_bytes());
        put(&mut bytes, 24, &u64::from(self.slots).to_le_bytes());
        put(&mut bytes, 32, &self.pairing.to_le_bytes());
        put(&mut bytes, 40, &self.session.to_le_bytes());
        put(&mut bytes, 48, &self.generation.to_le_bytes());
        let length = put_path(&mut bytes, HEADER_PATH_AT, &self.flash_path);
        put(&mut bytes, 56, &length.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// The header in a sector.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Decoded<Header> {
        decode(bytes, HEADER_MAGIC, |bytes| {
            let state = match le32(bytes, 20) {
                0 => HeaderState::Home,
                1 => HeaderState::Crossing,
                2 => HeaderState::Away,
                _ => return None,
            };
            Some(Header {
                state,
                slots: u32::try_from(le64(bytes, 24)).ok().filter(|slots| *slots <= MOST_SLOTS)?,
                pairing: le64(bytes, 32),
                session: le64(bytes, 40),
                generation: le64(bytes, 48),
                flash_path: path(bytes, HEADER_PATH_AT, le32(bytes, 56))?,
            })
        })
    }

    /// True if this is the flash file that the header names.
    pub fn names(&self, flash: &Path) -> bool {
        is_named(&self.flash_path, flash)
    }
}

impl Mark {
    /// Its sector.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, MARK_MAGIC);
        put(&mut bytes, 16, &VERSION.to_le_bytes());
        put(&mut bytes, 24, &self.pairing.to_le_bytes());
        put(&mut bytes, 32, &self.session.to_le_bytes());
        let length = put_path(&mut bytes, MARK_PATH_AT, &self.tier_path);
        put(&mut bytes, 20, &length.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// The mark in a sector.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Decoded<Mark> {
        decode(bytes, MARK_MAGIC, |bytes| {
            Some(Mark {
                pairing: le64(bytes, 24),
                session: le64(bytes, 32),
                tier_path: path(bytes, MARK_PATH_AT, le32(bytes, 20))?,
            })
        })
    }
}

impl TierStamp {
    /// Its sector.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, STAMP_MAGIC);
        put(&mut bytes, 16, &VERSION.to_le_bytes());
        put(&mut bytes, 24, &self.pairing.to_le_bytes());
        put(&mut bytes, 32, &self.number.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// The stamp in a sector.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Decoded<TierStamp> {
        decode(bytes, STAMP_MAGIC, |bytes| {
            Some(TierStamp { pairing: le64(bytes, 24), number: le64(bytes, 32) })
        })
    }
}

impl Entry {
    /// Its bytes, as the entry of `slot`.
    pub fn encode(&self, slot: u32) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let state: u32 = if self.chunk.is_some() { 1 } else { 2 };
        put(&mut bytes, 0, &state.to_le_bytes());
        put(&mut bytes, 4, &self.chunk.unwrap_or_default().to_le_bytes());
        put(&mut bytes, 8, &self.generation.to_le_bytes());
        put(&mut bytes, 16, &self.writes.to_le_bytes());
        put(&mut bytes, 24, &slot.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..28]);
        put(&mut bytes, 28, &crc.to_le_bytes());
        bytes
    }

    /// The entry of `slot`; `None` where it is damaged.
    pub fn decode(bytes: &[u8], slot: u32) -> Option<Entry> {
        if bytes.len() != ENTRY_BYTES {
            return None;
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return Some(Entry { chunk: None, generation: 0, writes: 0 });
        }
        let chunk = match le32(bytes, 0) {
            1 => Some(le32(bytes, 4)),
            2 => None,
            _ => return None,
        };
        let valid = le32(bytes, 28) == crc32c::crc32c(&bytes[..28]) && le32(bytes, 24) == slot;
        valid.then(|| Entry { chunk, generation: le64(bytes, 8), writes: le64(bytes, 16) })
    }

    /// The entries of the slots from the first on; `None` for one that is damaged.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Option<Entry>> {
        bytes.chunks_exact(ENTRY_BYTES).enumerate().map(|(slot, bytes)| Entry::decode(bytes, slot as u32))
    }
}

/// The offset of a slot's entry.
pub fn entry_at(slot: u32) -> u64 {
    ENTRIES_AT + u64::from(slot) * ENTRY_BYTES as u64
}

/// The offset of a slot's bytes, on a device of `slots`.
pub fn slot_at(slots: u32, slot: u32) -> u64 {
    data_at(slots) + u64::from(slot) * CHUNK_BYTES as u64
}

fn data_at(slots: u32) -> u64 {
    entry_at(slots).next_multiple_of(ENTRIES_AT)
}

/// Bytes of a device of `slots`.
pub fn device_bytes(slots: u32) -> u64 {
    slot_at(slots, slots)
}

/// Slots of a device of so many bytes, at most `MOST_SLOTS`.
pub fn slots_in(bytes: u64) -> u32 {
    let rough = bytes.saturating_sub(ENTRIES_AT) / (CHUNK_BYTES + ENTRY_BYTES) as u64;
    let rough = u32::try_from(rough).unwrap_or(MOST_SLOTS).min(MOST_SLOTS);
    // The rounding of the entries costs two slots at most.
    (0..3).filter_map(|less| rough.checked_sub(less)).find(|slots| device_bytes(*slots) <= bytes).unwrap_or(0)
}

fn decode<T>(
    bytes: &[u8; HEADER_BYTES],
    magic: &[u8; 16],
    fields: impl FnOnce(&[u8]) -> Option<T>,
) -> Decoded<T> {
    if bytes[..16] != *magic {
        return Decoded::Other;
    }
    if le32(bytes, CRC_AT) != crc32c::crc32c(&bytes[..CRC_AT]) {
        return Decoded::Damaged;
    }
    match le32(bytes, 16) {
        VERSION => fields(bytes).map_or(Decoded::Damaged, Decoded::Valid),
        other => Decoded::Version(other),
    }
}

fn seal(bytes: &mut [u8; HEADER_BYTES]) {
    let crc = crc32c::crc32c(&bytes[..CRC_AT]);
    put(bytes, CRC_AT, &crc.to_le_bytes());
}

/// True if `kept`, the path in a header, is this flash file's; of a long path the header has the beginning.
pub fn is_named(kept: &Path, flash: &Path) -> bool {
    kept_part(HEADER_PATH_AT, flash) == kept.as_os_str().as_bytes()
}

/// The bytes of a path that there is room for.
fn kept_part(at: usize, path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    &bytes[..bytes.len().min(CRC_AT - at)]
}

fn put_path(bytes: &mut [u8], at: usize, path: &Path) -> u32 {
    let kept = kept_part(at, path);
    put(bytes, at, kept);
    kept.len() as u32
}

fn path(bytes: &[u8], at: usize, length: u32) -> Option<PathBuf> {
    let end = at.checked_add(length as usize).filter(|end| *end <= CRC_AT)?;
    Some(std::ffi::OsString::from_vec(bytes[at..end].to_vec()).into())
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(state: HeaderState) -> Header {
        Header { state, slots: 77, pairing: 1 << 60, session: 3, generation: 9, flash_path: "/a/b.db".into() }
    }

    #[test]
    fn what_is_written_is_read_and_a_changed_bit_is_seen() {
        let long = PathBuf::from(format!("/{}", "x".repeat(900)));
        let mut headers = [HeaderState::Home, HeaderState::Crossing, HeaderState::Away].map(header).to_vec();
        headers.push(Header { flash_path: long.clone(), ..header(HeaderState::Away) });
        for (index, header) in headers.iter().enumerate() {
            let bytes = header.encode();
            let Decoded::Valid(back) = Header::decode(&bytes) else { panic!("{header:?}") };
            assert!(back.names(&header.flash_path));
            assert!(["/a/c.db", "/a/b.db2", "/a"].iter().all(|other| !back.names(Path::new(other))));
            assert_eq!(Header { flash_path: header.flash_path.clone(), ..back }, *header, "{index}");
            for bit in (16 * 8..HEADER_BYTES * 8).step_by(13) {
                let mut bytes = bytes;
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::decode(&bytes), Decoded::Damaged, "bit {bit}");
            }
        }
        let mark = Mark { pairing: 5, session: 6, tier_path: "/dev/pmem0".into() };
        assert_eq!(Mark::decode(&mark.encode()), Decoded::Valid(mark));
        assert_eq!(Mark::decode(&header(HeaderState::Home).encode()), Decoded::Other);
        let mut newer = header(HeaderState::Home).encode();
        newer[16] = 2;
        seal(&mut newer);
        assert_eq!(Header::decode(&newer), Decoded::Version(2));
        let huge = Header { slots: MOST_SLOTS + 1, ..header(HeaderState::Away) };
        assert_eq!(Header::decode(&huge.encode()), Decoded::Damaged);
        for entry in [
            Entry { chunk: Some(0), generation: 1, writes: 7 },
            Entry { chunk: None, generation: 1 << 40, writes: u64::MAX },
        ] {
            let bytes = entry.encode(3);
            assert_eq!(Entry::decode(&bytes, 3), Some(entry));
            assert_eq!(Entry::decode(&bytes, 4), None);
            for bit in 0..ENTRY_BYTES * 8 {
                let mut bytes = bytes;
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Entry::decode(&bytes, 3), None, "bit {bit}");
            }
        }
        assert_eq!(Entry::decode(&[0; ENTRY_BYTES], 5).and_then(|entry| entry.chunk), None);
    }

    #[test]
    fn a_device_has_the_slots_that_fit() {
        for slots in [1, 2, 63, 64, 127, 128, 129, 4096, 100_000] {
            let bytes = device_bytes(slots);
            assert_eq!(slots_in(bytes), slots);
            assert!(slots_in(bytes - 1) < slots);
            assert!(entry_at(slots) <= slot_at(slots, 0));
        }
        assert_eq!(slots_in(0), 0);
        assert_eq!(slots_in(u64::MAX), MOST_SLOTS);
    }
}
