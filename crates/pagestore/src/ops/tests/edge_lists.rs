//! Edge lists as they are published.

use super::*;
use crate::ops::graph::{EdgeList, load_edges};

/// As SNAP publishes them: comments, tabs, ids with gaps, and here also out of order.
const PUBLISHED: &str = "# Directed graph (each unordered pair of nodes is saved once)\r
# Nodes: 5 Edges: 6\r
# FromNodeId\tToNodeId\r
30\t1412\r
30\t3352\r
5000000000\t30\r
1412\t30\r
30\t7\r
1412\t1412\r
";

fn read(text: &str) -> Result<EdgeList> {
    EdgeList::read(text.as_bytes(), Path::new("published.txt"), &mut |_| Ok(()))
}

#[test]
fn nodes_of_an_edge_list_answer_by_their_ids() {
    let list = read(PUBLISHED).unwrap();
    assert_eq!((list.nodes(), list.edges()), (5, 6));
    for order in [Order::Text, Order::Locality] {
        let memory = Memory::new(4096);
        let page = load_edges(&memory, &list, order, &mut |_| Ok(())).unwrap().metadata_page;
        let graph = Graph::open(&memory, page).unwrap();
        graph.verify(&mut |_| Ok(())).unwrap();
        assert!(graph.has_ids());
        for (node, neighbors) in
            [(7, &[][..]), (30, &[1412, 3352, 7]), (1412, &[30, 1412]), (3352, &[]), (5_000_000_000, &[30])]
        {
            assert_eq!(graph.neighbors(node).unwrap(), neighbors, "{order:?}, {node}");
        }
        for id in [0, 31, 5_000_000_001] {
            let error = graph.neighbors(id).unwrap_err();
            assert!(matches!(error, Error::NoSuchId { nodes: 5, .. }), "{error}");
        }
        let depths = found_depths(&workers(2), &graph, 5_000_000_000);
        let expected = BTreeMap::from([(5_000_000_000, 0), (30, 1), (7, 2), (1412, 2), (3352, 2)]);
        assert_eq!(depths, expected, "{order:?}");
    }
}

#[test]
fn ids_without_gaps_are_stored_as_from_a_text() {
    let edges = rmat(8, 1000, 1);
    // In another order, with each id in an edge.
    let mut lines: Vec<String> = (0..256).map(|node| format!("{node} {}", (node + 1) % 256)).collect();
    lines.extend(edges.iter().rev().map(|(source, target)| format!("{source}\t{target}")));
    let list = read(&lines.join("\n")).unwrap();
    let mut sorted: Vec<&String> = lines.iter().collect();
    sorted.sort_by_key(|line| line.split_ascii_whitespace().next().and_then(|id| id.parse::<u64>().ok()));
    let text = sorted.into_iter().fold(format!("256 {}\n", lines.len()), |text, line| text + line + "\n");
    for order in [Order::Text, Order::Locality] {
        let (from_list, from_text) = (Memory::new(4096), Memory::new(4096));
        let page = load_edges(&from_list, &list, order, &mut |_| Ok(())).unwrap().metadata_page;
        assert_eq!(load_text(&from_text, &text, order).unwrap(), page);
        assert!(from_list.bytes() == from_text.bytes(), "{order:?}");
    }
}

#[test]
fn a_line_that_is_no_edge_is_named_by_file_and_line() {
    for (text, line, words) in [
        ("", 1, "no edges"),
        ("# Nodes: 3\n\n", 2, "no edges"),
        ("0\t1\nx\t2\n", 2, "two whole numbers"),
        ("0\t1\n# fine\n1,2\n", 3, "\"1,2\""),
        ("0 1 5\n", 1, "two whole numbers"),
        ("0 18446744073709551616\n", 1, "two whole numbers"),
        ("0\n", 1, "two whole numbers"),
        ("0 9223372036854775807\n0 9223372036854775808\n", 2, "the id 9223372036854775808"),
    ] {
        let error = read(text).unwrap_err();
        assert!(matches!(error, Error::Line { line: found, .. } if found == line), "{text:?}: {error}");
        let message = error.to_string();
        assert!(message.contains("published.txt") && message.contains(words), "{message}");
    }
}

#[test]
fn a_reading_that_is_asked_to_stop_stops() {
    let text = "1 2\n".repeat(70_000);
    let read = EdgeList::read(text.as_bytes(), Path::new("list"), &mut |_| Err(Error::Stopped));
    assert!(matches!(read, Err(Error::Stopped)));
}
