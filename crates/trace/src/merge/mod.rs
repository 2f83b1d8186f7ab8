//! Several traces as one, by time, a record of each in memory.

mod apart;

use crate::{Error, Reader, Result};
use apart::Numbers;
use event::{Meta, Overhead, Record, Reorder, Summary, Watched};

/// Traces being merged. Ids stay unique, processes and GPUs of different machines stay apart, and clocks of different
/// machines are brought together by the wall-clock time of their starts.
pub struct Merge {
    inputs: Vec<Input>,
    /// Who has the earliest record. At the same time the first input comes first.
    next: Reorder<usize>,
    meta: Meta,
    warnings: Vec<&'static str>,
    begun: bool,
}

struct Input {
    reader: Reader,
    /// From this trace's clock to the merged one's.
    shift: u64,
    numbers: Numbers,
    head: Option<Record>,
}

impl Merge {
    pub fn new(readers: Vec<Reader>) -> Result<Self> {
        let metas: Vec<&Meta> = readers.iter().map(Reader::meta).collect();
        let (shifts, mut warnings) = shifts(&metas)?;
        if apart::has_one_twice(&metas) {
            warnings.push("a recording was named twice: everything in it is counted twice");
        }
        let numbers = apart::numbers(&metas)?;
        let meta = merged_meta(&metas, &shifts, &numbers)?;
        let inputs = readers.into_iter().zip(shifts).zip(numbers);
        Ok(Merge {
            inputs: inputs
                .map(|((reader, shift), numbers)| Input {
                    reader,
                    shift,
                    numbers,
                    head: None,
                })
                .collect(),
            next: Reorder::new(usize::MAX),
            meta,
            warnings,
            begun: false,
        })
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// How much of all traces has been read, from 0 to 1; None if a size is not known.
    pub fn share(&self) -> Option<f64> {
        let shares: Option<Vec<f64>> = self.readers().map(Reader::share).collect();
        let shares = shares.filter(|shares| !shares.is_empty())?;
        Some(shares.iter().sum::<f64>() / shares.len() as f64)
    }

    /// The inputs, in the order they were given.
    pub fn readers(&self) -> impl Iterator<Item = &Reader> {
        self.inputs.iter().map(|input| &input.reader)
    }

    /// What had to be assumed.
    pub fn warnings(&self) -> &[&'static str] {
        &self.warnings
    }

    /// All tails together, once everything has been read; None if one is missing.
    pub fn summary(&self) -> Option<Summary> {
        let summaries: Option<Vec<(Summary, u64)>> = (self.inputs.iter())
            .map(|input| {
                let mut summary = input.reader.summary()?.clone();
                if self.inputs.len() > 1 {
                    let processes = summary.processes.into_iter();
                    let named = processes.map(|process| input.numbers.process_name(process));
                    summary.processes = named.collect();
                }
                Some((summary, input.shift))
            })
            .collect();
        merged_summary(&summaries?)
    }

    /// Take the next record of that input to its head.
    fn advance(&mut self, index: usize) -> Result<()> {
        let count = self.inputs.len() as u64;
        let input = &mut self.inputs[index];
        input.head = input.reader.next().transpose()?;
        if let Some(record) = &mut input.head {
            if count > 1 {
                place_in_merged(record, input.shift, count, index as u64)?;
                input.numbers.place(record)?;
            }
            (self.next).push_ranked(record.ts(), index as u32, index);
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Record>> {
        if !std::mem::replace(&mut self.begun, true) {
            for index in 0..self.inputs.len() {
                self.advance(index)?;
            }
        }
        let Some((_, index)) = self.next.next(u64::MAX) else {
            return Ok(None);
        };
        let record = self.inputs[index].head.take();
        self.advance(index)?;
        Ok(record)
    }
}

impl Iterator for Merge {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}

/// Shift a record's times, and give its ids a numbering of the input's own: without knowing
/// how many there will be, every `count`-th number is the input's.
fn place_in_merged(record: &mut Record, shift: u64, count: u64, index: u64) -> Result<()> {
    let place = |id: u64| {
        id.checked_mul(count)
            .and_then(|id| id.checked_add(index))
            .ok_or(Error::MergeId(id))
    };
    let place_some = |id: Option<u64>| id.map(place).transpose();
    match record {
        Record::Event(event) => {
            event.start = event.start.saturating_add(shift);
            event.id = place(event.id)?;
            event.parent = place_some(event.parent)?;
            event.correlation = place_some(event.correlation)?;
        }
        Record::Meaning(meaning) => {
            meaning.ts = meaning.ts.saturating_add(shift);
            meaning.op = place(meaning.op)?;
        }
        Record::Lost(lost) => lost.ts = lost.ts.saturating_add(shift),
    }
    Ok(())
}

/// How far each trace's clock is behind the one of the machine that was started first.
fn shifts(metas: &[&Meta]) -> Result<(Vec<u64>, Vec<&'static str>)> {
    let zero = vec![0; metas.len()];
    let boot = |meta: &Meta| meta.host.boot_id.clone();
    if metas.len() < 2
        || metas
            .iter()
            .all(|meta| boot(meta).is_some() && boot(meta) == boot(metas[0]))
    {
        return Ok((zero, Vec::new()));
    }
    let mut started: Vec<i128> = Vec::new();
    let known: Vec<_> = metas.iter().filter_map(|meta| boot(meta)).collect();
    let several_boots = known.iter().any(|boot| *boot != known[0]);
    for (place, meta) in metas.iter().enumerate() {
        // Traces of one boot have one clock, whatever was done to the wall clock in between.
        let same =
            (0..place).find(|&other| boot(meta).is_some() && boot(meta) == boot(metas[other]));
        match (same, meta.start_unix_ns) {
            (Some(other), _) => started.push(started[other]),
            (None, Some(unix)) => started.push(i128::from(unix) - i128::from(meta.start_ns)),
            (None, None) if several_boots => return Err(Error::MergeClock(place + 1)),
            (None, None) => {
                let what = "a trace does not say when it began: assuming that all share one clock";
                return Ok((zero, vec![what]));
            }
        }
    }
    let first = started.iter().copied().min().unwrap_or(0);
    Ok((
        started
            .into_iter()
            .map(|time| u64::try_from(time - first).unwrap_or(0))
            .collect(),
        Vec::new(),
    ))
}

fn merged_meta(metas: &[&Meta], shifts: &[u64], numbers: &[Numbers]) -> Result<Meta> {
    let first = *metas.first().ok_or(Error::NoInput)?;
    let mut merged = first.clone();
    if metas.len() == 1 {
        return Ok(merged);
    }
    let starts = metas
        .iter()
        .zip(shifts)
        .map(|(meta, shift)| (meta.start_ns.saturating_add(*shift), meta));
    if let Some((start, meta)) = starts.min_by_key(|(start, _)| *start) {
        merged.start_ns = start;
        merged.start_unix_ns = meta.start_unix_ns;
    }
    merged.gpus = Vec::new();
    merged.merged = Vec::new();
    for (&meta, numbers) in metas.iter().zip(numbers) {
        let gpus = apart::gpus(meta, numbers);
        for gpu in &gpus {
            if !merged.gpus.contains(gpu) {
                merged.gpus.push(gpu.clone());
            }
        }
        merged.merged.push(Meta {
            process_offset: numbers.offset,
            gpus,
            ..meta.clone()
        });
    }
    // What is one rank's is not the whole's.
    let differs = |of: fn(&Meta) -> Option<&String>| {
        let mut metas = metas.iter();
        metas.any(|meta| of(meta) != of(first))
    };
    if differs(|meta| meta.identity.run.as_ref()) {
        merged.identity.run = None;
    }
    if differs(|meta| meta.identity.container.as_ref()) {
        merged.identity.container = None;
    }
    if differs(|meta| meta.identity.visible_devices.as_ref()) {
        merged.identity.visible_devices = None;
    }
    if (metas.iter()).any(|meta| meta.identity.pid_namespace != first.identity.pid_namespace) {
        merged.identity.pid_namespace = None;
    }
    merged.identity.rank = None;
    merged.identity.local_rank = None;
    for meta in &metas[1..] {
        merged.hooks.attached = merged.hooks.attached.saturating_add(meta.hooks.attached);
        merged.hooks.total = merged.hooks.total.saturating_add(meta.hooks.total);
        merged.backends.extend(meta.backends.iter().cloned());
        merged.clocks.extend(meta.clocks.iter().cloned());
    }
    Ok(merged)
}

fn merged_summary(summaries: &[(Summary, u64)]) -> Option<Summary> {
    let ((first, shift), rest) = summaries.split_first()?;
    let shift = *shift;
    let mut merged = first.clone();
    merged.end_ns = merged.end_ns.saturating_add(shift);
    merged.watched = shifted(merged.watched, shift);
    for (summary, shift) in rest {
        merged.end_ns = merged.end_ns.max(summary.end_ns.saturating_add(*shift));
        merged.events = merged.events.saturating_add(summary.events);
        merged.open = merged.open.saturating_add(summary.open);
        merged.lost = merged.lost.saturating_add(summary.lost);
        for (kind, count) in &summary.counts {
            let sum = merged.counts.entry(kind.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        // Where one trace saw nothing, nobody can say that nothing happened.
        merged.watched = match (merged.watched, shifted(summary.watched, *shift)) {
            (Some(one), Some(other)) => Some(both(one, other)),
            (one, other) => one.or(other),
        };
        for option in &summary.left_out {
            if !merged.left_out.contains(option) {
                merged.left_out.push(option.clone());
            }
        }
        for process in &summary.processes {
            if !merged.processes.contains(process) {
                merged.processes.push(process.clone());
            }
        }
        // The worst of the programs' ends is the one to know of.
        merged.exit = merged.exit.max(summary.exit);
        merged.clocks.extend(summary.clocks.iter().cloned());
        if let Some(overhead) = &summary.overhead {
            let sum = merged.overhead.get_or_insert_with(Overhead::default);
            sum.total_ns = sum.total_ns.saturating_add(overhead.total_ns);
            sum.per_event_ns = sum.per_event_ns.max(overhead.per_event_ns);
        }
    }
    Some(merged)
}

fn shifted(watched: Option<Watched>, shift: u64) -> Option<Watched> {
    let Watched { start_ns, end_ns } = watched?;
    Some(Watched {
        start_ns: start_ns.saturating_add(shift),
        end_ns: end_ns.saturating_add(shift),
    })
}

/// The time that is in both; of no length if there is none.
fn both(one: Watched, other: Watched) -> Watched {
    let start_ns = one.start_ns.max(other.start_ns);
    Watched {
        start_ns,
        end_ns: one.end_ns.min(other.end_ns).max(start_ns),
    }
}
