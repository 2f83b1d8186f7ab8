//! Map definitions in BTF (`struct { __uint(type, …); … } name SEC(".maps")`).

use crate::btf::{Btf, Kind, TypeId};
use crate::map::{Map, MapKind};
use thiserror::Error;

/// More maps than this are not an object for a GPU.
const MOST_MAPS: usize = 64;

/// Why an object's maps cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MapError {
    #[error("section .maps has no BTF: compile with -g")]
    NoBtf,
    #[error("more than {MOST_MAPS} maps")]
    TooMany,
    #[error("map {name}: {fault}")]
    Definition { name: String, fault: MapFault },
    #[error(
        "maps use the legacy definition (struct bpf_map_def SEC(\"maps\")): define them in section .maps with __uint \
         and __type"
    )]
    OldDefinition,
    #[error("{section}: {why}")]
    Unreadable {
        section: String,
        why: object::read::Error,
    },
    #[error("map {name} ({kind}) is used on the host and on the GPU: only arrays can be shared")]
    Shared { name: String, kind: &'static str },
}

/// What is wrong with the definition of a map.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MapFault {
    #[error("its type is missing")]
    NoType,
    #[error("its definition is not a struct")]
    NoStruct,
    #[error("its definition has no type")]
    NoKind,
    #[error("unknown map type {0} (known: {KNOWN})")]
    UnknownKind(u32),
    #[error("maps of maps and of programs do not exist on a GPU")]
    MapOfMaps,
    #[error("unknown attribute {0}")]
    UnknownAttribute(String),
    #[error("an attribute is not of the form __uint(name, number)")]
    NoNumber,
    #[error("an attribute is not of the form __type(name, type)")]
    NoPointer,
    #[error("a key or value type has no size")]
    NoSize,
    #[error("an array's key is 4 bytes, not {0}")]
    ArrayKey(u32),
    #[error("a key of {0} bytes (1 to {LARGEST_KEY})")]
    KeySize(u32),
    #[error("a value of {0} bytes (1 to {LARGEST_VALUE})")]
    ValueSize(u32),
    #[error("max_entries is 0")]
    NoEntries,
    #[error("{0} bytes in total (at most {LARGEST_MAP})")]
    TooLarge(u64),
}

/// The maps of section `.maps`.
pub fn defined(btf: &Btf) -> Result<Vec<Map>, MapError> {
    let section = btf
        .types()
        .find(|(_, ty)| ty.name == ".maps" && matches!(ty.kind, Kind::Section(_)));
    let Some((_, section)) = section else {
        return Err(MapError::NoBtf);
    };
    let Kind::Section(variables) = &section.kind else {
        return Ok(Vec::new());
    };
    if variables.len() > MOST_MAPS {
        return Err(MapError::TooMany);
    }
    variables
        .iter()
        .map(|&(variable, ..)| {
            let name = btf
                .get(variable)
                .map(|ty| ty.name.clone())
                .unwrap_or_default();
            define(btf, variable, &name).map_err(|fault| MapError::Definition { name, fault })
        })
        .collect()
}

fn define(btf: &Btf, variable: TypeId, name: &str) -> Result<Map, MapFault> {
    let (_, ty) = btf.resolve(variable).ok_or(MapFault::NoType)?;
    let Kind::Struct { members, .. } = &ty.kind else {
        return Err(MapFault::NoStruct);
    };
    let mut number = None;
    let mut map = Map {
        name: name.to_owned(),
        kind: MapKind::Ring,
        key_size: 0,
        value_size: 0,
        max_entries: 0,
        flags: 0,
        key_type: None,
        value_type: None,
        initial: None,
        read_only: false,
    };
    for member in members {
        match member.name.as_str() {
            "type" => number = Some(count(btf, member.ty)?),
            "max_entries" => map.max_entries = count(btf, member.ty)?,
            "map_flags" => map.flags = count(btf, member.ty)?,
            "key_size" => map.key_size = count(btf, member.ty)?,
            "value_size" => map.value_size = count(btf, member.ty)?,
            "key" => (map.key_type, map.key_size) = pointee(btf, member.ty)?,
            "value" => (map.value_type, map.value_size) = pointee(btf, member.ty)?,
            // Where the host pins it, how many NUMA nodes: nothing of a GPU's.
            "pinning" | "numa_node" | "map_extra" => {}
            "values" => return Err(MapFault::MapOfMaps),
            other => return Err(MapFault::UnknownAttribute(other.to_owned())),
        }
    }
    let number = number.ok_or(MapFault::NoKind)?;
    map.kind = MapKind::from_number(number).ok_or(MapFault::UnknownKind(number))?;
    check(&map)?;
    Ok(map)
}

const KNOWN: &str = "1, 2, 1501-1504, 1512, 1513, 1527, 1600, 1601";

/// The largest a key, a value, or all values together may be.
const LARGEST_KEY: u32 = 512;
const LARGEST_VALUE: u32 = 1 << 20;
const LARGEST_MAP: u64 = 1 << 34;

fn check(map: &Map) -> Result<(), MapFault> {
    if matches!(map.kind, MapKind::HostOnly(_)) {
        return Ok(());
    }
    let (key, value) = (map.key_size, map.value_size);
    if map.kind.is_array() && key != 4 {
        return Err(MapFault::ArrayKey(key));
    }
    if matches!(map.kind, MapKind::Hash { .. }) && !(1..=LARGEST_KEY).contains(&key) {
        return Err(MapFault::KeySize(key));
    }
    if !(1..=LARGEST_VALUE).contains(&value) {
        return Err(MapFault::ValueSize(value));
    }
    if map.max_entries == 0 {
        return Err(MapFault::NoEntries);
    }
    let total = (u64::from(key) + u64::from(value)) * u64::from(map.max_entries);
    if total > LARGEST_MAP {
        return Err(MapFault::TooLarge(total));
    }
    Ok(())
}

/// `__uint(name, N)` is a pointer to an array of N.
fn count(btf: &Btf, ty: TypeId) -> Result<u32, MapFault> {
    let array = match btf.resolve(ty).map(|(_, ty)| &ty.kind) {
        Some(Kind::Pointer(to)) => btf.resolve(*to).map(|(_, ty)| &ty.kind),
        _ => None,
    };
    match array {
        Some(Kind::Array { count, .. }) => Ok(*count),
        _ => Err(MapFault::NoNumber),
    }
}

/// `__type(name, T)` is a pointer to T.
fn pointee(btf: &Btf, ty: TypeId) -> Result<(Option<TypeId>, u32), MapFault> {
    let Some(Kind::Pointer(to)) = btf.resolve(ty).map(|(_, ty)| &ty.kind) else {
        return Err(MapFault::NoPointer);
    };
    let size = btf.size(*to).ok_or(MapFault::NoSize)?;
    Ok((Some(*to), size))
}
