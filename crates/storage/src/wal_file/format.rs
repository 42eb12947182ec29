//! The bytes of SQLite's write-ahead log (SQLite file format, section 4).
//!
//! ```text
//! header, 32 bytes, all fields big-endian
//!  0      4        8          12          16      20      24          28
//! | magic | format | page size | generation | salt 1 | salt 2 | checksum 1 | checksum 2 |
//!                              12          14          16       18          19     20
//! of a log that names its file: | data file | this file | counts | this file | mark | content |
//!
//! frame, 24 bytes and a page
//!  0             4                8        12       16           20           24
//! | page number | database pages | salt 1 | salt 2 | checksum 1 | checksum 2 | page … |
//!                 0 except in the last frame of a transaction
//! ```
//!
//! The checksum runs through the whole file: that of a frame continues that of the frame before it, the
//! first one that of the header. It covers the first 24 bytes of the header, and of a frame the first 8
//! bytes and the page. The magic's lowest bit says in which byte order its words are taken.
//!
//! A frame is valid if it carries the header's salts and its checksum fits. Frames count up to the last valid one that
//! ends a transaction. A new generation has other salts, so that what is left of the old one is never taken for it.

/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;
/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 24;

/// The offset of the checksum in a frame's header.
pub const CHECKSUM_AT: usize = 16;

const MAGIC: u32 = 0x377f_0682;
const FORMAT: u32 = 3_007_000;

/// A running checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum(u32, u32);

impl Checksum {
    /// Continues over `bytes`, whose length is a multiple of 8.
    pub fn over(self, bytes: &[u8], big_endian: bool) -> Checksum {
        // A loop for each order: a call for every word would take longer than the sum.
        if big_endian {
            self.over_words(bytes, u32::from_be_bytes)
        } else {
            self.over_words(bytes, u32::from_le_bytes)
        }
    }

    #[inline(always)]
    fn over_words(self, bytes: &[u8], word: impl Fn([u8; 4]) -> u32) -> Checksum {
        let (mut a, mut b) = (self.0, self.1);
        for pair in bytes.chunks_exact(8) {
            a = a.wrapping_add(word([pair[0], pair[1], pair[2], pair[3]])).wrapping_add(b);
            b = b.wrapping_add(word([pair[4], pair[5], pair[6], pair[7]])).wrapping_add(a);
        }
        Checksum(a, b)
    }

    /// Its two words, as they stand in the file.
    pub fn words(self) -> [u32; 2] {
        [self.0, self.1]
    }

    fn read(bytes: &[u8], at: usize) -> Checksum {
        Checksum(be32(bytes, at), be32(bytes, at + 4))
    }

    fn write(self, bytes: &mut [u8], at: usize) {
        put32(bytes, at, self.0);
        put32(bytes, at + 4, self.1);
    }
}

/// The contribution of a page to a checksum, whatever stands before it.
///
/// The checksum is linear in its start and in the bytes: `over(before, page) = step(before) + over(0, page)`. So a page
/// that was written early joins the chain without being read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSum(Checksum);

/// The effect of a page of zeros on any checksum.
#[derive(Clone, Copy, Debug)]
pub struct ChecksumStep([Checksum; 2]);

impl ChecksumStep {
    fn over(self, before: Checksum) -> Checksum {
        let [first, second] = self.0;
        let add = |a: u32, b: u32| before.0.wrapping_mul(a).wrapping_add(before.1.wrapping_mul(b));
        Checksum(add(first.0, second.0), add(first.1, second.1))
    }
}

/// The origin of a generation, in fields that are any numbers to SQLite; see `origin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The checksum of the data file's first sector when the generation began.
    pub content: u32,
    /// The identity of the data file, in 16 bits.
    pub data: u16,
    /// The identity of the log's file, in 24 bits.
    pub log: u32,
}

/// The step of salt 1 from one generation to the next. Below it are the upper bits of the log's identity, and the mark.
const SALT_STEP: u32 = 1 << 16;

/// What an origin is known by: SQLite's counter of generations, and its salts, may be any numbers.
fn mark(generation: u32, content: u32) -> u8 {
    let sum =
        [generation, content].iter().fold(MAGIC, |sum, word| crc32c::crc32c_append(sum, &word.to_le_bytes()));
    ((sum >> 16) ^ sum) as u8
}

/// The header of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The number of generations before; or the identities of the log's files.
    pub generation: u32,
    /// The mark of this generation's frames.
    pub salts: [u32; 2],
    /// True if checksums take big-endian words.
    pub big_endian: bool,
}

impl Header {
    /// The first generation of a log, which says whose it is where that is known.
    pub fn first(page_bytes: u32, origin: Option<Origin>) -> Header {
        Header::of(page_bytes, 0, fastrand::u32(..), origin)
    }

    /// The generation after this one.
    pub fn next(self, page_bytes: u32, origin: Option<Origin>) -> Header {
        Header::of(page_bytes, self.generation.wrapping_add(1), self.salts[0].wrapping_add(SALT_STEP), origin)
    }

    fn of(page_bytes: u32, generation: u32, salt: u32, origin: Option<Origin>) -> Header {
        let (generation, salts) = match origin {
            Some(Origin { content, data, log }) => {
                let generation = u32::from(data) << 16 | log & 0xffff;
                let below = log >> 16 << 8 | u32::from(mark(generation, content));
                (generation, [salt & !(SALT_STEP - 1) | below, content])
            }
            None => (generation, [salt, fastrand::u32(..)]),
        };
        Header { page_bytes, generation, salts, big_endian: cfg!(target_endian = "big") }
    }

    /// The origin, where the header has the mark of one. SQLite's own has it by chance, once in 256 logs: it names other
    /// files then.
    pub fn origin(&self) -> Option<Origin> {
        let Header { generation, salts: [salt, content], .. } = *self;
        let is_marked = salt as u8 == mark(generation, content);
        let log = (salt >> 8 & 0xff) << 16 | generation & 0xffff;
        is_marked.then_some(Origin { content, data: (generation >> 16) as u16, log })
    }

    /// The bytes, and the checksum that the first frame continues.
    pub fn encode(&self) -> ([u8; HEADER_BYTES], Checksum) {
        let mut bytes = [0; HEADER_BYTES];
        put32(&mut bytes, 0, MAGIC | u32::from(self.big_endian));
        put32(&mut bytes, 4, FORMAT);
        put32(&mut bytes, 8, self.page_bytes);
        put32(&mut bytes, 12, self.generation);
        put32(&mut bytes, 16, self.salts[0]);
        put32(&mut bytes, 20, self.salts[1]);
        let checksum = Checksum::default().over(&bytes[..24], self.big_endian);
        checksum.write(&mut bytes, 24);
        (bytes, checksum)
    }

    /// True if bytes begin as a header does, be it valid or torn.
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.len() >= 4 && be32(bytes, 0) & !1 == MAGIC
    }

    /// Reads a header; `None` where there is no valid one.
    pub fn decode(bytes: &[u8]) -> Option<(Header, Checksum)> {
        if bytes.len() < HEADER_BYTES || be32(bytes, 0) & !1 != MAGIC || be32(bytes, 4) != FORMAT {
            return None;
        }
        let header = Header {
            page_bytes: be32(bytes, 8),
            generation: be32(bytes, 12),
            salts: [be32(bytes, 16), be32(bytes, 20)],
            big_endian: be32(bytes, 0) & 1 == 1,
        };
        let checksum = Checksum::default().over(&bytes[..24], header.big_endian);
        let page = header.page_bytes;
        let sound = page.is_power_of_two() && (512..=65536).contains(&page);
        (sound && checksum == Checksum::read(bytes, 24)).then_some((header, checksum))
    }

    /// Bytes of a frame.
    pub fn frame_bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.page_bytes as usize
    }

    /// The offset of a frame; frames count from 0.
    pub fn frame_offset(&self, frame: u32) -> u64 {
        HEADER_BYTES as u64 + u64::from(frame) * self.frame_bytes() as u64
    }

    /// A frame's header, and the checksum that the next frame continues.
    pub fn encode_frame(
        &self,
        before: Checksum,
        page_number: u32,
        database_pages: u32,
        page: &[u8],
    ) -> ([u8; FRAME_HEADER_BYTES], Checksum) {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        put32(&mut bytes, 0, page_number);
        put32(&mut bytes, 4, database_pages);
        put32(&mut bytes, 8, self.salts[0]);
        put32(&mut bytes, 12, self.salts[1]);
        let checksum = before.over(&bytes[..8], self.big_endian).over(page, self.big_endian);
        checksum.write(&mut bytes, 16);
        (bytes, checksum)
    }

    /// The contribution of a page to the checksum.
    pub fn page_sum(&self, page: &[u8]) -> PageSum {
        PageSum(Checksum::default().over(page, self.big_endian))
    }

    /// The checksum after a page of zeros.
    pub fn step(&self) -> ChecksumStep {
        let zeros = vec![0; self.page_bytes as usize];
        ChecksumStep([Checksum(1, 0), Checksum(0, 1)].map(|unit| unit.over(&zeros, self.big_endian)))
    }

    /// As [`Header::encode_frame`], for a page of which only the sum is at hand.
    pub fn encode_frame_of_sum(
        &self,
        before: Checksum,
        page_number: u32,
        database_pages: u32,
        step: ChecksumStep,
        sum: PageSum,
    ) -> ([u8; FRAME_HEADER_BYTES], Checksum) {
        let (mut bytes, _) = self.encode_frame(before, page_number, database_pages, &[]);
        let stepped = step.over(before.over(&bytes[..8], self.big_endian));
        let checksum = Checksum(stepped.0.wrapping_add(sum.0.0), stepped.1.wrapping_add(sum.0.1));
        checksum.write(&mut bytes, 16);
        (bytes, checksum)
    }

    /// A page after which the checksum is the one that a frame's header has: zeros, but for the last eight bytes. It stands for a
    /// page that nobody can ask for, so that the frames behind it stay valid.
    pub fn page_of_checksum(&self, before: Checksum, head: &[u8; FRAME_HEADER_BYTES]) -> Vec<u8> {
        let mut page = vec![0; self.page_bytes as usize];
        let last = page.len() - 8;
        let Checksum(a, b) = before.over(&head[..8], self.big_endian).over(&page[..last], self.big_endian);
        let wanted = Checksum::read(head, CHECKSUM_AT);
        let first = wanted.0.wrapping_sub(a).wrapping_sub(b);
        let second = wanted.1.wrapping_sub(b).wrapping_sub(wanted.0);
        for (at, word) in [(last, first), (last + 4, second)] {
            let bytes = if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
            page[at..at + 4].copy_from_slice(&bytes);
        }
        page
    }

    /// Page number and database pages of a whole frame, and its checksum; `None` if it is not valid.
    pub fn decode_frame(&self, before: Checksum, frame: &[u8]) -> Option<(u32, u32, Checksum)> {
        let (head, page) = frame.split_at_checked(FRAME_HEADER_BYTES)?;
        let page_number = be32(head, 0);
        if page_number == 0 || [be32(head, 8), be32(head, 12)] != self.salts {
            return None;
        }
        let checksum = before.over(&head[..8], self.big_endian).over(page, self.big_endian);
        (checksum == Checksum::read(head, 16)).then(|| (page_number, be32(head, 4), checksum))
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
