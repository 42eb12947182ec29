//! `litefoot graph stat`: what a graph consists of.

use super::explain;
use crate::pagefile;
use litefoot_pagestore::ops::Pages;
use litefoot_pagestore::ops::graph::{GRAPH_PAGE, Graph};
use litefoot_pagestore::pagefile::Options;
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use litefoot_terminal::text::grouped;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what a graph consists of.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot graph stat routes.graph
  litefoot graph stat --json routes.graph | jq .edges")]
pub struct Args {
    /// The page file
    database: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let database = pagefile::open(&args.database, &Options::default())?;
    let graph = Graph::open(&database, GRAPH_PAGE).map_err(|error| explain(&args.database, &error))?;
    let order = if graph.is_reordered() { "locality" } else { "text" };
    let page_bytes = database.page_bytes() as u64;
    let mut output = Output::lock();
    if args.json {
        let object = json!({
            "nodes": graph.nodes(),
            "edges": graph.edges(),
            "id_bytes": graph.id_bytes(),
            "order": order,
            "page_bytes": page_bytes,
            "pages": graph.pages(),
        });
        output.line(format!("{object:#}"))?;
    } else {
        output.pairs([
            ("nodes", grouped(graph.nodes())),
            ("edges", grouped(graph.edges())),
            ("bytes of a node's number", graph.id_bytes().to_string()),
            ("order of the nodes", order.to_owned()),
            ("bytes of a page", grouped(page_bytes)),
            ("pages", grouped(graph.pages())),
            ("bytes", grouped(graph.pages() * page_bytes)),
        ])?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
