//! Tests of the machine: kernels run, and their results are compared with a reference.

mod barriers;
mod compiled;
mod control;
mod faults;
mod hostile;
mod library;
mod memory;
mod orders;
mod support;
mod vectors;
mod warps;
