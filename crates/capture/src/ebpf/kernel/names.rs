//! Names of addresses in stacks that the kernel walked: its own functions, and the program's.

use crate::kernel::Functions;
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use event::{Frame, Name};

/// Finds names; made when the first stack is asked for.
pub struct Names {
    /// The kernel's functions by their addresses.
    kernel: Vec<(u64, Name, Option<Name>)>,
    symbolizer: Symbolizer,
}

/// Functions are not longer than this: an address further behind is in something nameless.
const LONGEST: u64 = 1 << 20;

impl Names {
    pub fn new(functions: &Functions) -> Self {
        let mut kernel: Vec<(u64, Name, Option<Name>)> = (functions.all().iter())
            .filter(|function| function.address != 0)
            .map(|function| {
                let module = function.module.as_deref().map(Into::into);
                (function.address, (&*function.name).into(), module)
            })
            .collect();
        kernel.sort_by_key(|(address, ..)| *address);
        Names {
            kernel,
            symbolizer: Symbolizer::builder().build(),
        }
    }

    pub fn kernel(&self, address: u64) -> Frame {
        let after = self.kernel.partition_point(|(start, ..)| *start <= address);
        let found = after.checked_sub(1).and_then(|at| self.kernel.get(at));
        match found.filter(|(start, ..)| address - start < LONGEST) {
            Some((start, name, module)) => Frame {
                address,
                symbol: Some(name.clone()),
                offset: Some(address - start),
                module: Some(module.clone().unwrap_or_else(|| "vmlinux".into())),
                ..Frame::default()
            },
            None => Frame {
                address,
                ..Frame::default()
            },
        }
    }

    /// Of a program that still runs.
    pub fn user(&self, process: u32, address: u64) -> Frame {
        let source = Source::Process(Process::new(process.into()));
        let found = (self.symbolizer).symbolize_single(&source, Input::AbsAddr(address));
        match found {
            Ok(Symbolized::Sym(symbol)) => Frame {
                address,
                symbol: Some(symbol.name.as_ref().into()),
                offset: Some(symbol.offset as u64),
                module: (symbol.module.as_deref()).map(|path| path.to_string_lossy().into()),
                ..Frame::default()
            },
            _ => Frame {
                address,
                ..Frame::default()
            },
        }
    }
}
