//! BPF objects: ELF files that clang makes, with everything resolved that can be without a kernel.

mod elf;
mod link;
mod maps;
mod section;
mod users;

pub use maps::{MapError, MapFault};
pub use section::{Attach, kernel_meant};

use thiserror::Error;

use crate::btf::{Btf, BtfError, ExtensionError};
use crate::decode::decode;
use crate::instruction::{BadInstruction, Callee, Instruction, Operation, Raw};
use crate::map::Map;

/// A BPF object file.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Programs that run on the GPU: their names start with `cuda__`, or their section says so.
    pub programs: Vec<Program>,
    /// Programs of the host (uprobe, kprobe, tracepoint …), for the eBPF back end: it loads the
    /// object itself.
    pub host: Vec<HostProgram>,
    /// In the order of the descriptors. Global data are maps, too.
    pub maps: Vec<Map>,
    /// Empty where the object was compiled without -g.
    pub btf: Btf,
}

/// A program of the GPU with every function it calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// As written: `kprobe/_Z9vectorAddPKfS0_Pf`.
    pub section: String,
    pub name: String,
    pub attach: Attach,
    /// The program, then the functions it calls.
    pub instructions: Vec<Instruction>,
    /// The program itself first, then the functions behind it.
    pub functions: Vec<Function>,
    /// By position: where the instruction came from.
    pub lines: Vec<Option<Line>>,
}

/// Where a function stands in a program's instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub start: usize,
    pub end: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostProgram {
    pub section: String,
    pub name: String,
    /// Maps that it, or a function it may call, names.
    pub maps: Vec<usize>,
}

impl Program {
    /// A program of bare instructions, for tests and tools: calls are relative, maps by their index.
    /// Every target of a call begins a function.
    pub fn from_slots(name: &str, attach: Attach, raw: &[Raw]) -> Result<Program, BadInstruction> {
        let instructions = decode(raw)?;
        let mut starts = vec![0];
        for instruction in &instructions {
            if let Operation::Call(Callee::Function(target)) = instruction.operation {
                starts.push(target);
            }
        }
        starts.sort_unstable();
        starts.dedup();
        let functions = starts
            .iter()
            .enumerate()
            .map(|(index, &start)| Function {
                name: match index {
                    0 => name.to_owned(),
                    _ => format!("function_{index}"),
                },
                start,
                end: *starts.get(index + 1).unwrap_or(&instructions.len()),
            })
            .collect();
        Ok(Program {
            section: String::new(),
            name: name.to_owned(),
            attach,
            lines: vec![None; instructions.len()],
            instructions,
            functions,
        })
    }

    /// The function an instruction is in.
    pub fn function_at(&self, position: usize) -> Option<&Function> {
        self.functions
            .iter()
            .find(|function| (function.start..function.end).contains(&position))
    }
}

/// Says by a program's name and section where it goes instead, if it does.
pub type Sections<'a> = &'a dyn Fn(&str, &str) -> Option<String>;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectError {
    #[error("not an ELF object: {0}")]
    NoElf(String),
    #[error("this is an ELF file for {0}, not a BPF object: compile it with clang -target bpf")]
    NotBpf(String),
    #[error("the object is big-endian: compile it with clang -target bpfel")]
    BigEndian,
    #[error("the object has no program (functions in sections such as kprobe/KERNEL)")]
    NoProgram,
    #[error("no program of this object runs on the GPU: their names start with cuda__ (here: {0})")]
    NoGpuProgram(String),
    #[error(transparent)]
    Maps(#[from] MapError),
    #[error("the object's BTF cannot be read: {0}")]
    Btf(#[from] BtfError),
    #[error("the object's BTF cannot be read: {0}")]
    BtfSection(object::read::Error),
    #[error("the object's BTF cannot be read: .BTF.ext: {0}")]
    Extension(#[from] ExtensionError),
    #[error("the object's BTF cannot be read: .BTF.ext: {0}")]
    ExtensionSection(object::read::Error),
    #[error("the object is too large: {0}")]
    TooLarge(String),
    #[error("program {program}: {reason}")]
    Program { program: String, reason: String },
    #[error(
        "program {program}: instruction {instruction} needs a CO-RE relocation ({what}), and there is \
         no kernel on a GPU to relocate against: read plain structs instead \
         (no vmlinux.h, no preserve_access_index)"
    )]
    Core {
        program: String,
        instruction: u32,
        what: String,
    },
}

impl Object {
    /// Reads an object file. An object whose programs all belong to the host is an error.
    pub fn parse(bytes: &[u8]) -> Result<Object, ObjectError> {
        Object::parse_with(bytes, &|_, _| None)
    }

    /// As [`Object::parse`]; `section` may say, of a program's name and the section it is in, that it
    /// belongs elsewhere.
    pub fn parse_with(bytes: &[u8], section: Sections<'_>) -> Result<Object, ObjectError> {
        elf::read(bytes, section)
    }

    pub fn program(&self, name: &str) -> Option<&Program> {
        self.programs.iter().find(|program| program.name == name)
    }
}
