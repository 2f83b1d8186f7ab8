//! Names and sizes of PTX's fundamental types and state spaces.

use crate::ast::{Space, Type};

const NAMES: [(&str, Type, u64); 31] = [
    ("b8", Type::B8, 1),
    ("b16", Type::B16, 2),
    ("b32", Type::B32, 4),
    ("b64", Type::B64, 8),
    ("b128", Type::B128, 16),
    ("u8", Type::U8, 1),
    ("u16", Type::U16, 2),
    ("u32", Type::U32, 4),
    ("u64", Type::U64, 8),
    ("s8", Type::S8, 1),
    ("s16", Type::S16, 2),
    ("s32", Type::S32, 4),
    ("s64", Type::S64, 8),
    ("f16", Type::F16, 2),
    ("f16x2", Type::F16x2, 4),
    ("bf16", Type::BF16, 2),
    ("bf16x2", Type::BF16x2, 4),
    ("tf32", Type::TF32, 4),
    ("f32", Type::F32, 4),
    ("f64", Type::F64, 8),
    ("u16x2", Type::U16x2, 4),
    ("s16x2", Type::S16x2, 4),
    ("f32x2", Type::F32x2, 8),
    ("e4m3", Type::E4M3, 1),
    ("e5m2", Type::E5M2, 1),
    ("e4m3x2", Type::E4M3x2, 2),
    ("e5m2x2", Type::E5M2x2, 2),
    ("pred", Type::Pred, 1),
    ("texref", Type::TexRef, 8),
    ("samplerref", Type::SamplerRef, 8),
    ("surfref", Type::SurfRef, 8),
];

impl Type {
    /// The type called `name` (no dot), as instructions' modifiers spell it too.
    pub fn from_name(name: &str) -> Option<Type> {
        NAMES
            .iter()
            .find(|entry| entry.0 == name)
            .map(|entry| entry.1)
    }

    /// Without the dot.
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// Bytes in memory; a predicate, which has no place in memory, counts 1.
    pub fn size(self) -> u64 {
        self.entry().2
    }

    fn entry(self) -> &'static (&'static str, Type, u64) {
        // NAMES lists the types in the order of the enum; a test holds it to that.
        &NAMES[self as usize]
    }
}

impl Space {
    /// Without the dot.
    pub fn name(self) -> &'static str {
        match self {
            Space::Reg => "reg",
            Space::Sreg => "sreg",
            Space::Const => "const",
            Space::Global => "global",
            Space::Local => "local",
            Space::Param => "param",
            Space::Shared => "shared",
            Space::Tex => "tex",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_order_of_the_enum() {
        for (index, (name, ty, _)) in NAMES.iter().enumerate() {
            assert_eq!(*ty as usize, index, "{name}");
            assert_eq!(Type::from_name(name), Some(*ty));
            assert_eq!(ty.name(), *name);
        }
    }
}
