//! Which functions of an object are to be hooked.

use super::Hooks;
use crate::engine::entry::known;
use crate::engine::{code, forward, select};
use crate::objects::{self, Object, Symbols, file::Mapped};
use alloc::vec::Vec;

/// A function that an object has under a name.
pub(super) struct Candidate {
    pub(super) name: &'static [u8],
    pub(super) address: usize,
    pub(super) size: usize,
    /// Where the loader's symbol is; 0: the loader knows none.
    pub(super) symbol: usize,
}

impl Hooks {
    pub(super) fn collect(
        &self,
        symbols: &Symbols,
        bias: usize,
        path: &[u8],
        only_known: bool,
        found: &mut Vec<Candidate>,
    ) {
        for index in 0..symbols.count {
            let Some((symbol, name)) = symbols.get(index) else {
                continue;
            };
            if !symbol.is_defined_function() || !self.options.considers(path, name) {
                continue;
            }
            // A program's own functions may be called cudaThis and cudaThat, and nobody has the driver
            // linked in.
            if only_known && !is_of_runtime(name) {
                continue;
            }
            found.push(Candidate {
                name,
                address: bias.wrapping_add(symbol.value as usize),
                size: symbol.size as usize,
                symbol: if only_known {
                    0
                } else {
                    symbols.address_of(index)
                },
            });
        }
    }

    /// Whether an object's own copies of CUDA's functions do nothing but lead to another library's: lazy
    /// stubs, as XLA and implib.so make them. NVIDIA's own runtime has names that no stub has.
    pub(super) fn are_stubs(&self, object: &Object, file: &Mapped, found: &[Candidate]) -> bool {
        if objects::file::is_nvidias_runtime(object) {
            return false;
        }
        let parts = code::parts(object, file);
        let codes = found.iter().filter_map(|one| {
            let code = code::original(object, file, &parts, (one.address, one.size));
            Some((one.address, code.ok()?))
        });
        forward::most_forward(codes)
    }
}

/// Whether this is a function of CUDA's runtime.
fn is_of_runtime(name: &[u8]) -> bool {
    let text = core::str::from_utf8(name).unwrap_or("");
    select::is_cuda_name(name)
        && cuda::layer(text) == event::Layer::Runtime
        && known(name).0.is_some()
}
