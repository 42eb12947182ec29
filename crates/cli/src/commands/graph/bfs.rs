//! `litefoot graph bfs`: how many nodes lie how far away.

use super::explain;
use crate::pagefile::{self, Bytes};
use litefoot_pagestore::ops::graph::{GRAPH_PAGE, Graph, Search};
use litefoot_pagestore::ops::{Error, Pages};
use litefoot_pagestore::pagefile::Options;
use litefoot_pagestore::task::Workers;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Bar;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Search a graph breadth first from a node; print the number of nodes at each depth.
///
/// One line for each depth: the depth, a space, and the number of nodes.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot graph bfs routes.graph --start 0
  litefoot graph bfs routes.graph --start 0 | awk '{ sum += $2 } END { print sum }'
  litefoot graph bfs web.graph --start 17 --pool 64M --threads 4")]
pub struct Args {
    /// The page file
    database: PathBuf,

    /// The node to begin at
    #[arg(long, value_name = "N")]
    start: u64,

    /// Bytes (K, M, G) of pages kept in memory
    #[arg(long, value_name = "BYTES", default_value = "16M")]
    pool: Bytes,

    /// Worker threads; one for each processor if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let options = Options { cache_bytes: args.pool.0, ..Options::default() };
    let database = pagefile::open(&args.database, &options)?;
    let workers = pagefile::workers(args.threads)?;
    let path = args.database.as_path();
    let graph = Graph::open(&database, GRAPH_PAGE).map_err(|error| explain(path, &error))?;
    let mut search = Search::from(&graph, args.start).map_err(|error| explain(path, &error))?;
    let counts = count_levels(&workers, &graph, &mut search).map_err(|error| explain(path, &error))?;
    let mut output = Output::lock();
    if args.json {
        let object = json!({"start": args.start, "nodes": counts.iter().sum::<u64>(), "depths": counts});
        output.line(format!("{object:#}"))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    for (depth, count) in counts.iter().enumerate() {
        output.line(format!("{depth} {count}"))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The number of nodes at each depth.
fn count_levels<P: Pages>(
    workers: &Workers,
    graph: &Graph<'_, P>,
    search: &mut Search,
) -> litefoot_pagestore::ops::Result<Vec<u64>> {
    let bar = Bar::new("searching", graph.nodes());
    let (mut counts, mut found) = (Vec::new(), 0);
    while let Some(level) = search.next_level(workers, graph)? {
        counts.push(level.nodes.len() as u64);
        found += level.nodes.len() as u64;
        bar.at(found);
        interrupt::check().map_err(|_| Error::Stopped)?;
    }
    Ok(counts)
}
