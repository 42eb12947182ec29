//! `litefoot pages create`: a page file of random bytes, to try things on.

use super::explain;
use crate::pagefile::{self, Bytes, PageBytes};
use litefoot_pagestore::ops::PagesMut;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Bar;
use litefoot_terminal::text::grouped;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Make a page file of random bytes, or a database of such pages.
///
/// Equal seeds give equal files. Where the command is interrupted, no file is left.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot pages create test.pages --size 64M
  litefoot pages create test.pages --size 1G --page-size 64K --seed 7
  litefoot pages create test.store --size 64M --database")]
pub struct Args {
    /// The page file to make
    database: PathBuf,

    /// Bytes (K, M, G) of its pages, rounded up to whole ones
    #[arg(long, value_name = "BYTES")]
    size: Bytes,

    /// Bytes of a page: 4K to 256K, a power of two
    #[arg(long, value_name = "BYTES", default_value = "4K")]
    page_size: PageBytes,

    /// The seed of the random bytes
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Make a database, whose pages can be changed, released and allocated; it has a file -meta beside it
    #[arg(long = "database")]
    changeable: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let path = args.database.as_path();
    let count = args.size.0.div_ceil(args.page_size.0) as u64;
    if args.changeable {
        make_database(&args, count)?;
    } else {
        make_file(&args, count)?;
    }
    let mut output = Output::lock();
    if args.json {
        let object =
            json!({"database": path.to_string_lossy(), "pages": count, "page_bytes": args.page_size.0});
        output.line(format!("{object:#}"))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let (count, page_bytes) = (grouped(count), grouped(args.page_size.0 as u64));
    output.line(format!("{}: {count} pages of {page_bytes} bytes", path.display()))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn make_file(args: &Args, count: u64) -> Result<(), Failure> {
    let path = args.database.as_path();
    let new = pagefile::create(path, args.page_size)?;
    fill(&new, args, count)?;
    pagefile::finish(new, path)
}

fn make_database(args: &Args, count: u64) -> Result<(), Failure> {
    let path = args.database.as_path();
    let database = pagefile::create_database(path, args.page_size)?;
    let result = fill(&database, args, count)
        .and_then(|()| database.close().map_err(|error| Failure::new(error.to_string())));
    result.inspect_err(|_| pagefile::remove_database(path))
}

fn fill(new: &impl PagesMut, args: &Args, count: u64) -> Result<(), Failure> {
    let path = args.database.as_path();
    let pages = new.allocate(count).map_err(|error| explain(path, &error))?;
    let mut random = fastrand::Rng::with_seed(args.seed);
    let bar = Bar::new("writing", count);
    for (done, page) in (0..).zip(pages.ranges().iter().cloned().flatten()) {
        new.update(page, &mut |bytes| random.fill(bytes)).map_err(|error| explain(path, &error))?;
        bar.at(done);
        interrupt::check()?;
    }
    Ok(())
}
