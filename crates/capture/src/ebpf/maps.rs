//! The maps that all BPF objects share: made once, given to each object by name.

use super::EbpfError;
use super::layout::{COUNTERS, CallKey, HELD, Histogram, Plain, STARTED, Settings, Spec};
use crate::Deadline;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, OpenObject};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Mutex;

/// Descriptions there is room for; functions that are read alike share one.
const MOST_SPECS: u32 = 4096;
const MOST_PROCESSES: u32 = 64 << 10;
/// Calls with out-parameters that can be under way at once.
const MOST_OPEN: u32 = 16 << 10;
/// Beginnings that can be held back at once; of more calls the beginnings are told of at once.
const MOST_HELD: u32 = 4096;
/// Functions whose calls are counted in the kernel.
pub const MOST_TALLIES: u32 = 32 << 10;
/// Functions that have histograms, and bytes for all of them together: every processor has its own.
const MOST_HISTOGRAMS: u32 = 4096;
const HISTOGRAM_BYTES: u32 = 128 << 20;
/// Functions whose calls are sampled; of more functions all calls are recorded.
const MOST_SAMPLED: u32 = 16 << 10;

/// What there is to be room for besides records.
#[derive(Debug, Clone, Copy, Default)]
pub struct Room {
    /// Beginnings of calls that may turn out to be too short.
    pub held: bool,
    /// Counts and histograms.
    pub aggregates: bool,
    /// How often functions were called, to record one call of many.
    pub sample: bool,
}

pub struct Maps {
    pub ring: MapHandle,
    pub settings: MapHandle,
    pub specs: MapHandle,
    pub tree: MapHandle,
    pub counters: MapHandle,
    /// Beginnings of calls that may turn out to be too short.
    pub held: MapHandle,
    /// Calls that are counted instead of recorded, by the low half of a probe's cookie.
    pub tallies: MapHandle,
    pub histograms: MapHandle,
    sampled: MapHandle,
    /// Maps that some objects share beyond these.
    others: Vec<MapHandle>,
    known: Mutex<HashMap<Spec, u32>>,
    now: Mutex<Settings>,
    pub ring_bytes: u32,
}

impl Maps {
    /// `ring_bytes` is a power of two, and at least a page.
    pub fn create(ring_bytes: u32) -> Result<Self, EbpfError> {
        Self::with(ring_bytes, Room::default())
    }

    pub fn with(ring_bytes: u32, room: Room) -> Result<Self, EbpfError> {
        let hash = MapType::Hash;
        let spec = size_of::<Spec>() as u32;
        let settings = size_of::<Settings>() as u32;
        let others = [
            create(hash, "saved", 16, 128, MOST_OPEN)?,
            create(hash, "left_out", 16, 1, MOST_OPEN)?,
            create(MapType::Array, "left_out_count", 4, 8, 1)?,
            create(MapType::Array, "blank", 4, HELD as u32, 1)?,
            create(hash, "waiting", 4, 4, 4096)?,
            create(
                hash,
                "started_calls",
                size_of::<CallKey>() as u32,
                STARTED as u32,
                if room.aggregates { MOST_OPEN } else { 1 },
            )?,
        ];
        let histogram = size_of::<Histogram>() as u32;
        let of_processors = |name, value, wanted, most| {
            let most = if wanted { most } else { 1 };
            create(MapType::PercpuArray, name, 4, value, most)
        };
        Ok(Maps {
            held: create(
                hash,
                "held",
                size_of::<CallKey>() as u32,
                HELD as u32,
                if room.held { MOST_HELD } else { 1 },
            )?,
            tallies: of_processors("tallies", 8, room.aggregates, MOST_TALLIES)?,
            histograms: of_processors("histograms", histogram, room.aggregates, most_histograms())?,
            sampled: of_processors("sampled", 8, room.sample, MOST_SAMPLED)?,
            ring: create(MapType::RingBuf, "ring", 0, 0, ring_bytes)?,
            settings: create(MapType::Array, "settings", 4, settings, 1)?,
            specs: create(MapType::Array, "specs", 4, spec, MOST_SPECS)?,
            tree: create(hash, "tree", 4, 4, MOST_PROCESSES)?,
            counters: create(MapType::PercpuArray, "counters", 4, 8, COUNTERS as u32)?,
            others: others.into(),
            known: Mutex::default(),
            now: Mutex::default(),
            ring_bytes,
        })
    }

    /// Lets an object that is not loaded yet use these maps where its own have their names.
    pub fn share_with(&self, object: &mut OpenObject) -> libbpf_rs::Result<()> {
        let named = [
            &self.ring,
            &self.settings,
            &self.specs,
            &self.tree,
            &self.counters,
            &self.held,
            &self.tallies,
            &self.histograms,
            &self.sampled,
        ];
        for mut map in object.maps_mut() {
            let name = map.name().to_owned();
            let mut all = named.into_iter().chain(&self.others);
            if let Some(ours) = all.find(|ours| ours.name() == name) {
                map.reuse_fd(ours.as_fd())?;
            }
        }
        Ok(())
    }

    pub fn set(&self, settings: &Settings) -> Result<(), EbpfError> {
        self.change(|now| *now = *settings)
    }

    /// Changes some of the settings.
    pub fn change(&self, change: impl FnOnce(&mut Settings)) -> Result<(), EbpfError> {
        let mut now = self.now.lock().unwrap_or_else(|held| held.into_inner());
        change(&mut now);
        put(&self.settings, "settings", 0, now.bytes())
    }

    /// Has BPF programs leave out what begins later, once that is known.
    pub fn end_at(&self, deadline: &Deadline) {
        if let Some(until) = deadline.get()
            && self.now.lock().is_ok_and(|now| now.until != until)
        {
            // If this fails, what comes too late is left out when it is read.
            let _ = self.change(|now| now.until = until);
        }
    }

    /// The number of a description: the high half of a probe's cookie.
    pub fn describe(&self, spec: &Spec) -> Result<u32, EbpfError> {
        let mut known = self.known.lock().unwrap_or_else(|held| held.into_inner());
        if let Some(number) = known.get(spec) {
            return Ok(*number);
        }
        let number = known.len() as u32;
        put(&self.specs, "specs", number, spec.bytes())?;
        known.insert(*spec, number);
        Ok(number)
    }

    pub fn follow(&self, process: u32) -> Result<(), EbpfError> {
        put(&self.tree, "tree", process, &1u32.to_le_bytes())
    }

    /// As `follow`, and programs find this one without looking for it.
    pub fn follow_first(&self, process: u32) -> Result<(), EbpfError> {
        self.follow(process)?;
        self.change(|now| now.first = process)
    }

    pub fn forget(&self, process: u32) {
        // One that is gone already needs no forgetting.
        let _ = self.tree.delete(&process.to_le_bytes());
        let first = self.now.lock().is_ok_and(|now| now.first == process);
        if first {
            let _ = self.change(|now| now.first = 0);
        }
    }

    /// Another of the shared maps, by name.
    pub fn other(&self, name: &str) -> Option<&MapHandle> {
        self.others.iter().find(|map| map.name() == name)
    }

    /// A counter's sum over all processors.
    pub fn count(&self, which: usize) -> u64 {
        let mut sum = [0; 1];
        add_up(&self.counters, which as u32, &mut sum);
        sum[0]
    }

    /// How many calls were counted in this place.
    pub fn tally(&self, place: u32) -> u64 {
        let mut sum = [0; 1];
        add_up(&self.tallies, place, &mut sum);
        sum[0]
    }

    /// The histogram in this place.
    pub fn histogram(&self, place: u32) -> Histogram {
        let mut words = [0; 67];
        add_up(&self.histograms, place, &mut words);
        let mut powers = [0; 64];
        powers.copy_from_slice(&words[3..]);
        Histogram {
            total: words[0],
            negative: words[1],
            zero: words[2],
            powers,
        }
    }
}

/// How many histograms there is room for.
pub fn most_histograms() -> u32 {
    let processors = libbpf_rs::num_possible_cpus().map_or(1, |count| count.max(1) as u32);
    let each = size_of::<Histogram>() as u32 * processors;
    (HISTOGRAM_BYTES / each).clamp(1, MOST_HISTOGRAMS)
}

/// Adds up the words that all processors have in one place of a map.
fn add_up(map: &MapHandle, key: u32, sums: &mut [u64]) {
    let found = map.lookup_percpu(&key.to_le_bytes(), MapFlags::ANY);
    for bytes in found.ok().flatten().unwrap_or_default() {
        for (sum, word) in sums.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
}

fn put(map: &MapHandle, name: &'static str, key: u32, value: &[u8]) -> Result<(), EbpfError> {
    let key = key.to_le_bytes();
    map.update(&key, value, MapFlags::ANY)
        .map_err(|source| EbpfError::Map { name, source })
}

fn create(
    kind: MapType,
    name: &'static str,
    key: u32,
    value: u32,
    entries: u32,
) -> Result<MapHandle, EbpfError> {
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    MapHandle::create(kind, Some(name), key, value, entries, &options).map_err(
        |source| match source.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => EbpfError::NotAllowed {
                what: "creating a BPF map".into(),
                source: io::Error::last_os_error(),
            },
            _ if io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) => {
                EbpfError::NoBpf(io::Error::last_os_error())
            }
            _ => EbpfError::Map { name, source },
        },
    )
}
