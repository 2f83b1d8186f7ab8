//! Whose memory an address is in: what a run allocated, and the variables that it asked for.

use event::{Event, Extent, MemoryOp, Name, Record, Value, What};
use std::collections::BTreeMap;

/// Places that are remembered; a program that has more is told so.
const MOST: usize = 1 << 16;
/// Allocations that may begin between an address and the beginning of the one it is in: some lie inside
/// of others (pools, views).
const NESTED: usize = 64;

/// Memory that a run had at some time, by process and address.
#[derive(Debug, Default)]
pub struct Allocations {
    places: BTreeMap<(u32, u64), Allocation>,
    /// Bytes of variables, by process and name, as the compiler's code said when it registered them.
    registered: BTreeMap<(u32, Name), u64>,
    count: u64,
    /// Those that there was no room for.
    pub forgotten: u64,
    /// The largest id in the trace: what is added at its end has others.
    pub last_id: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The function that made it, or the variable.
    pub name: Name,
    /// The call's id in the trace.
    pub op: u64,
    pub bytes: u64,
    /// Which of the run's allocations it is, from 1; of a variable 0.
    pub number: u64,
    /// How often there was memory at this address.
    pub times: u64,
    is_live: bool,
}

impl Allocations {
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::Event(event) => {
                self.last_id = self.last_id.max(event.id);
                if !matches!(event.extent, Extent::Closed(_)) {
                    return;
                }
                if event.name.contains("GetGlobal") {
                    self.variable(event);
                } else if &*event.name == "__cudaRegisterVar" {
                    self.register(event);
                }
            }
            Record::Meaning(meaning) => {
                let What::Memory(memory) = &meaning.what else {
                    return;
                };
                let key = (meaning.pid, memory.ptr);
                match (memory.op, memory.size) {
                    (MemoryOp::Alloc, Some(bytes)) if bytes > 0 => {
                        self.allocate(key, &meaning.name, meaning.op, bytes);
                    }
                    (MemoryOp::Alloc, _) => {}
                    (MemoryOp::Free, _) => {
                        if let Some(place) = self.places.get_mut(&key) {
                            place.is_live = false;
                        }
                    }
                }
            }
            Record::Lost(_) => {}
        }
    }

    fn allocate(&mut self, key: (u32, u64), name: &Name, op: u64, bytes: u64) {
        let room = self.places.len() < MOST;
        match self.places.get_mut(&key) {
            // The same memory, seen once more where a function calls another: the outer one tells last.
            Some(place) if place.is_live => {
                (place.name, place.op) = (name.clone(), op);
                place.bytes = place.bytes.max(bytes);
            }
            Some(place) => {
                self.count += 1;
                place.number = self.count;
                (place.name, place.op) = (name.clone(), op);
                place.bytes = place.bytes.max(bytes);
                place.times += 1;
                place.is_live = true;
            }
            None => {
                self.count += 1;
                if !room {
                    self.forgotten += 1;
                    return;
                }
                let place = Allocation {
                    name: name.clone(),
                    op,
                    bytes,
                    number: self.count,
                    times: 1,
                    is_live: true,
                };
                self.places.insert(key, place);
            }
        }
    }

    fn register(&mut self, event: &Event) {
        if let (Some(Value::Str(name)), Some(bytes)) =
            (event.arg("deviceName"), number(event, "size"))
            && self.registered.len() < MOST
        {
            self.registered.insert((event.pid, name.clone()), bytes);
        }
    }

    /// `cuModuleGetGlobal` and its like: a variable of a module. NVIDIA's runtime does not ask for its size.
    fn variable(&mut self, event: &Event) {
        let (Some(address), Some(Value::Str(name))) = (number(event, "dptr"), event.arg("name"))
        else {
            return;
        };
        let bytes = number(event, "bytes")
            .or_else(|| self.registered.get(&(event.pid, name.clone())).copied())
            .unwrap_or(1);
        if address == 0 || bytes == 0 || self.places.len() >= MOST {
            return;
        }
        let variable = Allocation {
            name: name.clone(),
            op: event.id,
            bytes,
            number: 0,
            times: 1,
            is_live: true,
        };
        self.places.entry((event.pid, address)).or_insert(variable);
    }

    /// What a process has in so many bytes at an address, and where that begins: what the first of them is
    /// in, or else what begins among the others.
    pub fn find(&self, pid: u32, address: u64, bytes: u64) -> Option<(&Allocation, u64)> {
        let before = self.places.range((pid, 0)..=(pid, address)).rev();
        let mut near = before.take(NESTED);
        let around = near.find(|((_, start), place)| address - start < place.bytes);
        let within = || {
            let end = address.saturating_add(bytes);
            self.places.range((pid, address)..(pid, end)).next()
        };
        let ((_, start), place) = around.or_else(within)?;
        Some((place, *start))
    }
}

fn number(event: &Event, name: &str) -> Option<u64> {
    match event.arg(name) {
        Some(Value::Pointer(number) | Value::Uint(number)) => Some(*number),
        Some(Value::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Memory, MemorySpace};

    fn memory(op: MemoryOp, name: &str, ptr: u64, size: Option<u64>) -> Record {
        Record::Meaning(event::Meaning {
            ts: 0,
            op: 7,
            pid: 1,
            tid: 1,
            layer: None,
            name: name.into(),
            device: None,
            context: None,
            stream: None,
            what: What::Memory(Memory {
                op,
                size,
                ptr,
                space: Some(MemorySpace::Device),
            }),
        })
    }

    #[test]
    fn an_address_is_found_in_what_was_allocated() {
        let mut all = Allocations::default();
        all.add(&memory(MemoryOp::Alloc, "cuMemAlloc_v2", 4096, Some(512)));
        all.add(&memory(MemoryOp::Alloc, "cudaMalloc", 4096, Some(512)));
        all.add(&memory(MemoryOp::Alloc, "cudaMalloc", 8192, Some(100)));
        let (place, start) = all.find(1, 4096 + 511, 1).expect("inside");
        assert_eq!(
            (&*place.name, place.number, place.times),
            ("cudaMalloc", 1, 1)
        );
        assert_eq!((place.bytes, start), (512, 4096));
        assert_eq!(all.find(1, 4096 + 512, 1), None);
        assert_eq!(all.find(1, 10, 1), None);
        assert_eq!(all.find(2, 4096, 1), None);
        assert_eq!(all.find(1, 8192, 1).map(|(place, _)| place.number), Some(2));
    }

    #[test]
    fn an_address_that_comes_again_is_counted() {
        let mut all = Allocations::default();
        for bytes in [64, 256, 128] {
            all.add(&memory(MemoryOp::Alloc, "cudaMalloc", 4096, Some(bytes)));
            all.add(&memory(MemoryOp::Free, "cudaFree", 4096, None));
        }
        let (place, _) = all.find(1, 4096 + 255, 1).expect("inside of the largest");
        assert_eq!((place.number, place.times), (3, 3));
    }

    #[test]
    fn memory_inside_of_other_memory_is_the_nearer_one() {
        let mut all = Allocations::default();
        all.add(&memory(MemoryOp::Alloc, "pool", 4096, Some(4096)));
        all.add(&memory(MemoryOp::Alloc, "view", 5000, Some(8)));
        let name = |at: u64| all.find(1, at, 1).map(|(place, _)| place.name.to_string());
        assert_eq!(name(5004).as_deref(), Some("view"));
        assert_eq!(name(5008).as_deref(), Some("pool"));
    }

    #[test]
    fn a_variable_is_as_large_as_it_was_registered() {
        let call = |name: &str, args: Vec<event::Arg>| {
            let (layer, category) = (event::Layer::Driver, event::Category::Module);
            let mut event = Event::new(9, layer, category, name, 1);
            event.extent = Extent::Closed(2);
            event.pid = 1;
            event.args = args;
            Record::Event(event)
        };
        let mut all = Allocations::default();
        all.add(&call(
            "__cudaRegisterVar",
            vec![
                event::Arg::new("deviceName", "weights"),
                event::Arg::new("size", 256u64),
            ],
        ));
        for (name, address) in [("weights", 5000u64), ("stranger", 8000)] {
            let args = vec![
                event::Arg::new("dptr", Value::Pointer(address)),
                event::Arg::new("name", name),
            ];
            all.add(&call("cuLibraryGetGlobal", args));
        }
        let found = |at: u64, bytes: u64| {
            let found = all.find(1, at, bytes);
            found.map(|(place, start)| (place.name.to_string(), place.number, place.bytes, start))
        };
        let weights = Some(("weights".to_owned(), 0, 256, 5000));
        assert_eq!(found(5255, 1), weights);
        assert_eq!(found(5256, 1), None);
        // Within the line that is asked for.
        assert_eq!(found(4992, 128), weights);
        assert_eq!(found(4992, 8), None);
        assert_eq!(found(7936, 128), Some(("stranger".into(), 0, 1, 8000)));
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let mut all = Allocations::default();
        for at in 0..MOST as u64 + 5 {
            all.add(&memory(MemoryOp::Alloc, "m", 4096 + at * 64, Some(64)));
        }
        assert_eq!((all.places.len(), all.forgotten), (MOST, 5));
    }
}
