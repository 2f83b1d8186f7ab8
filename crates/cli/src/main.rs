//! The binary `cutrace`: arguments → domain options → calls. Own words go to stderr.

mod arguments;
mod commands;
mod embedded;

use capture::launch::LaunchError;
use std::process::ExitCode;

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
            let launch = error.downcast_ref::<LaunchError>();
            ExitCode::from(launch.map_or(failure, LaunchError::exit_code))
        }
    }
}

impl arguments::Command {
    fn failure(&self) -> u8 {
        match self {
            arguments::Command::Demo | arguments::Command::Softgpu(_) => LaunchError::OWN_FAILURE,
            _ => BAD_INPUT,
        }
    }
}
