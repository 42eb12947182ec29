//! The memory nodes of a machine: which there are, and how memory and threads keep to one of them.
//!
//! # Promises
//! 1. A machine with one node, or one that cannot be read, is left as it is: no memory and no thread is bound.
//! 2. Keeping to a node is a wish. Where the system refuses it, work goes on without, and the caller learns of it.
//!
//! The system's list is a directory, by default `/sys/devices/system/node`: `online` has the nodes, `nodeN/cpulist` their
//! processors.

use std::ffi::c_void;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The directory of Linux with the nodes of this machine.
const NODES: &str = "/sys/devices/system/node";
/// `MPOL_PREFERRED` (linux/mempolicy.h): from this node as long as it has some.
#[cfg(target_os = "linux")]
const MPOL_PREFERRED: libc::c_long = 1;
/// Nodes that one word of a mask has bits for.
const MOST_NODES: u32 = 64;
/// More entries of a list are no machine's.
const MOST_ENTRIES: usize = 1 << 16;

/// A node: memory, and the processors next to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub number: u32,
    /// Its processors.
    pub processors: Vec<u32>,
}

/// The nodes that memory and threads are spread over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology(Arc<[Node]>);

impl Default for Topology {
    fn default() -> Topology {
        Topology::of_machine()
    }
}

impl Topology {
    /// The nodes of this machine.
    pub fn of_machine() -> Topology {
        Topology::read(Path::new(NODES))
    }

    /// One node: nothing is bound, whatever the machine has.
    pub fn single() -> Topology {
        Topology(Arc::new([]))
    }

    /// The nodes that a directory like `/sys/devices/system/node` lists; one where it lists none that can be used.
    ///
    /// Nodes without processors hold memory only, and are left out.
    pub fn read(directory: &Path) -> Topology {
        let list = |path: &Path| {
            std::fs::read_to_string(path).ok().and_then(|list| parse(list.trim())).unwrap_or_default()
        };
        let processors = |number: u32| list(&directory.join(format!("node{number}/cpulist")));
        let online = list(&directory.join("online")).into_iter().filter(|number| *number < MOST_NODES);
        let nodes = online.map(|number| Node { number, processors: processors(number) });
        let nodes: Vec<Node> = nodes.filter(|node| !node.processors.is_empty()).collect();
        if nodes.len() > 1 { Topology(nodes.into()) } else { Topology::single() }
    }

    /// The number of nodes that parts are spread over, 1 at least.
    pub fn nodes(&self) -> usize {
        self.0.len().max(1)
    }

    /// The node of a part, such as a partition of a pool or a worker; `None` where there is one node only.
    pub fn node_of(&self, part: usize) -> Option<&Node> {
        self.0.get(part % self.nodes())
    }
}

/// A list like `0-1,4`.
fn parse(list: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if first > last || (last - first) as usize + numbers.len() > MOST_ENTRIES {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// Asks for memory of a node for a range that was not touched yet.
///
/// # Safety
/// The range is mapped, and the caller's.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn prefer_memory(start: *mut c_void, bytes: usize, node: &Node) -> io::Result<()> {
    let mask = 1u64 << node.number.min(MOST_NODES - 1);
    // The kernel reads one bit less than it is told.
    let mask_bits = libc::c_ulong::from(MOST_NODES) + 1;
    // SAFETY: the mask outlives the call; the range is the caller's.
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, start, bytes, MPOL_PREFERRED, &raw const mask, mask_bits, 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn prefer_memory(_start: *mut c_void, _bytes: usize, _node: &Node) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Binds the calling thread to the processors of a node.
///
/// # Errors
/// The system's, such as for processors that this process may not use.
#[cfg(target_os = "linux")]
pub fn bind_thread(node: &Node) -> io::Result<()> {
    // SAFETY: a set of bits, for which zeros are a value; `CPU_SET` refuses numbers outside of it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let most = 8 * size_of::<libc::cpu_set_t>();
        let inside = node.processors.iter().map(|processor| *processor as usize).filter(|at| *at < most);
        inside.for_each(|processor| libc::CPU_SET(processor, &mut set));
        set
    };
    // SAFETY: the set outlives the call; 0 is the calling thread.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
pub fn bind_thread(_node: &Node) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_understood() {
        assert_eq!(parse("0"), Some(vec![0]));
        assert_eq!(parse("0-2,5"), Some(vec![0, 1, 2, 5]));
        for wrong in ["", "a-b", "3-1", "0-4294967295"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_directory_of_nodes_is_a_topology() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(Topology::read(path), Topology::single());
        for (node, processors) in [(0, "0-1"), (2, "2-3,6"), (3, "")] {
            std::fs::create_dir(path.join(format!("node{node}"))).unwrap();
            std::fs::write(path.join(format!("node{node}/cpulist")), format!("{processors}\n")).unwrap();
        }
        for (online, nodes) in [("0,2-3\n", 2), ("0\n", 1), ("0,3\n", 1), ("0-2\n", 2), ("many\n", 1)] {
            std::fs::write(path.join("online"), online).unwrap();
            assert_eq!(Topology::read(path).nodes(), nodes, "{online}");
        }
        let topology = Topology::read(path);
        assert_eq!(topology, Topology::single());
        std::fs::write(path.join("online"), "0,2-3").unwrap();
        let topology = Topology::read(path);
        let of = |part| topology.node_of(part).map(|node| (node.number, node.processors.clone()));
        assert_eq!(of(0), Some((0, vec![0, 1])));
        assert_eq!(of(1), Some((2, vec![2, 3, 6])));
        assert_eq!(of(2), of(0));
        assert_eq!(Topology::single().node_of(5), None);
    }
}
