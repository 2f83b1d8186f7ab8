//! Putting a program in memory: initial values, relocations, and the tables of constants.

use std::sync::Arc;

use crate::alu::{Lanes, WARP};
use crate::program::code::{Constant, function_address};
use crate::program::{GlobalSpace, Program, Target};

/// A program whose variables have addresses.
pub struct Loaded {
    pub(super) program: Arc<Program>,
    addresses: Vec<u64>,
    /// Constants of each function, as lanes; a kernel picks one for each function it reaches.
    tables: Vec<Vec<Lanes>>,
    /// For each kernel: table of each function (by index), for the functions it reaches.
    chosen: Vec<Vec<u32>>,
}

const NO_TABLE: u32 = u32::MAX;

impl Loaded {
    /// Writes initial bytes and relocations to the given addresses, one for each of
    /// [`Program::globals`]. The caller has allocated them, with the size and alignment asked for.
    pub fn place(program: Arc<Program>, addresses: Vec<u64>) -> Loaded {
        assert_eq!(addresses.len(), program.globals().len());
        let mut loaded = Loaded {
            program,
            addresses,
            tables: Vec::new(),
            chosen: Vec::new(),
        };
        loaded.initialize();
        loaded.build_tables();
        loaded
    }

    /// Address of each of [`Program::globals`].
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// Writes the initial values again.
    pub fn initialize(&self) {
        for (global, &address) in self.program.globals().iter().zip(&self.addresses) {
            let mut bytes = global.init.clone();
            for relocation in &global.relocations {
                let target = match relocation.target {
                    Target::Global(index) => self.addresses[index],
                    Target::Function(index) => function_address(index),
                };
                let mut value = target.wrapping_add_signed(relocation.addend);
                if let Some(mask) = relocation.mask {
                    value = (value & mask) >> mask.trailing_zeros().min(63);
                }
                let at = relocation.offset as usize;
                let size = usize::from(relocation.size);
                if let Some(slot) = bytes.get_mut(at..at + size) {
                    slot.copy_from_slice(&value.to_le_bytes()[..size]);
                }
            }
            let rest = global.size.saturating_sub(bytes.len() as u64) as usize;
            let length = bytes.len().min(global.size as usize);
            // SAFETY: the caller allocated `size` bytes here for this variable.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, length);
                std::ptr::write_bytes((address as *mut u8).add(length), 0, rest);
            }
        }
    }

    fn build_tables(&mut self) {
        let program = self.program.clone();
        let functions = program.functions.len();
        // One table serves all kernels, unless it holds shared addresses, which differ by kernel.
        let mut common = vec![NO_TABLE; functions];
        for kernel in program.kernels() {
            let mut chosen = vec![NO_TABLE; functions];
            for &function in &kernel.reaches {
                let constants = &program.functions[function].constants;
                let is_own = constants
                    .iter()
                    .any(|constant| matches!(constant, Constant::Shared { .. }));
                if !is_own && common[function] != NO_TABLE {
                    chosen[function] = common[function];
                    continue;
                }
                let table = constants
                    .iter()
                    .map(|constant| [self.value(*constant, &kernel.shared_offsets); WARP])
                    .collect();
                chosen[function] = self.tables.len() as u32;
                self.tables.push(table);
                if !is_own {
                    common[function] = chosen[function];
                }
            }
            self.chosen.push(chosen);
        }
    }

    fn value(&self, constant: Constant, shared: &[(usize, u32)]) -> u64 {
        match constant {
            Constant::Bits(bits) => bits,
            Constant::Global { index, addend } => self.addresses[index].wrapping_add_signed(addend),
            Constant::Shared { index, addend } => shared
                .iter()
                .find(|(variable, _)| *variable == index)
                .map_or(0, |(_, offset)| u64::from(*offset))
                .wrapping_add_signed(addend),
            Constant::Function(index) => function_address(index),
        }
    }

    /// The constants of a function in a kernel; None if the kernel was not known to reach it.
    pub(super) fn constants(&self, kernel: usize, function: usize) -> Option<&[Lanes]> {
        let table = *self.chosen.get(kernel)?.get(function)?;
        self.tables.get(table as usize).map(Vec::as_slice)
    }

    pub(super) fn is_const(&self, address: u64) -> bool {
        self.program
            .globals()
            .iter()
            .zip(&self.addresses)
            .any(|(global, &start)| {
                global.space == GlobalSpace::Const
                    && address >= start
                    && address - start < global.size
            })
    }
}
