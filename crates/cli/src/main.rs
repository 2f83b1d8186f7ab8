//! The binary `cutrace`: arguments → domain options → calls. Own words go to stderr.

mod arguments;
mod commands;
mod embedded;

use std::process::ExitCode;

/// cutrace's own failure while it runs somebody's command, as `env` and `timeout` use it.
const OWN_FAILURE: u8 = 125;
/// Usage errors and bad input of commands that read traces.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let command = arguments::parse();
    let failure = command.failure();
    match commands::run(command) {
        Ok(code) => code,
        Err(error) if commands::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cutrace: {error:#}");
            ExitCode::from(failure)
        }
    }
}

impl arguments::Command {
    fn failure(&self) -> u8 {
        match self {
            arguments::Command::Demo | arguments::Command::Softgpu(_) => OWN_FAILURE,
            _ => BAD_INPUT,
        }
    }
}
