//! BPF instructions, decoded: the whole ISA v4, and what is not in it as an error with words.
//!
//! Positions: a [`Code`] is a list of instructions; jump targets are positions in that list. An
//! instruction's `slot` is its number as disassemblers count it (ld_imm64 takes two).

use thiserror::Error;

/// r0 … r10.
pub type Register = u8;

/// The frame pointer.
pub const FRAME: Register = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Its number in 8-byte units, from the program's start.
    pub slot: u32,
    pub operation: Operation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Alu {
        operator: Alu,
        wide: bool,
        dst: Register,
        src: Source,
    },
    /// Sign-extends the low `bits` of `src`.
    MoveSigned {
        wide: bool,
        bits: u8,
        dst: Register,
        src: Register,
    },
    Negate {
        wide: bool,
        dst: Register,
    },
    Swap {
        order: Order,
        bits: u8,
        dst: Register,
    },
    Constant {
        dst: Register,
        value: Wide,
    },
    Load {
        dst: Register,
        base: Register,
        offset: i16,
        bytes: u8,
        signed: bool,
    },
    Store {
        base: Register,
        offset: i16,
        bytes: u8,
        value: Source,
    },
    Atomic {
        operator: Atomic,
        /// The old value goes to `src` (to r0 for a compare-and-exchange).
        fetch: bool,
        bytes: u8,
        base: Register,
        offset: i16,
        src: Register,
    },
    Jump {
        target: usize,
    },
    Branch {
        condition: Condition,
        wide: bool,
        dst: Register,
        src: Source,
        target: usize,
    },
    Call(Callee),
    Exit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Register(Register),
    /// Sign-extended where the operation is 64 bits wide.
    Immediate(i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alu {
    Add,
    Sub,
    Mul,
    Div,
    SignedDiv,
    Mod,
    SignedMod,
    Or,
    And,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    Move,
}

/// How bytes are swapped; BPF programs here are little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Truncates only.
    ToLittle,
    ToBig,
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wide {
    Number(u64),
    /// A map by its index in the object.
    Map(usize),
    /// An address inside a map's only value: global data.
    MapValue {
        map: usize,
        offset: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomic {
    Add,
    Or,
    And,
    Xor,
    Exchange,
    CompareExchange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    SignedGreater,
    SignedGreaterEqual,
    SignedLess,
    SignedLessEqual,
    /// Any common bit.
    Set,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callee {
    Helper(u32),
    /// The position of a function's first instruction.
    Function(usize),
}

/// Why bytes are no program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("instruction {slot}: {reason}")]
pub struct BadInstruction {
    pub slot: u32,
    pub reason: Undecodable,
}

/// Why a slot is no instruction that runs on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Undecodable {
    #[error("no register r{0}")]
    Register(u8),
    #[error("load of unknown mode {0}")]
    LoadMode(u8),
    #[error("store of unknown mode {0}")]
    StoreMode(u8),
    #[error("packet access (BPF_ABS, BPF_IND): there are no packets on a GPU")]
    PacketAccess,
    #[error("a 16-byte constant is cut short")]
    CutConstant,
    #[error("the second half of a 16-byte constant is not empty")]
    FullSecondHalf,
    #[error("a kernel variable (ksym): there is no kernel on a GPU")]
    KernelVariable,
    #[error("the address of a function (callbacks are not supported)")]
    FunctionAddress,
    #[error("a constant of unknown kind {0}")]
    ConstantKind(u8),
    #[error("jump to {0}, which is not an instruction")]
    JumpTarget(i64),
    #[error("unknown jump {0:#04x}")]
    Jump(u8),
    #[error("may_goto")]
    MayGoto,
    #[error("call of a register")]
    RegisterCall,
    #[error("call of a kernel function (kfunc)")]
    KernelFunction,
    #[error("call of unknown kind {0}")]
    CallKind(u8),
    #[error("r10, the frame pointer, is read-only")]
    FramePointer,
    #[error("an atomic of {0} bytes")]
    AtomicSize(u8),
    #[error("unknown atomic {0:#x}")]
    Atomic(i32),
    #[error("a sign-extending move of a constant")]
    SignedConstant,
    #[error("a cast between address spaces (arenas)")]
    AddressSpace,
    #[error("unknown arithmetic {operator:#x}, offset {offset}")]
    Arithmetic { operator: u8, offset: i16 },
    #[error("division by the constant 0")]
    DivisionByZero,
    #[error("shift of {width} bits by {by}")]
    Shift { width: i16, by: i32 },
    #[error("unknown byte swap")]
    Swap,
    #[error("byte swap of {0} bits")]
    SwapWidth(i32),
}

/// The eight bytes of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Raw {
    pub code: u8,
    pub dst: u8,
    pub src: u8,
    pub offset: i16,
    pub immediate: i32,
}

impl Raw {
    pub fn read(bytes: [u8; 8]) -> Raw {
        let [code, registers, o0, o1, i0, i1, i2, i3] = bytes;
        Raw {
            code,
            dst: registers & 15,
            src: registers >> 4,
            offset: i16::from_le_bytes([o0, o1]),
            immediate: i32::from_le_bytes([i0, i1, i2, i3]),
        }
    }

    pub fn bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[0] = self.code;
        bytes[1] = self.dst | self.src << 4;
        bytes[2..4].copy_from_slice(&self.offset.to_le_bytes());
        bytes[4..].copy_from_slice(&self.immediate.to_le_bytes());
        bytes
    }

    /// The first half of a 16-byte constant.
    pub fn is_wide(self) -> bool {
        self.code == LD_IMM64
    }

    /// A call of a function of the same program.
    pub fn is_local_call(self) -> bool {
        self.code == 0x85 && self.src == 1
    }
}

pub const LD_IMM64: u8 = 0x18;
/// `src` of a 16-byte constant that names a map.
pub const PSEUDO_MAP: u8 = 1;
/// … that is an address inside a map's value.
pub const PSEUDO_MAP_VALUE: u8 = 2;

impl Operation {
    /// Where control may go besides the next instruction.
    pub fn target(&self) -> Option<usize> {
        match *self {
            Operation::Jump { target } | Operation::Branch { target, .. } => Some(target),
            _ => None,
        }
    }

    /// Whether control never reaches the next instruction.
    pub fn ends(&self) -> bool {
        matches!(self, Operation::Jump { .. } | Operation::Exit)
    }

    /// The register it writes, if it writes one; calls write r0 and clobber r1 to r5.
    pub fn destination(&self) -> Option<Register> {
        match *self {
            Operation::Alu { dst, .. }
            | Operation::MoveSigned { dst, .. }
            | Operation::Negate { dst, .. }
            | Operation::Swap { dst, .. }
            | Operation::Constant { dst, .. }
            | Operation::Load { dst, .. } => Some(dst),
            Operation::Atomic {
                operator: Atomic::CompareExchange,
                ..
            } => Some(0),
            Operation::Atomic {
                fetch: true, src, ..
            } => Some(src),
            Operation::Call(_) => Some(0),
            _ => None,
        }
    }
}
