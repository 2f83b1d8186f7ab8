//! What is known about CUDA, as tables: the functions of the driver and runtime API with their
//! parameters, enums with the names of their values, struct layouts; categories and layers by
//! rules over names; values formatted as people read them.
//!
//! The tables are generated from CUDA's headers by `crates/cuda/generate/run` and committed. A
//! function they do not know still has its name, its layer and its category.
//!
//! ```
//! use cuda::{Value, category, enum_name, function};
//!
//! let function = function("cuMemAlloc_v2").unwrap();
//! let parameter = &function.parameters[1];
//! let value = Value { kind: parameter.kind, raw: 4096 };
//! assert_eq!(format!("{}={value}", parameter.name), "bytesize=4096");
//! assert_eq!(enum_name("CUresult", 2), Some("CUDA_ERROR_OUT_OF_MEMORY"));
//! assert_eq!(category("cuMemAllocSomehow_v9"), event::Category::Memory);
//! ```

#![no_std]

pub mod attributes;
pub mod capture;
pub mod category;
pub mod cupti;
pub mod format;
pub mod gate;
#[rustfmt::skip]
mod generated;
pub mod lookup;
pub mod model;
pub mod mps;
pub mod nvtx;
pub mod operators;
pub mod originals;
pub mod select;
pub mod unions;

pub use category::category;
pub use format::{StructValue, Value};
pub use lookup::{
    enum_name, enumeration, enumerations, family, function, functions, layer, older_functions,
    public_name, result_name, runtime_function, runtime_version, structure, without_stream_suffix,
};
pub use model::{
    Direction, Enum, Extent, Field, Function, Kind, Member, Parameter, Struct, Target, Type,
};
