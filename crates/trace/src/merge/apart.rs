//! Numbers that mean different things in different traces, kept apart: processes and threads of several hosts or
//! containers, GPUs of several hosts or of ranks that see different ones.

use crate::{Error, Result};
use event::{Event, Gpu, Meta, ProcessName, ProcessOrigin, Record};
use std::collections::{BTreeSet, HashMap};

/// No process has a number above (the kernel's PID_MAX_LIMIT), so this much apart they never meet.
const STRIDE: u32 = 1 << 22;

/// No host has more GPUs.
const MOST_DEVICES: u32 = 16;

/// Where a trace's process numbers are valid: a boot of a host, and there a PID namespace.
type ProcessSpace<'a> = (&'a str, Option<u64>);

/// What becomes of one trace's numbers.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Added to process and thread numbers.
    pub offset: u32,
    /// The merged trace's number of each device that is known beforehand.
    devices: HashMap<u32, u32>,
    /// Devices that no head lists: this much is added. None: they keep their numbers.
    unlisted: Option<u32>,
    /// Where its processes ran, if that has to be said.
    origin: Option<(String, Option<u32>)>,
}

impl Numbers {
    pub fn place(&self, record: &mut Record) -> Result<()> {
        match record {
            Record::Event(event) => self.place_event(event),
            Record::Meaning(meaning) => {
                meaning.pid = self.process(meaning.pid)?;
                meaning.tid = self.process(meaning.tid)?;
                meaning.device = meaning.device.map(|device| self.device(device));
                Ok(())
            }
            Record::Lost(_) => Ok(()),
        }
    }

    fn place_event(&self, event: &mut Event) -> Result<()> {
        event.pid = self.process(event.pid)?;
        event.tid = self.process(event.tid)?;
        event.device = event.device.map(|device| self.device(device));
        Ok(())
    }

    /// Number 0 is nobody's: work of a GPU, the kernel.
    fn process(&self, number: u32) -> Result<u32> {
        if self.offset == 0 || number == 0 {
            return Ok(number);
        }
        if number >= STRIDE {
            return Err(Error::MergeProcess(number));
        }
        Ok(number + self.offset)
    }

    pub fn device(&self, device: u32) -> u32 {
        match (self.devices.get(&device), self.unlisted) {
            (Some(merged), _) => *merged,
            (None, Some(offset)) => device.saturating_add(offset),
            (None, None) => device,
        }
    }

    /// A process of the tail, with its merged number and where it ran.
    pub fn process_name(&self, mut process: ProcessName) -> ProcessName {
        if let (Some((host, rank)), None) = (&self.origin, &process.origin) {
            process.origin = Some(ProcessOrigin {
                host: host.clone(),
                rank: *rank,
                pid: process.pid,
            });
        }
        process.pid = self.process(process.pid).unwrap_or(process.pid);
        process.parent = (process.parent).map(|parent| self.process(parent).unwrap_or(parent));
        process
    }
}

/// For each trace, what becomes of its numbers.
pub fn numbers(metas: &[&Meta]) -> Result<Vec<Numbers>> {
    let several_hosts = metas.iter().any(|meta| host(meta) != host(metas[0]));
    let mut spaces: Vec<ProcessSpace<'_>> = Vec::new();
    let mut numbers = Vec::new();
    for meta in metas {
        let space = (host(meta), meta.identity.pid_namespace);
        let place =
            (spaces.iter().position(|known| same_space(*known, space))).unwrap_or_else(|| {
                spaces.push(space);
                spaces.len() - 1
            });
        let offset = u32::try_from(place)
            .ok()
            .and_then(|place| place.checked_mul(STRIDE));
        let offset = offset.ok_or(Error::MergeSpaces(u32::MAX / STRIDE))?;
        let rank = meta.identity.rank;
        let said = several_hosts || rank.is_some() || place > 0;
        numbers.push(Numbers {
            offset,
            origin: said.then(|| (meta.host.name.clone(), rank)),
            ..Numbers::default()
        });
    }
    // The first space's traces have an origin as soon as there is a second.
    if spaces.len() > 1 {
        for (numbers, meta) in numbers.iter_mut().zip(metas) {
            let origin = || (meta.host.name.clone(), meta.identity.rank);
            numbers.origin.get_or_insert_with(origin);
        }
    }
    number_devices(metas, &mut numbers);
    Ok(numbers)
}

/// What tells hosts apart: their boot, or, in traces that do not have it, their name.
fn host(meta: &Meta) -> &str {
    meta.host.boot_id.as_deref().unwrap_or(&meta.host.name)
}

/// A trace that does not say its namespace is taken for one of its host's.
fn same_space(one: ProcessSpace<'_>, other: ProcessSpace<'_>) -> bool {
    one.0 == other.0 && (one.1 == other.1 || one.1.is_none() || other.1.is_none())
}

/// Whether a recording was given twice: everything in it counts twice then.
pub fn has_one_twice(metas: &[&Meta]) -> bool {
    let mut seen = BTreeSet::new();
    // Traces without a boot (made by hand, redacted) may be alike and not the same.
    let known = metas
        .iter()
        .filter(|meta| meta.start_ns > 0 && meta.start_unix_ns.is_some());
    let mut known = known.filter_map(|meta| Some((meta.host.boot_id.as_ref()?, meta)));
    !known.all(|(boot, meta)| seen.insert((boot, meta.start_ns, meta.start_unix_ns, meta.pid)))
}

/// CUDA numbers the devices that a process may see. Where all traces are of one host and see the same, numbers stay.
fn number_devices(metas: &[&Meta], numbers: &mut [Numbers]) {
    let sight = |meta: &Meta| (host(meta).to_owned(), meta.identity.visible_devices.clone());
    if metas.iter().all(|meta| sight(meta) == sight(metas[0])) {
        return;
    }
    let mut merged: HashMap<(String, String), u32> = HashMap::new();
    let mut next = 0;
    for (meta, numbers) in metas.iter().zip(numbers.iter_mut()) {
        for (ordinal, gpu) in visible(meta) {
            let number = *merged
                .entry((host(meta).to_owned(), gpu))
                .or_insert_with(|| {
                    next += 1;
                    next - 1
                });
            numbers.devices.insert(ordinal, number);
        }
    }
    // Devices that no head lists get numbers of their own, a range for each host and each choice of devices.
    let mut ranges: HashMap<(String, Option<String>), u32> = HashMap::new();
    for (meta, numbers) in metas.iter().zip(numbers) {
        let range = *ranges.entry(sight(meta)).or_insert_with(|| {
            next += MOST_DEVICES;
            next - MOST_DEVICES
        });
        numbers.unlisted = Some(range);
    }
}

/// A trace's devices: CUDA's number, and what is the same in every trace of the host.
fn visible(meta: &Meta) -> Vec<(u32, String)> {
    let physical = |index: &str| -> String {
        let known = (meta.gpus.iter()).find(|gpu| gpu.index.to_string() == index);
        known
            .and_then(|gpu| gpu.uuid.clone())
            .unwrap_or_else(|| index.to_owned())
    };
    match &meta.identity.visible_devices {
        Some(list) => (0..)
            .zip(list.split(',').map(str::trim).filter(|gpu| !gpu.is_empty()))
            .map(|(ordinal, gpu)| (ordinal, physical(gpu)))
            .collect(),
        None => (meta.gpus.iter())
            .map(|gpu| (gpu.index, physical(&gpu.index.to_string())))
            .collect(),
    }
}

/// A trace's GPUs with their merged numbers.
pub fn gpus(meta: &Meta, numbers: &Numbers) -> Vec<Gpu> {
    let physical: HashMap<String, &Gpu> = (meta.gpus.iter())
        .map(|gpu| {
            (
                gpu.uuid.clone().unwrap_or_else(|| gpu.index.to_string()),
                gpu,
            )
        })
        .collect();
    if numbers.devices.is_empty() {
        return meta.gpus.clone();
    }
    let mut gpus: Vec<Gpu> = (visible(meta).into_iter())
        .filter_map(|(ordinal, key)| {
            let gpu = physical.get(&key)?;
            Some(Gpu {
                index: numbers.device(ordinal),
                ..(*gpu).clone()
            })
        })
        .collect();
    gpus.sort_by_key(|gpu| gpu.index);
    gpus
}
