//! Writes a long trace of a made-up training program, to measure the reading of traces with.
//!
//! cargo run --release -p cutrace-trace --example generate -- EVENTS FILE…
//!
//! The same records go to every file, each in the format its extension names.

mod program;

use std::{env, error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let events = arguments
        .next()
        .and_then(|text| text.to_str()?.parse().ok());
    let files: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    let (Some(events), false) = (events, files.is_empty()) else {
        return Err("usage: generate EVENTS FILE…  (files end in .jsonl or .arrows)".into());
    };
    let meta = program::meta();
    let mut writers = files
        .iter()
        .map(|file| trace::create(file, &meta))
        .collect::<trace::Result<Vec<_>>>()?;
    program::Program::new().run(events, &mut |record| {
        writers
            .iter_mut()
            .try_for_each(|writer| writer.write(record))
    })?;
    for writer in writers {
        writer.finish()?;
    }
    Ok(())
}
