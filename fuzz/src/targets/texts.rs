//! Texts from people and programs: options, and graphs.

use crate::{MOST_BYTES, Target, outcome_of};
use litefoot_pagestore::ops::graph::{EdgeList, Text};
use litefoot_vfs::Options;
use std::path::Path;

pub const OPTIONS: Target = Target {
    name: "options",
    does: "the options of a URI, a PRAGMA or LITEFOOT_OPTIONS",
    parse: options,
    seal: |_| (),
    seeds: || {
        let texts = [
            "sharing=passthrough&buffer_pool_size=4M&direct_io=on&page_cleaner=foreground&max_dirty_ratio=0.5",
            "tier=/fast/tier&tier_size=8M&tier_policy=lru&commit_log_path=/fast/log",
            "flush_interval_ms=10&writer_timeout_ms=18446744073709551615&write_buffer_size=1G&log_size=64K&commit_log_size=1M&atomic=off",
            "mode=ro&cache=shared&_journal_mode=WAL",
            "buffer_pool_size=99999999999999999999g&buffer_pool_size=17179869184G&max_dirty_ratio=NaN&max_dirty_ratio=1e400",
        ];
        texts.map(|text| text.as_bytes().to_vec()).to_vec()
    },
    most_bytes: MOST_BYTES,
};

fn options(bytes: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(bytes);
    let mut options = Options::default();
    let whole = options.set_list(&text).is_ok();
    // An accepted option is answered in a form that is accepted again, and then means the same.
    let names = Options::names();
    let mut again = Options::default();
    for name in names.split(", ") {
        let value = options.get(name).unwrap_or_else(|| panic!("{name} has no value"));
        again.set(name, &value).unwrap_or_else(|why| panic!("{why}: it was answered so"));
        assert_eq!(again.get(name).as_deref(), Some(value.as_str()), "{name}");
    }
    outcome_of(&(
        whole,
        text.matches('&').count().min(8),
        options.get("buffer_pool_size").map(|text| text.len()),
    ))
}

pub const GRAPH_TEXT: Target = Target {
    name: "graph_text",
    does: "the text of a graph",
    parse: graph_text,
    seal: |_| (),
    seeds: || {
        let texts = [
            "5 6\n0 1\n0 2\n# between\n1 3\n2 3\n3 4\n4 0\n",
            "0 0\n",
            "3 0\n",
            "2 1\n1 0",
            "\n\n1 1\r\n0 0",
        ];
        texts.map(|text| text.as_bytes().to_vec()).to_vec()
    },
    most_bytes: MOST_BYTES,
};

fn graph_text(bytes: &[u8]) -> u64 {
    if let Ok(list) = EdgeList::read(bytes, Path::new("list"), &mut |_| Ok(())) {
        assert!(list.edges() > 0 && list.nodes() <= 2 * list.edges(), "a node is in no edge");
    }
    let Ok(mut text) = Text::new(bytes, Path::new("text")) else { return 0 };
    let mut edges = 0u64;
    loop {
        match text.next_edge() {
            Ok(Some((source, target))) => {
                assert!(source < text.nodes() && target < text.nodes(), "an edge leads outside");
                edges += 1;
            }
            Ok(None) => {
                assert_eq!(edges, text.edges(), "not as many edges as were announced");
                return outcome_of(&("whole", edges.min(16)));
            }
            Err(error) => return outcome_of(&(edges.min(16), format!("{error}").len())),
        }
    }
}
