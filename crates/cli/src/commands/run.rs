//! `litefoot run`: an existing program, unchanged, on litefoot.
//!
//! The program is started with `liblitefoot.so` preloaded and takes this process's place, so that signals,
//! exit code and terminal are its own. The library then makes litefoot the default VFS of the SQLite that
//! the program links dynamically. A short look at the program's file comes before, so that nobody measures stock SQLite unawares.

use crate::reach::first_look;
use litefoot_terminal::installed::{self, LIBRARY_VARIABLE, NOT_RUNNABLE};
use litefoot_terminal::{Failure, child};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Run an existing program, unchanged, on litefoot.
///
/// Preloads the library liblitefoot.so, found beside this program, in ../lib, or where the environment
/// variable LITEFOOT_LIBRARY says. Programs that carry SQLite statically inside (Java, many Go programs, better-sqlite3 in
/// Node) are not reached by preloading: one line on standard error says so where it is certain, and litefoot doctor
/// explains which way in fits.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot run -- python3 app.py
  litefoot run -- sqlite3 app.db \"SELECT count(*) FROM t\"
  litefoot run --set sharing=passthrough -- ./server --port 8080

Exit codes: the program's own; 127 when the program or the library is not found, 126 when it cannot be run.")]
pub struct Args {
    /// Default option for every database the program opens; may be given more than once
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    set: Vec<String>,

    /// Say nothing about what is not reached
    #[arg(short, long)]
    quiet: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Default options for the VFS, `key=value&key=value`.
pub const OPTIONS_VARIABLE: &str = "LITEFOOT_OPTIONS";

/// Replaces this process by the program.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let library = installed::library()?;
    let Some((program, arguments)) = args.program.split_first() else {
        return Err(Failure::new("run: no program given").code(2));
    };
    if !args.quiet
        && let Some(line) = first_look::line(program, arguments, &library)
    {
        Failure::new(line).print();
    }
    let mut command = Command::new(program);
    command.args(arguments);
    command.env("LD_PRELOAD", preload_list(&library, std::env::var_os("LD_PRELOAD").as_deref())?);
    if !args.set.is_empty() {
        command.env(OPTIONS_VARIABLE, option_list(std::env::var(OPTIONS_VARIABLE).ok(), &args.set));
    }
    let error = command.exec();
    Err(child::refusal(Path::new(program), &error))
}

/// `LD_PRELOAD` with our library in front of what is there already.
pub fn preload_list(library: &Path, existing: Option<&OsStr>) -> Result<OsString, Failure> {
    if library.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        return Err(Failure::file(library, "a path with a blank or a colon cannot be preloaded")
            .advice(format!("Copy the library elsewhere and set {LIBRARY_VARIABLE}."))
            .code(NOT_RUNNABLE));
    }
    let mut list = library.as_os_str().to_owned();
    if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
        list.push(":");
        list.push(existing);
    }
    Ok(list)
}

/// `LITEFOOT_OPTIONS`: what is there already, then ours, so that ours win.
pub fn option_list(existing: Option<String>, set: &[String]) -> String {
    existing
        .into_iter()
        .filter(|text| !text.is_empty())
        .chain(set.iter().cloned())
        .collect::<Vec<_>>()
        .join("&")
}

/// A mistyped option is refused here, before a program runs without it.
pub fn option(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.is_empty() && !text.contains('&') => {
            litefoot::Options::default().set_list(text).map(|()| text.to_owned())
        }
        _ => Err("expected KEY=VALUE, without '&'".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_preload_is_kept_behind_ours() {
        let library = Path::new("/lib/liblitefoot.so");
        for (existing, list) in [
            (None, "/lib/liblitefoot.so"),
            (Some(""), "/lib/liblitefoot.so"),
            (Some("/a.so b.so"), "/lib/liblitefoot.so:/a.so b.so"),
        ] {
            assert_eq!(preload_list(library, existing.map(OsStr::new)).unwrap(), list);
        }
        assert!(preload_list(Path::new("/my lib/liblitefoot.so"), None).is_err());
    }

    #[test]
    fn options_are_pairs_and_the_later_ones_win() {
        assert_eq!(option_list(None, &["a=1".into(), "b=2".into()]), "a=1&b=2");
        assert_eq!(option_list(Some("c=3".into()), &["a=1".into()]), "c=3&a=1");
        for (text, good) in [
            ("sharing=passthrough", true),
            ("sharing=maybe", false),
            ("shard=1", false),
            ("=1", false),
            ("sharing", false),
            ("sharing=passthrough&sharing=auto", false),
        ] {
            assert_eq!(option(text).is_ok(), good, "{text}");
        }
    }
}
