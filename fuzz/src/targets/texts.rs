//! What people and programs write: options, and graphs as text.

use crate::{Target, outcome_of};
use litefoot_pagestore::ops::graph::Text;
use litefoot_vfs::Options;
use std::path::Path;

pub const OPTIONS: Target = Target {
    name: "options",
    does: "the options of a URI, a PRAGMA or LITEFOOT_OPTIONS",
    parse: options,
    seal: |_| (),
    seeds: || {
        let texts = [
            "shared=1&pool=4M&direct=on&cleaner=caller&clean_threshold=0.5",
            "tier=/fast/tier&tier_size=8M&tier_policy=lru&nvram=/fast/log",
            "normal_window=10&busy_wait=18446744073709551615&wal_memory=1G&log_size=64K&sla_size=1M&atomic=off",
            "mode=ro&cache=shared&_journal_mode=WAL",
            "pool=99999999999999999999g&pool=17179869184G&clean_threshold=NaN&clean_threshold=1e400",
        ];
        texts.map(|text| text.as_bytes().to_vec()).to_vec()
    },
};

fn options(bytes: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(bytes);
    let mut options = Options::default();
    let whole = options.set_list(&text).is_ok();
    // What was taken is answered in a form that can be taken again, and then means the same.
    let names = Options::names();
    let mut again = Options::default();
    for name in names.split(", ") {
        let value = options.get(name).unwrap_or_else(|| panic!("{name} has no value"));
        again.set(name, &value).unwrap_or_else(|why| panic!("{why}: it was answered so"));
        assert_eq!(again.get(name).as_deref(), Some(value.as_str()), "{name}");
    }
    outcome_of(&(whole, text.matches('&').count().min(8), options.get("pool").map(|text| text.len())))
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
};

fn graph_text(bytes: &[u8]) -> u64 {
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
