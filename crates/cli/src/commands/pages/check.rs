//! `litefoot pages check`: can every page be read, and is a graph in them whole?

use crate::pagefile::{self, Opened};
use litefoot_pagestore::ops::graph::{GRAPH_PAGE, Graph};
use litefoot_pagestore::ops::{Error, Pages};
use litefoot_pagestore::pagefile::Options;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Bar;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Findings after which the check ends.
const MOST_FINDINGS: usize = 100;

/// Check a page file: its header and length, every page, and the graph in it, if there is one; or a database of
/// pages, and its allocation table.
///
/// Exit code 0: everything is in order; 1: something was found.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot pages check routes.graph && cp routes.graph backup/")]
pub struct Args {
    /// The page file or database of pages
    database: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let path = args.database.as_path();
    let file = pagefile::open_any(path, &Options::default())?;
    let mut found = unreadable_pages(&file)?;
    if let (true, Opened::Database(database)) = (found.is_empty(), &file) {
        let wrong = database.inconsistencies().map_err(|error| Failure::new(error.to_string()))?;
        found.extend(wrong.iter().map(ToString::to_string));
    }
    if found.is_empty() {
        found = graph_findings(&file)?;
    }
    let mut output = Output::lock();
    if args.json {
        let object =
            json!({"database": path.to_string_lossy(), "in_order": found.is_empty(), "findings": found});
        output.line(format!("{object:#}"))?;
        output.flush()?;
        return Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    for finding in &found {
        output.line(finding)?;
    }
    if found.is_empty() {
        output.line(format!("{}: in order", path.display()))?;
    }
    output.flush()?;
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn unreadable_pages(file: &Opened) -> Result<Vec<String>, Failure> {
    let (extents, mut found) = (file.extents(), Vec::new());
    let bar = Bar::new("reading", extents.len());
    for page in extents.ranges().iter().cloned().flatten() {
        if let Err(error) = file.page(page) {
            found.push(error.to_string());
        }
        bar.at(page);
        interrupt::check()?;
        if found.len() >= MOST_FINDINGS {
            break;
        }
    }
    Ok(found)
}

/// Problems of the graph; none where there is no graph.
fn graph_findings(file: &Opened) -> Result<Vec<String>, Failure> {
    if file.extents().is_empty() || !file.page(GRAPH_PAGE).is_ok_and(|page| Graph::<Opened>::is_at(&page)) {
        return Ok(Vec::new());
    }
    let graph = match Graph::open(file, GRAPH_PAGE) {
        Ok(graph) => graph,
        Err(error) => return Ok(vec![error.to_string()]),
    };
    let bar = Bar::new("following edges", graph.nodes());
    let mut stopped = None;
    let result = graph.verify(&mut |node| {
        bar.at(node);
        interrupt::check().map_err(|failure| {
            stopped = Some(failure);
            Error::Stopped
        })
    });
    match (stopped, result) {
        (Some(failure), _) => Err(failure),
        (None, Ok(())) => Ok(Vec::new()),
        (None, Err(error)) => Ok(vec![error.to_string()]),
    }
}
