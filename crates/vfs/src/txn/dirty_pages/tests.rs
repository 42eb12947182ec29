//! What is held of a transaction.

use super::*;
use crate::txn::SpillTarget;
use crate::txn::of_test::PlainTarget;

#[test]
fn a_page_size_that_cannot_be_is_committed_as_it_is() {
    let mut before = vec![0; 1536];
    before[..16].copy_from_slice(b"SQLite format 3\0");
    before[16..18].copy_from_slice(&512u16.to_be_bytes());
    let database = Arc::new(PlainTarget::new(&before));
    // What page 1 says then, and in pages of which size the transaction is committed.
    for (says, bytes) in [(0u16, 512), (7, 512), (511, 512), (1024, 512), (32_768, 512), (512, 512)] {
        let mut held = DirtyPages::new(database.db(), 512, 1536);
        let mut page = before[..512].to_vec();
        page[16..18].copy_from_slice(&says.to_be_bytes());
        held.write(&database, &page, 0).unwrap();
        assert_eq!(held.new_page_bytes().unwrap(), bytes, "{says}");
    }
    let mut held = DirtyPages::new(database.db(), 512, 1536);
    let mut page = before[..512].to_vec();
    page[16..18].copy_from_slice(&1024u16.to_be_bytes());
    held.write(&database, &page, 0).unwrap();
    held.set_len(&database, 1024).unwrap();
    assert_eq!(held.new_page_bytes().unwrap(), 1024, "a VACUUM to another size");
}
