//! `litefoot pages stat`: what a page file consists of.

use crate::pagefile::{self, Opened};
use litefoot_pagestore::ops::Pages;
use litefoot_pagestore::ops::graph::{GRAPH_PAGE, Graph};
use litefoot_pagestore::pagefile::Options;
use litefoot_pagestore::store::Database;
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use litefoot_terminal::text::grouped;
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
    /// The page file or database of pages
    database: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let file = pagefile::open_any(&args.database, &Options::default())?;
    if let Opened::Database(database) = &file {
        return of_database(database, args.json);
    }
    let (pages, page_bytes) = (file.extents().len(), file.page_bytes() as u64);
    let is_graph = pages > 0 && file.page(GRAPH_PAGE).is_ok_and(|page| Graph::<Opened>::is_at(&page));
    let holds = if is_graph { "graph" } else { "pages" };
    let mut output = Output::lock();
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

fn of_database(database: &Database, json: bool) -> Result<ExitCode, Failure> {
    let statistics = database.statistics();
    let page_bytes = database.page_bytes() as u64;
    let (pages, used) = (statistics.pages, statistics.in_use);
    let mut output = Output::lock();
    if json {
        let object = json!({
            "page_bytes": page_bytes,
            "pages": pages,
            "in_use": used,
            "free": pages - used,
            "bytes": pages * page_bytes,
            "holds": "database",
        });
        output.line(format!("{object:#}"))?;
    } else {
        output.pairs([
            ("bytes of a page", grouped(page_bytes)),
            ("pages", grouped(pages)),
            ("in use, the allocation table's among them", grouped(used)),
            ("free", grouped(pages - used)),
            ("bytes", grouped(pages * page_bytes)),
            ("holds", "a database of pages".to_owned()),
        ])?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
