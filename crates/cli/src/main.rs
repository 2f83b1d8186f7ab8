//! The binary `cutrace`: arguments → domain options → calls. Own words go to stderr.

mod arguments;
mod commands;
mod embedded;
mod probes;

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
            eprintln!("cutrace: {}", in_words(&error));
            let launch = error.downcast_ref::<LaunchError>();
            ExitCode::from(launch.map_or(failure, LaunchError::exit_code))
        }
    }
}

/// The error and its causes, each said once: many say their cause themselves.
fn in_words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.ends_with(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

impl arguments::Command {
    fn failure(&self) -> u8 {
        match self {
            arguments::Command::Record(_)
            | arguments::Command::Gpu(_)
            | arguments::Command::Demo(_)
            | arguments::Command::Softgpu(_) => LaunchError::OWN_FAILURE,
            _ => BAD_INPUT,
        }
    }
}
