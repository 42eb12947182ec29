//! The trial of a board: both journal families, by the program, by the extension and by preload, with a crash in
//! between. It includes reading past the system's cache, the queue of reads, power cuts, and the figures of a running
//! owner.

use super::Board;
use super::build::Built;
use crate::process::{Result, Tally, printed};
use std::path::Path;
use std::process::{Command, Stdio};

/// Most kilobytes that a program may have more on litefoot, with the smallest pool.
const MOST_MORE_KB: u64 = 3 << 10;

const MODES: [&str; 2] = ["delete", "wal"];

struct Trial<'a> {
    board: &'a Board,
    built: &'a Built,
    directory: &'a Path,
}

/// Tries everything; each is one check.
pub fn try_out(board: &Board, built: &Built) -> Result<Tally> {
    let directory = built.file("work");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let trial = Trial { board, built, directory: &directory };
    type Check<'a> = fn(&Trial<'a>) -> Result<()>;
    let checks: [(&str, Check<'_>); 7] = [
        ("the program", Trial::program),
        ("the extension, and a crash", Trial::extension),
        ("preloaded, and its memory", Trial::preloaded),
        ("reading past the system's cache", Trial::direct),
        ("page files", Trial::page_files),
        ("the figures of an owner", Trial::figures),
        ("200 power cuts", Trial::power_cuts),
    ];
    let mut tally = Tally { passed: 1, failed: 0 };
    println!("size of the extension: {} bytes: passed", built.extension_bytes);
    for (name, check) in checks {
        match check(&trial) {
            Ok(()) => {
                tally.passed += 1;
                println!("{name}: passed");
            }
            Err(why) => {
                tally.failed += 1;
                println!("{name}: FAILED: {why}");
            }
        }
    }
    Ok(tally)
}

impl Trial<'_> {
    /// A command on the board.
    fn command(&self, program: &str, arguments: &[&str], preload: bool) -> Command {
        let library = self.built.file("liblitefoot.so");
        let mut command = self.board.command(&self.built.file(program), preload.then_some(&*library));
        command.args(arguments).current_dir(self.directory).stdin(Stdio::null());
        command.env_remove("LITEFOOT_LIBRARY").env("LITEFOOT_OPTIONS", "buffer_pool_size=1M");
        command
    }

    fn litefoot(&self, arguments: &[&str]) -> Result<String> {
        printed(&mut self.command("litefoot", arguments, false))
    }

    /// The program answers `expected` somewhere.
    fn expect(&self, arguments: &[&str], expected: &str) -> Result<()> {
        let printed = self.litefoot(arguments)?;
        if printed.contains(expected) { Ok(()) } else { Err(format!("{arguments:?} printed {printed:?}")) }
    }

    /// Litefoot and, where it is there, the `sqlite3` of this machine find a database in order.
    fn in_order(&self, name: &str) -> Result<()> {
        self.expect(&["check", name], "in order")?;
        let mut stock = Command::new("sqlite3");
        stock.args([name, "PRAGMA integrity_check"]).current_dir(self.directory);
        match stock.output() {
            Ok(output) if output.stdout == b"ok\n" => Ok(()),
            Ok(output) => Err(format!("{name}: sqlite3 says {}", String::from_utf8_lossy(&output.stdout))),
            Err(_) => Ok(()),
        }
    }

    fn program(&self) -> Result<()> {
        for mode in MODES {
            let name = format!("program-{mode}.db");
            let rows = "INSERT INTO t(b) VALUES (zeroblob(3000)); ".repeat(100);
            let sql = format!("PRAGMA journal_mode={mode}; CREATE TABLE t(a INTEGER PRIMARY KEY, b); {rows}");
            self.litefoot(&["sql", &name, &sql])?;
            self.expect(&["sql", &name, "SELECT count(*) || '/' || sum(length(b)) FROM t"], "100/300000")?;
            self.in_order(&name)?;
        }
        Ok(())
    }

    /// The program dies without closing the database, and finds everything when it comes again.
    fn extension(&self) -> Result<()> {
        let library = self.built.file("liblitefoot.so");
        let library = library.to_string_lossy();
        for mode in MODES {
            let name = format!("extension-{mode}.db");
            for rows in ["200", "0"] {
                let printed = printed(&mut self.command("inserts", &[&library, &name, mode, rows], false))?;
                if printed.lines().nth(1) != Some("200") {
                    return Err(format!("{name}: {printed}"));
                }
            }
            self.in_order(&name)?;
        }
        Ok(())
    }

    /// A program that knows nothing of litefoot.
    fn preloaded(&self) -> Result<()> {
        let version = self.litefoot(&["--version"])?;
        let version = version.trim().rsplit(' ').next().unwrap_or_default();
        for mode in MODES {
            let resident = |preload: bool, beneath: &str| -> Result<u64> {
                let name = format!("{beneath}-{mode}.db");
                let printed = printed(&mut self.command("footprint", &[&name, mode, "100"], preload))?;
                match printed.split_whitespace().collect::<Vec<_>>().as_slice() {
                    [found, "100", kb, ..] if *found == beneath => kb.parse().map_err(|_| printed.clone()),
                    _ => Err(format!("{name}: {printed}")),
                }
            };
            let (stock, ours) = (resident(false, "stock")?, resident(true, version)?);
            // An emulator's memory says nothing.
            if self.board.target.is_none() {
                println!("{mode}: {stock} KB without litefoot, {ours} KB with it");
                if ours >= stock + MOST_MORE_KB {
                    return Err(format!("{mode}: {} KB more than without litefoot", ours - stock));
                }
            }
        }
        Ok(())
    }

    fn direct(&self) -> Result<()> {
        self.expect(
            &["sql", "file:program-wal.db?direct_io=on", "SELECT count(*) || '/' || sum(length(b)) FROM t"],
            "100/300000",
        )
    }

    fn page_files(&self) -> Result<()> {
        self.litefoot(&["pages", "create", "test.pages", "--size", "4M"])?;
        self.litefoot(&["pages", "scan", "test.pages"])?;
        self.litefoot(&["pages", "check", "test.pages"])?;
        self.litefoot(&["pages", "create", "test.store", "--size", "4M", "--database"])?;
        self.litefoot(&["pages", "check", "test.store"]).map(drop)
    }

    /// `stat` looks at a database that another process has open.
    fn figures(&self) -> Result<()> {
        use std::io::{BufRead, BufReader, Write};
        let mut command = self.command("litefoot", &["sql", "program-wal.db"], false);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut owner = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let (input, output) = (owner.stdin.take(), owner.stdout.take());
        let seen = match (input, output) {
            (Some(mut input), Some(output)) => {
                let asked = writeln!(input, "SELECT 'ready';").map_err(|error| error.to_string());
                let mut lines = BufReader::new(output).lines().map_while(std::io::Result::ok);
                let ready = asked.map(|()| lines.any(|line| line == "ready"));
                let seen = ready.and_then(|_| self.expect(&["stat", "program-wal.db"], "open for"));
                drop(input);
                seen
            }
            _ => Err("no pipes".to_owned()),
        };
        let ended = owner.wait().map_err(|error| error.to_string())?;
        seen.and_then(
            |()| if ended.success() { Ok(()) } else { Err(format!("the owner ended with {ended}")) },
        )
    }

    fn power_cuts(&self) -> Result<()> {
        // Started itself: an emulated program cannot hand over to another.
        let arguments = ["crash", "--cuts", "200", "--seed", "1"];
        printed(&mut self.command("litefoot-bench", &arguments, false)).map(drop)
    }
}
