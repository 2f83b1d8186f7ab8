//! PTX semantics against hardware: replays the answers an H200 gave to the kernels of
//! fixtures/ptx, bit for bit where PTX defines the result, within its documented error where not.

mod counts;
mod fixture;
mod generated;
mod machine;
mod refused;
mod report;
mod scalar;
mod tolerance;
