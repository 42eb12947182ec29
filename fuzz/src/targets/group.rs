//! A group of processes: what a member sends its owner, and what an owner answers.

use super::put;
use crate::{MOST_BYTES, Target};
use litefoot_sim::{Faults, SimMedium};
use litefoot_storage::file::Medium;
use litefoot_vfs::fuzzing;
use std::path::Path;
use std::sync::Arc;

/// Bytes that the files may have: a member may write at any offset, and the simulated medium has no holes.
const CAPACITY: u64 = 4 << 20;
/// Most bytes of a frame that is made to fit, and where its operation and its file are.
const MOST_FRAME: usize = 2048;
const OPERATION_AT: usize = 4;
const OPERATIONS: u8 = 23;

pub const MEMBER: Target = Target {
    name: "member",
    does: "calls of a member of a group, one after the other, made by the owner of a database",
    parse: member,
    seal: |bytes| seal(bytes),
    seeds: fuzzing::conversations,
    most_bytes: MOST_BYTES,
};

pub const OWNER: Target = Target {
    name: "owner",
    does: "replies of an owner to a member of its group: what has changed, and pages",
    parse: fuzzing::owner,
    seal: |_| {},
    seeds: fuzzing::replies,
    most_bytes: MOST_BYTES,
};

fn member(bytes: &[u8]) -> u64 {
    let medium = SimMedium::new();
    medium.stop_recording();
    medium.set_faults(Faults::full_at(CAPACITY));
    let shared: Arc<dyn Medium> = Arc::new(medium);
    fuzzing::member(&shared, Path::new("/a.db"), bytes)
}

/// Makes lengths of frames, operations and files such as there are.
fn seal(bytes: &mut [u8]) {
    let mut at = 0;
    while at + 24 <= bytes.len() {
        let len = u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
        let len = len.clamp(20, MOST_FRAME).min(bytes.len() - at - 4);
        put(bytes, at, &(len as u32).to_ne_bytes());
        bytes[at + OPERATION_AT] = 1 + (bytes[at + OPERATION_AT].wrapping_sub(1)) % OPERATIONS;
        bytes[at + OPERATION_AT + 1] %= 3;
        at += 4 + len;
    }
}
