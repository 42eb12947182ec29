//! `litefoot pages stat`: what a page file consists of.

use crate::failure::Failure;
use crate::output::{Output, grouped};
use crate::pagefile;
use litefoot_engine::ops::Pages;
use litefoot_engine::ops::graph::{GRAPH_PAGE, Graph};
use litefoot_engine::pagefile::{Options, PageFile};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what a page file consists of.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot pages stat test.pages
  litefoot pages stat --json test.pages | jq .pages")]
pub struct Args {
    /// The page file
    database: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let file = pagefile::open(&args.database, &Options::default())?;
    let (pages, page_bytes) = (file.extents().len(), file.page_bytes() as u64);
    let is_graph = pages > 0 && file.page(GRAPH_PAGE).is_ok_and(|page| Graph::<PageFile>::is_at(&page));
    let holds = if is_graph { "graph" } else { "pages" };
    let mut output = Output::new();
    if args.json {
        let bytes = (pages + 1) * page_bytes;
        let object = json!({"page_bytes": page_bytes, "pages": pages, "bytes": bytes, "holds": holds});
        output.line(format!("{object:#}"))?;
    } else {
        output.pairs([
            ("bytes of a page", grouped(page_bytes)),
            ("pages, besides the header", grouped(pages)),
            ("bytes", grouped((pages + 1) * page_bytes)),
            ("holds", holds.to_owned()),
        ])?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
