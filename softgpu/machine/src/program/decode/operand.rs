//! Operands: registers, immediates, special registers and addresses.

use ptx::ast::{Operand, Type};

use super::super::code::{Constant, NONE, Op, Reg, Space, Special};
use super::super::layout;
use super::super::names::{Meaning, Register, Symbol};
use super::{Decoded, Decoder};
use crate::alu::Kind;

/// The type a modifier names.
pub fn parse_type(word: &str) -> Option<Type> {
    Some(match word {
        "b8" => Type::B8,
        "b16" => Type::B16,
        "b32" => Type::B32,
        "b64" => Type::B64,
        "b128" => Type::B128,
        "u8" => Type::U8,
        "u16" => Type::U16,
        "u32" => Type::U32,
        "u64" => Type::U64,
        "s8" => Type::S8,
        "s16" => Type::S16,
        "s32" => Type::S32,
        "s64" => Type::S64,
        "f16" => Type::F16,
        "f16x2" => Type::F16x2,
        "bf16" => Type::BF16,
        "bf16x2" => Type::BF16x2,
        "f32" => Type::F32,
        "f64" => Type::F64,
        "f32x2" => Type::F32x2,
        "pred" => Type::Pred,
        _ => return None,
    })
}

pub fn is_signed(ty: Type) -> bool {
    matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64)
}

/// How an immediate of this type is read.
pub fn kind_of(ty: Type) -> Kind {
    match ty {
        Type::Pred => Kind::Pred,
        Type::F16 => Kind::F16,
        Type::BF16 => Kind::BF16,
        Type::F16x2 => Kind::F16x2,
        Type::BF16x2 => Kind::BF16x2,
        Type::F32 | Type::TF32 => Kind::F32,
        Type::F64 => Kind::F64,
        _ => Kind::Int {
            bits: layout::type_bits(ty).min(64) as u8,
            signed: is_signed(ty),
        },
    }
}

fn truncate(value: u64, bits: u32) -> u64 {
    if bits >= 64 {
        value
    } else {
        value & ((1 << bits) - 1)
    }
}

/// Where an access goes: space, base register (or none), offset, 32-bit base.
pub struct Address {
    pub space: Space,
    pub base: Reg,
    pub offset: i64,
    pub narrow: bool,
}

impl Decoder<'_> {
    pub fn register_named(&mut self, name: &str) -> Decoded<Register> {
        match self.names.find(name) {
            Some(Meaning::Register(register)) => Ok(register),
            Some(_) => self.error(format!("{name} is not a register")),
            None => self.error(format!("{name} is not declared")),
        }
    }

    /// A destination register of at least `bits` bits; `_` is [`NONE`].
    pub fn destination(&mut self, operand: &Operand, bits: u32) -> Decoded<Reg> {
        Ok(self.destination_register(operand, bits)?.reg)
    }

    pub fn destination_register(&mut self, operand: &Operand, bits: u32) -> Decoded<Register> {
        match operand {
            Operand::Sink => Ok(Register {
                reg: NONE,
                ty: Type::B64,
            }),
            Operand::Name(name) => {
                let register = self.register_named(name)?;
                let width = layout::type_bits(register.ty);
                if width < bits || (width == 1) != (bits == 1) {
                    return self.error(format!("{name} does not fit a {bits}-bit destination"));
                }
                Ok(register)
            }
            _ => self.error("a destination must be a register"),
        }
    }

    /// A source of this kind: a register or a constant slot.
    pub fn source(&mut self, operand: &Operand, kind: Kind) -> Decoded<Reg> {
        match operand {
            Operand::Name(name) => self.named_source(name, kind),
            Operand::Int(value) => {
                let bits = match kind {
                    Kind::Pred => u64::from(*value != 0),
                    Kind::F32 => u64::from((*value as f32).to_bits()),
                    Kind::F64 => (*value as f64).to_bits(),
                    _ => truncate(*value as u64, kind.bits()),
                };
                Ok(self.bits(bits))
            }
            Operand::Float32(bits) => {
                let bits = match kind {
                    Kind::F64 => f64::from(f32::from_bits(*bits)).to_bits(),
                    _ => truncate(u64::from(*bits), kind.bits()),
                };
                Ok(self.bits(bits))
            }
            Operand::Float64(bits) => {
                let bits = match kind {
                    Kind::F32 => u64::from((f64::from_bits(*bits) as f32).to_bits()),
                    Kind::F64 | Kind::Int { bits: 64, .. } => *bits,
                    // A decimal float where 32 raw bits are asked for means a single.
                    Kind::Int { bits: 32, .. } => {
                        u64::from((f64::from_bits(*bits) as f32).to_bits())
                    }
                    _ => return self.error("a 64-bit float does not fit here"),
                };
                Ok(self.bits(bits))
            }
            Operand::Not(name) => {
                let register = self.register_named(name)?;
                if register.ty != Type::Pred {
                    return self.error(format!("!{name}: not a predicate"));
                }
                let dst = self.names.temporary();
                self.unguarded(Op::Complement {
                    dst,
                    src: register.reg,
                });
                Ok(dst)
            }
            Operand::Offset { base, offset } => self.address_of(base, *offset),
            _ => self.error("this operand has a form that is not supported here"),
        }
    }

    /// Emits preparation of an operand: it runs for every lane, whatever the guard.
    pub fn unguarded(&mut self, op: Op) {
        let guard = std::mem::replace(&mut self.guard, NONE);
        self.emit(op);
        self.guard = guard;
    }

    fn named_source(&mut self, name: &str, kind: Kind) -> Decoded<Reg> {
        match self.names.find(name) {
            Some(Meaning::Register(register)) => {
                let is_pred = register.ty == Type::Pred;
                if is_pred != (kind == Kind::Pred) {
                    return self.error(format!("{name} has the wrong type here"));
                }
                Ok(register.reg)
            }
            Some(_) => self.address_of(name, 0),
            None => {
                if name == "WARP_SZ" {
                    return Ok(self.bits(32));
                }
                if let Some(which) = special(name) {
                    let dst = self.names.temporary();
                    self.unguarded(Op::Special { dst, which });
                    return Ok(dst);
                }
                self.address_of(name, 0)
            }
        }
    }

    /// The address of a variable or function, in its own space.
    pub fn address_of(&mut self, name: &str, addend: i64) -> Decoded<Reg> {
        match self.names.find(name) {
            Some(Meaning::Frame { offset, .. }) => {
                let dst = self.names.temporary();
                self.unguarded(Op::FrameAddress {
                    dst,
                    offset: i64::from(offset).wrapping_add(addend),
                });
                return Ok(dst);
            }
            Some(Meaning::Param { offset }) => {
                return Ok(self.bits(i64::from(offset).wrapping_add(addend) as u64));
            }
            Some(Meaning::Shared(index)) => {
                return Ok(self.constant(Constant::Shared { index, addend }));
            }
            Some(_) => return self.error(format!("{name} has no address")),
            None => {}
        }
        match self.around.symbols.get(name) {
            Some(&Symbol::Global(index)) => Ok(self.constant(Constant::Global { index, addend })),
            Some(&Symbol::Shared(index)) => Ok(self.constant(Constant::Shared { index, addend })),
            Some(&Symbol::Function(index)) if addend == 0 => {
                Ok(self.constant(Constant::Function(index)))
            }
            Some(_) => self.error(format!("the address of {name} is not available")),
            None => self.error(format!("{name} is not declared")),
        }
    }

    /// `[base+offset]` in a space; None is generic.
    pub fn address(&mut self, operand: &Operand, space: Option<Space>) -> Decoded<Address> {
        let (base, offset) = match operand {
            Operand::Address { base, offset } => (base.as_ref(), *offset),
            _ => return self.error("an address in brackets is expected"),
        };
        let space = space.unwrap_or(Space::Generic);
        let name = match base {
            Operand::Name(name) => name,
            Operand::Int(value) => {
                let base = self.bits(*value as u64);
                return Ok(Address {
                    space,
                    base,
                    offset,
                    narrow: false,
                });
            }
            _ => return self.error("this form of address is not supported"),
        };
        match self.names.find(name) {
            Some(Meaning::Register(register)) => {
                let bits = layout::type_bits(register.ty);
                if bits < 32 {
                    return self.error(format!("{name} cannot hold an address"));
                }
                Ok(Address {
                    space,
                    base: register.reg,
                    offset,
                    narrow: bits == 32,
                })
            }
            Some(Meaning::Frame { offset: at, .. }) => Ok(Address {
                space: Space::Frame,
                base: NONE,
                offset: i64::from(at).wrapping_add(offset),
                narrow: false,
            }),
            Some(Meaning::Param { offset: at }) => Ok(Address {
                space: Space::Param,
                base: NONE,
                offset: i64::from(at).wrapping_add(offset),
                narrow: false,
            }),
            _ => {
                let base = self.address_of(name, 0)?;
                let is_shared = matches!(
                    self.constants.get((base & !super::CONSTANT) as usize),
                    Some(Constant::Shared { .. })
                );
                Ok(Address {
                    space: if is_shared {
                        Space::Shared
                    } else {
                        Space::Global
                    },
                    base,
                    offset,
                    narrow: false,
                })
            }
        }
    }
}

fn axis(member: &str) -> Option<u8> {
    match member {
        "x" => Some(0),
        "y" => Some(1),
        "z" => Some(2),
        "w" => Some(3),
        _ => None,
    }
}

/// The special register a name stands for.
pub fn special(name: &str) -> Option<Special> {
    let name = name.strip_prefix('%')?;
    if let Some((base, member)) = name.split_once('.') {
        let axis = axis(member)?;
        return Some(match base {
            "tid" => Special::Tid(axis),
            "ntid" => Special::Ntid(axis),
            "ctaid" => Special::Ctaid(axis),
            "nctaid" => Special::Nctaid(axis),
            "clusterid" => Special::Clusterid(axis),
            "nclusterid" => Special::Nclusterid(axis),
            "cluster_ctaid" => Special::ClusterCtaid(axis),
            "cluster_nctaid" => Special::ClusterNctaid(axis),
            _ => return None,
        });
    }
    Some(match name {
        "tid" => Special::Tid(0),
        "ntid" => Special::Ntid(0),
        "ctaid" => Special::Ctaid(0),
        "nctaid" => Special::Nctaid(0),
        "laneid" => Special::Laneid,
        "warpid" => Special::Warpid,
        "nwarpid" => Special::Nwarpid,
        "smid" => Special::Smid,
        "nsmid" => Special::Nsmid,
        "gridid" => Special::Gridid,
        "lanemask_eq" => Special::LanemaskEq,
        "lanemask_le" => Special::LanemaskLe,
        "lanemask_lt" => Special::LanemaskLt,
        "lanemask_ge" => Special::LanemaskGe,
        "lanemask_gt" => Special::LanemaskGt,
        "clock" => Special::Clock,
        "clock_hi" => Special::ClockHi,
        "clock64" => Special::Clock64,
        "globaltimer" => Special::Globaltimer,
        "globaltimer_lo" => Special::GlobaltimerLo,
        "globaltimer_hi" => Special::GlobaltimerHi,
        "dynamic_smem_size" => Special::DynamicShared,
        "total_smem_size" => Special::TotalShared,
        "aggr_smem_size" => Special::TotalShared,
        "reserved_smem_offset_begin"
        | "reserved_smem_offset_end"
        | "reserved_smem_offset_cap"
        | "reserved_smem_offset_0"
        | "reserved_smem_offset_1" => Special::ReservedShared,
        "cluster_ctarank" => Special::ClusterCtarank,
        "cluster_nctarank" => Special::ClusterNctarank,
        "is_explicit_cluster" => Special::IsExplicitCluster,
        "current_graph_exec" => Special::Zero,
        "envreg1" => Special::WorkspaceHi,
        "envreg2" => Special::WorkspaceLo,
        _ => {
            let numbered = |prefix: &str, limit: u32| {
                name.strip_prefix(prefix)
                    .map(|rest| rest.strip_suffix("_64").unwrap_or(rest))
                    .and_then(|rest| rest.parse::<u32>().ok())
                    .is_some_and(|number| number < limit)
            };
            if numbered("envreg", 32) || numbered("pm", 8) {
                Special::Zero
            } else {
                return None;
            }
        }
    })
}
