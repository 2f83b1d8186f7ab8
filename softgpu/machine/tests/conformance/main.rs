//! PTX semantics against hardware: replays the answers an H200 gave to the kernels of
//! fixtures/ptx, bit for bit where PTX defines the result, within a measured distance where not. And
//! nothing loads that has no answer there: `every_access`, and `alu/coverage_tests.rs` in the library.

mod counts;
mod documented;
mod every_access;
mod fixture;
mod format;
mod generated;
mod machine;
mod refused;
mod report;
mod scalar;
mod tolerance;
