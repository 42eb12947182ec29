//! The model from operations to time, with numbers computed by hand.

use super::*;
use litefoot_storage::os::OsMedium;
use std::path::PathBuf;

/// A medium over a fresh directory.
struct Bench {
    directory: tempfile::TempDir,
    medium: ModelledMedium,
}

impl Bench {
    fn new() -> Bench {
        let medium = ModelledMedium::new(Arc::new(OsMedium::new()));
        Bench { directory: tempfile::tempdir().unwrap(), medium }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn open(&self, name: &str, mode: OpenMode) -> Arc<dyn File> {
        self.medium.open(&self.path(name), FileKind::Database, mode).unwrap()
    }

    /// A file of 64 KiB that is on the device and not in the cache.
    fn prepared(&self) -> Arc<dyn File> {
        std::fs::write(self.path("a"), vec![1; 65_536]).unwrap();
        self.open("a", OpenMode::ReadWrite)
    }
}

/// Steps, and the time they take on the SD card (read 667, write 2000, 4096 B = 409.6 and 96.832151 read, flush 500) and on
/// consumer NVMe (read 60, write 20, 4096 B = 2.048 and 1.365333 read, flush 1200).
#[test]
fn times_are_those_computed_by_hand() {
    type Steps = fn(&Bench);
    let cases: [(&str, Steps, f64, f64); 14] = [
        ("unsynced writes wait", |bench| bench.prepared().write_at(&[0; 4096], 0).unwrap(), 0.0, 0.0),
        (
            "300 bytes in place are a page and a flush",
            |bench| {
                let file = bench.prepared();
                file.write_at(&[0; 300], 4096).unwrap();
                file.sync().unwrap();
            },
            2500.0,
            1220.0,
        ),
        (
            "so they are as a durable write",
            |bench| bench.prepared().write_durable_at(&[IoSlice::new(&[0; 300])], 4096).unwrap(),
            2500.0,
            1220.0,
        ),
        (
            "a stamp is the page, the journal and two flushes",
            |bench| {
                let file = bench.prepared();
                file.write_at(&[0; 300], 4096).unwrap();
                let stamp = file.set_stamp().unwrap();
                assert_eq!(file.stamp().unwrap(), stamp);
            },
            2000.0 + 2819.2 + 1000.0,
            20.0 + 24.096 + 2400.0,
        ),
        (
            "a page written three times is written once",
            |bench| {
                let file = bench.prepared();
                (0..3).for_each(|byte| file.write_at(&[byte; 4096], 0).unwrap());
                file.sync().unwrap();
            },
            2500.0,
            1220.0,
        ),
        (
            "three pages, two of them neighbours",
            |bench| {
                let file = bench.prepared();
                [12_288, 0, 4096].iter().for_each(|offset| file.write_at(&[0; 4096], *offset).unwrap());
                file.sync().unwrap();
            },
            2000.0 + 409.6 + 2000.0 + 500.0,
            20.0 + 2.048 + 20.0 + 1200.0,
        ),
        (
            "an appended page costs the file system's journal too",
            |bench| {
                let file = bench.prepared();
                file.write_at(&[0; 4096], 65_536).unwrap();
                file.sync().unwrap();
            },
            2000.0 + (2000.0 + 2.0 * 409.6) + 2.0 * 500.0,
            20.0 + (20.0 + 2.0 * 2.048) + 2.0 * 1200.0,
        ),
        ("a sync with nothing to write is a flush", |bench| bench.prepared().sync().unwrap(), 500.0, 1200.0),
        (
            "a new file's name, and once more for nothing",
            |bench| {
                bench.open("new", OpenMode::Create);
                bench.medium.sync_directory(bench.directory.path()).unwrap();
                bench.medium.sync_directory(bench.directory.path()).unwrap();
            },
            2000.0 + 2.0 * 409.6 + 3.0 * 500.0,
            20.0 + 2.0 * 2.048 + 3.0 * 1200.0,
        ),
        (
            "pages are read once",
            |bench| {
                let file = bench.prepared();
                assert_eq!(file.read_at(&mut [0; 8192], 100).unwrap(), 8192);
                assert_eq!(file.read_at(&mut [0; 8192], 0).unwrap(), 8192);
            },
            667.0 + 2.0 * 4096.0 / 42.3,
            60.0 + 2.0 * 4096.0 / 3000.0,
        ),
        (
            "what is read ahead is not read again",
            |bench| {
                let file = bench.prepared();
                file.read_ahead(4096, 8192);
                assert_eq!(file.read_at(&mut [0; 8192], 8192).unwrap(), 8192);
            },
            // The second goes on where the first ended.
            667.0 + 2.0 * 4096.0 / 42.3,
            60.0 + 2.0 * 4096.0 / 3000.0,
        ),
        (
            "work put off is written in the end, without a flush",
            |bench| {
                bench.prepared().write_at(&[0; 8192], 0).unwrap();
                bench.medium.write_back();
                bench.medium.write_back();
            },
            2409.6,
            22.048,
        ),
        (
            "what is deleted before a sync is never written",
            |bench| {
                bench.prepared().write_at(&[0; 8192], 0).unwrap();
                bench.medium.delete(&bench.path("a")).unwrap();
                bench.medium.sync_directory(bench.directory.path()).unwrap();
                bench.medium.write_back();
            },
            2000.0 + 2.0 * 409.6 + 2.0 * 500.0,
            20.0 + 2.0 * 2.048 + 2.0 * 1200.0,
        ),
        (
            "two handles on one file share its pages",
            |bench| {
                let file = bench.prepared();
                file.write_at(&[0; 4096], 0).unwrap();
                bench.open("a", OpenMode::ReadWrite).sync().unwrap();
                file.sync().unwrap();
            },
            2000.0 + 2.0 * 500.0,
            20.0 + 2.0 * 1200.0,
        ),
    ];
    for (name, steps, sd_us, nvme_us) in cases {
        let bench = Bench::new();
        steps(&bench);
        for (device, expected_us) in [(Device::SdCardA1, sd_us), (Device::NvmeConsumer, nvme_us)] {
            let us = bench.medium.virtual_us(device);
            assert!((us - expected_us).abs() < 1e-6, "{name}, {device}: {us}, expected {expected_us}");
        }
    }
}

#[test]
fn phase_change_memory_is_charged_by_the_line() {
    let bench = Bench::new();
    let file = bench.prepared();
    file.write_durable_at(&[IoSlice::new(&[0; 300])], 10).unwrap();
    // Bytes 10 to 310 touch five lines: 320 bytes at 100 ns, and a flush of 0.1 us.
    let us = bench.medium.virtual_us(Device::Pcm);
    assert!((us - 32.1).abs() < 1e-6, "{us}");
}

#[test]
fn a_new_file_does_not_inherit_what_an_old_one_had() {
    let bench = Bench::new();
    drop(bench.prepared());
    bench.medium.delete(&bench.path("a")).unwrap();
    let file = bench.open("a", OpenMode::CreateNew);
    file.write_at(&[0; 100], 0).unwrap();
    file.sync().unwrap();
    // The length has changed: data, journal and two flushes, whatever inode the file was given.
    let us = bench.medium.virtual_us(Device::SdCardA1);
    assert!((us - (2000.0 + 2819.2 + 1000.0)).abs() < 1e-6, "{us}");
}
