//! From PTX text to decoded code: names resolved, layouts fixed, one compact instruction array a
//! function. Nothing here runs or knows addresses; [`crate::machine`] does both.

pub mod code;
mod compact;
mod decode;
mod layout;
mod link;
mod names;

use code::Function;
use thiserror::Error;

/// Why a PTX text cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message} (line {line}{})", function.as_ref().map(|name| format!(" of {name}")).unwrap_or_default())]
pub struct BuildError {
    /// 1-based line of the PTX text.
    pub line: u32,
    /// The kernel or function that the line is in, in words.
    pub function: Option<String>,
    pub message: String,
}

impl BuildError {
    pub(crate) fn new(line: u32, message: impl Into<String>) -> BuildError {
        BuildError {
            line,
            function: None,
            message: message.into(),
        }
    }
}

/// A loaded module (or several linked): ready to be placed in memory.
pub struct Program {
    pub(crate) functions: Vec<Function>,
    kernels: Vec<Kernel>,
    globals: Vec<Global>,
}

impl Program {
    /// One PTX text.
    pub fn build(ptx_text: &str) -> Result<Program, BuildError> {
        Program::link(&[ptx_text])
    }

    /// Several PTX texts, `.extern` names resolved across them.
    pub fn link(modules: &[&str]) -> Result<Program, BuildError> {
        link::link(modules)
    }

    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// Index of the kernel with this name.
    pub fn kernel(&self, name: &str) -> Option<usize> {
        self.kernels.iter().position(|kernel| kernel.name == name)
    }

    pub fn globals(&self) -> &[Global] {
        &self.globals
    }
}

/// An entry function, as a launch sees it.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub name: String,
    pub params: Vec<Param>,
    /// Bytes of the whole parameter block.
    pub param_size: usize,
    pub static_shared: usize,
    /// Bytes of local memory a thread needs in the entry function itself.
    pub local_size: usize,
    /// Registers that are live at once, in 32-bit units.
    pub register_count: u32,
    /// `.maxntid` as a product, or `.reqntid`'s.
    pub max_threads: Option<u32>,
    pub required_block: Option<[u32; 3]>,
    pub max_block: Option<[u32; 3]>,
    /// `.reqnctapercluster`.
    pub required_cluster: Option<[u32; 3]>,
    /// `.minnctapersm`.
    pub min_blocks_per_sm: Option<u32>,
    pub(crate) function: usize,
    /// Where each shared variable is, for those this kernel can reach.
    pub(crate) shared_offsets: Vec<(usize, u32)>,
    /// Functions this kernel can reach, itself first.
    pub(crate) reaches: Vec<usize>,
}

/// One kernel parameter in the parameter block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    pub offset: usize,
    pub size: usize,
    pub align: usize,
}

/// State space of a module variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GlobalSpace {
    Const,
    Global,
}

/// A module variable in `.global` or `.const`.
#[derive(Debug, Clone)]
pub struct Global {
    pub name: String,
    pub space: GlobalSpace,
    pub size: u64,
    pub align: u64,
    /// Initial bytes; shorter than `size` means zeros follow.
    pub init: Vec<u8>,
    /// Reachable by name from the host.
    pub visible: bool,
    pub managed: bool,
    pub relocations: Vec<Relocation>,
}

/// Bytes of an initializer that are known only once the program is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocation {
    /// Where in the variable.
    pub offset: u64,
    /// How many bytes to write.
    pub size: u8,
    pub target: Target,
    pub addend: i64,
    /// Keep only the bits of the mask, moved to bit 0 (`0xFF00(name)`).
    pub mask: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Global(usize),
    Function(usize),
}

/// A `.shared` variable; its offset depends on the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedVariable {
    pub size: u64,
    pub align: u64,
    /// `.extern .shared x[]`: begins where the static ones end.
    pub dynamic: bool,
}
