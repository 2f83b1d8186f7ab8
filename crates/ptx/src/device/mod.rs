//! What runs on the device beside translated programs: helpers, maps and rings, as PTX text.
//!
//! A module gets the functions that its probes lead to, and two variables that the host fills after
//! loading: `__cutrace_maps`, a descriptor for each map, and `__cutrace_state`.

mod layout;
mod orders;

pub use layout::{
    CAPACITY_AT, Descriptor, MOST_PARTS, PARTS_AT, RING_DATA, Ring, SLOT_HEADER, STATE_BYTES,
    State, TAIL_STRIDE, map_kind, slot_bytes,
};
pub use orders::{Layout, Map, Orders, OrdersError, log_map};

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

const TEXTS: [&str; 5] = [
    include_str!("identity.ptx"),
    include_str!("array.ptx"),
    include_str!("hash.ptx"),
    include_str!("ring.ptx"),
    include_str!("print.ptx"),
];

/// A kernel that writes %globaltimer to the address it is given: for comparing clocks.
pub const CLOCK: &str = include_str!("clock.ptx");
pub const CLOCK_KERNEL: &str = "__cutrace_clock";

pub const MAPS: &str = "__cutrace_maps";
pub const STATE: &str = "__cutrace_state";

/// The name that a helper's function has: five arguments, whatever the helper needs, and a result.
pub fn helper(number: u32) -> String {
    format!("__cutrace_helper_{number}")
}

/// The functions that `text` calls, and what these call, each before its first use, with the
/// variables that all share. `maps` is how many descriptors there are.
pub fn runtime(text: &str, maps: usize) -> String {
    let all = functions();
    let mut wanted = Vec::new();
    for name in names(text) {
        want(name, all, &mut wanted);
    }
    let mut out = String::new();
    let bytes = maps.max(1) * Descriptor::BYTES;
    let _ = writeln!(out, ".weak .global .align 16 .b8 {MAPS}[{bytes}];");
    let _ = writeln!(out, ".weak .global .align 16 .b8 {STATE}[{STATE_BYTES}];");
    for name in wanted {
        out.push_str(all[name]);
        out.push('\n');
    }
    out
}

/// A function behind all that it calls; they call in no circle.
fn want(name: &str, all: &BTreeMap<&'static str, &'static str>, wanted: &mut Vec<&'static str>) {
    let Some((name, text)) = all.get_key_value(name) else {
        return;
    };
    if wanted.contains(name) {
        return;
    }
    for inner in names(text) {
        if inner != *name {
            want(inner, all, wanted);
        }
    }
    wanted.push(name);
}

/// What in a text may be a name of ours.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .filter(|word| word.starts_with("__cutrace_"))
}

/// By name.
fn functions() -> &'static BTreeMap<&'static str, &'static str> {
    static ALL: OnceLock<BTreeMap<&str, &str>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = BTreeMap::new();
        for text in TEXTS {
            let mut starts: Vec<usize> = text.match_indices(".func ").map(|(at, _)| at).collect();
            starts.push(text.len());
            for pair in starts.windows(2) {
                let whole = &text[pair[0]..pair[1]];
                // Comments between functions are of the next one.
                let end = whole.rfind("\n}").map_or(whole.len(), |at| at + 3);
                let whole = &whole[..end.min(whole.len())];
                if let Some(name) = names(whole).next() {
                    all.insert(name, whole);
                }
            }
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELPERS: [u32; 25] = [
        1, 2, 3, 5, 6, 7, 8, 14, 25, 130, 177, 501, 502, 503, 504, 505, 506, 507, 508, 509, 510,
        511, 600, 601, 602,
    ];

    fn has_helper(number: u32) -> bool {
        functions().contains_key(helper(number).as_str())
    }

    #[test]
    fn every_helper_is_there_with_what_it_needs() {
        for number in HELPERS {
            assert!(has_helper(number), "{number}");
            let text = runtime(&helper(number), 1);
            for name in names(&text) {
                let declared = text.find(&format!(" {name} (")).is_some();
                assert!(
                    declared || name == MAPS || name == STATE,
                    "{number}: {name}"
                );
            }
        }
        assert!(!has_helper(4));
    }

    #[test]
    fn the_runtime_is_ptx() {
        let all: String = HELPERS.iter().map(|number| helper(*number) + " ").collect();
        let text = format!(
            ".version 6.3\n.target sm_70\n.address_size 64\n{}",
            runtime(&all, 3)
        );
        crate::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        crate::parse(CLOCK).expect("the clock kernel");
    }

    #[test]
    fn nothing_is_taken_that_is_not_needed() {
        let text = runtime("call (%r), __cutrace_helper_502, ();", 1);
        assert_eq!(text.matches(".func").count(), 1, "{text}");
    }
}
