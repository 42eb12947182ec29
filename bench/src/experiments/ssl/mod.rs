//! `ssl`: transactions as mobile applications make them, and how long recovery from a crash takes.
//!
//! # Traces
//! The paper on SQLite's statement logging has a table of six mobile traces. The table gives files, transactions with
//! `BEGIN` (batch) and without (auto), statements, and bytes of SQL in a transaction. The traces themselves are not
//! public. [`traces::TRACES`] has the numbers of that table. Each statement here inserts or updates a row whose text makes up
//! the bytes. The statements go to as many files, to tables with indexes, in seeded order.
//!
//! Sides take turns, at least five rounds; afterwards stock SQLite checks each database. Blocks, syncs and modelled time
//! come from a run of their own. Clocks and counters begin behind the preparation and its checkpoint, and end behind the
//! closing.
//!
//! | side | what, all at `synchronous=FULL` |
//! |---|---|
//! | `wal_full`, `delete_full` | stock SQLite in WAL mode, and with a rollback journal |
//! | `deltas` | litefoot in WAL mode by default: a commit is logged as deltas of its pages |
//! | `statements` | the same with `commit_log=statements`: as its statements, or as deltas where these are smaller |
//!
//! # Figures
//! SIDE is one of the four, or, in a ratio, one of the last three.
//!
//! | name | meaning |
//! |---|---|
//! | `txn_per_s.TRACE.SIDE` | durable transactions a second, closing included; median of the rounds |
//! | `ratio.TRACE.SIDE_over_wal_full` | that over stock SQLite's in WAL mode; median of the rounds |
//! | `device_bytes.TRACE.SIDE`, `device_flushes.TRACE.SIDE` | bytes that a loop device of the experiment's own was given for a transaction, and flushes: with the journal and the metadata of its ext4 |
//! | `device_bytes.TRACE.SIDE_over_wal_full` | these bytes over stock's in WAL mode |
//! | `page_writes.TRACE.SIDE` | blocks of 4 KiB handed to the device for a transaction, checkpoints included |
//! | `bytes.TRACE.SIDE_over_wal_full` | these blocks over stock's in WAL mode |
//! | `syncs_per_txn.TRACE.SIDE` | syncs of files and directories for a transaction, checkpoints included |
//! | `checkpoints.TRACE.SIDE` | syncs of the database files in the whole trace |
//! | `share.FORM.TRACE.SIDE` | the share of litefoot's commits that were logged as `statements` (captured), `deltas` or `pages` |
//! | `model_us.DEVICE.TRACE.SIDE` | time of the device for a transaction, in the model ([`litefoot_sim::DEVICES`]), without processor time |
//! | `model_ratio.DEVICE.TRACE.SIDE_over_wal_full` | how many times as fast as stock SQLite in WAL mode, by these times |
//! | `capture_ns` | processor time that watching a statement with three values costs, in a transaction of many; median |
//! | `recovery_s.FORM.P_percent` | seconds to open a database beside a commit log of 4 MiB, or a part of it, that nothing has in memory; median of the rounds |
//!
//! The paper reports 2 to 6 times WAL on its board, with an SD card.

mod capture;
mod recovery;
mod replay;
mod traces;

use super::commit::side::{DELETE_FULL, Kind, Side, WAL_FULL, settings};
use super::commit::work_directory;
use crate::Result;
use crate::harness::device::Device as CountedDevice;
use crate::harness::{Environment, MIN_ROUNDS, Progress, interleave, median, median_ratio};
use crate::options::Options;
use crate::report::Figures;
use litefoot_sim::Device;
use litefoot_storage::file::FileKind;
pub(super) use replay::stat;
use replay::{at_device, counted, timed};
use std::path::Path;
use traces::{Plan, TRACES, Trace};

const WAL: Side = Side { name: WAL_FULL, kind: Kind::Stock(settings("wal", "full")) };
const DELETE: Side = Side { name: DELETE_FULL, kind: Kind::Stock(settings("delete", "full")) };
const DELTAS: Side = Side { name: "deltas", kind: Kind::Litefoot(settings("wal", "full")) };
const STATEMENTS: Side = Side { name: "statements", kind: Kind::Statements(settings("wal", "full")) };
/// Ratios are over the first.
const SIDES: [Side; 4] = [WAL, DELETE, DELTAS, STATEMENTS];

/// The devices whose time is modelled: the paper's card, what phones have, and memory that keeps its bytes.
const DEVICES: [Device; 4] = [Device::SdCardA1, Device::Emmc51, Device::Ufs31, Device::Pcm];

/// The short form makes this part of the transactions.
const QUICK_PART: u64 = 8;
const BLOCK_BYTES: f64 = 4096.0;

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let directory = work_directory(&options.directory)?;
    let directory = directory.path();
    let part = if options.quick { QUICK_PART } else { 1 };
    let mut figures = Figures::new();
    // Before the first thread of litefoot's: none would see the mount.
    let device = match CountedDevice::new(directory) {
        Ok(device) => Some(device),
        Err(why) => {
            figures.note(format!("Bytes at a device are not counted, only those of the files: {why}."));
            None
        }
    };
    let runs = MIN_ROUNDS + 1 + usize::from(device.is_some());
    progress.begin("mobile traces", (TRACES.len() * runs * SIDES.len()) as u64);
    for trace in &TRACES {
        let plan = Plan::new(trace, part, options.seed);
        speeds(trace, &plan, directory, progress, &mut figures)?;
        costs(trace, &plan, directory, progress, &mut figures)?;
        if let Some(device) = &device {
            costs_at_device(trace, &plan, device, progress, &mut figures)?;
        }
    }
    figures.set("capture_ns", capture::run(directory, progress)?);
    recovery::run(directory, options.seed, progress, &mut figures)?;
    if Environment::of(directory, options).file_system == "tmpfs" {
        figures.note("The directory is in memory: its syncs and its recovery cost next to nothing.");
    }
    Ok(figures)
}

/// The timed rounds.
fn speeds(
    trace: &Trace,
    plan: &Plan,
    directory: &Path,
    progress: &mut dyn Progress,
    figures: &mut Figures,
) -> Result<()> {
    let rounds = interleave(&SIDES, MIN_ROUNDS, |_, side| {
        let speed = timed(trace, plan, side, directory)?;
        progress.advance(1)?;
        Ok(speed)
    })?;
    for (side, speeds) in SIDES.iter().zip(&rounds) {
        figures.set(format!("txn_per_s.{}.{}", trace.name, side.name), median(speeds.iter().copied()));
    }
    for (side, speeds) in SIDES.iter().zip(&rounds).skip(1) {
        let name = format!("ratio.{}.{}_over_{WAL_FULL}", trace.name, side.name);
        figures.set(name, median_ratio(speeds, &rounds[0]));
    }
    Ok(())
}

/// The counted run.
fn costs(
    trace: &Trace,
    plan: &Plan,
    directory: &Path,
    progress: &mut dyn Progress,
    figures: &mut Figures,
) -> Result<()> {
    let transactions = plan.transactions.len() as f64;
    for (index, side) in SIDES.iter().enumerate() {
        let counted = counted(trace, plan, side, directory)?;
        let (counts, name) = (&counted.spent.counts, format!("{}.{}", trace.name, side.name));
        let blocks = counts.total().block_bytes_written as f64 / BLOCK_BYTES;
        figures.set(format!("page_writes.{name}"), blocks / transactions);
        figures.set(format!("syncs_per_txn.{name}"), counts.all_syncs() as f64 / transactions);
        figures.set(format!("checkpoints.{name}"), counts.of(FileKind::Database).syncs as f64);
        for (form, share) in counted.forms.shares() {
            figures.set(format!("share.{form}.{name}"), share);
        }
        for device in DEVICES {
            figures.set(format!("model_us.{device}.{name}"), counted.spent.model_us(device) / transactions);
        }
        if index > 0 {
            over_wal(trace, side, figures);
        }
        progress.advance(1)?;
    }
    Ok(())
}

/// The run on a device that the kernel counts.
fn costs_at_device(
    trace: &Trace,
    plan: &Plan,
    device: &CountedDevice,
    progress: &mut dyn Progress,
    figures: &mut Figures,
) -> Result<()> {
    let transactions = plan.transactions.len() as f64;
    let mut of_wal = f64::NAN;
    for (index, side) in SIDES.iter().enumerate() {
        let spent = at_device(trace, plan, side, device)?;
        let bytes = spent.bytes as f64;
        figures.set(format!("device_bytes.{}.{}", trace.name, side.name), bytes / transactions);
        let flushes = spent.flushes as f64 / transactions;
        figures.set(format!("device_flushes.{}.{}", trace.name, side.name), flushes);
        if index == 0 {
            of_wal = bytes;
        } else {
            let name = format!("device_bytes.{}.{}_over_{WAL_FULL}", trace.name, side.name);
            figures.set(name, bytes / of_wal);
        }
        progress.advance(1)?;
    }
    Ok(())
}

/// A side's blocks over those of stock SQLite in WAL mode, and that one's modelled time over the side's.
fn over_wal(trace: &Trace, side: &Side, figures: &mut Figures) {
    let of = |name: &str, side: &Side| {
        figures.get(&format!("{name}.{}.{}", trace.name, side.name)).unwrap_or(f64::NAN)
    };
    let bytes = of("page_writes", side) / of("page_writes", &WAL);
    let modelled = DEVICES.map(|device| {
        let name = format!("model_us.{device}");
        (device, of(&name, &WAL) / of(&name, side))
    });
    let name = format!("{}.{}_over_{WAL_FULL}", trace.name, side.name);
    figures.set(format!("bytes.{name}"), bytes);
    for (device, ratio) in modelled {
        figures.set(format!("model_ratio.{device}.{name}"), ratio);
    }
}
