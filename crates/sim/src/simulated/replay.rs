//! Making the files as a power cut could leave them.
//!
//! A [`Replay`] walks forward through the recorded operations and keeps two views: what is durable for
//! certain, and what has been done since. [`Replay::cut`] rolls the dice over the second.

use super::times::{Clock, Times};
use super::{Born, Event, Inode, SimMedium};
use litefoot_storage::file::{FileKind, SECTOR_BYTES, parent_directory};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

/// A small seeded generator (SplitMix64): the same seed gives the same cuts on every machine.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator of that seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.bits() % bound }
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The fate of the operations that no sync has covered.
#[derive(Clone, Copy, Debug)]
enum Luck {
    AllLost,
    AllKept,
    /// Exactly the first so many of them happened.
    Prefix(usize),
    /// Each sector, length and name for itself.
    Each,
}

impl Times {
    fn cut(&self, luck: Luck, random: &mut Random) -> u64 {
        match luck {
            Luck::AllLost => self.durable(),
            Luck::AllKept => self.current(),
            Luck::Prefix(_) | Luck::Each => self.any(random),
        }
    }
}

#[derive(Clone, Default)]
struct Shadow {
    durable: Vec<u8>,
    /// Contents as the operating system sees them.
    current: Vec<u8>,
    times: Times,
    pending: Vec<Pending>,
}

#[derive(Clone)]
enum Pending {
    Write {
        offset: usize,
        bytes: Arc<[u8]>,
    },
    SetLen {
        len: usize,
    },
    /// Whole sectors that are safe; older versions of them cannot come back.
    Durable {
        start: usize,
        sectors: Arc<[u8]>,
    },
}

/// A walk through a recorded run.
pub struct Replay {
    events: Vec<Event>,
    /// Of each file: what it is for, and its birth.
    kinds: Vec<(FileKind, u64)>,
    position: usize,
    files: Vec<Shadow>,
    durable_names: BTreeMap<PathBuf, Inode>,
    pending_names: Vec<Event>,
    /// As it was at the end of the run.
    clock: Clock,
}

impl Replay {
    pub(super) fn new(
        base: &[(PathBuf, u64, Arc<[u8]>)],
        events: Vec<Event>,
        kinds: Vec<(FileKind, u64)>,
        clock: Clock,
    ) -> Replay {
        let mut files: Vec<Shadow> = kinds.iter().map(|_| Shadow::default()).collect();
        let mut durable_names = BTreeMap::new();
        for (inode, (path, time, bytes)) in base.iter().enumerate() {
            files[inode].durable = bytes.to_vec();
            files[inode].current = bytes.to_vec();
            files[inode].times = Times::new(*time);
            durable_names.insert(path.clone(), inode);
        }
        Replay { events, kinds, position: 0, files, durable_names, pending_names: Vec::new(), clock }
    }

    /// Number of operations in the run.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// True if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The operations of a range, one a line, for a person who looks into a failure.
    pub fn describe(&self, range: std::ops::Range<usize>) -> String {
        let mut text = String::new();
        for (number, event) in self.events.iter().enumerate().take(range.end).skip(range.start) {
            let kind = |inode: &Inode| format!("{} #{inode}", self.kinds[*inode].0.name());
            let line = match event {
                Event::Create { path, inode, .. } => format!("create {} {}", kind(inode), path.display()),
                Event::Delete { path } => format!("delete {}", path.display()),
                Event::Rename { from, to } => format!("rename {} to {}", from.display(), to.display()),
                Event::SyncDirectory { directory } => format!("sync directory {}", directory.display()),
                Event::Write { inode, offset, bytes, .. } => {
                    format!("write {} {offset} +{}", kind(inode), bytes.len())
                }
                Event::WriteDurable { inode, offset, bytes, .. } => {
                    format!("write durably {} {offset} +{}", kind(inode), bytes.len())
                }
                Event::WriteAtomic { inode, offset, bytes, .. } => {
                    format!("write atomically {} {offset} +{}", kind(inode), bytes.len())
                }
                Event::SetLen { inode, len, .. } => format!("set length {} {len}", kind(inode)),
                Event::Sync { inode } => format!("sync {}", kind(inode)),
                Event::SetTime { inode, time } => format!("set time {} {time}", kind(inode)),
                Event::SyncAll { inode } => format!("sync with its time {}", kind(inode)),
            };
            let _ = writeln!(text, "{number:6} {line}");
        }
        text
    }

    /// Walks forward until `point` operations have happened; never back.
    pub fn advance(&mut self, point: usize) {
        let end = point.min(self.events.len());
        while self.position < end {
            let event = self.events[self.position].clone();
            self.position += 1;
            self.apply(event);
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Create { .. } | Event::Delete { .. } | Event::Rename { .. } => {
                if let Event::Create { inode, time, .. } = event {
                    self.files[inode].times = Times::new(time);
                }
                self.pending_names.push(event)
            }
            Event::SyncDirectory { directory } => {
                let names = std::mem::take(&mut self.pending_names);
                for event in names {
                    if directory_of(&event) == directory {
                        rename(&mut self.durable_names, &event);
                    } else {
                        self.pending_names.push(event);
                    }
                }
            }
            Event::Write { inode, offset, bytes, time } => {
                let file = &mut self.files[inode];
                file.times.change(time);
                let offset = offset as usize;
                overlay(&mut file.current, offset, &bytes);
                file.pending.push(Pending::Write { offset, bytes });
            }
            Event::WriteDurable { inode, offset, bytes, time }
            | Event::WriteAtomic { inode, offset, bytes, time } => {
                self.files[inode].times.change(time);
                self.files[inode].write_durable(offset as usize, &bytes);
            }
            Event::SetLen { inode, len, time } => {
                let file = &mut self.files[inode];
                file.times.change(time);
                file.current.resize(len as usize, 0);
                file.pending.push(Pending::SetLen { len: len as usize });
            }
            Event::Sync { inode } => self.files[inode].sync(),
            Event::SetTime { inode, time } => self.files[inode].times.change(time),
            Event::SyncAll { inode } => {
                self.files[inode].sync();
                self.files[inode].times.sync();
            }
        }
    }

    /// The medium after a power cut at the point reached.
    pub fn cut(&self, random: &mut Random) -> SimMedium {
        let pending: usize =
            self.files.iter().map(|file| file.pending.len()).sum::<usize>() + self.pending_names.len();
        let luck = match random.below(9) {
            0 => Luck::AllLost,
            1 => Luck::AllKept,
            2 => Luck::Prefix(random.below(pending as u64 + 1) as usize),
            _ => Luck::Each,
        };
        let mut names = self.durable_names.clone();
        for (number, event) in self.pending_names.iter().enumerate() {
            let happened = match luck {
                Luck::AllLost => false,
                Luck::AllKept => true,
                Luck::Prefix(count) => number < count,
                Luck::Each => random.one_in(2),
            };
            if happened {
                rename(&mut names, event);
            }
        }
        let files = names.into_iter().map(|(path, inode)| {
            let in_flight = self.in_flight(inode).filter(|_| matches!(luck, Luck::Each));
            let file = in_flight.as_ref().unwrap_or(&self.files[inode]);
            // Dice of its own: the times do not change what a seed does to the bytes.
            let time = file.times.cut(luck, &mut random.clone());
            let bytes = file.cut(luck, random);
            let (kind, birth) = self.kinds[inode];
            Born { path, kind, birth, time, bytes }
        });
        SimMedium::with_born(files, self.clock)
    }
}

impl Replay {
    /// The file with the durable write that was on its way when the power went: not durable yet.
    fn in_flight(&self, file: Inode) -> Option<Shadow> {
        let Some(Event::WriteDurable { inode, offset, bytes, time }) = self.events.get(self.position) else {
            return None;
        };
        let mut shadow = (*inode == file).then(|| self.files[file].clone())?;
        let offset = *offset as usize;
        overlay(&mut shadow.current, offset, bytes);
        shadow.times.change(*time);
        shadow.pending.push(Pending::Write { offset, bytes: bytes.clone() });
        Some(shadow)
    }
}

impl Shadow {
    fn sync(&mut self) {
        self.pending.clear();
        self.durable.clone_from(&self.current);
    }

    /// The sectors that the write touches become durable as they are now; whatever else is pending stays.
    fn write_durable(&mut self, offset: usize, bytes: &[u8]) {
        overlay(&mut self.current, offset, bytes);
        let start = offset / SECTOR_BYTES * SECTOR_BYTES;
        let end = (offset + bytes.len()).next_multiple_of(SECTOR_BYTES).min(self.current.len());
        self.pending.push(Pending::Durable { start, sectors: self.current[start..end].into() });
    }

    fn cut(&self, luck: Luck, random: &mut Random) -> Vec<u8> {
        let count = match luck {
            Luck::AllLost => 0,
            Luck::AllKept => return self.current.clone(),
            Luck::Prefix(count) => count,
            Luck::Each => return self.cut_each(random),
        };
        let mut bytes = self.durable.clone();
        for (number, pending) in self.pending.iter().enumerate() {
            if number < count || matches!(pending, Pending::Durable { .. }) {
                pending.apply(&mut bytes);
            }
        }
        bytes
    }

    /// Chooses a version for every sector touched, all versions alike, in one pass: the k-th version
    /// replaces the choice so far with probability 1/k.
    ///
    /// Lengths of one file change in order. Where the file keeps a length from before a cut, the cut and all writes
    /// behind it did not happen.
    fn cut_each(&self, random: &mut Random) -> Vec<u8> {
        let (len, last_length_change) = self.choose_length(random);
        let mut now = self.durable.clone();
        let mut chosen = self.durable.clone();
        let mut unreachable_from = usize::MAX;
        let mut versions: HashMap<usize, u64> = HashMap::new();
        for (number, pending) in self.pending.iter().enumerate() {
            let before = now.len();
            pending.apply(&mut now);
            if chosen.len() < now.len() {
                chosen.resize(now.len(), 0);
            }
            let durable = matches!(pending, Pending::Durable { .. });
            if let Pending::SetLen { len } = pending {
                let not_happened = Some(number) > last_length_change;
                if *len < before && not_happened {
                    unreachable_from = unreachable_from.min(*len);
                    continue;
                }
                // Nor did the file grow again.
                if not_happened && unreachable_from != usize::MAX {
                    continue;
                }
                let whole = len.next_multiple_of(SECTOR_BYTES).min(chosen.len());
                chosen[whole..].fill(0);
                versions.retain(|sector, _| sector * SECTOR_BYTES < *len);
            }
            let (start, end) = pending.touched(before);
            for sector in start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
                if sector * SECTOR_BYTES >= unreachable_from {
                    break;
                }
                let seen = versions.entry(sector).or_insert(1);
                *seen = if durable { 1 } else { *seen + 1 };
                if random.one_in(*seen) {
                    copy_sector(&now, &mut chosen, sector);
                }
            }
        }
        chosen.resize(len, 0);
        chosen
    }

    /// A length that the file may have, and the last operation that had changed it.
    fn choose_length(&self, random: &mut Random) -> (usize, Option<usize>) {
        let mut chosen = (self.durable.len(), None);
        let mut len = self.durable.len();
        let mut lengths = 1;
        for (number, pending) in self.pending.iter().enumerate() {
            let before = len;
            len = pending.len_after(before);
            if matches!(pending, Pending::Durable { .. }) {
                // The length needed to read the bytes back is durable with them.
                (chosen, lengths) = ((len, Some(number)), 1);
            } else if len != before {
                lengths += 1;
                if random.one_in(lengths) {
                    chosen = (len, Some(number));
                }
            }
        }
        chosen
    }
}

impl Pending {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Pending::Write { offset, bytes: written } => overlay(bytes, *offset, written),
            Pending::SetLen { len } => bytes.resize(*len, 0),
            Pending::Durable { start, sectors } => {
                let whole = (start + sectors.len()).next_multiple_of(SECTOR_BYTES);
                overlay(bytes, *start, sectors);
                // The last sector is written whole: behind the end of the file it has zeros.
                let rest = start + sectors.len()..whole.min(bytes.len());
                bytes[rest].fill(0);
            }
        }
    }

    fn len_after(&self, before: usize) -> usize {
        match self {
            Pending::Write { offset, bytes } => before.max(offset + bytes.len()),
            Pending::SetLen { len } => *len,
            Pending::Durable { start, sectors } => before.max(start + sectors.len()),
        }
    }

    /// The range of bytes that the operation changes in a file of `before` bytes.
    fn touched(&self, before: usize) -> (usize, usize) {
        match self {
            Pending::Write { offset, bytes } => ((*offset).min(before), offset + bytes.len()),
            // Only the sector that the new end lies in is written, with zeros behind the end.
            Pending::SetLen { len } => (*len, (*len).min(before).next_multiple_of(SECTOR_BYTES)),
            Pending::Durable { start, sectors } => (*start, start + sectors.len()),
        }
    }
}

fn copy_sector(from: &[u8], to: &mut [u8], sector: usize) {
    let start = sector * SECTOR_BYTES;
    let end = (start + SECTOR_BYTES).min(to.len());
    let there = from.len().clamp(start, end);
    if start < there {
        to[start..there].copy_from_slice(&from[start..there]);
    }
    to[there..end].fill(0);
}

fn overlay(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}

fn directory_of(event: &Event) -> PathBuf {
    let path = match event {
        Event::Create { path, .. } | Event::Delete { path } => path,
        Event::Rename { to, .. } => to,
        _ => return PathBuf::new(),
    };
    parent_directory(path).to_owned()
}

fn rename(names: &mut BTreeMap<PathBuf, Inode>, event: &Event) {
    match event {
        Event::Create { path, inode, .. } => drop(names.insert(path.clone(), *inode)),
        Event::Delete { path } => drop(names.remove(path)),
        Event::Rename { from, to } => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        _ => {}
    }
}
