//! PyTorch's operators: spans of the layer `framework`. The library that records calls (`preload`) registers PyTorch's own
//! callbacks in the program and writes operators into the same rings; `call::assemble` makes spans of them.

mod source;

pub use source::TORCH;
