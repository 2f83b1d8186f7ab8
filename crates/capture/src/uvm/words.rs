//! An entry of the queue as an event of the trace: names for its numbers, its time on the trace's
//! clock, processors by the driver's table.

use super::entry::{UvmEntry, What};
use event::{Arg, Category, Direction, Event, Extent, Kind, Layer, Value};

/// Who the driver's processor numbers are: the CPU first, then GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Processors {
    /// The index of each GPU that is known, by processor number.
    pub gpus: Vec<Option<u32>>,
}

impl Processors {
    /// By the UUIDs of the driver's table and those of the machine's GPUs.
    pub fn of(table: &[[u8; 16]]) -> Processors {
        let known = known_gpus();
        let index = |uuid: &[u8; 16]| {
            let place = known.iter().position(|known| known == uuid)?;
            u32::try_from(place).ok()
        };
        Processors {
            gpus: table.iter().map(index).collect(),
        }
    }

    fn gpu(&self, processor: u16) -> Option<u32> {
        let known = self.gpus.get(usize::from(processor)).copied().flatten();
        // Without a table, GPUs are numbered as they were registered.
        known.or(u32::from(processor).checked_sub(1))
    }

    fn name(&self, processor: u16) -> String {
        match self.gpu(processor) {
            None => "CPU".to_owned(),
            Some(gpu) => format!("GPU {gpu}"),
        }
    }

    fn names(&self, mask: u64) -> Value {
        let set = (0..64u16).filter(|processor| mask >> processor & 1 == 1);
        Value::List(set.map(|one| Value::from(self.name(one))).collect())
    }
}

/// The UUIDs of the machine's GPUs, in the order of their places on the bus.
fn known_gpus() -> Vec<[u8; 16]> {
    let entries = std::fs::read_dir("/proc/driver/nvidia/gpus");
    let mut folders: Vec<_> = entries.into_iter().flatten().flatten().collect();
    folders.sort_by_key(std::fs::DirEntry::file_name);
    let uuids = folders.iter().map(|folder| {
        let text = std::fs::read_to_string(folder.path().join("information")).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("GPU UUID:"))?;
        parse_uuid(line.trim())
    });
    uuids.map(Option::unwrap_or_default).collect()
}

/// `GPU-` and hexadecimal digits in groups.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text
        .strip_prefix("GPU-")?
        .chars()
        .filter(|letter| *letter != '-')
        .map(|letter| letter.to_digit(16).and_then(|digit| digit.try_into().ok()))
        .collect::<Option<_>>()?;
    let mut uuid = [0; 16];
    if digits.len() != 2 * uuid.len() {
        return None;
    }
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(uuid)
}

/// The processor whose clock a migration's GPU times are of: the one that made the copy, which no
/// entry names. Every copy is made by a GPU at one of its ends.
pub fn copier(what: &What) -> Option<u16> {
    match *what {
        What::Migration { source, target, .. } => Some(source.max(target)).filter(|one| *one > 0),
        _ => None,
    }
}

/// Everything about an entry but its id, its process and its time on the trace's clock.
pub fn event(entry: &UvmEntry, processors: &Processors) -> Event {
    let mut about = About {
        processors,
        device: None,
        args: Vec::new(),
    };
    let name = about.tell(&entry.what);
    let mut event = Event::new(0, Layer::Gpu, Category::Memory, name, entry.start);
    event.kind = Kind::GpuMem;
    event.extent = match entry.end {
        Some(end) => Extent::Closed(end.saturating_sub(entry.start)),
        None => Extent::Instant,
    };
    if let What::CpuFault { cpu, tid, .. } = entry.what {
        (event.cpu, event.tid) = (Some(cpu), tid);
    }
    event.device = about.device;
    // A span that is told of when it is over says everything then.
    match event.extent {
        Extent::Closed(_) => event.outputs = about.args,
        Extent::Instant | Extent::Open => event.args = about.args,
    }
    event
}

struct About<'a> {
    processors: &'a Processors,
    device: Option<u32>,
    args: Vec<Arg>,
}

impl About<'_> {
    /// Fills in the arguments; returns the event's name.
    fn tell(&mut self, what: &What) -> &'static str {
        match *what {
            What::CpuFault {
                access,
                address,
                pc,
                ..
            } => {
                self.push("access", named(&ACCESSES, access));
                self.push("address", Value::Pointer(address));
                self.push("pc", Value::Pointer(pc));
                "cpu_fault"
            }
            What::Migration {
                cause,
                source,
                target,
                address,
                bytes,
            } => {
                self.push("bytes", bytes);
                self.between(source, target);
                self.push("cause", named(&MIGRATION_CAUSES, cause));
                self.push("address", Value::Pointer(address));
                "migration"
            }
            What::GpuFault {
                gpu,
                fault,
                access,
                client,
                address,
                batch,
            } => {
                self.on(gpu);
                self.push("access", named(&ACCESSES, access));
                self.push("fault", named(&FAULTS, fault));
                self.push("client", named(&CLIENTS, client));
                self.push("address", Value::Pointer(address));
                self.push("batch", u64::from(batch));
                "gpu_fault"
            }
            What::Replay { gpu, batch } => {
                self.on(gpu);
                self.push("batch", u64::from(batch));
                "fault_replay"
            }
            What::FaultBufferOverflow => "fault_buffer_overflow",
            What::FatalFault {
                processor,
                fault,
                access,
                reason,
                address,
            } => {
                self.on(processor);
                self.push("reason", named(&FATAL_REASONS, reason));
                self.push("access", named(&ACCESSES, access));
                self.push("fault", named(&FAULTS, fault));
                self.push("address", Value::Pointer(address));
                "fatal_fault"
            }
            What::ReadDuplicate {
                address,
                bytes,
                processors,
            } => self.shared(address, bytes, processors, "read_duplicate"),
            What::Thrashing {
                address,
                bytes,
                processors,
            } => self.shared(address, bytes, processors, "thrashing"),
            What::ReadDuplicateInvalidate {
                resident,
                address,
                bytes,
            } => {
                self.on(resident);
                self.push("bytes", bytes);
                self.push("address", Value::Pointer(address));
                "read_duplicate_invalidate"
            }
            What::PageSizeChange {
                processor,
                page,
                address,
            } => {
                self.on(processor);
                self.push("page", u64::from(page));
                self.push("address", Value::Pointer(address));
                "page_size_change"
            }
            What::ThrottlingStart { processor, address } => {
                self.on(processor);
                self.push("address", Value::Pointer(address));
                "throttling_start"
            }
            What::ThrottlingEnd { processor, address } => {
                self.on(processor);
                self.push("address", Value::Pointer(address));
                "throttling_end"
            }
            What::MapRemote {
                cause,
                source,
                target,
                address,
                bytes,
            } => {
                self.push("bytes", bytes);
                self.between(source, target);
                self.push("cause", named(&MAP_CAUSES, cause));
                self.push("address", Value::Pointer(address));
                "map_remote"
            }
            What::Eviction {
                source,
                target,
                address,
                for_address,
                bytes,
            } => {
                self.push("bytes", bytes);
                self.between(source, target);
                self.push("address", Value::Pointer(address));
                self.push("for_address", Value::Pointer(for_address));
                "eviction"
            }
        }
    }

    fn push(&mut self, name: &'static str, value: impl Into<Value>) {
        self.args.push(Arg::new(name, value));
    }

    fn on(&mut self, processor: u16) {
        self.device = self.processors.gpu(processor);
        self.push("processor", self.processors.name(processor));
    }

    fn shared(&mut self, address: u64, bytes: u64, mask: u64, name: &'static str) -> &'static str {
        self.push("bytes", bytes);
        self.push("processors", self.processors.names(mask));
        self.push("address", Value::Pointer(address));
        name
    }

    fn between(&mut self, source: u16, target: u16) {
        let (from, to) = (self.processors.gpu(source), self.processors.gpu(target));
        self.device = to.or(from);
        let direction = match (from, to) {
            (None, None) => Direction::HostToHost,
            (None, Some(_)) => Direction::HostToDevice,
            (Some(_), None) => Direction::DeviceToHost,
            (Some(one), Some(other)) if one == other => Direction::DeviceToDevice,
            (Some(_), Some(_)) => Direction::Peer,
        };
        self.push("direction", direction.as_str());
        self.push("source", self.processors.name(source));
        self.push("target", self.processors.name(target));
    }
}

/// The driver's word for a number, or the number.
fn named(names: &[&'static str], number: u8) -> Value {
    match names.get(usize::from(number)) {
        Some(name) if number > 0 => Value::from(*name),
        _ => Value::Uint(number.into()),
    }
}

const ACCESSES: [&str; 5] = ["", "read", "write", "atomic", "prefetch"];
const CLIENTS: [&str; 3] = ["", "gpc", "hub"];
const MIGRATION_CAUSES: [&str; 6] = [
    "",
    "user",
    "coherence",
    "prefetch",
    "eviction",
    "access counters",
];
const MAP_CAUSES: [&str; 6] = [
    "",
    "coherence",
    "thrashing",
    "policy",
    "out of memory",
    "eviction",
];
const FATAL_REASONS: [&str; 7] = [
    "",
    "invalid address",
    "invalid permissions",
    "invalid fault type",
    "out of memory",
    "internal error",
    "invalid operation",
];
const FAULTS: [&str; 17] = [
    "",
    "invalid PDE",
    "invalid PTE",
    "write",
    "atomic",
    "invalid PDE size",
    "limit violation",
    "unbound instance block",
    "privilege violation",
    "pitch mask violation",
    "work creation",
    "unsupported aperture",
    "compression failure",
    "unsupported kind",
    "region violation",
    "poison",
    "confidential computing violation",
];

#[cfg(test)]
mod tests {
    use super::super::entry::{Layout, decode};
    use super::*;

    fn migration(source: u16, target: u16) -> Event {
        let processors = Processors {
            gpus: vec![None, Some(3), Some(1)],
        };
        let what = What::Migration {
            cause: 2,
            source,
            target,
            address: 0x1000,
            bytes: 4096,
        };
        let entry = UvmEntry {
            start: 5,
            end: Some(9),
            on_gpu: None,
            what,
        };
        event(&entry, &processors)
    }

    #[test]
    fn a_migration_says_how_much_from_where_to_where_and_why() {
        let event = migration(0, 1);
        let text = |name| event.arg(name).and_then(Value::as_str).map(str::to_owned);
        assert_eq!(
            (&*event.name, event.extent),
            ("migration", Extent::Closed(4))
        );
        assert_eq!(event.arg("bytes").and_then(Value::as_u64), Some(4096));
        assert_eq!(text("direction").as_deref(), Some("H2D"));
        assert_eq!(text("source").as_deref(), Some("CPU"));
        assert_eq!(text("target").as_deref(), Some("GPU 3"));
        assert_eq!(text("cause").as_deref(), Some("coherence"));
        assert_eq!(event.device, Some(3));
        let of = |source, target| {
            let event = migration(source, target);
            event
                .arg("direction")
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        assert_eq!(of(2, 0).as_deref(), Some("D2H"));
        assert_eq!(of(2, 1).as_deref(), Some("P2P"));
        assert_eq!(of(0, 9).as_deref(), Some("H2D"), "not in the table");
    }

    #[test]
    fn a_uuid_is_sixteen_bytes() {
        let uuid = parse_uuid("GPU-00112233-4455-6677-8899-aabbccddeeff").expect("one");
        assert_eq!((uuid[0], uuid[1], uuid[15]), (0, 0x11, 0xff));
        for wrong in [
            "",
            "GPU-0011",
            "MIG-00112233-4455-6677-8899-aabbccddeeff",
            "GPU-é",
        ] {
            assert_eq!(parse_uuid(wrong), None);
        }
    }

    #[test]
    fn every_entry_becomes_an_event() {
        for layout in [Layout::First, Layout::Second] {
            for fill in [0, 1, 0x7f, 0xff] {
                for kind in 1..=14 {
                    let mut bytes = vec![fill; layout.bytes()];
                    bytes[0] = kind;
                    let entry = decode(layout, &bytes).expect("known");
                    let event = event(&entry, &Processors::default());
                    assert!(!event.name.is_empty() && event.kind == Kind::GpuMem);
                }
            }
        }
    }
}
