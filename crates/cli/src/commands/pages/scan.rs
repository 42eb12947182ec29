//! `litefoot pages scan`: the sequential scan of the engine.

use super::explain;
use crate::pagefile::{self, Bytes};
use litefoot_pagestore::ops::{Pages, scan};
use litefoot_pagestore::pagefile::Options;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Elapsed;
use litefoot_terminal::text::grouped;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Count the 32-bit integers above a threshold in all pages.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot pages scan test.pages
  litefoot pages scan test.pages --threshold 4000000000 --threads 4 --pool 64M
  litefoot pages scan test.pages --no-prefetch --json | jq .seconds")]
pub struct Args {
    /// The page file or database of pages
    database: PathBuf,

    /// Integers above it are counted
    #[arg(long, value_name = "N", default_value_t = 1 << 31)]
    threshold: u32,

    /// Bytes (K, M, G) of pages kept in memory
    #[arg(long, value_name = "BYTES", default_value = "16M")]
    pool: Bytes,

    /// Worker threads; one for each processor if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    /// Read no page before it is asked for
    #[arg(long)]
    no_prefetch: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    // It only reads, so nothing is left half done.
    interrupt::listen(Idle::Leave);
    let path = args.database.as_path();
    let file = pagefile::open_any(
        path,
        &Options { cache_bytes: args.pool.0, prefetch: !args.no_prefetch, ..Options::default() },
    )?;
    let workers = pagefile::workers(args.threads)?;
    let (extents, begun) = (file.extents(), Instant::now());
    let elapsed = Elapsed::new("scanning");
    let count = scan(&workers, &file, &extents, args.threshold).map_err(|error| explain(path, &error))?;
    drop(elapsed);
    let seconds = begun.elapsed().as_secs_f64();
    let bytes = extents.len() * file.page_bytes() as u64;
    let statistics = file.statistics();
    let mut output = Output::lock();
    if args.json {
        let object = json!({
            "count": count,
            "pages": extents.len(),
            "bytes": bytes,
            "seconds": seconds,
            "waited_for": statistics.missed,
            "read_ahead": statistics.ahead,
        });
        output.line(format!("{object:#}"))?;
    } else {
        output.pairs([
            ("integers above the threshold", grouped(count)),
            ("pages", grouped(extents.len())),
            ("seconds", format!("{seconds:.3}")),
            ("MB a second", format!("{:.0}", bytes as f64 / 1e6 / seconds.max(1e-9))),
            ("pages waited for", grouped(statistics.missed)),
            ("pages read ahead", grouped(statistics.ahead)),
        ])?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
