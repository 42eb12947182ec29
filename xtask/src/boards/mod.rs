//! `cargo xtask boards`: litefoot on small boards, and how small it is.
//!
//! Builds the program and the extension as they are released, for this machine and for the boards of [`BOARDS`], and
//! runs them. For the boards they run under qemu's user emulation. There is no io_uring there, so what reads ahead is
//! tested without it.
//!
//! | file | is |
//! |---|---|
//! | `mod` | the boards, and what each needs |
//! | `build` | what is built, and how large it is |
//! | `smoke` | what is tried on each |
//!
//! A board whose toolchain is not there is skipped, and what to install is said. The building takes minutes, so this is
//! not a step of `cargo xtask test`.

mod build;
mod smoke;

use crate::emulator::{self, Emulator};
use crate::process::{Result, Tally, answers, has_target};
use std::path::Path;
use std::process::Command;

/// A kind of machine.
pub struct Board {
    /// The board's usual name.
    name: &'static str,
    /// Rust's name of it; `None` for this machine.
    target: Option<&'static str>,
    /// The prefix of its C tools' names.
    tools: &'static str,
    /// The emulator, where this machine is another one.
    emulator: Option<Emulator>,
    /// Debian's packages of both.
    packages: &'static str,
}

const BOARDS: &[Board] = &[
    Board { name: "this machine", target: None, tools: "", emulator: None, packages: "gcc binutils" },
    Board {
        name: "64-bit ARM",
        target: Some("aarch64-unknown-linux-gnu"),
        tools: "aarch64-linux-gnu-",
        emulator: Some(Emulator { name: "qemu-aarch64", root: "/usr/aarch64-linux-gnu" }),
        packages: "gcc-aarch64-linux-gnu qemu-user-static",
    },
    Board {
        name: "32-bit ARM",
        target: Some("armv7-unknown-linux-gnueabihf"),
        tools: "arm-linux-gnueabihf-",
        emulator: Some(Emulator { name: "qemu-arm", root: "/usr/arm-linux-gnueabihf" }),
        packages: "gcc-arm-linux-gnueabihf qemu-user-static",
    },
];

/// Builds and tries all boards.
pub fn check() -> Result<Tally> {
    let mut tally = Tally::default();
    for board in BOARDS {
        println!("\n== {}", board.name);
        match board.missing() {
            Some(what) => println!("NOT CHECKED: {what}"),
            None => {
                let built = build::build(board)?;
                tally.add(smoke::try_out(board, &built)?);
            }
        }
    }
    Ok(tally)
}

impl Board {
    /// The tools that are missing, and how to get them.
    fn missing(&self) -> Option<String> {
        let tools = [self.tool("gcc"), self.tool("strip")];
        let absent = tools.iter().find(|tool| !answers(tool));
        if absent.is_some() || (self.emulator.is_some_and(|emulator| emulator.program().is_none())) {
            let what = absent.map_or("qemu for it", String::as_str);
            return Some(format!("there is no {what} (apt install {})", self.packages));
        }
        let target = self.target.filter(|target| !has_target(target))?;
        Some(format!("Rust's library for it is missing (rustup target add {target})"))
    }

    /// The name of a C tool.
    fn tool(&self, tool: &str) -> String {
        format!("{}{tool}", self.tools)
    }

    /// A command that runs one of its programs, with a library preloaded.
    fn command(&self, program: &Path, preload: Option<&Path>) -> Command {
        emulator::command(self.emulator, program, preload)
    }
}
