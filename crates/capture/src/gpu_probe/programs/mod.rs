//! What is to run inside kernels: the orders for the library in the program, and how to read what
//! comes back.

mod accesses;
mod attach;
mod object;
mod ready;
mod settings;
mod shape;
mod stopped;

pub use accesses::{access_details, accesses};
pub use attach::{AttachTo, AttachToError};
pub use object::{Loaded, ObjectOptions, load, parse};
pub use ready::{Ready, Span, ThreadSpan};
pub use settings::{EntriesError, FileError, Setting, SettingError};
pub use shape::{Shape, is_time};
pub use stopped::{Budgeted, Stopped};

use super::{HostPart, intervals::ShowInterval};
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
    /// Programs that are stopped when their loops take too long.
    pub budgeted: Option<Budgeted>,
    /// What there is to say before anything has run.
    pub notes: Vec<String>,
    /// Shows what maps hold while the program runs (`--every`).
    pub show: Option<ShowInterval>,
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
    /// The same of one thread: [`ThreadSpan`].
    ThreadSpan,
    Struct(Shape),
    /// Nobody knows what is in them; the ring's name.
    Bytes(Name),
}

impl Reading {
    /// The same with names of its own: see [`Shape::fresh`].
    pub fn fresh(&self) -> Reading {
        match self {
            Reading::Span => Reading::Span,
            Reading::ThreadSpan => Reading::ThreadSpan,
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
            What::Ready(Ready::TraceThreads) => Reading::ThreadSpan,
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
                Reading::ThreadSpan => "thread".into(),
            },
            fields: fields.unwrap_or_else(|| vec![unknown(data)]),
        }
    }

    /// Whether they tell addresses, which are to be named: of one access in how many.
    pub fn addresses_of(&self) -> Option<u32> {
        match self.what {
            What::Ready(Ready::Mem { one_of }) => Some(one_of),
            _ => None,
        }
    }

    /// Whether a map's keys stand for powers of two.
    pub fn is_in_powers_of_two(&self, map: usize) -> bool {
        match &self.what {
            What::Object(types) => types.is_in_powers_of_two(map),
            What::Ready(_) => false,
        }
    }

    /// A line of printk.
    pub fn line(&self, text: u64, values: &[u64]) -> String {
        match &self.what {
            What::Object(types) => types.line(text, values),
            What::Ready(_) => String::new(),
        }
    }

    /// Whether a map is nobody's to look at: cutrace's own, or constants that the object has anyway.
    pub fn is_hidden(&self, map: usize) -> bool {
        let is_own = (self.budgeted.as_ref()).is_some_and(|budgeted| budgeted.map == map);
        is_own || self.map_name(map).starts_with(".rodata")
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

/// A record that nobody knows the struct of: most are made of 8-byte numbers.
fn unknown(data: &[u8]) -> Arg {
    match plain(data) {
        Value::List(words) => Arg::new("words", Value::List(words)),
        _ => Arg::new("bytes", hex(data)),
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
