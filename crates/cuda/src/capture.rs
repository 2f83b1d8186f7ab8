//! What is captured of a call beyond its first four integer arguments, and in which order it is stored
//! in the call's payload slots. The injected library writes by this plan, the tracer reads by it.
//!
//! Arguments are counted in *words* as the x86-64 calling convention passes them: words 0 to 5 are
//! the integer registers, word 6 is the first on the stack. A struct by value takes several words
//! (`dim3` two); one of more than 16 bytes is on the stack whatever registers are free.

mod behind;

use crate::lookup::{functions, older_functions, without_stream_suffix};
use crate::model::{Function, Kind, Type};

/// Words that lie in the call's own slot.
pub const SLOT_WORDS: usize = 4;
/// Integer registers that carry arguments.
pub const REGISTER_WORDS: usize = 6;
/// Most payload slots of a call.
pub const MAX_PAYLOAD_SLOTS: usize = 12;
/// Bytes a call's payload may have.
pub const MAX_PAYLOAD: usize = MAX_PAYLOAD_SLOTS * event::ring::PAYLOAD_BYTES;
/// Most items of a plan.
pub const MAX_ITEMS: usize = 24;
/// Bytes kept of a string, the NUL that ends it (or pads it) included where it fits.
pub const TEXT_BYTES: u16 = 248;

/// Which calls have the bytes. All of them are written before the call is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// What the caller hands in: every call that returned. Zeros where it could not be read.
    Enter,
    /// What the callee hands back: only calls that returned success (or that return no status).
    Exit,
}

/// Where the length of an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The word that holds it or points to it.
    pub word: u8,
    /// 4 or 8.
    pub bytes: u8,
    /// The word points to it.
    pub behind: bool,
}

/// One piece of the payload; the pieces follow each other without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// 8 bytes: the word with this index. Written at entry, valid in open calls too.
    Arg { index: u8 },
    /// 8 bytes: the low half of a vector register, which a float came in. As `Arg`.
    Vector { register: u8 },
    /// Bytes at `offset` behind the pointer that is word `arg`; zeros if it is null.
    Memory {
        arg: u8,
        offset: u16,
        bytes: u16,
        at: When,
    },
    /// A C string behind the pointer that is word `arg`, padded with NULs.
    Text { arg: u8, bytes: u16, at: When },
    /// A C string behind the pointer that is behind word `arg`, after success.
    TextBehind { arg: u8, bytes: u16 },
    /// The first elements of the array behind word `arg`, as many as there are and as fit into
    /// `bytes`; zeros after them.
    Array {
        arg: u8,
        stride: u16,
        bytes: u16,
        count: Count,
        at: When,
    },
    /// The first elements of the array that a struct behind word `arg` points to at `pointer`, its
    /// length in the 4 or 8 bytes at `count`. The first `kept` bytes of each are kept.
    Nested {
        arg: u8,
        pointer: u16,
        count: u16,
        count_bytes: u8,
        stride: u16,
        kept: u16,
        bytes: u16,
    },
    /// 8 bytes: the sum of all the 8-byte numbers in the array behind word `arg`.
    Sum { arg: u8, count: Count },
    /// 8 bytes from behind each of the first pointers in the array behind word `arg`, after success.
    Gathered { arg: u8, bytes: u16, count: Count },
    /// 8 bytes: what was returned.
    Returned,
    /// The C string that was returned.
    ReturnedText { bytes: u16 },
}

impl Item {
    /// Bytes it takes in the payload.
    pub const fn bytes(&self) -> usize {
        match *self {
            Item::Arg { .. } | Item::Vector { .. } | Item::Sum { .. } | Item::Returned => 8,
            Item::Memory { bytes, .. }
            | Item::Text { bytes, .. }
            | Item::TextBehind { bytes, .. }
            | Item::Array { bytes, .. }
            | Item::Nested { bytes, .. }
            | Item::Gathered { bytes, .. }
            | Item::ReturnedText { bytes } => bytes as usize,
        }
    }
}

/// What a function's payload holds.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    items: [Item; MAX_ITEMS],
    count: usize,
    bytes: usize,
    short: bool,
}

impl Plan {
    const EMPTY: Plan = Plan {
        items: [Item::Arg { index: 0 }; MAX_ITEMS],
        count: 0,
        bytes: 0,
        short: false,
    };

    /// A plan of these.
    pub(crate) fn of(items: &[Item]) -> Plan {
        let mut plan = Plan::EMPTY;
        for item in items {
            plan.push(*item);
        }
        plan
    }

    pub fn items(&self) -> &[Item] {
        &self.items[..self.count]
    }

    /// The items with the place in the payload where each begins.
    pub fn placed(&self) -> impl Iterator<Item = (usize, Item)> + '_ {
        let mut at = 0;
        self.items().iter().map(move |item| {
            let begin = at;
            at += item.bytes();
            (begin, *item)
        })
    }

    /// Bytes of payload.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Payload slots that take.
    pub fn payload_slots(&self) -> usize {
        self.bytes.div_ceil(event::ring::PAYLOAD_BYTES)
    }

    /// Whether something was left out for want of room.
    pub fn is_short(&self) -> bool {
        self.short
    }

    /// The same without floats, for back ends that do not see vector registers.
    pub fn without_vectors(&self) -> Plan {
        let mut plan = Plan::EMPTY;
        let seen = |item: &&Item| !matches!(item, Item::Vector { .. });
        (self.items().iter().filter(seen)).for_each(|item| plan.push(*item));
        plan.short |= self.short;
        plan
    }

    /// Adds what still fits; the rest is left out.
    fn push(&mut self, item: Item) {
        if self.count < MAX_ITEMS && self.bytes + item.bytes() <= MAX_PAYLOAD {
            self.items[self.count] = item;
            self.count += 1;
            self.bytes += item.bytes();
        } else {
            self.short = true;
        }
    }
}

/// Where a parameter's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterLocation {
    /// In consecutive words.
    Words { first: u8, count: u8 },
    /// In a vector register.
    Vector { register: u8 },
}

/// Where each parameter of a function is, in order.
pub fn places(function: &'static Function) -> impl Iterator<Item = ParameterLocation> {
    // Results of more than 16 bytes are written where a hidden first argument points.
    let hidden = function.returns.kind == Kind::Struct && function.returns.size > 16;
    let mut registers = usize::from(hidden);
    let mut stack = REGISTER_WORDS;
    let mut vectors = 0;
    function.parameters.iter().map(move |parameter| {
        let kind = parameter.kind;
        if kind.kind == Kind::Float {
            vectors += 1;
            return ParameterLocation::Vector {
                register: vectors - 1,
            };
        }
        let words = (kind.size as usize).div_ceil(8).max(1);
        let in_memory = kind.kind == Kind::Struct && kind.size > 16;
        let first = if !in_memory && registers + words <= REGISTER_WORDS {
            registers += words;
            registers - words
        } else {
            stack += words;
            stack - words
        };
        ParameterLocation::Words {
            first: first as u8,
            count: words as u8,
        }
    })
}

/// How many words of arguments lie on the stack.
pub fn stack_words(function: &'static Function) -> usize {
    words(function).saturating_sub(REGISTER_WORDS)
}

/// How many words of arguments are in general registers.
pub fn register_words(function: &'static Function) -> usize {
    let ends = places(function).map(|place| match place {
        ParameterLocation::Words { first, count } if usize::from(first) < REGISTER_WORDS => {
            usize::from(first) + usize::from(count)
        }
        _ => 0,
    });
    ends.max().unwrap_or(0)
}

fn words(function: &'static Function) -> usize {
    places(function)
        .map(|place| match place {
            ParameterLocation::Words { first, count } => usize::from(first) + usize::from(count),
            ParameterLocation::Vector { .. } => 0,
        })
        .max()
        .unwrap_or(0)
}

/// The plan for a function by its exported name and the major version of the runtime it is in,
/// where that is known; empty for functions no table knows.
///
/// Where runtimes 12 and 13 have different functions under one name and the version is not known,
/// memory is left alone: only the arguments are safe to keep.
pub fn plan(name: &str, major: Option<u32>) -> Plan {
    let name = without_stream_suffix(name);
    let find = |table: &'static [Function]| {
        let at = table.binary_search_by(|row| row.name.cmp(name)).ok()?;
        table.get(at)
    };
    match (find(functions()), find(older_functions()), major) {
        (Some(newer), Some(older), None) if !alike(newer, older) => {
            let longer = if words(newer) >= words(older) {
                newer
            } else {
                older
            };
            let mut plan = Plan::EMPTY;
            push_arguments(&mut plan, longer);
            plan
        }
        (_, Some(older), Some(..=12)) => plan_of(older),
        (Some(function), _, _) | (None, Some(function), _) => plan_of(function),
        (None, None, _) => Plan::EMPTY,
    }
}

/// How many words of arguments a function has, by the same rules; 0 for functions no table knows.
pub fn argument_words(name: &str, major: Option<u32>) -> usize {
    let name = without_stream_suffix(name);
    let find = |table: &'static [Function]| {
        let at = table.binary_search_by(|row| row.name.cmp(name)).ok()?;
        table.get(at)
    };
    let of = |function: Option<&'static Function>| function.map_or(0, words);
    match (find(functions()), find(older_functions()), major) {
        (_, older @ Some(_), Some(..=12)) => of(older),
        (newer @ Some(_), _, Some(_)) => of(newer),
        (newer, older, _) => of(newer).max(of(older)),
    }
}

/// The plan for a row of the table.
pub fn plan_of(function: &'static Function) -> Plan {
    let mut plan = Plan::EMPTY;
    push_arguments(&mut plan, function);
    behind::push(function, &mut plan);
    plan
}

fn push_arguments(plan: &mut Plan, function: &'static Function) {
    for index in SLOT_WORDS..words(function) {
        plan.push(Item::Arg { index: index as u8 });
    }
    for place in places(function) {
        if let ParameterLocation::Vector { register } = place {
            plan.push(Item::Vector { register });
        }
    }
}

fn alike(one: &Function, other: &Function) -> bool {
    let same = |a: &Type, b: &Type| {
        let inner = |kind: &Type| kind.pointee().map(|target| (target.kind, target.size));
        (a.kind, a.size, inner(a)) == (b.kind, b.size, inner(b))
    };
    one.parameters.len() == other.parameters.len()
        && one.parameters.iter().zip(other.parameters).all(|(a, b)| {
            same(a.kind, b.kind) && a.direction == b.direction && a.extent == b.extent
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(plan: &Plan) -> usize {
        plan.items()
            .iter()
            .filter(|item| matches!(item, Item::Arg { .. } | Item::Vector { .. }))
            .count()
    }

    #[test]
    fn a_launch_keeps_all_its_arguments() {
        let plan = plan("cuLaunchKernel_ptsz", None);
        assert_eq!((arguments(&plan), plan.bytes()), (7, 56));
        assert_eq!(plan.payload_slots(), 1);
        assert_eq!(plan.items()[0], Item::Arg { index: 4 });
        assert_eq!(stack_words(crate::function("cuLaunchKernel").unwrap()), 5);
    }

    #[test]
    fn structs_by_value_take_the_words_the_convention_gives_them() {
        let launch = crate::function("cudaLaunchKernel").unwrap();
        let word = |first, count| ParameterLocation::Words { first, count };
        assert!(places(launch).eq([
            word(0, 1),
            word(1, 2),
            word(3, 2),
            word(5, 1),
            word(6, 1),
            word(7, 1)
        ]));
        // 32 and 24 bytes: on the stack, while the number after the first is in a register.
        let fill = crate::function("cudaMemset3D").unwrap();
        assert!(places(fill).eq([word(6, 4), word(0, 1), word(10, 3)]));
    }

    #[test]
    fn outputs_are_read_after_success_and_inputs_always() {
        let create = plan("cuCtxCreate_v2", None);
        let out = Item::Memory {
            arg: 0,
            offset: 0,
            bytes: 8,
            at: When::Exit,
        };
        assert_eq!(create.items(), [out]);
        let copy = plan("cuMemcpy2D_v2", None);
        assert!(matches!(
            copy.items(),
            [Item::Memory {
                arg: 0,
                bytes: 128,
                at: When::Enter,
                ..
            }]
        ));
        let register = plan("__cudaRegisterFunction", None);
        assert!(register.items().contains(&Item::Text {
            arg: 3,
            bytes: TEXT_BYTES,
            at: When::Enter
        }));
    }

    #[test]
    fn every_function_has_a_plan_within_bounds() {
        for function in functions().iter().chain(older_functions()) {
            let plan = plan_of(function);
            assert!(plan.payload_slots() <= MAX_PAYLOAD_SLOTS);
            // An EGL frame passed by value has more words than a plan has items.
            let vectors = places(function)
                .filter(|place| matches!(place, ParameterLocation::Vector { .. }))
                .count();
            let wanted = words(function).saturating_sub(SLOT_WORDS) + vectors;
            let wanted = wanted.min(MAX_ITEMS);
            assert_eq!(arguments(&plan), wanted, "{}", function.name);
            let end = plan.placed().map(|(at, item)| at + item.bytes()).last();
            assert_eq!(end.unwrap_or(0), plan.bytes());
        }
        assert_eq!(plan("cublasCreate_v2", None).bytes(), 0);
    }

    #[test]
    fn words_are_counted_and_floats_left_out() {
        assert_eq!(argument_words("cuLaunchKernel", None), 11);
        assert_eq!(argument_words("cuInit", None), 1);
        assert_eq!(argument_words("ncclAllReduce", None), 0);
        let bias = plan("cuTexRefSetMipmapLevelBias", None);
        assert!(bias.items().contains(&Item::Vector { register: 0 }));
        assert!(bias.without_vectors().items().is_empty());
    }

    #[test]
    fn names_with_two_meanings_keep_arguments_only() {
        let mut found = 0;
        for older in older_functions() {
            let Some(newer) = functions().iter().find(|row| row.name == older.name) else {
                continue;
            };
            if !alike(newer, older) {
                let plan = plan(older.name, None);
                assert_eq!(arguments(&plan), plan.items().len(), "{}", older.name);
                found += 1;
            }
        }
        assert!(found > 0);
    }
}
