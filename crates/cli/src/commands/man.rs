//! `litefoot man`: manual pages, from the definition of the commands.
//!
//! A page for the program, and one for each command and for the commands within commands: `litefoot-tier-stat.1`.

use clap::CommandFactory;
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write the manual pages to a directory.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot man ~/.local/share/man/man1 && man litefoot-run

Pages that are there are replaced.")]
pub struct Args {
    /// The directory; it is made where it is missing
    directory: PathBuf,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let fail = |path: &Path, error: std::io::Error| {
        Failure::file(path, error).advice("Name a directory that you may write to.")
    };
    fs::create_dir_all(&args.directory).map_err(|error| fail(&args.directory, error))?;
    let pages = pages().map_err(|error| Failure::new(format!("a manual page cannot be made: {error}")))?;
    for (name, text) in &pages {
        let path = args.directory.join(name);
        fs::write(&path, text).map_err(|error| fail(&path, error))?;
    }
    let mut output = Output::lock();
    output.line(format!("{}: {} manual pages", args.directory.display(), pages.len()))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// All pages: the name of the file, and its text.
fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut program = crate::Cli::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add(&program, &mut pages)?;
    Ok(pages)
}

fn add(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command.clone()).manual("Litefoot");
    page.render(&mut text)?;
    pages.push((page.get_filename(), text));
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .try_for_each(|command| add(command, pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_and_stands_in_the_documentation() {
        let pages = pages().unwrap();
        let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert!(names.contains(&"litefoot.1") && names.contains(&"litefoot-tier-stat.1"), "{names:?}");
        let documented = include_str!("../../../../docs/cli.md");
        for command in crate::Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(names.contains(&format!("litefoot-{name}.1").as_str()), "{name}: {names:?}");
            assert!(documented.contains(&format!("\nlitefoot {name}")), "docs/cli.md does not list {name}");
        }
        for (name, text) in &pages {
            let text = String::from_utf8_lossy(text);
            assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{name}");
        }
    }
}
