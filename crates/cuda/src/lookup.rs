//! Finding rows by name, and names by value.

use event::Layer;

use crate::generated::{enums, functions, runtime12, structs};
use crate::model::{Enum, Function, Struct};

/// Every function known, by name.
pub fn functions() -> &'static [Function] {
    &functions::FUNCTIONS
}

/// Functions of older runtimes that are gone or differ from [`functions`], by name.
pub fn older_functions() -> &'static [Function] {
    &runtime12::functions::FUNCTIONS
}

/// A function by its exported name; the per-thread variants are found as the plain ones.
/// Where runtimes differ this is the newest: see [`runtime_function`].
pub fn function(name: &str) -> Option<&'static Function> {
    find(functions(), name).or_else(|| find(older_functions(), name))
}

/// A function as the given major version of the runtime has it: in 13 some names took over the
/// signatures of their `_v2`.
pub fn runtime_function(major: u32, name: &str) -> Option<&'static Function> {
    let older = if major <= 12 {
        find(older_functions(), name)
    } else {
        None
    };
    older.or_else(|| function(name))
}

/// The major version in a runtime library's path; none for other libraries and for programs that
/// have the runtime in themselves.
pub fn runtime_version(path: &str) -> Option<u32> {
    let (_, version) = path.rsplit_once("libcudart.so.")?;
    version.split('.').next()?.parse().ok()
}

fn find(table: &'static [Function], name: &str) -> Option<&'static Function> {
    let name = without_stream_suffix(name);
    let at = table.binary_search_by(|row| row.name.cmp(name)).ok()?;
    table.get(at)
}

/// An enum by its typedef name or its tag: `CUresult`, `cudaError`, `cudaError_t`.
pub fn enumeration(name: &str) -> Option<&'static Enum> {
    let at = enums::INDEX.binary_search_by(|row| row.0.cmp(name)).ok()?;
    enums::INDEX.get(at).map(|row| row.1)
}

/// All enums, those with two names twice.
pub fn enumerations() -> impl Iterator<Item = &'static Enum> {
    enums::INDEX.iter().map(|row| row.1)
}

/// A struct or union by its typedef name or its tag.
pub fn structure(name: &str) -> Option<&'static Struct> {
    let at = structs::INDEX
        .binary_search_by(|row| row.0.cmp(name))
        .ok()?;
    structs::INDEX.get(at).map(|row| row.1)
}

/// The name of an enum's value: `enum_name("CUresult", 2)` is `CUDA_ERROR_OUT_OF_MEMORY`.
pub fn enum_name(enumeration_name: &str, value: i64) -> Option<&'static str> {
    let value = u32::try_from(value)
        .or_else(|_| i32::try_from(value).map(i32::cast_unsigned))
        .ok()?;
    enumeration(enumeration_name)?.name_of(value)
}

/// The name of a status, where the layer's statuses have names here.
pub fn result_name(layer: Layer, status: i64) -> Option<&'static str> {
    match layer {
        Layer::Driver => enum_name("CUresult", status),
        Layer::Runtime => enum_name("cudaError", status),
        _ => None,
    }
}

/// Which API a function belongs to, by its name alone: true of functions no table knows.
pub fn layer(name: &str) -> Layer {
    let after = |prefix: &str| {
        name.strip_prefix(prefix)
            .and_then(|rest| rest.chars().next())
    };
    if name.starts_with("frameworkOperator") {
        Layer::Framework
    } else if after("__cuda").or(after("cuda")).is_some() {
        Layer::Runtime
    } else if after("cu").is_some_and(|first| first.is_ascii_uppercase()) {
        // cuBLAS and its kin are written in lower case (cublasCreate): no clash.
        Layer::Driver
    } else {
        Layer::Library
    }
}

/// The name without `_ptds` and `_ptsz`: these variants differ in the default stream only.
pub fn without_stream_suffix(name: &str) -> &str {
    name.strip_suffix("_ptds")
        .or_else(|| name.strip_suffix("_ptsz"))
        .unwrap_or(name)
}

/// What calls of a function are asked for by: its family, and `cudaLaunchKernel` for the
/// `__cudaLaunchKernel` that nvcc makes of a launch.
pub fn public_name(name: &str) -> &str {
    let name = family(name);
    match name.strip_prefix("__") {
        Some(public @ ("cudaLaunchKernel" | "cudaGetKernel")) => public,
        _ => name,
    }
}

/// The name a programmer writes, without suffixes for the stream and the version:
/// `cuMemAlloc` for `cuMemAlloc_v2`.
pub fn family(name: &str) -> &str {
    let name = without_stream_suffix(name);
    match name.rsplit_once("_v") {
        Some((front, version))
            if !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit()) =>
        {
            front
        }
        _ => name,
    }
}
