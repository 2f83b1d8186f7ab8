//! How a struct is laid out in memory: the words of `structs.tsv`, parsed.
//!
//! `name:offset:type` by commas. A type is a kind with its bytes (`u4`, `i4`, `h4` handle, `p8`
//! pointer, `s4` status, `b1` bool, `e4` enum, `f4` float), `c64` text, `uuid`, `{…}16` a struct of
//! 16 bytes, `(…)144` a union; `*8` behind it is an array of eight.

/// A struct of one or more driver versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Struct {
    pub name: &'static str,
    pub size: usize,
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub kind: Kind,
    /// Bytes of one element.
    pub size: usize,
    /// Elements, where it is an array.
    pub count: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Unsigned,
    Signed,
    Float,
    Bool,
    Enum,
    Handle,
    Pointer,
    Status,
    Uuid,
    /// Ends at its first zero byte.
    Text,
    Struct(Vec<Field>),
    /// Which arm holds is for others to know.
    Union(Vec<Field>),
}

impl Struct {
    /// The field of that name; `params.hMemory` is a field of a field.
    pub fn field(&self, path: &str) -> Option<(usize, &Field)> {
        let (mut fields, mut base) = (&self.fields, 0);
        let mut words = path.split('.').peekable();
        while let Some(word) = words.next() {
            let field = fields.iter().find(|field| field.name == word)?;
            base += field.offset;
            if words.peek().is_none() {
                return Some((base, field));
            }
            match &field.kind {
                Kind::Struct(inner) | Kind::Union(inner) => fields = inner,
                _ => return None,
            }
        }
        None
    }

    /// The number in a field, where the bytes reach so far.
    pub fn number(&self, bytes: &[u8], path: &str) -> Option<u64> {
        let (offset, field) = self.field(path)?;
        if matches!(field.kind, Kind::Struct(_) | Kind::Union(_) | Kind::Text) {
            return None;
        }
        number(bytes, offset, field.size)
    }

    /// The number in a field of four bytes or fewer.
    pub fn word(&self, bytes: &[u8], path: &str) -> Option<u32> {
        self.number(bytes, path)?.try_into().ok()
    }
}

/// Up to eight little-endian bytes.
pub fn number(bytes: &[u8], offset: usize, size: usize) -> Option<u64> {
    let taken = bytes.get(offset..offset.checked_add(size)?)?;
    if taken.len() > 8 {
        return None;
    }
    Some(
        taken
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    )
}

/// The fields of a struct in the table's words. What cannot be parsed is left out: the tables are
/// checked as a whole by a test.
pub(super) fn parse(text: &'static str) -> Vec<Field> {
    let mut rest = text;
    fields(&mut rest, 0)
}

/// Deeper than any struct that the generator writes.
const DEEPEST: u32 = 8;

fn fields(rest: &mut &'static str, depth: u32) -> Vec<Field> {
    let mut found = Vec::new();
    while let Some(field) = field(rest, depth) {
        found.push(field);
        match rest.strip_prefix(',') {
            Some(more) => *rest = more,
            None => break,
        }
    }
    found
}

fn field(rest: &mut &'static str, depth: u32) -> Option<Field> {
    // A struct of which nothing is shown: what follows is not its.
    if rest.starts_with(['}', ')']) {
        return None;
    }
    let (name, more) = rest.split_once(':')?;
    let (offset, more) = more.split_once(':')?;
    *rest = more;
    let offset = offset.parse().ok()?;
    let (kind, size) = kind(rest, depth)?;
    let count = match rest.strip_prefix('*') {
        Some(more) => {
            *rest = more;
            Some(digits(rest)?)
        }
        None => None,
    };
    Some(Field {
        name,
        offset,
        kind,
        size,
        count,
    })
}

fn kind(rest: &mut &'static str, depth: u32) -> Option<(Kind, usize)> {
    if let Some(more) = rest.strip_prefix("uuid") {
        *rest = more;
        return Some((Kind::Uuid, 16));
    }
    let letter = rest.chars().next()?;
    *rest = rest.get(1..)?;
    let kind = match letter {
        '{' | '(' if depth >= DEEPEST => return None,
        '{' => {
            let inner = fields(rest, depth + 1);
            *rest = rest.strip_prefix('}')?;
            Kind::Struct(inner)
        }
        '(' => {
            let inner = fields(rest, depth + 1);
            *rest = rest.strip_prefix(')')?;
            Kind::Union(inner)
        }
        'u' => Kind::Unsigned,
        'i' => Kind::Signed,
        'f' => Kind::Float,
        'b' => Kind::Bool,
        'e' => Kind::Enum,
        'h' => Kind::Handle,
        'p' => Kind::Pointer,
        's' => Kind::Status,
        'c' => Kind::Text,
        _ => return None,
    };
    Some((kind, digits(rest)?))
}

fn digits(rest: &mut &'static str) -> Option<usize> {
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (number, more) = rest.split_at(end);
    *rest = more;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read() {
        let fields =
            parse("h:0:h4,list:8:{index:0:u4,more:4:(a:0:u8,b:0:i2)8}12*3,name:44:c64,u:108:uuid");
        let made = Struct {
            name: "S",
            size: 124,
            fields,
        };
        assert_eq!(made.fields.len(), 4);
        assert_eq!(made.fields[1].count, Some(3));
        assert_eq!(made.field("list.more.b").unwrap().0, 12);
        assert_eq!(made.fields[2].kind, Kind::Text);
        assert_eq!((made.fields[3].size, made.fields[3].offset), (16, 108));
        let empty = parse("a:0:{}8,b:8:(){}4");
        assert_eq!(empty.len(), 1, "a union without bytes is none");
        assert_eq!(parse("a:0:{}8,b:8:u4").len(), 2);
        let bytes: Vec<u8> = (0..124).collect();
        assert_eq!(made.number(&bytes, "list.index"), Some(0x0b0a_0908));
        assert_eq!(made.number(&bytes[..10], "list.index"), None);
        assert_eq!(made.number(&bytes, "list"), None);
        assert_eq!(made.number(&bytes, "nothing"), None);
    }
}
