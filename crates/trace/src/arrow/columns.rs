//! The columns of the Arrow form: their names, types and order.

use arrow_schema::{DataType, Field, Schema};
use event::{Category, Direction, Kind, Layer, MemorySpace, Meta, What};
use std::collections::HashMap;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    U32,
    U64,
    I64,
    /// One of few words, known beforehand.
    Word(&'static [&'static str]),
    /// One of many names that repeat.
    Name,
    /// JSON texts: arguments, what an ioctl was decoded to, stacks.
    Json,
}

macro_rules! columns {
    ($($member:ident = $name:literal: $kind:expr,)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Column { $($member,)+ }

        impl Column {
            pub const ALL: &'static [Column] = &[$(Column::$member,)+];

            pub const fn name(self) -> &'static str {
                match self { $(Column::$member => $name,)+ }
            }

            pub const fn holds(self) -> Type {
                match self { $(Column::$member => $kind,)+ }
            }
        }
    };
}

columns! {
    Ts = "ts_ns": Type::I64,
    Pid = "pid": Type::U32,
    Tid = "tid": Type::U32,
    Kind = "type": Type::Word(TYPES),
    Layer = "layer": Type::Word(LAYERS),
    Name = "name": Type::Name,
    Category = "category": Type::Word(CATEGORIES),
    Phase = "phase": Type::Word(PHASES),
    OpId = "op_id": Type::U64,
    Depth = "depth": Type::U32,
    Parent = "parent": Type::U64,
    Cpu = "cpu": Type::U32,
    Device = "device": Type::U32,
    Context = "context": Type::U64,
    Stream = "stream": Type::U64,
    Correlation = "correlation": Type::U64,
    Duration = "duration_ns": Type::U64,
    LinesInside = "lines_inside": Type::U32,
    Status = "status": Type::I64,
    Result = "result": Type::Name,
    Cmd = "cmd": Type::U64,
    Decoded = "decoded": Type::Json,
    Details = "details": Type::Json,
    Outputs = "outputs": Type::Json,
    Stack = "stack": Type::Json,
    Op = "op": Type::Word(OPS),
    Size = "size": Type::U64,
    Freed = "freed": Type::U64,
    Ptr = "ptr": Type::U64,
    Space = "space": Type::Word(SPACES),
    Direction = "direction": Type::Word(DIRECTIONS),
    Src = "src": Type::U64,
    Dst = "dst": Type::U64,
    Kernel = "kernel": Type::Name,
    GridX = "grid_x": Type::U32,
    GridY = "grid_y": Type::U32,
    GridZ = "grid_z": Type::U32,
    BlockX = "block_x": Type::U32,
    BlockY = "block_y": Type::U32,
    BlockZ = "block_z": Type::U32,
    Shared = "shared": Type::U64,
    Count = "count": Type::U64,
    Source = "source": Type::Name,
    Call = "call": Type::Name,
}

/// The names of all members, in the order of their numbers: a key is a member's number.
macro_rules! words {
    ($name:ident, $kind:ident $(, $more:literal)*) => {
        const $name: &[&str] = &{
            const MORE: &[&str] = &[$($more),*];
            let mut words = [""; $kind::ALL.len() + MORE.len()];
            let mut place = 0;
            while place < words.len() {
                words[place] = if place < $kind::ALL.len() {
                    $kind::ALL[place].as_str()
                } else {
                    MORE[place - $kind::ALL.len()]
                };
                place += 1;
            }
            words
        };
    };
}

words!(
    TYPES, Kind, "kernel", "memory", "transfer", "lost", "summary"
);
words!(LAYERS, Layer);
words!(CATEGORIES, Category);
words!(SPACES, MemorySpace);
words!(DIRECTIONS, Direction);
/// A beginning, an end, and both: a span whose end is known when its row is written.
const PHASES: &[&str] = &["B", "E", "X"];
pub const BEGIN: u64 = 0;
pub const END: u64 = 1;
pub const WHOLE: u64 = 2;
const OPS: &[&str] = &["alloc", "free", "launch"];
pub const LAUNCH: u64 = 2;

/// The type of a meaning, behind those of events.
#[inline]
pub fn of_meaning(what: &What) -> u64 {
    let behind = match what {
        What::Launch(_) => 0,
        What::Memory(_) => 1,
        What::Transfer(_) => 2,
    };
    Kind::ALL.len() as u64 + behind
}

pub fn data_type(holds: Type) -> DataType {
    let dictionary = |key| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
    match holds {
        Type::U32 => DataType::UInt32,
        Type::U64 => DataType::UInt64,
        Type::I64 => DataType::Int64,
        Type::Word(_) => dictionary(DataType::Int8),
        Type::Name | Type::Json => dictionary(DataType::Int32),
    }
}

/// The schema of every trace; the head is in its metadata.
pub fn schema(meta: &Meta) -> serde_json::Result<Schema> {
    let fields: Vec<Field> = (Column::ALL.iter())
        .map(|column| Field::new(column.name(), data_type(column.holds()), true))
        .collect();
    let metadata = HashMap::from([(super::META_KEY.to_owned(), head(meta)?)]);
    Ok(Schema::new_with_metadata(fields, metadata))
}

/// The head as JSON, with the version of the rows.
pub fn head(meta: &Meta) -> serde_json::Result<String> {
    if meta.version != event::VERSION {
        return serde_json::to_string(meta);
    }
    serde_json::to_string(&Meta {
        version: super::VERSION,
        ..meta.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Launch, Memory, MemoryOp, Transfer};

    #[test]
    fn words_are_numbered_as_their_members() {
        for &kind in Kind::ALL {
            assert_eq!(TYPES[kind as usize], kind.as_str());
        }
        for meaning in ["kernel", "memory", "transfer"] {
            assert!(TYPES.contains(&meaning), "{meaning}");
        }
        let launch = What::Launch(Launch {
            kernel: "k".into(),
            grid: [1; 3],
            block: [1; 3],
            shared: 0,
        });
        let memory = What::Memory(Memory {
            op: MemoryOp::Free,
            size: None,
            ptr: 0,
            space: None,
        });
        let transfer = What::Transfer(Transfer {
            direction: Direction::ALL[0],
            size: 0,
            duration: None,
            src: None,
            dst: None,
        });
        for what in [launch, memory, transfer] {
            assert_eq!(TYPES[of_meaning(&what) as usize], what.type_name());
        }
        assert_eq!(OPS[LAUNCH as usize], "launch");
        assert_eq!(TYPES.last(), Some(&"summary"));
        for (place, &column) in Column::ALL.iter().enumerate() {
            assert_eq!(column as usize, place);
        }
    }
}
