//! What can go wrong while a kernel runs, and the CUresult it becomes.

use thiserror::Error;

/// Why a kernel was stopped. Sticky in its context, as on hardware.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{kind}: {detail}")]
pub struct Fault {
    pub kind: FaultKind,
    /// Kernel, PTX line, block, thread, address: for people.
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FaultKind {
    #[error("illegal address")]
    IllegalAddress,
    #[error("misaligned address")]
    MisalignedAddress,
    #[error("invalid address space")]
    InvalidAddressSpace,
    #[error("invalid program counter")]
    InvalidPc,
    #[error("illegal instruction")]
    IllegalInstruction,
    #[error("stack overflow")]
    StackOverflow,
    #[error("device-side assert")]
    Assert,
    /// `trap`, and what hardware reports as an unspecified launch failure.
    #[error("launch failed")]
    LaunchFailed,
}

impl FaultKind {
    /// The CUresult a real driver reports for it.
    pub fn cu_result(self) -> u32 {
        match self {
            FaultKind::IllegalAddress => 700,
            FaultKind::Assert => 710,
            FaultKind::StackOverflow => 714,
            FaultKind::IllegalInstruction => 715,
            FaultKind::MisalignedAddress => 716,
            FaultKind::InvalidAddressSpace => 717,
            FaultKind::InvalidPc => 718,
            FaultKind::LaunchFailed => 719,
        }
    }
}
