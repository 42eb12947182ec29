//! The virtual clock of one device: requests in, time out.
//!
//! ```text
//! time of a request = first unit + further bytes / bandwidth
//!      first unit   = its bytes / bandwidth   where the request begins at the end of the last one
//!                     random read or write    elsewhere
//! ```
//!
//! Reads and writes have a position each. Nothing overlaps: this is a queue of depth one, as a commit that
//! waits for its sync has it.

use super::table::DeviceModel;

/// A place on a device: a file, and a byte in it.
pub(super) type Position = (u64, u64);

/// Virtual time of one device.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    model: &'static DeviceModel,
    elapsed_us: f64,
    /// The ends of the last read and the last write.
    read_end: Option<Position>,
    write_end: Option<Position>,
    written_since_pause: u64,
}

impl Clock {
    pub fn new(model: &'static DeviceModel) -> Clock {
        Clock { model, elapsed_us: 0.0, read_end: None, write_end: None, written_since_pause: 0 }
    }

    pub fn model(&self) -> &'static DeviceModel {
        self.model
    }

    pub fn elapsed_us(&self) -> f64 {
        self.elapsed_us
    }

    /// One read request of whole units.
    pub fn read(&mut self, (file, offset): Position, bytes: u64) {
        let sequential = self.read_end == Some((file, offset));
        self.transfer(
            sequential,
            bytes,
            self.model.random_read_us.value,
            self.model.sequential_read_mb_per_s.value,
        );
        self.read_end = Some((file, offset + bytes));
    }

    /// One write request of whole units.
    pub fn write(&mut self, (file, offset): Position, bytes: u64) {
        let sequential = self.write_end == Some((file, offset));
        self.transfer(
            sequential,
            bytes,
            self.model.random_write_us.value,
            self.model.sequential_write_mb_per_s.value,
        );
        self.write_end = Some((file, offset + bytes));
        self.pause_after(bytes);
    }

    /// Makes what was written durable.
    pub fn flush(&mut self) {
        self.elapsed_us += self.model.flush_us.value;
    }

    fn transfer(&mut self, sequential: bool, bytes: u64, random_us: f64, mb_per_s: f64) {
        // 10^6 bytes a second are one byte a microsecond.
        let further = if sequential { bytes } else { bytes.saturating_sub(self.model.unit_bytes) };
        self.elapsed_us += if sequential { 0.0 } else { random_us };
        self.elapsed_us += further as f64 / mb_per_s;
    }

    fn pause_after(&mut self, bytes: u64) {
        let every = self.model.pause_every_bytes;
        self.written_since_pause += bytes;
        if let Some(pauses) = self.written_since_pause.checked_div(every) {
            self.elapsed_us += pauses as f64 * self.model.pause_us.value;
            self.written_since_pause %= every;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Device;
    use super::*;

    enum Request {
        Read(u64, u64, u64),
        Write(u64, u64, u64),
        Flush,
    }
    use Request::{Flush, Read, Write};

    #[test]
    fn times_are_those_computed_by_hand() {
        let cases: &[(&str, Device, &[Request], f64)] = &[
            ("nothing", Device::SdCardA1, &[], 0.0),
            ("one random write and its flush", Device::SdCardA1, &[Write(1, 0, 4096), Flush], 2500.0),
            // 2000 for the first page, 4096 / 10 for the second.
            ("two pages at once", Device::SdCardA1, &[Write(1, 0, 8192)], 2409.6),
            (
                "two pages one behind the other",
                Device::SdCardA1,
                &[Write(1, 0, 4096), Write(1, 4096, 4096)],
                2409.6,
            ),
            ("the same page twice", Device::SdCardA1, &[Write(1, 0, 4096), Write(1, 0, 4096)], 4000.0),
            (
                "the same place in another file",
                Device::SdCardA1,
                &[Write(1, 0, 4096), Write(2, 4096, 4096)],
                4000.0,
            ),
            (
                "a read does not move the write",
                Device::Emmc51,
                &[Write(1, 0, 4096), Read(1, 0, 4096), Write(1, 4096, 4096)],
                76.9 + 150.0 + 32.768,
            ),
            // 4 MiB: 2000 + (4194304 - 4096) / 10, and a pause of 175 ms.
            (
                "four megabytes and the pause",
                Device::SdCardA1,
                &[Write(1, 0, 4 << 20)],
                2000.0 + 419_020.8 + 175_000.0,
            ),
            (
                "one page less, no pause",
                Device::SdCardA1,
                &[Write(1, 0, (4 << 20) - 4096)],
                2000.0 + 418_611.2,
            ),
            (
                "twelve megabytes, three pauses",
                Device::SdCardA1,
                &[Write(1, 0, 12 << 20)],
                2000.0 + 1_257_881.6 + 525_000.0,
            ),
            ("no pause on eMMC", Device::Emmc51, &[Write(1, 0, 4 << 20)], 76.9 + 33_521.664),
            ("flushes only", Device::NvmeConsumer, &[Flush, Flush], 2400.0),
            ("flushes only, protected", Device::NvmeProtected, &[Flush, Flush], 80.0),
            // 320 bytes at 100 ns, and a flush of 0.1 us.
            ("five cache lines", Device::Pcm, &[Write(1, 0, 320), Flush], 32.1),
            ("a page read from PCM", Device::Pcm, &[Read(1, 0, 4096)], 81.92),
        ];
        for (name, device, requests, expected_us) in cases {
            let mut clock = Clock::new(device.model());
            for request in *requests {
                match *request {
                    Read(file, offset, bytes) => clock.read((file, offset), bytes),
                    Write(file, offset, bytes) => clock.write((file, offset), bytes),
                    Flush => clock.flush(),
                }
            }
            let us = clock.elapsed_us();
            assert!((us - expected_us).abs() < 1e-6, "{name}: {us}, expected {expected_us}");
        }
    }
}
