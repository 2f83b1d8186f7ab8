//! Writes a long trace of a made-up training program, to measure the reading of traces with.
//!
//! cargo run --release -p cutrace-trace --example generate -- EVENTS FILE…
//!
//! The same records go to every file, each in the format its extension names. Prints a line for each: how long
//! all took, the most memory, and the file's size.

mod program;

use std::{env, error::Error, fs, path::PathBuf, time::Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let events = arguments
        .next()
        .and_then(|text| text.to_str()?.parse().ok());
    let files: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    let (Some(events), false) = (events, files.is_empty()) else {
        return Err("usage: generate EVENTS FILE…  (files end in .jsonl or .arrows)".into());
    };
    let began = Instant::now();
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
    for file in &files {
        println!(
            "{events} events: {:.2} s, {} MiB at most, {} bytes in {}",
            began.elapsed().as_secs_f64(),
            most_memory().unwrap_or(0) >> 10,
            fs::metadata(file)?.len(),
            file.display()
        );
    }
    Ok(())
}

/// In KiB, as far as the kernel says.
fn most_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
