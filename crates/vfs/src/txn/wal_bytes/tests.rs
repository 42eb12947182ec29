use super::*;
use crate::memory::spill_file::tests::make_spill;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Medium, OpenMode};
use proptest::prelude::*;
use std::path::Path;

const PAGE: usize = 512;
const FRAME: usize = FRAME_HEADER_BYTES + PAGE;

/// A log that may have so much memory.
pub fn store(bytes: usize) -> WalBytes {
    WalBytes::new(MemoryReservation::fixed(bytes), bytes / 2, make_spill())
}

fn head() -> [u8; HEADER_BYTES] {
    let mut head = [0; HEADER_BYTES];
    head[8..12].copy_from_slice(&(PAGE as u32).to_be_bytes());
    head
}

#[derive(Clone, Debug)]
enum StoreWrite {
    Frame(usize, u8),
    Bytes(usize, usize, u8),
    /// A page leaves for the database file or the log.
    Leave(usize),
    Cut(usize),
    /// A page is lent, so that who writes it makes a copy.
    Lend(usize),
    Close(usize),
}

fn steps() -> impl Strategy<Value = Vec<StoreWrite>> {
    let step = prop_oneof![
        4 => (0..24_usize, any::<u8>()).prop_map(|(number, byte)| StoreWrite::Frame(number, byte)),
        1 => (HEADER_BYTES..24 * FRAME, 1..2 * FRAME, any::<u8>())
            .prop_map(|(offset, len, byte)| StoreWrite::Bytes(offset, len, byte)),
        2 => (0..24_usize).prop_map(StoreWrite::Leave),
        1 => (HEADER_BYTES..24 * FRAME).prop_map(StoreWrite::Cut),
        1 => (0..24_usize).prop_map(StoreWrite::Lend),
        1 => (0..24_usize).prop_map(StoreWrite::Close),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #[test]
    fn what_was_written_is_read_wherever_it_is(steps in steps(), budget in 0..16 * FRAME) {
        let medium = SimMedium::new();
        let open = |path: &str, kind| medium.open(Path::new(path), kind, OpenMode::Create).unwrap();
        let (data, log) = (open("/app.db", FileKind::Database), open("/app.db-wal", FileKind::RedoLog));
        let mut store = store(budget);
        store.set_log(log.clone());
        store.write(&head(), 0, &*data).unwrap();
        let mut plain = head().to_vec();
        let mut lent = Vec::new();
        let put = |plain: &mut Vec<u8>, offset: usize, bytes: &[u8]| {
            plain.resize(plain.len().max(offset + bytes.len()), 0);
            plain[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        for step in steps {
            let mut written = None;
            match step {
                StoreWrite::Frame(number, byte) => {
                    written = Some(number);
                    let offset = HEADER_BYTES + number * FRAME;
                    for (bytes, at) in [
                        (vec![byte; FRAME_HEADER_BYTES], offset),
                        (vec![!byte; PAGE], offset + FRAME_HEADER_BYTES),
                    ] {
                        store.write(&bytes, at, &*data).unwrap();
                        put(&mut plain, at, &bytes);
                    }
                }
                StoreWrite::Bytes(offset, len, byte) => {
                    store.write(&vec![byte; len], offset, &*data).unwrap();
                    put(&mut plain, offset, &vec![byte; len]);
                }
                StoreWrite::Leave(number) => {
                    if let Some(bytes) = store.page_in_memory(number) {
                        let page_number = 100 - number as u32;
                        let offset = u64::from(page_number - 1) * PAGE as u64;
                        let away = if number % 2 == 0 {
                            data.write_at(bytes, offset).unwrap();
                            SpillPlace::Database(page_number)
                        } else {
                            log.write_at(bytes, offset + 7).unwrap();
                            SpillPlace::Slot(offset + 7)
                        };
                        store.mark_spilled(number, away);
                        prop_assert_eq!(store.spill_place(number), Some(away));
                    }
                }
                StoreWrite::Cut(len) => {
                    store.set_len(len);
                    let frames = (len - HEADER_BYTES) / FRAME;
                    plain.resize(len, 0);
                    // The rest of a frame that was cut may be anything.
                    let whole = HEADER_BYTES + frames * FRAME;
                    store.set_len(whole.min(len));
                    plain.truncate(whole.min(len));
                }
                StoreWrite::Close(to) => store.close(to),
                StoreWrite::Lend(number) => lent.extend(store.page_in_memory(number).cloned()),
            }
            let in_memory = |to: usize| (0..to).filter(|number| store.page_in_memory(*number).is_some()).count();
            prop_assert_eq!(store.memory.pages(), in_memory(store.slots.len()));
            prop_assert_eq!(store.closed_in_memory, in_memory(store.closed));
            let (closed, count) = (store.closed, store.slots.len());
            let open = store.open_frames().to_vec();
            prop_assert!(open.iter().all(|number| (closed..count).contains(number)));
            prop_assert!(written.is_none_or(|n| open.contains(&n) == (store.page_in_memory(n).is_some() && n >= closed)));
            prop_assert_eq!(store.len(), plain.len());
            let mut back = vec![1; plain.len() + 10];
            prop_assert_eq!(store.read(&mut back, 0, &*data).unwrap(), plain.len());
            prop_assert!(back[..plain.len()] == plain[..], "the bytes differ");
        }
        lent.clear();
        store.end_copies();
        let in_pages = store.memory_bytes() - store.slots.len() * size_of::<FrameSlot>();
        prop_assert!(in_pages <= budget + FEWEST_PAGES * PAGE, "{in_pages} of {budget}");
        store.reset();
        prop_assert!(store.memory_bytes() <= budget / 2 + store.slots.len() * size_of::<FrameSlot>());
        prop_assert!(store.spill_file.existing().is_none());
    }
}

#[test]
fn frames_without_a_header_are_refused() {
    let data = SimMedium::new().open(Path::new("/app.db"), FileKind::Database, OpenMode::Create).unwrap();
    assert!(store(1 << 20).write(&[1; PAGE], HEADER_BYTES, &*data).is_err());
}
