//! `litefoot completions`: what a shell completes, from the definition of the commands.

use clap::CommandFactory;
use clap_complete::Shell;
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use std::process::ExitCode;

/// Print what a shell needs to complete commands and options.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot completions bash > ~/.local/share/bash-completion/completions/litefoot
  litefoot completions zsh > ~/.zfunc/_litefoot
  litefoot completions fish > ~/.config/fish/completions/litefoot.fish")]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "litefoot", &mut script);
    let mut output = Output::lock();
    output.bytes(&script)?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}
