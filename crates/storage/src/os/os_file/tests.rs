use super::*;
use crate::file::{ErrorKind, Medium};
use crate::os::OsMedium;

fn fresh() -> (tempfile::TempDir, Arc<dyn File>) {
    let directory = tempfile::tempdir().unwrap();
    let file = OsMedium.open(&directory.path().join("f"), FileKind::Database, OpenMode::Create).unwrap();
    (directory, file)
}

#[test]
fn vectored_writes_longer_than_one_call_arrive_whole() {
    let (_directory, file) = fresh();
    let bytes: Vec<u8> = (0..3 * VECTORS_PER_CALL).map(|i| i as u8).collect();
    let slices: Vec<IoSlice<'_>> = bytes.chunks(1).map(IoSlice::new).collect();
    file.write_vectored_at(&slices, 10).unwrap();
    file.write_durable_at(&slices, 10 + bytes.len() as u64).unwrap();
    let mut back = vec![0; 2 * bytes.len()];
    let (first, second) = back.split_at_mut(700);
    let mut views = [IoSliceMut::new(first), IoSliceMut::new(second)];
    assert_eq!(file.read_vectored_at(&mut views, 10).unwrap(), 2 * bytes.len());
    assert_eq!(back, [bytes.clone(), bytes].concat());
}

#[test]
fn reads_past_the_end_are_short() {
    let (_directory, file) = fresh();
    file.write_at(b"abc", 0).unwrap();
    let mut buf = [9; 8];
    assert_eq!(file.read_at(&mut buf, 1).unwrap(), 2);
    assert_eq!(file.read_at(&mut buf, 100).unwrap(), 0);
}

#[test]
fn locks_belong_to_the_handle() {
    let (directory, first) = fresh();
    let path = directory.path().join("f");
    let second = OsMedium.open(&path, FileKind::Database, OpenMode::ReadWrite).unwrap();
    assert_eq!(first.id(), second.id());
    assert!(first.lock_range(0, 10, RangeLock::Exclusive).unwrap());
    assert!(!second.lock_range(5, 1, RangeLock::Shared).unwrap());
    let is_locked = |offset| second.is_locked(offset, 3, RangeLock::Shared).unwrap();
    assert!(is_locked(9) && !is_locked(10));
    drop(OsMedium.open(&path, FileKind::Database, OpenMode::ReadWrite).unwrap());
    assert!(!second.lock_range(5, 1, RangeLock::Shared).unwrap());
    assert!(first.lock_range(0, 10, RangeLock::None).unwrap());
    assert!(second.lock_range(5, 1, RangeLock::Shared).unwrap());
    assert!(!first.is_locked(0, 10, RangeLock::Shared).unwrap(), "a shared lock is in no reader's way");
    assert!(first.is_locked(0, 10, RangeLock::Exclusive).unwrap());
    assert!(!second.is_locked(0, 10, RangeLock::Exclusive).unwrap(), "nor is the handle's own, which stays");
    assert!(!first.lock_range(5, 1, RangeLock::Exclusive).unwrap());
}

#[test]
fn errors_name_the_file_and_their_kind() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing/x.db");
    let cases = [
        (missing.as_path(), OpenMode::Create, ErrorKind::NotFound),
        (directory.path(), OpenMode::ReadWrite, ErrorKind::IsDirectory),
    ];
    for (path, mode, kind) in cases {
        let error = OsMedium.open(path, FileKind::Database, mode).err().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn a_wal_index_is_extended_by_its_pages() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db-shm");
    let file = OsMedium.open(&path, FileKind::WalIndex, OpenMode::Create).unwrap();
    file.write_at(&[7; 3], 0).unwrap();
    for len in [10_000, 32_768, 100] {
        file.allocate(len).unwrap();
    }
    let mut bytes = vec![1; 40_000];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 32_768);
    assert!(bytes[..3] == [7; 3] && bytes[3..32_768].iter().all(|byte| *byte == 0));
}

#[test]
fn allocate_extends_and_never_shrinks() {
    let (_directory, file) = fresh();
    file.allocate(10_000).unwrap();
    assert_eq!(file.len().unwrap(), 10_000);
    file.allocate(10).unwrap();
    assert_eq!(file.len().unwrap(), 10_000);
}
