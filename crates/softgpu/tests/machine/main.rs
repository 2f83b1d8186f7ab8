//! Tests of the machine: kernels run, and their results are compared with a reference.

mod compiled;
mod support;
