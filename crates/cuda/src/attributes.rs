//! Attributes: calls that get or set one value of many behind a `void*`, where another argument
//! says which, and with that of which type it is.

use crate::capture::When;
use crate::lookup::family;
use crate::model::{Enum, Function};

/// What an attribute's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// 0 or 1: however many bytes were written, the first tells.
    Flag,
    Signed32,
    Unsigned64,
    Pointer,
    /// 32 bits, a value of this enum.
    Enum(&'static str),
    /// Something else: its bytes are not shown.
    Other,
}

struct Row {
    /// The function's name without its version.
    family: &'static str,
    /// The parameter that points to the value.
    value: &'static str,
    /// The parameter that says which.
    key: &'static str,
    when: When,
}

const fn row(family: &'static str, value: &'static str, key: &'static str, when: When) -> Row {
    Row {
        family,
        value,
        key,
        when,
    }
}

/// The same with an array of pointers to values, and an array of which they are.
const LISTS: &[Row] = &[
    row("cuMemRangeGetAttributes", "data", "attributes", When::Exit),
    row("cuPointerGetAttributes", "data", "attributes", When::Exit),
    row(
        "cudaMemRangeGetAttributes",
        "data",
        "attributes",
        When::Exit,
    ),
];

const ROWS: &[Row] = &[
    row("cuDeviceGetGraphMemAttribute", "value", "attr", When::Exit),
    row("cuDeviceSetGraphMemAttribute", "value", "attr", When::Enter),
    row("cuMemPoolGetAttribute", "value", "attr", When::Exit),
    row("cuMemPoolSetAttribute", "value", "attr", When::Enter),
    row("cuMemRangeGetAttribute", "data", "attribute", When::Exit),
    row("cuPointerGetAttribute", "data", "attribute", When::Exit),
    row("cuPointerSetAttribute", "value", "attribute", When::Enter),
    row(
        "cudaDeviceGetGraphMemAttribute",
        "value",
        "attr",
        When::Exit,
    ),
    row(
        "cudaDeviceSetGraphMemAttribute",
        "value",
        "attr",
        When::Enter,
    ),
    row("cudaMemPoolGetAttribute", "value", "attr", When::Exit),
    row("cudaMemPoolSetAttribute", "value", "attr", When::Enter),
    row("cudaMemRangeGetAttribute", "data", "attribute", When::Exit),
];

fn find(rows: &'static [Row], function: &Function) -> Option<&'static Row> {
    let name = family(function.name);
    let at = rows.binary_search_by(|row| row.family.cmp(name)).ok()?;
    rows.get(at)
}

fn key(rows: &'static [Row], function: &Function, parameter: usize) -> Option<usize> {
    let row = find(rows, function)?;
    let name = function.parameters.get(parameter)?.name;
    let place = |name: &str| {
        function
            .parameters
            .iter()
            .position(|each| each.name == name)
    };
    (name == row.value).then(|| place(row.key)).flatten()
}

/// If this parameter points to an attribute's value: the parameter that says which it is.
pub fn of_value(function: &Function, parameter: usize) -> Option<usize> {
    key(ROWS, function, parameter)
}

/// If this parameter is an array of pointers to values: the array that says which they are.
pub fn of_values(function: &Function, parameter: usize) -> Option<usize> {
    key(LISTS, function, parameter)
}

/// When the value is there.
pub fn when(function: &Function) -> When {
    find(ROWS, function).map_or(When::Exit, |row| row.when)
}

/// What the value of an attribute is, by the attribute's enum and number.
pub fn held(key: &Enum, value: u32) -> Held {
    let Some(name) = key.name_of(value) else {
        return Held::Other;
    };
    let Some((prefix, rest)) = split(name) else {
        return Held::Other;
    };
    held_by_name(prefix, rest)
}

fn split(name: &str) -> Option<(Set, &str)> {
    let starts = [
        ("CU_POINTER_ATTRIBUTE_", Set::Pointer),
        ("CU_MEMPOOL_ATTR_", Set::Pool),
        ("cudaMemPool", Set::Pool),
        ("cudaMemPoolAttr", Set::Pool),
        ("CU_MEM_RANGE_ATTRIBUTE_", Set::Range),
        ("cudaMemRangeAttribute", Set::Range),
        ("CU_GRAPH_MEM_ATTR_", Set::Graph),
        ("cudaGraphMemAttr", Set::Graph),
    ];
    let mut found = None;
    for (start, set) in starts {
        if let Some(rest) = name.strip_prefix(start) {
            found = Some((set, rest));
        }
    }
    found
}

#[derive(Clone, Copy)]
enum Set {
    Pointer,
    Pool,
    Range,
    Graph,
}

fn held_by_name(set: Set, name: &str) -> Held {
    match (set, name) {
        // Bytes in use, reserved, at most; the threshold that is kept.
        (Set::Graph, _) => Held::Unsigned64,
        (Set::Pool, "REUSE_FOLLOW_EVENT_DEPENDENCIES" | "ReuseFollowEventDependencies")
        | (Set::Pool, "REUSE_ALLOW_OPPORTUNISTIC" | "ReuseAllowOpportunistic")
        | (Set::Pool, "REUSE_ALLOW_INTERNAL_DEPENDENCIES" | "ReuseAllowInternalDependencies") => {
            Held::Signed32
        }
        (Set::Pool, _) => Held::Unsigned64,
        (Set::Pointer, "CONTEXT" | "DEVICE_POINTER" | "HOST_POINTER" | "RANGE_START_ADDR") => {
            Held::Pointer
        }
        (Set::Pointer, "MEMPOOL_HANDLE") => Held::Pointer,
        (Set::Pointer, "MEMORY_TYPE") => Held::Enum("CUmemorytype"),
        (Set::Pointer, "ACCESS_FLAGS") => Held::Enum("CUmemAccess_flags"),
        (Set::Pointer, "BUFFER_ID" | "RANGE_SIZE" | "MAPPING_SIZE" | "ALLOWED_HANDLE_TYPES") => {
            Held::Unsigned64
        }
        (Set::Pointer, "MAPPING_BASE_ADDR") => Held::Pointer,
        (Set::Pointer, "MEMORY_BLOCK_ID") => Held::Unsigned64,
        (Set::Pointer, "P2P_TOKENS") => Held::Other,
        (Set::Pointer, "DEVICE_ORDINAL") => Held::Signed32,
        (Set::Pointer, _) => Held::Flag,
        (Set::Range, "READ_MOSTLY" | "ReadMostly") => Held::Signed32,
        (Set::Range, "PREFERRED_LOCATION" | "PreferredLocation") => Held::Signed32,
        (Set::Range, "LAST_PREFETCH_LOCATION" | "LastPrefetchLocation") => Held::Signed32,
        // Where a location is given as a kind and a number apart from it.
        (Set::Range, "PREFERRED_LOCATION_TYPE" | "LAST_PREFETCH_LOCATION_TYPE") => {
            Held::Enum("CUmemLocationType")
        }
        (Set::Range, "PreferredLocationType" | "LastPrefetchLocationType") => {
            Held::Enum("cudaMemLocationType")
        }
        (Set::Range, "PREFERRED_LOCATION_ID" | "LAST_PREFETCH_LOCATION_ID") => Held::Signed32,
        (Set::Range, "PreferredLocationId" | "LastPrefetchLocationId") => Held::Signed32,
        // Which devices may access: as many numbers as there is room for.
        (Set::Range, _) => Held::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::{enumeration, functions};
    use crate::model::Kind;

    #[test]
    fn rows_are_sorted_and_name_real_parameters() {
        for rows in [ROWS, LISTS] {
            assert!(rows.windows(2).all(|pair| pair[0].family < pair[1].family));
        }
        for row in LISTS {
            let function = functions().iter().find(|one| one.name == row.family);
            let keys = (0..4).filter_map(|index| of_values(function?, index));
            assert_eq!(keys.count(), 1, "{}", row.family);
        }
        for row in ROWS {
            let function = functions()
                .iter()
                .find(|function| function.name == row.family)
                .unwrap_or_else(|| panic!("{}", row.family));
            let value = |each: &&crate::Parameter| each.name == row.value;
            let place = function.parameters.iter().position(|each| value(&each));
            let key = of_value(function, place.expect("a value")).expect("a key");
            let names = function.parameters[key].kind.enumeration();
            assert_eq!(
                function.parameters[key].kind.kind,
                Kind::Enum,
                "{}",
                row.family
            );
            assert!(names.is_some());
        }
    }

    #[test]
    fn every_enum_that_is_named_exists() {
        for name in [
            "CUpointer_attribute",
            "CUmemPool_attribute",
            "cudaMemPoolAttr",
        ]
        .into_iter()
        .chain(["CUmem_range_attribute", "cudaMemRangeAttribute"])
        .chain(["CUgraphMem_attribute", "cudaGraphMemAttributeType"])
        {
            let names = enumeration(name).unwrap_or_else(|| panic!("{name}"));
            for member in names.members {
                if let Held::Enum(held) = held(names, member.value) {
                    assert!(enumeration(held).is_some(), "{held}");
                }
            }
        }
    }
}
