//! A database with a tier device, and the page that a process shows its figures on.

use super::{file, join, medium, put, put_crc, split};
use crate::{MOST_BYTES, Target, outcome_of};
use litefoot_sim::SimMedium;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode};
use litefoot_tier::{self as tier, Config, TieredFile};
use std::path::Path;
use std::sync::Arc;

const FLASH: &str = "/a.db";
const DEVICE: &str = "/fast/tier";

pub const TIER: Target = Target {
    name: "tier",
    does: "a database file and its tier device: mark, header, entries, and opening the pair",
    parse: tier,
    seal: seal_tier,
    seeds: tier_seeds,
    most_bytes: MOST_BYTES,
};

/// Small enough that a mutation meets something.
fn config() -> Config {
    Config { bytes: 64 << 10, ..Config::default() }
}

fn tier(bytes: &[u8]) -> u64 {
    let (flash, device) = split(bytes);
    let medium = medium(&[(FLASH, FileKind::Database, flash), (DEVICE, FileKind::Tier, device)]);
    let looked = tier::look(&medium, Path::new(DEVICE)).map(|seen| seen.map(|seen| seen.away));
    let file = medium.open(Path::new(FLASH), FileKind::Database, OpenMode::ReadWrite).expect("it is there");
    let marked = tier::tier_of(&*file).map(|path| path.is_some());
    let opened = TieredFile::open(file, &medium, Path::new(DEVICE), &config());
    let kind = match &opened {
        Ok(tiered) => {
            let mut page = [0; 4096];
            let read = tiered.read_at(&mut page, 0).is_ok();
            // A device that can be opened can be emptied, whatever is in it.
            let _ = tiered.drain();
            format!("{read}")
        }
        Err(error) => format!("{error:?}").chars().take_while(|c| c.is_alphabetic()).collect(),
    };
    outcome_of(&(looked.map_err(|_| ()), marked.map_err(|_| ()), kind))
}

/// Of the mark and of the header: where they have their checksum.
const CRC_AT: usize = 508;
const ENTRIES_AT: usize = 4096;
const ENTRY_BYTES: usize = 32;

fn seal_tier(bytes: &mut Vec<u8>) {
    let (flash, device) = split(bytes);
    let (mut flash, mut device) = (flash.to_vec(), device.to_vec());
    if flash.starts_with(b"litefoot tiered") {
        put_crc(&mut flash, 0, CRC_AT);
    }
    put_crc(&mut device, 0, CRC_AT);
    // As many as a small device has.
    let entries = device.get_mut(ENTRIES_AT..).unwrap_or_default().chunks_exact_mut(ENTRY_BYTES).take(64);
    for (slot, entry) in entries.enumerate() {
        if entry.iter().any(|byte| *byte != 0) {
            put(entry, 24, &(slot as u32).to_le_bytes());
            put_crc(entry, 0, 28);
        }
    }
    *bytes = join(&flash, &device);
}

fn tier_seeds() -> Vec<Vec<u8>> {
    fastrand::seed(1);
    let medium = SimMedium::new();
    let shared: Arc<dyn Medium> = Arc::new(medium.clone());
    let flash = shared.open(Path::new(FLASH), FileKind::Database, OpenMode::Create).expect("it can be made");
    flash.write_at(&[7; 12 << 10], 0).expect("it can be written");
    let tiered = TieredFile::open(flash, &shared, Path::new(DEVICE), &config()).expect("it can be opened");
    let home = join(&file(&medium, FLASH), &file(&medium, DEVICE));
    tiered.leave().expect("chunks can leave");
    for round in 0..4u64 {
        tiered.write_at(&[round as u8; 4096], round % 3 * 4096).expect("it can be written");
        tiered.sync().expect("it can be synced");
    }
    let away = join(&file(&medium, FLASH), &file(&medium, DEVICE));
    vec![join(&[], &[]), home, away]
}

pub const FIGURES: Target = Target {
    name: "figures",
    does: "the page on which another process shows its figures",
    parse: litefoot_vfs::fuzzing::figures,
    seal: |_| (),
    seeds: || vec![litefoot_vfs::fuzzing::figures_page()],
    most_bytes: MOST_BYTES,
};
