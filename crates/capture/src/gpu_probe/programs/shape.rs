//! How records of one struct are read: looked up once, for there may be millions a second.

use event::{Arg, Name, Value};
use gpubpf::btf::{Btf, Encoding, Kind, TypeId};

/// A struct whose fields are whole numbers, side by side.
#[derive(Clone)]
pub struct Shape {
    pub name: Name,
    pub ty: TypeId,
    /// `None`: there are others, too.
    fields: Option<Vec<Field>>,
    /// Those of the fields that say when.
    times: Vec<usize>,
}

#[derive(Clone)]
struct Field {
    name: Name,
    start: usize,
    bytes: usize,
    encoding: Encoding,
}

impl Shape {
    pub fn new(btf: &Btf, name: &str, ty: TypeId) -> Shape {
        let fields = fields(btf, ty);
        let named = fields.iter().flatten().enumerate();
        let times = named.filter(|(_, field)| is_time(&field.name));
        let times = times.map(|(at, _)| at).collect();
        Shape {
            name: name.into(),
            ty,
            fields,
            times,
        }
    }

    /// When the record with these fields is of.
    pub fn time(&self, fields: &[Arg]) -> Option<u64> {
        if self.fields.is_none() {
            return time_of(fields);
        }
        let times = self.times.iter().filter_map(|at| fields.get(*at));
        first_number(times)
    }

    /// The same with names of its own: a name counts who has it, and threads that count at the same place at
    /// the same time wait for each other.
    pub fn fresh(&self) -> Shape {
        let own = |name: &Name| Name::from(&**name);
        let mut shape = self.clone();
        shape.name = own(&self.name);
        for field in shape.fields.iter_mut().flatten() {
            field.name = own(&field.name);
        }
        shape
    }

    /// The fields of a record; `None` if it takes more than this to read them.
    pub fn read(&self, data: &[u8]) -> Option<Vec<Arg>> {
        let fields = self.fields.as_ref()?;
        let mut all = Vec::with_capacity(fields.len());
        for field in fields {
            let number = field.number(data)?;
            let value = match field.encoding {
                Encoding::Unsigned => Value::Uint(number),
                Encoding::Bool => Value::Bool(number != 0),
                Encoding::Signed | Encoding::Char => {
                    let unused = 64 - 8 * field.bytes;
                    Value::from((number << unused) as i64 >> unused)
                }
            };
            all.push(Arg {
                name: field.name.clone(),
                value,
            });
        }
        Some(all)
    }
}

impl Field {
    fn number(&self, data: &[u8]) -> Option<u64> {
        let bytes = data.get(self.start..self.start + self.bytes)?;
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }
}

/// The field that says when: the first whole number that is called so.
fn time_of(fields: &[Arg]) -> Option<u64> {
    first_number(fields.iter().filter(|field| is_time(&field.name)))
}

/// Nothing is no time.
fn first_number<'a>(mut fields: impl Iterator<Item = &'a Arg>) -> Option<u64> {
    fields.find_map(|field| match field.value {
        Value::Uint(number) if number > 0 => Some(number),
        _ => None,
    })
}

/// Whether a name is one of moments.
pub fn is_time(name: &str) -> bool {
    let has = |word: &str| {
        let mut places = name.as_bytes().windows(word.len());
        places.any(|place| place.eq_ignore_ascii_case(word.as_bytes()))
    };
    let ends = name.len() >= 3 && name.as_bytes()[name.len() - 3..].eq_ignore_ascii_case(b"_ns");
    name.eq_ignore_ascii_case("ts") || has("time") || ends || has("clock")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_by_their_names() {
        for name in ["ts", "TS", "timestamp", "start_time", "when_ns", "clock64"] {
            assert!(is_time(name), "{name}");
        }
        for name in ["thread", "ns", "x", "bytes", "tsx"] {
            assert!(!is_time(name), "{name}");
        }
        let fields = [
            Arg::new("time", 0u64),
            Arg::new("count", 5u64),
            Arg::new("end_time", 7u64),
        ];
        assert_eq!(time_of(&fields), Some(7));
    }
}
