//! Opening a pair of flash file and tier device: which are refused, and what recovery does with the rest.
//!
//! | flash file | device | meaning | opening |
//! |---|---|---|---|
//! | plain | none, empty | new | makes it |
//! | plain | HOME | everything is home, whose ever it was | takes it |
//! | plain | CROSSING, names this file | crashed while leaving or just back: flash has everything | takes it |
//! | plain | CROSSING, names another | the other may need it | refuses: foreign |
//! | plain | AWAY, names another | the other needs it | refuses: foreign |
//! | plain | AWAY, names this file | the file was replaced | refuses: stale |
//! | marked | none, empty | chunks are missing | refuses: missing |
//! | marked | HOME, or another pairing | not its device | refuses: foreign, or stale if it names this file |
//! | marked | its pairing, session not equal or one more | an old copy of one of them | refuses: stale |
//! | marked | its pairing, CROSSING or AWAY | chunks are away | goes on |
//! | any | anything else, damaged, of another version | | refuses |
//!
//! A device that is refused is not written, nor is the file.

use super::devices::{Devices, offset_of};
use super::error::{Error, Result};
use super::format::{
    CHUNK_BYTES, Decoded, ENTRIES_AT, ENTRY_BYTES, Entry, HEADER_BYTES, Header, HeaderState, Mark, STAMP_AT,
    TierStamp, device_bytes, entry_at, slot_at, slots_in,
};
use super::policy::{Latencies, Period, Policy, PolicyKind, Transactions};
use super::slots::Slots;
use super::state::{Away, TierState};
use super::statistics::Statistics;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, RangeLock, SyncLatch};
use litefoot_storage::sync::Mutex;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The parameters of a tiered file.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Bytes of the device; see [`device_bytes`]. While chunks are away the device keeps the size it has.
    pub bytes: u64,
    /// The policy that chooses its chunks.
    pub kind: PolicyKind,
    /// How the policy learns of transactions.
    pub transactions: Transactions,
    /// The period of choosing hot chunks.
    pub period: Period,
    /// The costs of reading and writing a chunk.
    pub latencies: Latencies,
    /// Writes by which one slot may be ahead of another before chunks change slots.
    pub wear_gap: u64,
    #[cfg(test)]
    pub(super) skipped: Option<super::devices::Barrier>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            bytes: 8 << 20,
            kind: PolicyKind::default(),
            transactions: Transactions::default(),
            period: Period::default(),
            latencies: Latencies::default(),
            wear_gap: 32,
            #[cfg(test)]
            skipped: None,
        }
    }
}

/// Fewest slots of a device: chunk 0, and a few to choose from.
pub(super) const FEWEST_SLOTS: u32 = 4;

/// The tier device that chunks of this file live on, as its mark has it; `None` for a plain file.
///
/// # Errors
/// The file cannot be read, or its mark is damaged.
pub fn tier_of(flash: &dyn File) -> Result<Option<PathBuf>> {
    Ok(read_mark(flash)?.map(|mark| mark.tier_path))
}

/// Opens a pair; recovers what a crash has left.
pub(super) fn open(
    flash: Arc<dyn File>,
    medium: &Arc<dyn Medium>,
    path: &Path,
    config: &Config,
    latch: Arc<SyncLatch>,
) -> Result<TierState> {
    let mark = read_mark(&*flash)?;
    if let Some(mark) = &mark
        && medium.info(path)?.is_none_or(|info| info.len == 0)
    {
        return Err(missing(&*flash, path, mark));
    }
    let slots = slots_in(config.bytes);
    if mark.is_none() && slots < FEWEST_SLOTS {
        let least = device_bytes(FEWEST_SLOTS);
        return Err(Error::TooSmall { path: path.to_owned(), bytes: config.bytes, least });
    }
    let mode = if mark.is_some() { OpenMode::ReadWrite } else { OpenMode::Create };
    let tier = medium.open(path, FileKind::Tier, mode)?;
    if tier.id() == flash.id() {
        return Err(Error::NotATier { path: path.to_owned() });
    }
    if !tier.lock_range(0, 1, RangeLock::Exclusive)? {
        return Err(Error::InUse { path: path.to_owned() });
    }
    let header = read_header(&*tier)?;
    let devices = Devices {
        flash,
        tier,
        medium: medium.clone(),
        latch,
        #[cfg(test)]
        skipped: config.skipped,
    };
    match (mark, header) {
        (None, header) => take(devices, header.as_ref(), slots, config),
        (Some(mark), Some(header)) if header.pairing == mark.pairing && header.state != HeaderState::Home => {
            resume(devices, &mark, &header, config)
        }
        (Some(_), Some(header)) if header.names(devices.flash.path()) => {
            Err(stale(&devices, "the device has nothing of the file as it is now"))
        }
        (Some(_), Some(header)) => Err(foreign(&devices, &header)),
        (Some(mark), None) => Err(missing(&*devices.flash, path, &mark)),
    }
}

fn missing(flash: &dyn File, path: &Path, mark: &Mark) -> Error {
    Error::Missing { flash: flash.path().to_owned(), path: path.to_owned(), recorded: mark.tier_path.clone() }
}

fn foreign(devices: &Devices, header: &Header) -> Error {
    Error::Foreign {
        path: devices.tier.path().to_owned(),
        owner: header.flash_path.clone(),
        flash: devices.flash.path().to_owned(),
    }
}

fn stale(devices: &Devices, what: &'static str) -> Error {
    Error::Stale { flash: devices.flash.path().to_owned(), path: devices.tier.path().to_owned(), what }
}

/// The file is plain: takes a device on which nothing counts. Nothing of it need be durable before chunks leave.
fn take(devices: Devices, header: Option<&Header>, slots: u32, config: &Config) -> Result<TierState> {
    let ours = header.is_some_and(|header| header.names(devices.flash.path()));
    match header.map(|header| (header, header.state)) {
        Some((header, HeaderState::Crossing | HeaderState::Away)) if !ours => {
            return Err(foreign(&devices, header));
        }
        Some((_, HeaderState::Away)) => {
            return Err(stale(&devices, "the device has chunks of the file, which has been replaced since"));
        }
        _ => {}
    }
    devices.tier.allocate(device_bytes(slots))?;
    let (mut generation, mut writes) = (0, vec![0; slots as usize]);
    if let Some(header) = header {
        generation = header.generation;
        if header.slots == slots {
            let entries = read_entries(&devices, slots)?;
            for (writes, entry) in writes.iter_mut().zip(entries.into_iter().flatten()) {
                *writes = entry.writes;
                generation = generation.max(entry.generation);
            }
        } else {
            // The bytes there now may be parts of chunks.
            let zeros = vec![0; (slot_at(slots, 0) - ENTRIES_AT) as usize];
            devices.tier.write_at(&zeros, ENTRIES_AT)?;
        }
    }
    state(devices, Slots::new(writes), generation, config)
}

/// Chunks are away: finds them, and begins a session.
fn resume(devices: Devices, mark: &Mark, header: &Header, config: &Config) -> Result<TierState> {
    let mut state = find(devices, mark, header, config)?;
    state.begin_session()?;
    Ok(state)
}

/// A pair as it is now, with nothing written and nothing locked: for a look that others' writes may overtake.
pub(super) fn look_at(
    flash: Arc<dyn File>,
    medium: &Arc<dyn Medium>,
    path: &Path,
) -> Result<Option<TierState>> {
    let Some(mark) = read_mark(&*flash)? else { return Ok(None) };
    if medium.info(path)?.is_none() {
        return Err(missing(&*flash, path, &mark));
    }
    let tier = medium.open(path, FileKind::Tier, OpenMode::ReadOnly)?;
    let header = read_header(&*tier)?;
    let devices = Devices {
        flash,
        tier,
        medium: medium.clone(),
        latch: Arc::default(),
        #[cfg(test)]
        skipped: None,
    };
    match header {
        Some(header) if header.pairing == mark.pairing && header.state != HeaderState::Home => {
            find(devices, &mark, &header, &Config::default()).map(Some)
        }
        Some(header) => Err(foreign(&devices, &header)),
        None => Err(missing(&*devices.flash, path, &mark)),
    }
}

/// Finds the chunks that are away.
fn find(devices: Devices, mark: &Mark, header: &Header, config: &Config) -> Result<TierState> {
    if header.session != mark.session && header.session != mark.session.wrapping_add(1) {
        return Err(stale(&devices, "one of them is an older copy"));
    }
    let damaged = |path: &Path, what: String| Error::Damaged { path: path.to_owned(), what };
    if devices.flash.len()? < CHUNK_BYTES as u64 {
        return Err(damaged(devices.flash.path(), "is shorter than it can be".to_owned()));
    }
    if devices.tier.len()? < device_bytes(header.slots) || header.slots < FEWEST_SLOTS {
        return Err(damaged(devices.tier.path(), "is shorter than its header says".to_owned()));
    }
    let mut entries = Vec::with_capacity(header.slots as usize);
    for (slot, entry) in read_entries(&devices, header.slots)?.into_iter().enumerate() {
        let entry = entry
            .ok_or_else(|| damaged(devices.tier.path(), format!("the entry of slot {slot} is damaged")))?;
        entries.push(entry);
    }
    let generation = entries.iter().map(|entry| entry.generation).fold(header.generation, u64::max);
    // Of two slots that claim a chunk the later is right.
    let mut newest: HashMap<u32, (u64, u32)> = HashMap::new();
    let mut void = Vec::new();
    for (slot, entry) in entries.iter().enumerate() {
        let Some(chunk) = entry.chunk.filter(|_| entry.generation >= header.generation) else { continue };
        let claim = (entry.generation, slot as u32);
        match newest.insert(chunk, claim) {
            Some(other) if other > claim => {
                newest.insert(chunk, other);
                void.push((chunk, claim.1));
            }
            Some(other) => void.push((chunk, other.1)),
            None => {}
        }
    }
    if !newest.contains_key(&0) {
        return Err(damaged(devices.tier.path(), "the first chunk is not there".to_owned()));
    }
    let slots = Slots::new(entries.iter().map(|entry| entry.writes));
    let mut state = state(devices, slots, generation, config)?;
    state.first_generation = header.generation;
    state.stamp = read_stamp(&state.devices, header.pairing)?;
    for (chunk, (_, slot)) in newest {
        state.slots.found(slot, chunk);
        if offset_of(chunk) < state.len {
            state.map.insert(chunk, slot);
            state.policy.lock().arrived(chunk);
        } else {
            // The file was cut, and the power as well before the entry was cleared.
            state.slots.vacate(slot);
        }
    }
    for (chunk, slot) in void {
        state.slots.found(slot, chunk);
        state.slots.vacate(slot);
    }
    state.away = Some(Away { pairing: header.pairing, session: mark.session.wrapping_add(1) });
    Ok(state)
}

fn state(devices: Devices, slots: Slots, generation: u64, config: &Config) -> Result<TierState> {
    // Slots that stay free, so that a chunk can come before the entry of one that went is cleared.
    let spare = (slots.len() / 16).min(64);
    let capacity = (slots.len() - spare) as usize;
    let policy = Policy::new((config.kind, config.transactions), capacity, config.period, config.latencies);
    Ok(TierState {
        len: devices.flash.len()?,
        stamp: None,
        devices,
        away: None,
        stays: false,
        lent: false,
        closed: false,
        map: HashMap::new(),
        first: None,
        policy: Arc::new(Mutex::new(policy)),
        capacity,
        slots,
        changed: HashSet::new(),
        generation,
        first_generation: generation,
        wear_gap: config.wear_gap.max(1),
        // The last process may have written and not synced.
        flash_dirty: true,
        tier_dirty: true,
        wrote: false,
        partly_on_flash: None,
        counters: Statistics::default(),
    })
}

fn read_mark(flash: &dyn File) -> Result<Option<Mark>> {
    let mut bytes = [0; HEADER_BYTES];
    if flash.read_at(&mut bytes, 0)? < HEADER_BYTES {
        return Ok(None);
    }
    let path = || flash.path().to_owned();
    match Mark::decode(&bytes) {
        Decoded::Valid(mark) => Ok(Some(mark)),
        Decoded::Other => Ok(None),
        Decoded::Version(version) => Err(Error::Version { path: path(), version }),
        Decoded::Damaged => {
            Err(Error::Damaged { path: path(), what: "its mark of a tiered file is damaged".to_owned() })
        }
    }
}

/// The header of a device; `None` for an empty one.
pub(super) fn read_header(tier: &dyn File) -> Result<Option<Header>> {
    let mut bytes = [0; HEADER_BYTES];
    let count = tier.read_at(&mut bytes, 0)?;
    let path = || tier.path().to_owned();
    match Header::decode(&bytes) {
        Decoded::Valid(header) => Ok(Some(header)),
        Decoded::Version(version) => Err(Error::Version { path: path(), version }),
        Decoded::Damaged => Err(Error::Damaged { path: path(), what: "its header is damaged".to_owned() }),
        // Space that was reserved, and the power cut before anything else was durable.
        Decoded::Other if bytes[..count].iter().all(|byte| *byte == 0) && is_zeros(tier)? => Ok(None),
        Decoded::Other => Err(Error::NotATier { path: path() }),
    }
}

fn is_zeros(file: &dyn File) -> Result<bool> {
    let mut bytes = vec![0; 64 << 10];
    let mut at = 0;
    loop {
        let count = file.read_at(&mut bytes, at)?;
        if count == 0 {
            return Ok(true);
        }
        if bytes[..count].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += count as u64;
    }
}

/// The number of the stamp that this pairing has left.
fn read_stamp(devices: &Devices, pairing: u64) -> Result<Option<u64>> {
    let mut bytes = [0; HEADER_BYTES];
    devices.read_tier(&mut bytes, STAMP_AT)?;
    Ok(match TierStamp::decode(&bytes) {
        Decoded::Valid(stamp) if stamp.pairing == pairing => Some(stamp.number),
        _ => None,
    })
}

/// The entries of all slots; `None` for one that is damaged.
fn read_entries(devices: &Devices, slots: u32) -> Result<Vec<Option<Entry>>> {
    let mut bytes = vec![0; slots as usize * ENTRY_BYTES];
    devices.read_tier(&mut bytes, entry_at(0))?;
    Ok(Entry::decode_all(&bytes).collect())
}
