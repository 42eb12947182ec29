//! The media of a counted run, one on top of the other: counting, modelling, the operating system's files.

use litefoot_sim::{CountingMedium, Device, ModelledMedium, Snapshot};
use litefoot_storage::file::Medium;
use litefoot_storage::os::OsMedium;
use std::sync::Arc;

/// Counts and models what passes through [`Meter::medium`].
pub struct Meter {
    counting: CountingMedium,
    modelled: ModelledMedium,
}

/// The sums at one moment, or the difference of two.
pub struct Spent {
    pub counts: Snapshot,
    /// For each of [`Device::ALL`].
    device_us: Vec<f64>,
}

impl Spent {
    /// The time of a modelled device.
    pub fn model_us(&self, device: Device) -> f64 {
        self.device_us.get(device as usize).copied().unwrap_or_default()
    }
}

impl Meter {
    pub fn new() -> Meter {
        let modelled = ModelledMedium::new(Arc::new(OsMedium::new()));
        Meter { counting: CountingMedium::new(Arc::new(modelled.clone())), modelled }
    }

    pub fn medium(&self) -> Arc<dyn Medium> {
        Arc::new(self.counting.clone())
    }

    /// Everything so far. Work that was put off before does not belong to what comes.
    pub fn begin(&self) -> Spent {
        self.modelled.write_back();
        let device_us = Device::ALL.iter().map(|device| self.modelled.virtual_us(*device)).collect();
        Spent { counts: self.counting.snapshot(), device_us }
    }

    /// What was spent since then, work that was put off meanwhile included.
    pub fn end(&self, begun: &Spent) -> Spent {
        let end = self.begin();
        let device_us = end.device_us.iter().zip(&begun.device_us).map(|(end, begun)| end - begun).collect();
        Spent { counts: end.counts - begun.counts, device_us }
    }
}
