//! What is captured of a call beyond its first four integer arguments, and in which order it lies
//! in the call's payload slots. The injected library writes by this plan, the tracer reads by it.
//!
//! Arguments are counted in *words* as the x86-64 calling convention passes them: words 0 to 5 are
//! the integer registers, word 6 is the first on the stack. A struct by value takes several words
//! (`dim3` two); one of more than 16 bytes lies on the stack whatever registers are free.

use crate::lookup::{functions, older_functions, without_stream_suffix};
use crate::model::{Direction, Extent, Function, Kind, Parameter, Type};

/// Words that lie in the call's own slot.
pub const SLOT_WORDS: usize = 4;
/// Integer registers that carry arguments.
pub const REGISTER_WORDS: usize = 6;
/// Most payload slots of a call.
pub const MAX_PAYLOAD_SLOTS: usize = 8;
/// Bytes a call's payload may have.
pub const MAX_PAYLOAD: usize = MAX_PAYLOAD_SLOTS * event::ring::PAYLOAD_BYTES;
/// Most items of a plan.
pub const MAX_ITEMS: usize = 24;
/// Bytes kept of a string, the NUL that ends it (or pads it) included where it fits.
pub const TEXT_BYTES: u16 = 120;

/// Structs longer than this are not copied.
const STRUCT_BYTES: u32 = 256;

/// Which calls have the bytes. All of them are written before the call is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// What the caller hands in: every call that returned. Zeros where it could not be read.
    Enter,
    /// What the callee hands back: only calls that returned success (or that return nothing).
    Exit,
}

/// One piece of the payload; the pieces follow each other without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// 8 bytes: the word with this index. Written at entry, valid in open calls too.
    Arg { index: u8 },
    /// Bytes at `offset` behind the pointer that is word `arg`; zeros if it is null.
    Memory {
        arg: u8,
        offset: u16,
        bytes: u16,
        at: When,
    },
    /// A C string behind the pointer that is word `arg`, padded with NULs.
    Text { arg: u8, bytes: u16, at: When },
}

impl Item {
    /// Bytes it takes in the payload.
    pub const fn bytes(&self) -> usize {
        match *self {
            Item::Arg { .. } => 8,
            Item::Memory { bytes, .. } | Item::Text { bytes, .. } => bytes as usize,
        }
    }
}

/// What a function's payload holds.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    items: [Item; MAX_ITEMS],
    count: usize,
    bytes: usize,
}

impl Plan {
    const EMPTY: Plan = Plan {
        items: [Item::Arg { index: 0 }; MAX_ITEMS],
        count: 0,
        bytes: 0,
    };

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

    /// Adds what still fits; the rest is left out.
    fn push(&mut self, item: Item) {
        if self.count < MAX_ITEMS && self.bytes + item.bytes() <= MAX_PAYLOAD {
            self.items[self.count] = item;
            self.count += 1;
            self.bytes += item.bytes();
        }
    }
}

/// Where a parameter's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In consecutive words.
    Words { first: u8, count: u8 },
    /// In a vector register: not captured.
    Vector,
}

/// Where each parameter of a function is, in order.
pub fn places(function: &'static Function) -> impl Iterator<Item = Place> {
    // Results of more than 16 bytes are written where a hidden first argument points.
    let hidden = function.returns.kind == Kind::Struct && function.returns.size > 16;
    let mut registers = usize::from(hidden);
    let mut stack = REGISTER_WORDS;
    function.parameters.iter().map(move |parameter| {
        let kind = parameter.kind;
        if kind.kind == Kind::Float {
            return Place::Vector;
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
        Place::Words {
            first: first as u8,
            count: words as u8,
        }
    })
}

/// How many words of arguments lie on the stack.
pub fn stack_words(function: &'static Function) -> usize {
    words(function).saturating_sub(REGISTER_WORDS)
}

fn words(function: &'static Function) -> usize {
    places(function)
        .map(|place| match place {
            Place::Words { first, count } => usize::from(first) + usize::from(count),
            Place::Vector => 0,
        })
        .max()
        .unwrap_or(0)
}

/// The plan for a function by its exported name; empty for functions no table knows.
///
/// Where runtimes 12 and 13 have different functions under one name, memory is left alone: which
/// of the two it is cannot be told from the name, and only the arguments are safe to keep.
pub fn plan(name: &str) -> Plan {
    let name = without_stream_suffix(name);
    let find = |table: &'static [Function]| {
        let at = table.binary_search_by(|row| row.name.cmp(name)).ok()?;
        table.get(at)
    };
    match (find(functions()), find(older_functions())) {
        (Some(newer), Some(older)) if !alike(newer, older) => {
            let longer = if words(newer) >= words(older) {
                newer
            } else {
                older
            };
            let mut plan = Plan::EMPTY;
            push_arguments(&mut plan, longer);
            plan
        }
        (Some(function), _) | (None, Some(function)) => plan_of(function),
        (None, None) => Plan::EMPTY,
    }
}

/// The plan for a row of the table.
pub fn plan_of(function: &'static Function) -> Plan {
    let mut plan = Plan::EMPTY;
    push_arguments(&mut plan, function);
    for (parameter, place) in function.parameters.iter().zip(places(function)) {
        if let Place::Words { first, count: 1 } = place
            && let Some(item) = behind(parameter, first)
        {
            plan.push(item);
        }
    }
    plan
}

fn push_arguments(plan: &mut Plan, function: &'static Function) {
    for index in SLOT_WORDS..words(function) {
        plan.push(Item::Arg { index: index as u8 });
    }
}

/// What is worth copying from behind a pointer, if anything is.
fn behind(parameter: &Parameter, arg: u8) -> Option<Item> {
    let at = match parameter.direction {
        Direction::In => When::Enter,
        Direction::Out | Direction::InOut => When::Exit,
    };
    if parameter.extent == Extent::Text {
        return Some(Item::Text {
            arg,
            bytes: TEXT_BYTES,
            at,
        });
    }
    if parameter.kind.kind != Kind::Pointer || parameter.extent != Extent::One {
        return None;
    }
    let target = parameter.kind.pointee()?;
    let wanted = match target.kind {
        Kind::Void => false,
        Kind::Struct => target.size <= STRUCT_BYTES,
        _ => target.size <= 8,
    };
    (wanted && target.size > 0).then_some(Item::Memory {
        arg,
        offset: 0,
        bytes: target.size as u16,
        at,
    })
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
            .filter(|item| matches!(item, Item::Arg { .. }))
            .count()
    }

    #[test]
    fn a_launch_keeps_all_its_arguments() {
        let plan = plan("cuLaunchKernel_ptsz");
        assert_eq!((arguments(&plan), plan.bytes()), (7, 56));
        assert_eq!(plan.payload_slots(), 1);
        assert_eq!(plan.items()[0], Item::Arg { index: 4 });
        assert_eq!(stack_words(crate::function("cuLaunchKernel").unwrap()), 5);
    }

    #[test]
    fn structs_by_value_take_the_words_the_convention_gives_them() {
        let launch = crate::function("cudaLaunchKernel").unwrap();
        let word = |first, count| Place::Words { first, count };
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
        let create = plan("cuCtxCreate_v2");
        let out = Item::Memory {
            arg: 0,
            offset: 0,
            bytes: 8,
            at: When::Exit,
        };
        assert_eq!(create.items(), [out]);
        let copy = plan("cuMemcpy2D_v2");
        assert!(matches!(
            copy.items(),
            [Item::Memory {
                arg: 0,
                bytes: 128,
                at: When::Enter,
                ..
            }]
        ));
        let register = plan("__cudaRegisterFunction");
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
            let wanted = words(function).saturating_sub(SLOT_WORDS).min(MAX_ITEMS);
            assert_eq!(arguments(&plan), wanted, "{}", function.name);
            let end = plan.placed().map(|(at, item)| at + item.bytes()).last();
            assert_eq!(end.unwrap_or(0), plan.bytes());
        }
        assert_eq!(plan("cublasCreate_v2").bytes(), 0);
    }

    #[test]
    fn names_with_two_meanings_keep_arguments_only() {
        let mut found = 0;
        for older in older_functions() {
            let Some(newer) = functions().iter().find(|row| row.name == older.name) else {
                continue;
            };
            if !alike(newer, older) {
                let plan = plan(older.name);
                assert_eq!(arguments(&plan), plan.items().len(), "{}", older.name);
                found += 1;
            }
        }
        assert!(found > 0);
    }
}
