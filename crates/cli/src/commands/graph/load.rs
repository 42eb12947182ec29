//! `litefoot graph load`: from text to pages.

use super::explain;
use crate::pagefile::{self, PageBytes};
use litefoot_pagestore::ops::Error;
use litefoot_pagestore::ops::graph::{EdgeList, Order, Text, load, load_edges};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Bar;
use litefoot_terminal::text::grouped;
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes read from the text at once.
const READ_BYTES: usize = 256 * 1024;

/// Load a graph from a text into a new page file.
///
/// The graph is never in memory, unless it is to be reordered. Where the text is malformed, or the command is
/// interrupted, no file is left.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot graph load routes.txt routes.graph
  litefoot graph load --reorder --page-size 64K web.txt web.graph
  litefoot graph load --edge-list web-Google.txt web.graph")]
pub struct Args {
    /// The text: `nodes edges`, then `source target` on each line, sorted by source
    text: PathBuf,

    /// The text has edges only, in any order, between nodes with any ids, as SNAP publishes them; takes memory for all edges
    #[arg(long)]
    edge_list: bool,

    /// The page file to make
    database: PathBuf,

    /// Bytes of a page: 4K to 256K, a power of two
    #[arg(long, value_name = "BYTES", default_value = "4K")]
    page_size: PageBytes,

    /// Store nodes that are visited together next to each other; takes memory for the whole graph
    #[arg(long)]
    reorder: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The graph before it is stored.
enum Source<R> {
    Text(Text<R>),
    EdgeList(EdgeList),
}

impl<R: BufRead> Source<R> {
    fn edges(&self) -> u64 {
        match self {
            Source::Text(text) => text.edges(),
            Source::EdgeList(list) => list.edges(),
        }
    }
}

fn read_edge_list<R: BufRead>(reader: R, path: &Path) -> Result<Source<R>, Error> {
    let mut progress = |_| interrupt::check().map_err(|_| Error::Stopped);
    EdgeList::read(reader, path, &mut progress).map(Source::EdgeList)
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let path = args.text.as_path();
    let file = File::open(path)
        .and_then(|file| {
            if file.metadata()?.is_dir() { Err(std::io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
        })
        .map_err(|source| explain(path, &Error::Input { path: path.to_owned(), source }))?;
    let reader = BufReader::with_capacity(READ_BYTES, file);
    let source =
        if args.edge_list { read_edge_list(reader, path) } else { Text::new(reader, path).map(Source::Text) };
    let source = source.map_err(|error| explain(path, &error))?;
    let order = if args.reorder { Order::Locality } else { Order::Text };
    let new = pagefile::create(&args.database, args.page_size)?;
    let loaded = {
        let bar = Bar::new("loading", source.edges());
        let mut progress = |edges| {
            bar.at(edges);
            interrupt::check().map_err(|_| Error::Stopped)
        };
        match source {
            Source::Text(mut text) => load(&new, &mut text, order, &mut progress),
            Source::EdgeList(list) => load_edges(&new, &list, order, &mut progress),
        }
    };
    let loaded = loaded.map_err(|error| explain(&args.database, &error))?;
    interrupt::check()?;
    pagefile::finish(new, &args.database)?;
    let mut output = Output::lock();
    if args.json {
        let database = args.database.to_string_lossy();
        let object = json!({"database": database, "nodes": loaded.nodes, "edges": loaded.edges});
        output.line(format!("{object:#}"))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let (nodes, edges) = (grouped(loaded.nodes), grouped(loaded.edges));
    output.line(format!("{}: {nodes} nodes, {edges} edges", args.database.display()))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
