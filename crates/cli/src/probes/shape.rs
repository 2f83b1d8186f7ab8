//! How records of one struct are read: looked up once, for there may be millions a second.

use event::{Arg, Name, Value};
use gpubpf::btf::{Btf, Encoding, Kind, TypeId};

/// A struct whose fields are whole numbers, side by side.
pub struct Shape {
    pub name: Name,
    pub ty: TypeId,
    /// `None`: there are others, too.
    fields: Option<Vec<Field>>,
}

struct Field {
    name: Name,
    start: usize,
    bytes: usize,
    encoding: Encoding,
}

impl Shape {
    pub fn new(btf: &Btf, name: &str, ty: TypeId) -> Shape {
        Shape {
            name: name.into(),
            ty,
            fields: fields(btf, ty),
        }
    }

    /// The fields of a record; `None` if it takes more than this to read them.
    pub fn read(&self, data: &[u8]) -> Option<Vec<Arg>> {
        let fields = self.fields.as_ref()?.iter();
        let all = fields.map(|field| {
            let bytes = data.get(field.start..field.start + field.bytes)?;
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let number = u64::from_le_bytes(word);
            let value = match field.encoding {
                Encoding::Unsigned => Value::Uint(number),
                Encoding::Bool => Value::Bool(number != 0),
                Encoding::Signed | Encoding::Char => {
                    let unused = 64 - 8 * field.bytes;
                    Value::from((number << unused) as i64 >> unused)
                }
            };
            Some(Arg {
                name: field.name.clone(),
                value,
            })
        });
        all.collect()
    }
}

fn fields(btf: &Btf, ty: TypeId) -> Option<Vec<Field>> {
    let (_, resolved) = btf.resolve(ty)?;
    let Kind::Struct { members, .. } = &resolved.kind else {
        return None;
    };
    let all = members.iter().map(|member| {
        let (_, resolved) = btf.resolve(member.ty)?;
        let Kind::Int {
            bytes, encoding, ..
        } = &resolved.kind
        else {
            return None;
        };
        let plain = member.bits == 0
            && member.bit_offset.is_multiple_of(8)
            && matches!(bytes, 1 | 2 | 4 | 8)
            && !member.name.is_empty();
        plain.then(|| Field {
            name: member.name.as_str().into(),
            start: member.bit_offset as usize / 8,
            bytes: *bytes as usize,
            encoding: *encoding,
        })
    });
    all.collect()
}
