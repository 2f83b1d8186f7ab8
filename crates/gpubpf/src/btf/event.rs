//! Which struct a ring's records are.
//!
//! BPF objects do not say what type a pointer given to perf_event_output has, so it is found by, in
//! this order:
//!
//! 1. the value type of the ring's definition, if it has the record's size;
//! 2. the only struct of that size whose name has "event", "record" or "data" in it (whole objects
//!    keep the types of their local variables only if something else names them, so programs put
//!    `const struct event *unused __attribute__((unused))` beside their maps, as is customary);
//! 3. the only struct of that size at all, the context's types of the kernel and maps' definitions aside.

use super::{Btf, Kind, TypeId};

/// A struct found for records, and by which of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType {
    pub ty: TypeId,
    pub name: String,
    pub why: &'static str,
}

/// The struct of records of `bytes` bytes in a ring whose definition names `value_type`.
pub fn event_type(btf: &Btf, value_type: Option<TypeId>, bytes: u32) -> Option<EventType> {
    let found = |ty: TypeId, why| EventType {
        ty,
        name: btf.get(ty).map(|ty| ty.name.clone()).unwrap_or_default(),
        why,
    };
    if let Some(ty) = value_type
        && let Some((resolved, shape)) = btf.resolve(ty)
        && matches!(shape.kind, Kind::Struct { .. })
        && btf.size(ty) == Some(bytes)
    {
        return Some(found(resolved, "the ring's value type"));
    }
    let maps = map_definitions(btf);
    let of_size: Vec<TypeId> = btf
        .types()
        .filter(|(id, _)| !maps.contains(id))
        .filter(|(_, ty)| match &ty.kind {
            Kind::Struct {
                bytes: size,
                union: false,
                members,
            } => *size == bytes && !members.is_empty() && ty.name != "pt_regs",
            _ => false,
        })
        .map(|(id, _)| id)
        .collect();
    let named: Vec<TypeId> = of_size
        .iter()
        .copied()
        .filter(|&id| is_event_name(btf, id))
        .collect();
    match (named.as_slice(), of_size.as_slice()) {
        ([only], _) => Some(found(*only, "the only event struct of this size")),
        ([], [only]) => Some(found(*only, "the only struct of this size")),
        _ => None,
    }
}

/// The structs that define maps: they are no records.
fn map_definitions(btf: &Btf) -> Vec<TypeId> {
    let mut maps = Vec::new();
    for (_, ty) in btf.types() {
        if let Kind::Section(variables) = &ty.kind
            && ty.name == ".maps"
        {
            let resolved = variables.iter().filter_map(|(ty, ..)| btf.resolve(*ty));
            maps.extend(resolved.map(|(id, _)| id));
        }
    }
    maps
}

/// Whether the struct's name, or a typedef's for it, sounds like a record.
fn is_event_name(btf: &Btf, id: TypeId) -> bool {
    let sounds = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["event", "record", "data"]
            .iter()
            .any(|word| name.contains(word))
    };
    btf.get(id).is_some_and(|ty| sounds(&ty.name))
        || btf
            .types()
            .any(|(_, ty)| matches!(ty.kind, Kind::Typedef(to) if to == id) && sounds(&ty.name))
}
