//! Map definitions in BTF (`struct { __uint(type, …); … } name SEC(".maps")`).

use crate::btf::{Btf, Kind, TypeId};
use crate::map::{Map, MapKind};

/// More maps than this are not an object for a GPU.
const MOST_MAPS: usize = 64;

/// The maps of section `.maps`.
pub fn defined(btf: &Btf) -> Result<Vec<Map>, String> {
    let section = btf
        .types()
        .find(|(_, ty)| ty.name == ".maps" && matches!(ty.kind, Kind::Section(_)));
    let Some((_, section)) = section else {
        return Err("section .maps has no BTF: compile with -g".into());
    };
    let Kind::Section(variables) = &section.kind else {
        return Ok(Vec::new());
    };
    if variables.len() > MOST_MAPS {
        return Err(format!("more than {MOST_MAPS} maps"));
    }
    variables
        .iter()
        .map(|&(variable, ..)| {
            let name = btf
                .get(variable)
                .map(|ty| ty.name.clone())
                .unwrap_or_default();
            define(btf, variable, &name).map_err(|why| format!("map {name}: {why}"))
        })
        .collect()
}

fn define(btf: &Btf, variable: TypeId, name: &str) -> Result<Map, String> {
    let (_, ty) = btf.resolve(variable).ok_or("its type is missing")?;
    let Kind::Struct { members, .. } = &ty.kind else {
        return Err("its definition is no struct".into());
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
            "values" => return Err("maps of maps and of programs do not exist on a GPU".into()),
            other => return Err(format!("unknown attribute {other}")),
        }
    }
    let number = number.ok_or("its definition has no type")?;
    map.kind = MapKind::from_number(number)
        .ok_or_else(|| format!("type {number} is not known (known: {KNOWN})"))?;
    check(&map)?;
    Ok(map)
}

const KNOWN: &str = "1, 2, 1501-1504, 1512, 1513, 1527, 1600, 1601";

/// The largest a key, a value, or all values together may be.
const LARGEST_KEY: u32 = 512;
const LARGEST_VALUE: u32 = 1 << 20;
const LARGEST_MAP: u64 = 1 << 34;

fn check(map: &Map) -> Result<(), String> {
    if matches!(map.kind, MapKind::HostOnly(_)) {
        return Ok(());
    }
    let (key, value) = (map.key_size, map.value_size);
    if map.kind.is_array() && key != 4 {
        return Err(format!("an array's key is 4 bytes, not {key}"));
    }
    if matches!(map.kind, MapKind::Hash { .. }) && !(1..=LARGEST_KEY).contains(&key) {
        return Err(format!("a key of {key} bytes (1 to {LARGEST_KEY})"));
    }
    if !(1..=LARGEST_VALUE).contains(&value) {
        return Err(format!("a value of {value} bytes (1 to {LARGEST_VALUE})"));
    }
    if map.max_entries == 0 {
        return Err("max_entries is 0".into());
    }
    let total = (u64::from(key) + u64::from(value)) * u64::from(map.max_entries);
    if total > LARGEST_MAP {
        return Err(format!("{total} bytes in all (at most {LARGEST_MAP})"));
    }
    Ok(())
}

/// `__uint(name, N)` is a pointer to an array of N.
fn count(btf: &Btf, ty: TypeId) -> Result<u32, String> {
    let array = match btf.resolve(ty).map(|(_, ty)| &ty.kind) {
        Some(Kind::Pointer(to)) => btf.resolve(*to).map(|(_, ty)| &ty.kind),
        _ => None,
    };
    match array {
        Some(Kind::Array { count, .. }) => Ok(*count),
        _ => Err("an attribute is not of the form __uint(name, number)".into()),
    }
}

/// `__type(name, T)` is a pointer to T.
fn pointee(btf: &Btf, ty: TypeId) -> Result<(Option<TypeId>, u32), String> {
    let Some(Kind::Pointer(to)) = btf.resolve(ty).map(|(_, ty)| &ty.kind) else {
        return Err("an attribute is not of the form __type(name, type)".into());
    };
    let size = btf.size(*to).ok_or("a key or value type has no size")?;
    Ok((Some(*to), size))
}
