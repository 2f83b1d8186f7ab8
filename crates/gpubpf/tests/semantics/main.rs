//! eBPF semantics: random programs, translated and run on softgpu, against a plain interpreter that
//! shares nothing with the translation, not even the decoder.

mod assembler;
mod batch;
mod budget;
mod compiled;
mod device;
mod generate;
mod kept;
mod mutated;
mod random;
mod reference;
mod ring;

mod write;
