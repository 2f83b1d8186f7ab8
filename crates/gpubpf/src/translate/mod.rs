//! Verified BPF → PTX text.
//!
//! One `.func` for the program and one for each function it calls. r0 to r9 are `.b64` registers; the
//! stack is registers, too, wherever every use of it is at a constant place (memory per thread is what
//! costs a probed kernel most); helpers that are a few instructions are written where they are called.

pub mod addition;
mod aggregate;
mod arithmetic;
mod budget;
mod cost;
mod emit;
mod flow;
mod function;
mod helpers;
mod kept;
mod lookup;
mod memory;
mod stack;

pub use budget::Budget;
pub use cost::Cost;
pub use ptx::rewrite::{Inline, Sum};

use std::collections::BTreeSet;

use crate::counters::Counters;
use crate::instruction::{Callee, Operation};
use crate::verify::Verified;

/// How a program is translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslateOptions {
    /// In front of every function's name.
    pub prefix: String,
    /// The number of the object's first map among the descriptors.
    pub first_map: usize,
    /// The number of the program's first text among all.
    pub first_text: u32,
    /// Keep the stack in registers where that is possible.
    pub promote_stack: bool,
    /// One atomic for all lanes of a warp that count at the same address.
    pub aggregate: bool,
    /// Write small helpers where they are called.
    pub inline_helpers: bool,
    /// Maps that all programs of the object only add to, if that was looked at: then the host must
    /// store them with a copy for each multiprocessor ([`Counters::is_spread`]).
    pub counters: Option<Counters>,
    /// For programs whose loops have no bound that is known.
    pub budget: Budget,
}

impl Default for TranslateOptions {
    fn default() -> TranslateOptions {
        TranslateOptions {
            prefix: "cutrace_".into(),
            first_map: 0,
            first_text: 0,
            promote_stack: true,
            aggregate: true,
            inline_helpers: true,
            counters: None,
            budget: Budget::default(),
        }
    }
}

/// A program as PTX.
#[derive(Debug, Clone, PartialEq)]
pub struct Translated {
    /// `.func`s, the program's own last; no .version, no .target.
    pub functions: String,
    /// The name of the program's function.
    pub entry_name: String,
    /// Helpers that are called as functions, by number.
    pub helpers: Vec<u32>,
    /// Maps that are used, by their index in the object.
    pub maps: Vec<usize>,
    /// What it prints: number `first_text` + index.
    pub texts: Vec<String>,
    pub cost: Cost,
    /// The same for the place where it runs, if all it does is add.
    pub inline: Option<Inline>,
}

/// The function a helper is called by.
pub fn helper_name(number: u32) -> String {
    format!("__cutrace_helper_{number}")
}

pub fn translate(verified: &Verified<'_>, options: &TranslateOptions) -> Translated {
    let mut text = String::new();
    let mut used = Used::default();
    let mut cost = Cost {
        longest_path: verified.longest_path,
        ..Cost::default()
    };
    for number in callees_first(verified) {
        let function = function::translate(verified, options, number, &mut used);
        cost.add(&function.counts);
        text.push_str(&function.text);
    }
    let inline = inline(verified, options, &mut used);
    Translated {
        inline,
        functions: text,
        entry_name: function::name(verified, options, 0),
        helpers: used.helpers.into_iter().collect(),
        maps: used.maps.into_iter().collect(),
        texts: verified.texts.clone(),
        cost,
    }
}

fn inline(verified: &Verified<'_>, options: &TranslateOptions, used: &mut Used) -> Option<Inline> {
    let counters = options
        .counters
        .as_ref()
        .filter(|_| options.inline_helpers && !verified.is_budgeted)?;
    let slots = kept::slots(verified, counters)?;
    let function = function::inline(verified, options, used)?;
    let sums = slots.iter().map(|slot| Sum {
        register: kept::register(options, slot),
        flush: kept::flush(verified.object, options, slot),
    });
    Some(Inline {
        text: function.text,
        sums: sums.collect(),
        diverges: kept::diverges(verified),
    })
}

/// What a program needs of its surroundings.
#[derive(Debug, Default)]
struct Used {
    helpers: BTreeSet<u32>,
    maps: BTreeSet<usize>,
}

/// Functions that are reached, each after those it calls: PTX wants it so.
fn callees_first(verified: &Verified<'_>) -> Vec<usize> {
    let program = verified.program;
    let calls_of = |number: usize| {
        let function = &program.functions[number];
        let mut callees = Vec::new();
        for at in function.start..function.end {
            if let Operation::Call(Callee::Function(target)) = program.instructions[at].operation
                && verified.facts.reached[at]
                && let Some(callee) = program.functions.iter().position(|f| f.start == target)
            {
                callees.push(callee);
            }
        }
        callees
    };
    let mut order = Vec::new();
    // The verifier has made sure that calls do not go round.
    let mut pending = vec![(0, false)];
    while let Some((number, done)) = pending.pop() {
        if order.contains(&number) {
            continue;
        }
        if done {
            order.push(number);
            continue;
        }
        pending.push((number, true));
        pending.extend(calls_of(number).into_iter().map(|callee| (callee, false)));
    }
    order
}
