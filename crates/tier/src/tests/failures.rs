//! A device that fails amid the run.

use super::*;
use litefoot_storage::file::ErrorKind;

/// A file with some chunks away, durably, and what it holds.
fn away() -> (SimMedium, Arc<TieredFile>, Vec<u8>) {
    let (sim, medium) = medium(40 * CHUNK_BYTES);
    let file = open_with(&medium, &config(8, PolicyKind::Lru)).unwrap();
    for chunk in [3, 4, 9] {
        file.write_at(&[chunk as u8; CHUNK_BYTES], chunk * CHUNK_BYTES as u64).unwrap();
    }
    file.sync().unwrap();
    let expected = all_of(&*file);
    (sim, file, expected)
}

fn read_chunk(file: &TieredFile, chunk: usize) -> litefoot_storage::file::Result<Vec<u8>> {
    let mut bytes = vec![0; CHUNK_BYTES];
    file.read_at(&mut bytes, (chunk * CHUNK_BYTES) as u64)?;
    Ok(bytes)
}

#[test]
fn reads_of_chunks_that_only_lived_there_name_it_and_no_others_fail() {
    let (sim, file, expected) = away();
    sim.set_faults(Faults::failing(Operation::Read, FileKind::Tier, 0));
    for chunk in 0..40 {
        match read_chunk(&file, chunk) {
            Ok(bytes) => {
                assert!(![3, 4, 9].contains(&chunk), "{chunk}");
                assert!(bytes == expected[chunk * CHUNK_BYTES..][..CHUNK_BYTES]);
            }
            Err(error) => {
                assert!([3, 4, 9].contains(&chunk), "{chunk}: {error}");
                assert!(error.to_string().contains(TIER), "{error}");
            }
        }
    }
    // Read-only from then on, wherever the chunk is; and nothing reaches the file.
    let before = raw(&sim, FLASH);
    for result in [
        file.write_at(b"x", 3 * CHUNK_BYTES as u64),
        file.write_at(b"x", 20 * CHUNK_BYTES as u64),
        file.set_len(5000),
        file.allocate(1 << 20),
        file.sync(),
        file.drain(),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Latched, "{error}");
        assert!(error.to_string().contains(TIER), "{error}");
    }
    assert!(before == raw(&sim, FLASH));
}

#[test]
fn a_write_or_sync_that_fails_closes_the_file_for_writing_and_loses_nothing_durable() {
    for (operation, kind) in [
        (Operation::Write, FileKind::Tier),
        (Operation::Sync, FileKind::Tier),
        (Operation::Sync, FileKind::Database),
    ] {
        for after in 0..6 {
            let (sim, file, expected) = away();
            sim.set_faults(Faults::failing(operation, kind, after));
            let mut failed = None;
            for number in 0..30_u64 {
                let at = (number * 7 % 40) * CHUNK_BYTES as u64;
                if let Err(error) = file.write_at(&[number as u8; 700], at).and_then(|()| file.sync()) {
                    failed = Some(error);
                    break;
                }
            }
            let first = failed.expect("the fault has struck").to_string();
            assert!(first.contains("planted"), "{first}");
            let again = file.write_at(b"x", 0).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::Latched, "{again}");
            // Every chunk on flash can be read, and with a device that works so can the rest.
            all_of(&*file);
            drop(file);
            sim.set_faults(Faults::default());
            let medium: Arc<dyn Medium> = Arc::new(sim.clone());
            let file = open_with(&medium, &config(8, PolicyKind::Lru)).unwrap();
            let found = all_of(&*file);
            // Chunks that no write has met are as they were.
            assert!(found[39 * CHUNK_BYTES..] == expected[39 * CHUNK_BYTES..]);
            file.drain().unwrap();
            assert!(raw(&sim, FLASH) == found);
        }
    }
}

#[test]
fn a_chunk_that_cannot_be_read_from_flash_does_not_move() {
    let (sim, file, mut expected) = away();
    let mut once = Faults::failing(Operation::Read, FileKind::Database, 0);
    once.fail_again = false;
    sim.set_faults(once);
    let at = 20 * CHUNK_BYTES;
    assert!(file.write_at(&[1; 100], at as u64).unwrap_err().to_string().contains("planted"));
    // The fault has passed: everything goes on, and what was there is still there.
    let other = 30 * CHUNK_BYTES;
    file.write_at(&[2; 100], other as u64).unwrap();
    file.sync().unwrap();
    expected[other..other + 100].fill(2);
    assert!(all_of(&*file) == expected);
    drop(file);
    let medium: Arc<dyn Medium> = Arc::new(sim);
    assert!(all_of(&*open_with(&medium, &config(8, PolicyKind::Lru)).unwrap()) == expected);
}

#[test]
fn a_full_flash_does_not_keep_chunks_from_coming_home() {
    let (sim, file, _) = away();
    file.write_at(&[1; 3000], 40 * CHUNK_BYTES as u64 - 100).unwrap();
    file.sync().unwrap();
    sim.set_faults(Faults::full_at(sim.used_bytes()));
    assert_eq!(file.write_at(&[1; 3000], file.len().unwrap()).unwrap_err().kind(), ErrorKind::Full);
    let expected = all_of(&*file);
    file.write_at(&[2; 3000], 100).unwrap();
    file.drain().unwrap();
    let now = raw(&sim, FLASH);
    assert!(now[4000..] == expected[4000..] && now[100..3100] == [2; 3000]);
}

#[test]
fn space_for_the_device_is_reserved_when_it_is_opened() {
    let (sim, medium) = medium(9000);
    sim.set_faults(Faults::full_at(20_000));
    let error = open_with(&medium, &config(16, PolicyKind::Lru)).err().unwrap();
    assert!(error.to_string().contains(TIER), "{error}");
    sim.set_faults(Faults::default());
    open_with(&medium, &config(16, PolicyKind::Lru)).unwrap();
}
