//! The binary `cutrace`: arguments → domain options → calls. Own words go to stderr.

// They panic where nobody reads: see `say`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod commands;
mod embedded;
mod say;

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
            let launch = error.downcast_ref::<LaunchError>();
            let meant = match launch {
                Some(LaunchError::NotFound(program) | LaunchError::NotExecutable(program)) => {
                    arguments::meant(program)
                }
                _ => None,
            };
            let advice = meant.map_or(String::new(), |words| format!("; did you mean: {words}"));
            say::say!("cutrace: {}{advice}", in_words(&error));
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
    without_numbers(&words)
}

/// Errors of the system without their numbers: the words in front of them say it.
fn without_numbers(words: &str) -> String {
    let mut parts = words.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<i32>().is_ok() => plain.push_str(rest),
            _ => {
                plain.push_str(" (os error ");
                plain.push_str(part);
            }
        }
    }
    plain
}

impl arguments::Command {
    fn failure(&self) -> u8 {
        match self {
            arguments::Command::Record(_)
            | arguments::Command::Top(_)
            | arguments::Command::Serve(_)
            | arguments::Command::Gpu(_)
            | arguments::Command::Demo(_)
            | arguments::Command::Softgpu(_) => LaunchError::OWN_FAILURE,
            _ => BAD_INPUT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_is_told_in_words() {
        let gone = std::io::Error::from_raw_os_error(libc::ENOENT);
        let error = anyhow::Error::new(gone).context("cannot open x.jsonl");
        assert_eq!(
            in_words(&error),
            "cannot open x.jsonl: No such file or directory"
        );
        assert_eq!(without_numbers("a (os error b"), "a (os error b");
    }
}
