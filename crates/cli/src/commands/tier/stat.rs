//! `litefoot tier stat`: what lives on a device, and how worn it is.

use crate::inspect::{Away, Header};
use litefoot_storage::file::{ErrorKind, FileKind, Medium, OpenMode};
use litefoot_storage::os::OsMedium;
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use litefoot_terminal::text::grouped;
use litefoot_tier::{self as tier, Overview, Whereabouts};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Show what lives on a tier device, and how often its slots were written.
///
/// Nothing is changed. While a program has the database open, figures are those of the last time it told the device;
/// `litefoot stat DB` has the newer ones.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot tier stat app.db
  litefoot tier stat --json /fast/app.tier | jq .slot_writes.max")]
pub struct Args {
    /// The device, or a database whose chunks are away
    path: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let medium: Arc<dyn Medium> = Arc::new(OsMedium::new());
    let (device, overview) = find(&medium, &args)?;
    let (least, median, most) = overview.wear();
    let whereabouts = match overview.whereabouts {
        Whereabouts::Home => "home",
        Whereabouts::Crossing => "crossing",
        Whereabouts::Away => "away",
    };
    let mut output = Output::lock();
    if args.json {
        let object = json!({
            "device": device.to_string_lossy(),
            "database": overview.flash_path.to_string_lossy(),
            "state": whereabouts,
            "slots": overview.slot_writes.len(),
            "chunk_bytes": tier::CHUNK_BYTES,
            "away": overview.away,
            "writes": overview.writes(),
            "slot_writes": {"min": least, "median": median, "max": most},
        });
        output.line(format!("{object:#}"))?;
    } else {
        let state = match overview.whereabouts {
            Whereabouts::Home => "free: everything is at home".to_owned(),
            Whereabouts::Crossing => "chunks were leaving or coming back at a power cut".to_owned(),
            Whereabouts::Away => format!("{} on it", living(overview.away)),
        };
        output.pairs([
            ("device", device.display().to_string()),
            ("used by", overview.flash_path.display().to_string()),
            ("state", state),
            (
                "slots",
                format!("{} of {} bytes", grouped(overview.slot_writes.len() as u64), tier::CHUNK_BYTES),
            ),
            ("writes", grouped(overview.writes())),
            ("writes of a slot", spread(least, median, most)),
        ])?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// So many chunks live somewhere.
pub fn living(chunks: usize) -> String {
    if chunks == 1 { "1 chunk lives".to_owned() } else { format!("{} chunks live", grouped(chunks as u64)) }
}

/// Writes of slots in one line.
pub fn spread(least: u64, median: u64, most: u64) -> String {
    format!("least {}, median {}, most {}", grouped(least), grouped(median), grouped(most))
}

/// The device that was named, or that of the database that was.
fn find(medium: &Arc<dyn Medium>, args: &Args) -> Result<(PathBuf, Overview), Failure> {
    let path = &args.path;
    let fail =
        |what: String| Failure::new(what).advice("Name a tier device, or a database whose chunks are away.");
    let open = medium
        .absolute(path)
        .and_then(|found| medium.open(&found.path, FileKind::Database, OpenMode::ReadOnly));
    let file = open.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Failure::file(path, "no such file").advice("Check the path; nothing was created.")
        }
        ErrorKind::IsDirectory => fail(format!("{}: is a directory", path.display())),
        _ => fail(error.to_string()),
    })?;
    if let Some(away) = Away::read(medium, &*file).map_err(fail)? {
        let overview = away.overview.map_err(fail)?;
        return Ok((away.device, overview));
    }
    if Header::read(&*file).map_err(|error| fail(error.to_string()))?.is_some() {
        return Err(fail(format!("{}: a plain database: nothing of it is away", path.display())));
    }
    let device = medium.absolute(path).map_err(|error| fail(error.to_string()))?;
    match tier::look(medium, &device.path) {
        Ok(Some(overview)) => Ok((path.clone(), overview)),
        Ok(None) => Err(fail(format!("{}: nothing was written to it yet", path.display()))),
        Err(tier::Error::NotATier { .. }) => {
            Err(fail(format!("{}: is neither a tier device nor a database", path.display())))
        }
        Err(error) => Err(fail(error.to_string())),
    }
}
