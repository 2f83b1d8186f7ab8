//! The decoded instruction set: what the machine executes.
//!
//! Registers are slots of the function's frame; constants are slots of a table (marked by
//! [`CONSTANT`]), so that at run time every source is a pointer to 32 lanes.

use crate::alu::Eval;
use crate::memory;

/// A register slot, or with [`CONSTANT`] set an index in the function's constants.
pub type Reg = u32;
pub const CONSTANT: Reg = 1 << 31;
/// No register: an unused operand or `_`.
pub const NONE: Reg = u32::MAX;

/// A device function's address is this plus its index times [`FUNCTION_STEP`].
pub const FUNCTION_WINDOW: u64 = 0x0400_0000_0000_0000;
pub const FUNCTION_STEP: u64 = 16;

/// The address that stands for function `index`.
pub fn function_address(index: usize) -> u64 {
    FUNCTION_WINDOW + (index as u64 + 1) * FUNCTION_STEP
}

/// A range in [`Function::lists`].
#[derive(Debug, Clone, Copy)]
pub struct List {
    pub start: u32,
    pub len: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constant {
    Bits(u64),
    Global { index: usize, addend: i64 },
    Shared { index: usize, addend: i64 },
    Function(usize),
}

pub struct Function {
    pub name: String,
    pub code: Vec<Inst>,
    pub lists: Vec<Reg>,
    pub tables: Vec<Vec<u32>>,
    pub constants: Vec<Constant>,
    /// Frame slots.
    pub registers: u32,
    /// Most 32-bit registers live at once.
    pub pressure: u32,
    /// Bytes of a frame in local memory, a multiple of 16.
    pub local_size: u32,
    pub params: Vec<ValueLocation>,
    pub returns: Vec<ValueLocation>,
}

/// Where a call's argument or result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueLocation {
    /// Bytes in the function's frame in local memory.
    Local {
        offset: u32,
        size: u32,
    },
    Register {
        reg: Reg,
        size: u32,
    },
}

pub struct Inst {
    pub op: Op,
    /// Predicate register or [`NONE`].
    pub guard: Reg,
    pub negated: bool,
    pub line: u32,
}

/// Address space of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    Generic,
    /// Constants lie in global memory too.
    Global,
    Shared,
    Local,
    /// Local memory relative to the function's frame: parameters of calls, named variables.
    Frame,
    /// The kernel's parameter block.
    Param,
}

/// A load or store: the registers are `regs`, one an element.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    pub space: Space,
    /// Bytes of an element.
    pub bytes: u8,
    /// Sign-extend loaded elements to this many bits; 0 for zero extension.
    pub extend: u8,
    /// The base register has 32 bits: addresses wrap there.
    pub narrow: bool,
    /// A volatile or acquiring access: perhaps someone waits in a loop.
    pub polls: bool,
    pub base: Reg,
    pub offset: i64,
    pub regs: List,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomicOp {
    Add,
    Exchange,
    CompareSwap,
    Min,
    Max,
    And,
    Or,
    Xor,
    Inc,
    Dec,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomicType {
    Unsigned,
    Signed,
    F16,
    F16x2,
    BF16,
    BF16x2,
    F32,
    F64,
}

pub struct Atomic {
    pub op: AtomicOp,
    pub ty: AtomicType,
    /// `regs` are the destinations (all [`NONE`] for `red`).
    pub access: Access,
    pub values: List,
    /// The replacement of `cas`.
    pub swap: List,
}

/// cp.async: `size` bytes, of which `source_size` are read and the rest is zero.
pub struct AsyncCopy {
    pub to: Access,
    pub from: Access,
    pub size: u32,
    pub source_size: Reg,
}

/// cp.async.bulk: as many bytes as `size` says, counted off an mbarrier if there is one.
pub struct BulkCopy {
    pub to: Access,
    pub from: Access,
    pub size: Reg,
    pub mbarrier: Option<Access>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    Printf,
    AssertFail,
    Malloc,
    Free,
}

#[derive(Debug, Clone, Copy)]
pub enum Callee {
    Function(usize),
    Register(Reg),
    Builtin(Builtin),
}

pub struct CallInstruction {
    pub callee: Callee,
    pub args: Vec<ValueLocation>,
    pub results: Vec<ValueLocation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduce {
    And,
    Or,
    Xor,
    Add,
    Min,
    Max,
    MinSigned,
    MaxSigned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierMode {
    Sync,
    Arrive,
    /// `bar.red`: number of threads, all, any.
    Count,
    All,
    Any,
}

pub struct Barrier {
    pub mode: BarrierMode,
    pub id: Reg,
    /// Number of threads or [`NONE`]: all of the block.
    pub count: Reg,
    pub dst: Reg,
    /// Predicate of `bar.red`.
    pub value: Reg,
    pub complement: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

/// Warp operations.
pub enum WarpOp {
    Shuffle {
        mode: ShuffleMode,
        dst: Reg,
        valid: Reg,
        value: Reg,
        lane: Reg,
        clamp: Reg,
    },
    /// Predicate votes; `complement` for `!p`.
    Vote {
        mode: VoteMode,
        dst: Reg,
        value: Reg,
        complement: bool,
    },
    Match {
        all: bool,
        dst: Reg,
        valid: Reg,
        value: Reg,
    },
    Redux {
        reduce: Reduce,
        dst: Reg,
        value: Reg,
    },
    Elect {
        dst: Reg,
        leader: Reg,
    },
    Barrier,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MbarrierOp {
    Init,
    Invalidate,
    Arrive { drop: bool, expect: bool },
    ExpectTx,
    CompleteTx,
    TestWait { parity: bool },
    PendingCount,
}

/// mbarrier.*: `address` names the 64-bit object.
pub struct Mbarrier {
    pub op: MbarrierOp,
    pub access: Access,
    pub dst: Reg,
    /// Count, transaction bytes, state or parity, by operation.
    pub value: Reg,
}

/// Special registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Laneid,
    Warpid,
    Nwarpid,
    Smid,
    Nsmid,
    Gridid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    Clock,
    ClockHi,
    Clock64,
    Globaltimer,
    GlobaltimerLo,
    GlobaltimerHi,
    DynamicShared,
    TotalShared,
    ReservedShared,
    Clusterid(u8),
    Nclusterid(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    /// %envreg1 and %envreg2: the upper and lower half of the grid workspace's address.
    WorkspaceHi,
    WorkspaceLo,
    /// Other %envreg, %pm and whatever else reads as zero on an idle machine.
    Zero,
}

/// Which window `isspacep` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    Global,
    Const,
    Shared,
    Local,
    Param,
}

impl Window {
    /// What `cvta` adds to an address in this space.
    pub fn start(self) -> u64 {
        match self {
            Window::Global | Window::Const => 0,
            Window::Shared => memory::SHARED_WINDOW,
            Window::Local => memory::LOCAL_WINDOW,
            Window::Param => memory::PARAM_WINDOW,
        }
    }
}

pub enum Op {
    Alu {
        eval: Eval,
        dst: Reg,
        dst2: Reg,
        src: [Reg; 4],
    },
    Move {
        dst: Reg,
        src: Reg,
    },
    /// dst = !src, predicates.
    Complement {
        dst: Reg,
        src: Reg,
    },
    SignExtend {
        dst: Reg,
        from: u8,
        to: u8,
    },
    /// dst = (src + value) mod 2^64: address windows.
    Shift {
        dst: Reg,
        src: Reg,
        value: u64,
    },
    Special {
        dst: Reg,
        which: Special,
    },
    /// dst = frame + offset, an address in local memory.
    FrameAddress {
        dst: Reg,
        offset: i64,
    },
    /// dst = the parts, lowest first, `bits` each.
    Pack {
        dst: Reg,
        bits: u8,
        parts: List,
    },
    Unpack {
        src: Reg,
        bits: u8,
        parts: List,
    },
    Load(Access),
    Store(Access),
    Atomic(Box<Atomic>),
    AsyncCopy(Box<AsyncCopy>),
    BulkCopy(Box<BulkCopy>),
    Mbarrier(Box<Mbarrier>),
    IsSpace {
        dst: Reg,
        src: Reg,
        window: Window,
    },
    /// dst = address of the same variable in the shared memory of block `rank` of the cluster.
    MapShared {
        dst: Reg,
        src: Reg,
        rank: Reg,
        generic: bool,
    },
    ClusterRank {
        dst: Reg,
        src: Reg,
        generic: bool,
    },
    Branch {
        target: u32,
    },
    BranchTable {
        index: Reg,
        table: u32,
    },
    Call(Box<CallInstruction>),
    Return,
    Exit,
    Trap,
    Breakpoint,
    Barrier(Box<Barrier>),
    ClusterArrive,
    ClusterWait,
    Warp {
        members: Reg,
        op: Box<WarpOp>,
    },
    ActiveMask {
        dst: Reg,
    },
    /// fence, membar.
    Fence,
    Sleep,
    StackSave {
        dst: Reg,
    },
    StackRestore {
        src: Reg,
    },
    Alloca {
        dst: Reg,
        size: Reg,
        align: u32,
    },
}
