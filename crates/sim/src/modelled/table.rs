//! The modelled devices: every parameter in one table, each with where it comes from.
//!
//! Change a number here and every modelled figure follows; nothing else knows a device.

use std::fmt;

/// A device whose time is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Device {
    /// An SD card that just meets Application Performance Class 1.
    SdCardA1,
    /// eMMC 5.1, as soldered to boards and older phones.
    Emmc51,
    /// UFS 3.1, as in newer phones.
    Ufs31,
    /// A consumer NVMe drive, whose flush writes its volatile cache to flash.
    NvmeConsumer,
    /// An NVMe drive with power-loss protection, whose flush has nothing to do.
    NvmeProtected,
    /// Phase-change memory on the memory bus, written by cache lines.
    Pcm,
}

/// The source of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A guess of the right size, to be replaced once a source is found.
    Estimate,
    /// A specification, a paper or a measurement.
    Cited(&'static str),
}

/// A number and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// The number, in the unit of its field.
    pub value: f64,
    /// Its origin.
    pub source: Source,
}

/// The costs of a device's operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceModel {
    /// The device.
    pub device: Device,
    /// Smallest unit of a transfer, in bytes.
    pub unit_bytes: u64,
    /// The first unit of a read that does not go on where the last one ended, in microseconds.
    pub random_read_us: Parameter,
    /// The first unit of a write that does not go on where the last one ended, in microseconds.
    pub random_write_us: Parameter,
    /// Further units of a read, in 10^6 bytes a second.
    pub sequential_read_mb_per_s: Parameter,
    /// Further units of a write, in 10^6 bytes a second.
    pub sequential_write_mb_per_s: Parameter,
    /// Making durable what the device has accepted, in microseconds.
    pub flush_us: Parameter,
    /// The pause after every [`DeviceModel::pause_every_bytes`] written, for the card's own housekeeping,
    /// in microseconds.
    pub pause_us: Parameter,
    /// Bytes between two pauses; 0 for a device without.
    pub pause_every_bytes: u64,
}

const fn estimate(value: f64) -> Parameter {
    Parameter { value, source: Source::Estimate }
}

const fn cited(value: f64, source: &'static str) -> Parameter {
    Parameter { value, source: Source::Cited(source) }
}

const A1: &str = "SD Physical Layer 5.1, Application Performance Class 1: at least 1500 random reads and 500 \
    random writes of 4 KiB a second, 10 MB/s sustained sequential writes; it asks for no sequential reads";
const PI_4: &str = "pidramble.com, microSD card benchmarks: the Raspberry Pi 4's slot reads 40.8 to 44.4 MB/s of any card; \
    42.3 of the one nearest to the class minimum (SanDisk Ultra, 6.57 MB/s of random reads of 4 KiB)";
const EMMC: &str = "Samsung's announcement of eMMC 5.1, 2015: 250 MB/s sequential reads, 125 MB/s sequential writes, 13,000 \
    random writes of 4 KiB a second; its 11,000 random reads are of a queue";
const UFS: &str = "Samsung's announcement of eUFS 3.1, 2020: 2100 MB/s sequential reads, 1200 MB/s sequential writes; its random \
    reads and writes a second are of a long queue";
const P_SQLITE: &str = "W. Choi et al., P-SQLITE, 2013, table II: 20 ns/byte read, 100 ns/byte write";
const NO_PAUSE: Parameter = cited(0.0, "not modelled");

/// Bytes of a page of flash as the host sees it, and of the host's page cache.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Bytes of a cache line.
pub(super) const LINE_BYTES: u64 = 64;

/// All devices, in the order in which tables print them.
pub const DEVICES: [DeviceModel; 6] = [
    DeviceModel {
        device: Device::SdCardA1,
        unit_bytes: PAGE_BYTES,
        random_read_us: cited(667.0, A1),
        random_write_us: cited(2000.0, A1),
        sequential_read_mb_per_s: cited(42.3, PI_4),
        sequential_write_mb_per_s: cited(10.0, A1),
        flush_us: estimate(500.0),
        pause_us: estimate(175_000.0),
        pause_every_bytes: 4 << 20,
    },
    DeviceModel {
        device: Device::Emmc51,
        unit_bytes: PAGE_BYTES,
        random_read_us: estimate(150.0),
        random_write_us: cited(76.9, EMMC),
        sequential_read_mb_per_s: cited(250.0, EMMC),
        sequential_write_mb_per_s: cited(125.0, EMMC),
        flush_us: estimate(2000.0),
        pause_us: NO_PAUSE,
        pause_every_bytes: 0,
    },
    DeviceModel {
        device: Device::Ufs31,
        unit_bytes: PAGE_BYTES,
        random_read_us: estimate(90.0),
        random_write_us: estimate(60.0),
        sequential_read_mb_per_s: cited(2100.0, UFS),
        sequential_write_mb_per_s: cited(1200.0, UFS),
        flush_us: estimate(700.0),
        pause_us: NO_PAUSE,
        pause_every_bytes: 0,
    },
    DeviceModel {
        device: Device::NvmeConsumer,
        unit_bytes: PAGE_BYTES,
        random_read_us: estimate(60.0),
        random_write_us: estimate(20.0),
        sequential_read_mb_per_s: estimate(3000.0),
        sequential_write_mb_per_s: estimate(2000.0),
        flush_us: cited(1200.0, "measured on a Samsung 990 Pro; others report up to 1600"),
        pause_us: NO_PAUSE,
        pause_every_bytes: 0,
    },
    DeviceModel {
        device: Device::NvmeProtected,
        unit_bytes: PAGE_BYTES,
        random_read_us: estimate(60.0),
        random_write_us: estimate(20.0),
        sequential_read_mb_per_s: estimate(3000.0),
        sequential_write_mb_per_s: estimate(2000.0),
        flush_us: estimate(40.0),
        pause_us: NO_PAUSE,
        pause_every_bytes: 0,
    },
    DeviceModel {
        device: Device::Pcm,
        unit_bytes: LINE_BYTES,
        random_read_us: cited(1.28, P_SQLITE),
        random_write_us: cited(6.4, P_SQLITE),
        sequential_read_mb_per_s: cited(50.0, P_SQLITE),
        sequential_write_mb_per_s: cited(10.0, P_SQLITE),
        flush_us: estimate(0.1),
        pause_us: NO_PAUSE,
        pause_every_bytes: 0,
    },
];

impl Device {
    /// All devices, in the order of [`DEVICES`].
    pub const ALL: [Device; DEVICES.len()] = [
        Device::SdCardA1,
        Device::Emmc51,
        Device::Ufs31,
        Device::NvmeConsumer,
        Device::NvmeProtected,
        Device::Pcm,
    ];

    /// The name used in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Device::SdCardA1 => "sd_a1",
            Device::Emmc51 => "emmc_5_1",
            Device::Ufs31 => "ufs_3_1",
            Device::NvmeConsumer => "nvme_consumer",
            Device::NvmeProtected => "nvme_plp",
            Device::Pcm => "pcm",
        }
    }

    /// Its parameters.
    pub fn model(self) -> &'static DeviceModel {
        &DEVICES[self as usize]
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_the_place_that_their_number_says() {
        for (place, device) in Device::ALL.into_iter().enumerate() {
            assert_eq!(device as usize, place, "{device}");
            assert_eq!(device.model().device, device);
        }
    }

    #[test]
    fn parameters_are_usable() {
        for model in &DEVICES {
            let name = model.device;
            assert!(PAGE_BYTES.is_multiple_of(model.unit_bytes), "{name}");
            for positive in [
                model.random_read_us,
                model.random_write_us,
                model.sequential_read_mb_per_s,
                model.sequential_write_mb_per_s,
                model.flush_us,
            ] {
                assert!(positive.value.is_finite() && positive.value > 0.0, "{name}: {positive:?}");
            }
            // A continued transfer is never dearer than one that begins anew.
            let unit = model.unit_bytes as f64;
            assert!(
                unit / model.sequential_read_mb_per_s.value <= model.random_read_us.value + 1e-9,
                "{name}"
            );
            assert!(
                unit / model.sequential_write_mb_per_s.value <= model.random_write_us.value + 1e-9,
                "{name}"
            );
            assert_eq!(model.pause_us.value > 0.0, model.pause_every_bytes > 0, "{name}");
        }
    }
}
