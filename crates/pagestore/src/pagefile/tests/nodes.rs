//! Memory nodes, on a machine that is made up.
#![cfg(target_os = "linux")]

use super::*;
use crate::task::TaskPlace;

/// The list of the processors that the calling thread may use.
fn allowed() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().to_owned()
}

/// Two nodes: one with the first processor that this process may use, one with a processor and a number that no machine
/// here has. Answers that processor, too.
fn two_nodes() -> (Topology, String) {
    let first: String = allowed().chars().take_while(char::is_ascii_digit).collect();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("online"), "0,63\n").unwrap();
    for (node, processors) in [(0, first.as_str()), (63, "1023")] {
        let node = directory.path().join(format!("node{node}"));
        std::fs::create_dir(&node).unwrap();
        std::fs::write(node.join("cpulist"), format!("{processors}\n")).unwrap();
    }
    (Topology::read(directory.path()), first)
}

#[test]
fn threads_keep_to_their_nodes_and_what_the_system_refuses_is_told() {
    let (topology, first) = two_nodes();
    let start = |topology| Workers::start(Config { topology, ..Config::with_threads(4) }).unwrap();
    let (bound, free) = (start(topology), start(Topology::single()));
    for worker in 0..4 {
        let expected = if worker % 2 == 0 { first.clone() } else { allowed() };
        let found = |workers: &Workers| workers.execute_sync(TaskPlace::On(worker), allowed).unwrap();
        assert_eq!((found(&bound), found(&free)), (expected, allowed()), "worker {worker}");
    }
    assert_eq!((bound.statistics().unbound, free.statistics().unbound), (2, 0));
}

#[test]
fn operators_find_the_same_on_any_nodes() {
    let (topology, _) = two_nodes();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pages");
    build(&os(), &path, 4096, 100);
    let mut found = Vec::new();
    for topology in [topology, Topology::single()] {
        let options = Options { topology: topology.clone(), ..Options::default() };
        let file = PageFile::open(&*os(), &path, queue(), &options).unwrap();
        assert_eq!(file.nodes(), topology.nodes());
        // Of four partitions, those of the second node are refused.
        let refused = if topology.nodes() == 2 { 2 } else { 0 };
        assert_eq!(file.statistics().refused_partitions, refused);
        let workers = Workers::start(Config { topology, ..Config::with_threads(3) }).unwrap();
        found.push(ops::group_by(&workers, &file, &file.extents()).unwrap());
    }
    assert!(found[0] == found[1]);
    assert_eq!(found[0].iter().sum::<u64>(), 100 * 4096);
}

/// Each part runs once, on any number of workers and nodes.
#[test]
fn parts_of_nodes_without_a_worker_are_done_by_others() {
    for (threads, nodes) in [(1, 3), (2, 2), (4, 3)] {
        let workers = Workers::start(Config::with_threads(threads)).unwrap();
        let done = workers.each_near(20, nodes, |part| part % nodes, |part| part * part).unwrap();
        assert_eq!(done, (0..20).map(|part| part * part).collect::<Vec<_>>());
    }
}
