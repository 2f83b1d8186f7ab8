//! Flame graphs: folded stacks for every tool that reads them, and the picture itself.

mod stacks;

pub use stacks::{Stacks, Weight};

use crate::Output;
use event::{Record, Summary};
use inferno::flamegraph::{self, Options};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// `main;cudaMalloc;cuMemAlloc_v2 1234`: a line a path. With a baseline two numbers, the
/// baseline's first.
pub struct Folded<W: Write> {
    writer: W,
    stacks: Stacks,
    baseline: Option<Vec<(String, u64)>>,
}

impl<W: Write> Folded<W> {
    pub fn new(writer: W, weight: Weight, baseline: Option<Vec<(String, u64)>>) -> Self {
        Folded {
            writer,
            stacks: Stacks::new(weight),
            baseline,
        }
    }
}

impl<W: Write> Output for Folded<W> {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        self.stacks.record(record);
        Ok(())
    }

    fn finish(&mut self, _summary: Option<&Summary>) -> io::Result<()> {
        for line in lines(&self.stacks, self.baseline.as_deref()) {
            writeln!(self.writer, "{line}")?;
        }
        self.writer.flush()
    }
}

/// The picture. With a baseline, red is what grew and blue what shrank.
pub struct FlameSvg<W: Write> {
    writer: W,
    weight: Weight,
    stacks: Stacks,
    baseline: Option<Vec<(String, u64)>>,
    title: String,
}

impl<W: Write> FlameSvg<W> {
    pub fn new(
        writer: W,
        title: String,
        weight: Weight,
        baseline: Option<Vec<(String, u64)>>,
    ) -> Self {
        FlameSvg {
            writer,
            weight,
            stacks: Stacks::new(weight),
            baseline,
            title,
        }
    }
}

impl<W: Write> Output for FlameSvg<W> {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        self.stacks.record(record);
        Ok(())
    }

    fn finish(&mut self, _summary: Option<&Summary>) -> io::Result<()> {
        let lines = lines(&self.stacks, self.baseline.as_deref());
        if lines.is_empty() {
            let what = match self.weight {
                Weight::Time => "no call that took time",
                Weight::GpuTime => {
                    "no GPU times: record them (--method cupti), or use --weight time"
                }
                Weight::Bytes => "no call that copied or allocated",
            };
            return Err(io::Error::other(format!("nothing to draw: {what}")));
        }
        let mut options = Options::default();
        options.title = self.title.clone();
        options.count_name = self.weight.unit().to_owned();
        options.name_type = "Function:".to_owned();
        options.hash = true;
        flamegraph::from_lines(
            &mut options,
            lines.iter().map(String::as_str),
            &mut self.writer,
        )
        .map_err(io::Error::other)?;
        self.writer.flush()
    }
}

fn lines(stacks: &Stacks, baseline: Option<&[(String, u64)]>) -> Vec<String> {
    let now = stacks.folded();
    let Some(baseline) = baseline else {
        return now
            .into_iter()
            .map(|(path, weight)| format!("{path} {weight}"))
            .collect();
    };
    let mut both: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (path, weight) in baseline {
        both.entry(path).or_default().0 = *weight;
    }
    for (path, weight) in &now {
        both.entry(path).or_default().1 = *weight;
    }
    both.into_iter()
        .map(|(path, (before, after))| format!("{path} {before} {after}"))
        .collect()
}
