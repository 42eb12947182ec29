//! The memory nodes of this machine.

use std::ffi::c_void;
use std::io;

/// The list of Linux of the nodes of this machine.
const ONLINE: &str = "/sys/devices/system/node/online";
/// `MPOL_PREFERRED` (linux/mempolicy.h): from this node as long as it has some.
#[cfg(target_os = "linux")]
const MPOL_PREFERRED: libc::c_long = 1;

/// The numbers of the nodes that are there; one where that is not known.
pub(crate) fn nodes() -> Vec<u32> {
    let listed = std::fs::read_to_string(ONLINE).ok().and_then(|list| parse(list.trim()));
    listed.filter(|nodes| !nodes.is_empty()).unwrap_or_else(|| vec![0])
}

/// A list like `0-1,4`.
fn parse(list: &str) -> Option<Vec<u32>> {
    let mut nodes = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        nodes.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(nodes)
}

/// Asks for memory of a node for a range that was not touched yet.
///
/// # Safety
/// The range is mapped, and the caller's.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn bind(start: *mut c_void, bytes: usize, node: u32) -> io::Result<()> {
    let mask = 1 << node.min(63) as u64;
    let mask_bits = 64 as libc::c_ulong;
    // SAFETY: the mask outlives the call; the range is the caller's.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start,
            bytes,
            MPOL_PREFERRED,
            &raw const mask as *const u64,
            mask_bits,
            0,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn bind(_start: *mut c_void, _bytes: usize, _node: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes_are_understood() {
        assert_eq!(parse("0"), Some(vec![0]));
        assert_eq!(parse("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse(""), None);
        assert_eq!(parse("a-b"), None);
        assert!(!nodes().is_empty());
    }
}
