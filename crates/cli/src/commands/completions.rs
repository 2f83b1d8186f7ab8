//! `cutrace completions`: scripts that complete verbs and options, from the definitions of the command line.

use super::print;
use crate::{
    arguments::{self, Completions},
    say::say,
};
use anyhow::{Context, Result};
use clap::ValueEnum;
use clap_complete::Shell;
use std::{fs, process::ExitCode};

pub fn run(options: Completions) -> Result<ExitCode> {
    let mut line = arguments::definitions();
    match options {
        Completions::Print(shell) => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut line, "cutrace", &mut text);
            print(&text)
        }
        Completions::Write { folder } => {
            let words = || format!("cannot write to {}", folder.display());
            fs::create_dir_all(&folder).with_context(words)?;
            for shell in Shell::value_variants() {
                clap_complete::generate_to(*shell, &mut line, "cutrace", &folder)
                    .with_context(words)?;
            }
            let count = Shell::value_variants().len();
            say!(
                "cutrace: completions for {count} shells written to {}",
                folder.display()
            );
            Ok(ExitCode::SUCCESS)
        }
    }
}
