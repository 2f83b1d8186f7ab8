//! What a call that succeeded meant: memory came or went, bytes moved, kernels were launched.

mod launch;
mod memory;
mod transfer;

use super::role::Role;
use super::state::ProcessState;
use event::{Arg, Event, Name, Value, What};

pub use launch::{kernel_handles, launch_arguments, node_kernel};

/// Nothing where the call did nothing, or where what was captured does not say what it did.
/// `kernels` are the names of those that a launch names, in order.
pub fn of(
    role: Role,
    call: &Event,
    kernels: &[Option<Name>],
    process: &mut ProcessState,
) -> Vec<What> {
    match role {
        Role::None => Vec::new(),
        Role::Allocate(space) => one(memory::allocated(call, space, process)),
        Role::Free => one(memory::freed(call, process)),
        Role::Physical(step) => memory::physical(step, call, process),
        Role::Foreign(step) => {
            memory::foreign(step, call, process);
            Vec::new()
        }
        Role::Transfer(route) => transfer::moved(call, route, process),
        Role::Launch(form) => launch::launched(call, form, kernels, process),
    }
}

fn one(what: Option<event::Memory>) -> Vec<What> {
    what.map(What::Memory).into_iter().collect()
}

/// The first of these parameters that the call has.
fn first(call: &Event, names: &[&str]) -> Option<u64> {
    names
        .iter()
        .find_map(|name| call.arg(name))
        .and_then(Value::as_u64)
}

fn fields<'a>(call: &'a Event, name: &str) -> Option<&'a [Arg]> {
    map(call.arg(name)?)
}

fn list<'a>(call: &'a Event, name: &str) -> Option<&'a [Value]> {
    match call.arg(name)? {
        Value::List(list) => Some(list),
        _ => None,
    }
}

fn map(value: &Value) -> Option<&[Arg]> {
    match value {
        Value::Map(fields) => Some(fields),
        _ => None,
    }
}

fn field<'a>(fields: &'a [Arg], name: &str) -> Option<&'a Value> {
    let found = fields.iter().find(|field| &*field.name == name)?;
    Some(&found.value)
}

fn number(fields: &[Arg], name: &str) -> Option<u64> {
    field(fields, name)?.as_u64()
}

fn product(factors: &[u64]) -> Option<u64> {
    factors
        .iter()
        .try_fold(1u64, |product, factor| product.checked_mul(*factor))
}
