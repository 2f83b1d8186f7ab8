//! The verifier: a corpus of programs that must be refused, each for its reason, and of programs that
//! must be accepted.

mod accepted;
mod assemble;
mod budget;
mod compiled;
mod refused;
