//! Cold reads on media that count and model.
//!
//! Stock SQLite's own cache is made as large as the file. A page that it drops and wants again would be counted twice,
//! though the system still has it. So its bytes are each page that it needs, once: nobody can need fewer without a
//! larger memory.

use super::Files;
use super::cold::{
    Case, INDEX_FRAGMENTED, POINT, POOL_SHARE, Pair, RANGE, RANGE_ORDERED, SCAN_FRAGMENTED, SCAN_ORDERED,
};
use super::queries::together;
use super::source::{Direct, LITEFOOT, STOCK, Source};
use crate::Result;
use crate::harness::Progress;
use crate::report::Figures;
use litefoot_sim::{CountingMedium, Device, ModelledMedium};
use litefoot_storage::file::FileKind;
use litefoot_storage::os::OsMedium;
use std::sync::Arc;

const SIDES: [&str; 2] = [STOCK, LITEFOOT];
const CASES: [Case; 6] = [SCAN_ORDERED, SCAN_FRAGMENTED, INDEX_FRAGMENTED, POINT, RANGE, RANGE_ORDERED];
/// The devices, and what they are called in ratios.
const DEVICES: [(Device, &str); 2] = [(Device::SdCardA1, "sd"), (Device::Emmc51, "emmc")];

/// The cost of a case for a side.
struct Cost {
    bytes: f64,
    /// For each of [`DEVICES`].
    device_us: Vec<f64>,
}

pub fn run(files: &Files<'_>, pair: &Pair, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    progress.begin("cold reads, counted", (CASES.len() * SIDES.len()) as u64);
    for case in CASES {
        let mut costs = Vec::new();
        for side in SIDES {
            costs.push(count(files, pair, &case, side)?);
            progress.advance(1)?;
        }
        set(figures, case.name, &costs);
    }
    Ok(())
}

fn set(figures: &mut Figures, case: &str, costs: &[Cost]) {
    for (side, cost) in SIDES.iter().zip(costs) {
        figures.set(format!("cold_{case}_bytes.{side}"), cost.bytes);
        for ((device, _), us) in DEVICES.iter().zip(&cost.device_us) {
            figures.set(format!("cold_{case}_model_us.{device}.{side}"), *us);
        }
    }
    let [stock, litefoot] = costs else { return };
    figures.set(format!("ratio.cold_{case}_bytes"), litefoot.bytes / stock.bytes);
    for ((_, device), (stock, litefoot)) in
        DEVICES.iter().zip(stock.device_us.iter().zip(&litefoot.device_us))
    {
        figures.set(format!("ratio.cold_{case}_{device}_over_stock"), stock / litefoot);
    }
}

fn count(files: &Files<'_>, pair: &Pair, case: &Case, side: &str) -> Result<Cost> {
    let database = pair.of(case.order);
    let modelled = ModelledMedium::new(Arc::new(OsMedium::new()));
    let counting = CountingMedium::new(Arc::new(modelled.clone()));
    let medium = Arc::new(counting.clone());
    let source = match side {
        STOCK => Source::stock_on(&database.path, medium, 2 * database.bytes)?,
        _ => Source::litefoot_on(&database.path, medium, database.bytes / POOL_SHARE, Direct::Auto)?,
    };
    let bytes = || {
        let counts = counting.snapshot().of(FileKind::Database);
        (counts.bytes_read + counts.bytes_read_ahead) as f64
    };
    let device_us = || DEVICES.iter().map(|(device, _)| modelled.virtual_us(*device)).collect::<Vec<_>>();
    let plans = case.plans(files, &pair.data, 1, 0);
    let mut connections = source.connect(plans.len())?;
    let (bytes_before, device_us_before) = (bytes(), device_us());
    together(&source, &mut connections, &plans)?;
    let (bytes_after, device_us_after) = (bytes(), device_us());
    source.close(connections)?;
    Ok(Cost {
        bytes: bytes_after - bytes_before,
        device_us: device_us_after
            .iter()
            .zip(device_us_before)
            .map(|(after, before)| after - before)
            .collect(),
    })
}
