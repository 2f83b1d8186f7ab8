//! Sizes, alignments and initial bytes of PTX variables.

use ptx::ast::{Initializer, Type, Variable};

use super::BuildError;

/// The largest variable that is accepted: beyond any device's memory, far from overflow.
const MAX_SIZE: u64 = 1 << 40;
/// The largest initializer held in memory.
const MAX_INIT: u64 = 1 << 30;

/// Bits of a value of this type in a register or in memory (predicates: 1).
pub fn type_bits(ty: Type) -> u32 {
    match ty {
        Type::Pred => 1,
        Type::B8 | Type::U8 | Type::S8 | Type::E4M3 | Type::E5M2 => 8,
        Type::B16
        | Type::U16
        | Type::S16
        | Type::F16
        | Type::BF16
        | Type::E4M3x2
        | Type::E5M2x2 => 16,
        Type::B32
        | Type::U32
        | Type::S32
        | Type::F32
        | Type::F16x2
        | Type::BF16x2
        | Type::TF32
        | Type::U16x2
        | Type::S16x2 => 32,
        Type::B64
        | Type::U64
        | Type::S64
        | Type::F64
        | Type::F32x2
        | Type::TexRef
        | Type::SamplerRef
        | Type::SurfRef => 64,
        Type::B128 => 128,
    }
}

/// Bytes of one element.
pub fn type_bytes(ty: Type) -> u64 {
    u64::from(type_bits(ty)).div_ceil(8)
}

pub fn align_up(value: u64, align: u64) -> u64 {
    let align = align.max(1);
    value.div_ceil(align).saturating_mul(align)
}

/// Size and alignment of a variable; an unsized array has size 0.
pub fn size_align(variable: &Variable) -> Result<(u64, u64), BuildError> {
    let element = type_bytes(variable.ty) * u64::from(variable.vector.max(1));
    let mut size = element;
    for &dim in &variable.dims {
        size = size
            .checked_mul(dim)
            .filter(|&size| size <= MAX_SIZE)
            .ok_or_else(|| {
                BuildError::new(variable.line, format!("{} is too large", variable.name))
            })?;
    }
    let align = match variable.align {
        Some(align) if align.is_power_of_two() && align <= 1 << 20 => u64::from(align),
        Some(align) => {
            return Err(BuildError::new(
                variable.line,
                format!("alignment {align} of {} is not valid", variable.name),
            ));
        }
        None => element.next_power_of_two(),
    };
    Ok((size, align))
}

/// An address in an initializer, to be filled in when the module is placed.
pub struct Pending {
    pub offset: u64,
    pub size: u8,
    pub symbol: String,
    pub addend: i64,
    pub mask: Option<u64>,
}

/// The initial bytes of a variable and the addresses among them.
pub fn initial_bytes(
    variable: &Variable,
    size: u64,
) -> Result<(Vec<u8>, Vec<Pending>), BuildError> {
    let mut filler = Filler {
        variable,
        element: type_bytes(variable.ty),
        size,
        bytes: Vec::new(),
        pending: Vec::new(),
    };
    if let Some(init) = &variable.init {
        let mut dims: Vec<u64> = variable.dims.clone();
        if variable.vector > 1 {
            dims.push(u64::from(variable.vector));
        }
        if let (Some(first), Initializer::List(list)) = (dims.first_mut(), init)
            && *first == 0
        {
            *first = list.len() as u64;
        }
        filler.fill(init, &dims, 0)?;
    }
    Ok((filler.bytes, filler.pending))
}

/// The size an unsized array gets from its initializer.
pub fn size_from_init(variable: &Variable) -> Option<u64> {
    let (Some(0), Some(Initializer::List(list))) = (variable.dims.first(), &variable.init) else {
        return None;
    };
    let element = type_bytes(variable.ty) * u64::from(variable.vector.max(1));
    let mut size = element.checked_mul(list.len() as u64)?;
    for &dim in &variable.dims[1..] {
        size = size.checked_mul(dim)?;
    }
    (size <= MAX_INIT).then_some(size)
}

struct Filler<'a> {
    variable: &'a Variable,
    element: u64,
    size: u64,
    bytes: Vec<u8>,
    pending: Vec<Pending>,
}

impl Filler<'_> {
    fn error(&self, what: &str) -> BuildError {
        BuildError::new(
            self.variable.line,
            format!("initializer of {}: {what}", self.variable.name),
        )
    }

    fn fill(&mut self, init: &Initializer, dims: &[u64], at: u64) -> Result<(), BuildError> {
        match init {
            Initializer::List(list) => {
                // A list one level too deep or for a scalar: `{5}`.
                let inner = dims.get(1..).unwrap_or(&[]);
                let stride = inner
                    .iter()
                    .try_fold(self.element, |size, &dim| size.checked_mul(dim))
                    .ok_or_else(|| self.error("too large"))?;
                for (index, item) in list.iter().enumerate() {
                    // Nested rows step by rows; a flat list in a nested array steps by elements.
                    let (step, rest) = match item {
                        Initializer::List(_) => (stride, inner),
                        _ => (self.element, &[][..]),
                    };
                    let offset = at.saturating_add(step.saturating_mul(index as u64));
                    self.fill(item, rest, offset)?;
                }
                Ok(())
            }
            Initializer::Int(value) => self.put(at, value.to_le_bytes()),
            Initializer::Float(value) => {
                let bits = match self.variable.ty {
                    Type::F32 => u64::from((*value as f32).to_bits()),
                    _ => value.to_bits(),
                };
                self.put(at, bits.to_le_bytes())
            }
            Initializer::Float32(bits) => {
                let bits = match self.variable.ty {
                    Type::F64 => f64::from(f32::from_bits(*bits)).to_bits(),
                    _ => u64::from(*bits),
                };
                self.put(at, bits.to_le_bytes())
            }
            Initializer::Field { .. } => Err(self.error("samplers are not supported")),
            Initializer::Address {
                symbol,
                addend,
                mask,
                ..
            } => {
                self.put(at, [0; 8])?;
                self.pending.push(Pending {
                    offset: at,
                    size: self.element.min(8) as u8,
                    symbol: symbol.clone(),
                    addend: *addend,
                    mask: *mask,
                });
                Ok(())
            }
        }
    }

    fn put(&mut self, at: u64, bits: [u8; 8]) -> Result<(), BuildError> {
        let end = at.saturating_add(self.element);
        if end > self.size || end > MAX_INIT {
            return Err(self.error("more values than the variable holds"));
        }
        let (at, end) = (at as usize, end as usize);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let count = (end - at).min(8);
        self.bytes[at..at + count].copy_from_slice(&bits[..count]);
        Ok(())
    }
}
