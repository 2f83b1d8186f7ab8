//! What is to run inside kernels: the orders for the library in the program, and how to read what
//! comes back.

mod accesses;
mod object;
mod ready;
mod shape;

pub use accesses::{Access, LINE_BYTES, Line, Owner, accesses};
pub use object::{Loaded, load};
pub use ready::{Ready, Span};
pub use shape::Shape;

use capture::gpu_probe::HostPart;
use event::{Arg, Name, Value};
use ptx::device::Orders;
use std::path::PathBuf;

/// Probes of a run.
pub struct Probes {
    pub orders: Orders,
    pub what: What,
    /// Programs of the same object that run on the host.
    pub host: Option<HostPart>,
    /// Where maps are left.
    pub pin: Option<PathBuf>,
}

/// Where the probes come from: who knows what their records mean.
pub enum What {
    Ready(Ready),
    Object(object::Types),
}

/// How records of one ring and one size are read: found out once, for there may be millions a second.
pub enum Reading {
    /// Of a stretch of time, on a multiprocessor: [`Span`].
    Span,
    Struct(Shape),
    /// Nobody knows what is in them; the ring's name.
    Bytes(Name),
}

impl Reading {
    /// The same with names of its own: see [`Shape::fresh`].
    pub fn fresh(&self) -> Reading {
        match self {
            Reading::Span => Reading::Span,
            Reading::Struct(shape) => Reading::Struct(shape.fresh()),
            Reading::Bytes(name) => Reading::Bytes(Name::from(&**name)),
        }
    }
}

/// A record with its meaning.
pub struct Decoded {
    pub name: Name,
    pub fields: Vec<Arg>,
    /// The device's, or the host's.
    pub time: Option<u64>,
}

impl Probes {
    /// How records of the ring of that map, of so many bytes, are read.
    pub fn reading(&self, map: usize, bytes: usize) -> Reading {
        match &self.what {
            What::Ready(Ready::Trace | Ready::Sched) => Reading::Span,
            What::Ready(_) => Reading::Bytes(self.map_name(map).into()),
            What::Object(types) => match types.shape(map, bytes) {
                Some(shape) => Reading::Struct(shape),
                None => Reading::Bytes(self.map_name(map).into()),
            },
        }
    }

    /// A record with its meaning.
    pub fn decode(&self, reading: &Reading, data: &[u8]) -> Decoded {
        let fields = match (&self.what, reading) {
            (What::Object(types), Reading::Struct(shape)) => types.fields(shape, data),
            _ => None,
        };
        Decoded {
            time: match (reading, &fields) {
                (Reading::Struct(shape), Some(fields)) => shape.time(fields),
                _ => None,
            },
            name: match reading {
                Reading::Struct(shape) => shape.name.clone(),
                Reading::Bytes(name) => name.clone(),
                Reading::Span => "block".into(),
            },
            fields: fields.unwrap_or_else(|| vec![Arg::new("bytes", hex(data))]),
        }
    }

    /// Whether they tell addresses, which are to be named.
    pub fn tells_addresses(&self) -> bool {
        matches!(self.what, What::Ready(Ready::Mem))
    }

    /// A line of printk.
    pub fn line(&self, text: u64, values: &[u64]) -> String {
        match &self.what {
            What::Object(types) => types.line(text, values),
            What::Ready(_) => String::new(),
        }
    }

    pub fn map_name(&self, map: usize) -> &str {
        self.orders.maps.get(map).map_or("?", |map| &map.name)
    }

    /// A key or a value of a map.
    pub fn value(&self, map: usize, bytes: &[u8], is_key: bool) -> Value {
        match &self.what {
            What::Object(types) => types.value(map, bytes, is_key),
            What::Ready(_) => plain(bytes),
        }
    }
}

/// A number where it is as long as one, bytes otherwise.
pub fn plain(bytes: &[u8]) -> Value {
    let mut word = [0; 8];
    match bytes.len() {
        1 | 2 | 4 | 8 => {
            word[..bytes.len()].copy_from_slice(bytes);
            Value::from(u64::from_le_bytes(word))
        }
        length if length % 8 == 0 && length <= 256 => {
            let words = bytes.chunks_exact(8).map(|chunk| {
                word.copy_from_slice(chunk);
                Value::from(u64::from_le_bytes(word))
            });
            Value::List(words.collect())
        }
        _ => hex(bytes).into(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
