//! Programs of another kind of machine, under qemu's user emulation.

use crate::process::answers;
use std::path::Path;
use std::process::Command;

/// An emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulator {
    /// The name of its program, without the ending of Debian's statically linked one.
    pub name: &'static str,
    /// The folder that has the C library of what it runs.
    pub root: &'static str,
}

impl Emulator {
    /// Its program, where it is there.
    pub fn program(&self) -> Option<String> {
        [format!("{}-static", self.name), self.name.to_owned()].into_iter().find(|name| answers(name))
    }

    /// A command that runs a program, with a library preloaded into it.
    fn command(&self, program: &Path, preload: Option<&Path>) -> Option<Command> {
        let mut command = Command::new(self.program()?);
        command.args(["-L", self.root]);
        // Preloaded into what is emulated, not into the emulator.
        preload.map(|library| command.arg("-E").arg(format!("LD_PRELOAD={}", library.display())));
        command.arg(program);
        Some(command)
    }
}

/// A command that runs a program with a library preloaded: emulated, or else by this machine.
pub fn command(emulator: Option<Emulator>, program: &Path, preload: Option<&Path>) -> Command {
    let emulated = emulator.and_then(|emulator| emulator.command(program, preload));
    emulated.unwrap_or_else(|| {
        let mut command = Command::new(program);
        preload.map(|library| command.env("LD_PRELOAD", library));
        command
    })
}
