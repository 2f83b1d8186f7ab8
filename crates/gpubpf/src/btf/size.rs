//! How many bytes a type takes.

use super::{Btf, Kind, TypeId};

impl Btf {
    /// None for what has no size, and for sizes past 4 GiB.
    pub fn size(&self, id: TypeId) -> Option<u32> {
        let mut id = id;
        let mut times = 1u32;
        // Arrays of arrays; a chain longer than this is a cycle.
        for _ in 0..64 {
            let (_, ty) = self.resolve(id)?;
            let bytes = match &ty.kind {
                Kind::Int { bytes, .. } | Kind::Struct { bytes, .. } | Kind::Enum { bytes, .. } => {
                    *bytes
                }
                Kind::Float(bytes) => *bytes,
                Kind::Pointer(_) => 8,
                Kind::Array { element, count } => {
                    times = times.checked_mul(*count)?;
                    id = *element;
                    continue;
                }
                _ => return None,
            };
            return times.checked_mul(bytes);
        }
        None
    }
}
