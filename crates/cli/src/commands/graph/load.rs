//! `litefoot graph load`: from text to pages.

use super::explain;
use crate::pagefile::{self, PageBytes};
use litefoot_pagestore::ops::Error;
use litefoot_pagestore::ops::graph::{Order, Text, load};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Bar;
use litefoot_terminal::text::grouped;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
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
  litefoot graph load --reorder --page-size 64K web.txt web.graph")]
pub struct Args {
    /// The text: `nodes edges`, then `source target` on each line, sorted by source
    text: PathBuf,

    /// The page file to make
    database: PathBuf,

    /// Bytes of a page: 4K, 8K, 16K, 32K or 64K
    #[arg(long, value_name = "BYTES", default_value = "4K")]
    page_size: PageBytes,

    /// Store nodes that are visited together next to each other; takes memory for the whole graph
    #[arg(long)]
    reorder: bool,
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
    let mut text =
        Text::new(BufReader::with_capacity(READ_BYTES, file), path).map_err(|error| explain(path, &error))?;
    let order = if args.reorder { Order::Locality } else { Order::Text };
    let new = pagefile::create(&args.database, args.page_size)?;
    let loaded = {
        let bar = Bar::new("loading", text.edges());
        let mut progress = |edges| {
            bar.at(edges);
            interrupt::check().map_err(|_| Error::Stopped)
        };
        load(&new, &mut text, order, &mut progress)
    };
    let loaded = loaded.map_err(|error| explain(&args.database, &error))?;
    interrupt::check()?;
    pagefile::finish(new, &args.database)?;
    let mut output = Output::lock();
    let (nodes, edges) = (grouped(loaded.nodes), grouped(loaded.edges));
    output.line(format!("{}: {nodes} nodes, {edges} edges", args.database.display()))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
