//! BTF: the kernel's own description of its types. Read here for one purpose, the names and types of
//! functions' arguments; a module's types continue those of the kernel.

use std::{collections::HashMap, fmt::Write as _, fs, io, path::Path};

const FOLDER: &str = "/sys/kernel/btf";
const MAGIC: u16 = 0xeb9f;
/// The kernel's own is about 6 MB.
const MOST_BYTES: u64 = 256 << 20;
/// Pointers to pointers to arrays of …
const DEEPEST: u32 = 16;

#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("not BTF: {0}")]
    Malformed(&'static str),
}

/// One type as it lies in the file.
#[derive(Debug, Clone, Copy)]
struct Type {
    name: u32,
    kind: u8,
    members: u16,
    /// The size, or the type that this one is of.
    reference: u32,
    /// Where what follows the first 12 bytes begins.
    rest: usize,
}

/// The types of the kernel, or of a module.
#[derive(Debug)]
pub struct Types {
    bytes: Vec<u8>,
    types: Vec<Type>,
    strings: std::ops::Range<usize>,
    /// How many types and bytes of strings come before these.
    first: u32,
    first_string: u32,
    functions: HashMap<Box<str>, u32>,
}

/// A function as its types tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub result: String,
    /// Type and name.
    pub parameters: Vec<(String, String)>,
}

impl Function {
    /// `int nvidia_open(struct inode * inode, struct file * file)`
    pub fn declaration(&self, name: &str) -> String {
        let mut text = format!("{} {name}(", self.result);
        for (place, (kind, parameter)) in self.parameters.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            let _ = write!(text, "{comma}{kind} {parameter}");
        }
        text + ")"
    }
}

const INT: u8 = 1;
const PTR: u8 = 2;
const ARRAY: u8 = 3;
const STRUCT: u8 = 4;
const UNION: u8 = 5;
const ENUM: u8 = 6;
const FORWARD: u8 = 7;
const TYPEDEF: u8 = 8;
const VOLATILE: u8 = 9;
const CONST: u8 = 10;
const RESTRICT: u8 = 11;
const FUNC: u8 = 12;
const FUNC_PROTO: u8 = 13;
const VAR: u8 = 14;
const DATASEC: u8 = 15;
const FLOAT: u8 = 16;
const DECL_TAG: u8 = 17;
const TYPE_TAG: u8 = 18;
const ENUM64: u8 = 19;

impl Types {
    /// Reads BTF; a module's continues `base`.
    pub fn parse(bytes: Vec<u8>, base: Option<&Types>) -> Result<Self, BtfError> {
        let word = |at: usize| -> Option<u32> {
            let four = bytes.get(at..at.checked_add(4)?)?;
            Some(u32::from_le_bytes(four.try_into().ok()?))
        };
        let short = BtfError::Malformed("too short");
        if bytes.get(..2) != Some(&MAGIC.to_le_bytes()[..]) {
            return Err(BtfError::Malformed("no magic"));
        }
        let header = (1..6).map(|n| word(4 * n).map(|word| word as usize));
        let header: Option<Vec<usize>> = header.collect();
        let Some([length, types_at, types_size, strings_at, strings_size]) = header.as_deref()
        else {
            return Err(short);
        };
        let range = |at: &usize, size: &usize| {
            let start = length.checked_add(*at)?;
            let end = start.checked_add(*size)?;
            (end <= bytes.len()).then_some(start..end)
        };
        let (Some(section), Some(strings)) =
            (range(types_at, types_size), range(strings_at, strings_size))
        else {
            return Err(short);
        };

        let mut types = Vec::new();
        let mut functions = Vec::new();
        // 0 is void, of the kernel's own types.
        let first = base.map_or(1, |base| base.first + base.types.len() as u32);
        let mut at = section.start;
        while at + 12 <= section.end {
            let (Some(name), Some(info), Some(reference)) = (word(at), word(at + 4), word(at + 8))
            else {
                break;
            };
            let kind = (info >> 24 & 0x1f) as u8;
            let members = (info & 0xffff) as u16;
            let count = usize::from(members);
            let more = match kind {
                INT | VAR | DECL_TAG => 4,
                ARRAY => 12,
                STRUCT | UNION | DATASEC | ENUM64 => 12 * count,
                ENUM | FUNC_PROTO => 8 * count,
                PTR | FORWARD | TYPEDEF | VOLATILE | CONST | RESTRICT | FUNC | FLOAT | TYPE_TAG => {
                    0
                }
                _ => return Err(BtfError::Malformed("a kind of type that is not known")),
            };
            if kind == FUNC {
                functions.push((name, first + types.len() as u32));
            }
            types.push(Type {
                name,
                kind,
                members,
                reference,
                rest: at + 12,
            });
            at += 12 + more;
        }
        if at != section.end {
            return Err(BtfError::Malformed("types do not end where they should"));
        }
        let mut read = Types {
            types,
            functions: HashMap::new(),
            first,
            first_string: base.map_or(0, |base| base.first_string + base.strings.len() as u32),
            strings,
            bytes,
        };
        for (name, id) in functions {
            let look = Look {
                kernel: base.unwrap_or(&read),
                module: base.map(|_| &read),
            };
            if let Some(name) = look.string(name).map(Into::into) {
                read.functions.insert(name, id);
            }
        }
        Ok(read)
    }

    fn string(&self, offset: u32) -> Option<&str> {
        let at = offset.checked_sub(self.first_string)? as usize;
        let text = self.bytes[self.strings.clone()].get(at..)?;
        let end = text.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&text[..end]).ok()
    }

    fn get(&self, id: u32) -> Option<&Type> {
        self.types.get(id.checked_sub(self.first)? as usize)
    }

    fn word(&self, at: usize) -> Option<u32> {
        let four = self.bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(four.try_into().ok()?))
    }
}

/// The kernel's types, and with them those of its modules as they are asked for.
#[derive(Debug)]
pub struct Btf {
    kernel: Types,
    modules: HashMap<String, Option<Types>>,
}

impl Btf {
    /// That of the running kernel.
    pub fn of_this_kernel() -> Result<Self, BtfError> {
        let kernel = Types::parse(read(&Path::new(FOLDER).join("vmlinux"))?, None)?;
        Ok(Btf {
            kernel,
            modules: HashMap::new(),
        })
    }

    /// With the kernel's and one module's bytes.
    pub fn of(kernel: Vec<u8>, module: Option<(&str, Vec<u8>)>) -> Result<Self, BtfError> {
        let kernel = Types::parse(kernel, None)?;
        let mut modules = HashMap::new();
        if let Some((name, bytes)) = module {
            let types = Types::parse(bytes, Some(&kernel))?;
            modules.insert(name.to_owned(), Some(types));
        }
        Ok(Btf { kernel, modules })
    }

    /// Whether a module tells its types.
    pub fn has_module(module: &str) -> bool {
        !module.contains('/') && Path::new(FOLDER).join(module).exists()
    }

    /// A function of the kernel, or of one of its modules.
    pub fn function(&mut self, module: Option<&str>, name: &str) -> Option<Function> {
        if let Some(module) = module {
            self.module(module)?;
        }
        let own = module.and_then(|module| self.modules.get(module)?.as_ref());
        let look = Look {
            kernel: &self.kernel,
            module: own,
        };
        look.function(own.unwrap_or(&self.kernel), name)
    }

    fn module(&mut self, module: &str) -> Option<&Types> {
        if !self.modules.contains_key(module) {
            let known = !module.contains('/');
            let types = known.then(|| read(&Path::new(FOLDER).join(module)).ok());
            let types = types
                .flatten()
                .and_then(|bytes| Types::parse(bytes, Some(&self.kernel)).ok());
            self.modules.insert(module.to_owned(), types);
        }
        self.modules.get(module)?.as_ref()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, BtfError> {
    if fs::metadata(path)?.len() > MOST_BYTES {
        return Err(BtfError::Malformed("larger than BTF is"));
    }
    Ok(fs::read(path)?)
}

/// Both sets of types, which refer to each other by one numbering.
struct Look<'a> {
    kernel: &'a Types,
    module: Option<&'a Types>,
}

impl Look<'_> {
    fn function(&self, of: &Types, name: &str) -> Option<Function> {
        let (_, function) = self.get(*of.functions.get(name)?)?;
        let (owner, proto) = self.get(function.reference)?;
        if proto.kind != FUNC_PROTO {
            return None;
        }
        let mut parameters = Vec::new();
        for n in 0..usize::from(proto.members) {
            let name = owner.word(proto.rest + 8 * n)?;
            let kind = owner.word(proto.rest + 8 * n + 4)?;
            let name = self.string(name).unwrap_or_default().to_owned();
            parameters.push((self.shown(kind, DEEPEST), name));
        }
        Some(Function {
            result: self.shown(proto.reference, DEEPEST),
            parameters,
        })
    }

    fn get(&self, id: u32) -> Option<(&Types, &Type)> {
        let sets = [Some(self.kernel), self.module];
        (sets.into_iter().flatten()).find_map(|types| Some((types, types.get(id)?)))
    }

    fn string(&self, offset: u32) -> Option<&str> {
        let module = self.module.filter(|module| offset >= module.first_string);
        module.unwrap_or(self.kernel).string(offset)
    }

    /// The type as C writes it, near enough.
    fn shown(&self, id: u32, depth: u32) -> String {
        if id == 0 {
            return "void".to_owned();
        }
        let Some((_, found)) = self.get(id).filter(|_| depth > 0) else {
            return "?".to_owned();
        };
        let name = self.string(found.name).unwrap_or_default();
        let inner = || self.shown(found.reference, depth - 1);
        match found.kind {
            PTR => format!("{} *", inner()),
            STRUCT | FORWARD => format!("struct {name}"),
            UNION => format!("union {name}"),
            ENUM | ENUM64 => format!("enum {name}"),
            CONST => format!("const {}", inner()),
            VOLATILE => format!("volatile {}", inner()),
            RESTRICT | TYPE_TAG => inner(),
            FUNC_PROTO => "function".to_owned(),
            ARRAY => "array".to_owned(),
            _ => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BTF of types (name, kind, members, reference, rest), with these strings.
    fn btf(types: &[(u32, u8, u16, u32, &[u32])], strings: &[u8]) -> Vec<u8> {
        let mut section = Vec::new();
        for (name, kind, members, reference, rest) in types {
            let info = u32::from(*kind) << 24 | u32::from(*members);
            for word in [*name, info, *reference].iter().chain(*rest) {
                section.extend(word.to_le_bytes());
            }
        }
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let sizes = [
            24,
            0,
            section.len() as u32,
            section.len() as u32,
            strings.len() as u32,
        ];
        bytes.extend(sizes.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(section);
        bytes.extend(strings);
        bytes
    }

    fn kernel() -> Vec<u8> {
        // 1 int, 2 file, 3 file *, 4 int(file * from, int), 5 int open(…)
        btf(
            &[
                (1, INT, 0, 4, &[32]),
                (5, FORWARD, 0, 0, &[]),
                (0, PTR, 0, 2, &[]),
                (0, FUNC_PROTO, 2, 1, &[10, 3, 0, 1]),
                (15, FUNC, 0, 4, &[]),
            ],
            b"\0int\0file\0from\0open\0",
        )
    }

    #[test]
    fn functions_of_the_kernel_and_of_a_module() {
        // The module's: 6 const file, 7 const file *, 8 void(const file * to), 9 close.
        let module = btf(
            &[
                (0, CONST, 0, 2, &[]),
                (0, PTR, 0, 6, &[]),
                (0, FUNC_PROTO, 1, 0, &[21, 7]),
                (24, FUNC, 0, 8, &[]),
                // One whose name the kernel has, too.
                (15, FUNC, 0, 8, &[]),
            ],
            b"\0to\0close\0",
        );
        let mut btf = Btf::of(kernel(), Some(("nvidia", module))).unwrap();
        let open = btf.function(None, "open").unwrap();
        assert_eq!(
            open.declaration("open"),
            "int open(struct file * from, int )"
        );
        let close = btf.function(Some("nvidia"), "close").unwrap();
        assert_eq!(
            close.declaration("close"),
            "void close(const struct file * to)"
        );
        let own = btf.function(Some("nvidia"), "open").unwrap();
        assert_eq!(own.parameters.len(), 1);
        assert_eq!(btf.function(None, "close"), None);
        assert_eq!(btf.function(Some("../../etc"), "close"), None);
    }

    #[test]
    fn bytes_that_lie_are_refused_or_told_as_far_as_they_go() {
        let whole = kernel();
        for length in 0..whole.len() {
            assert!(
                Types::parse(whole[..length].to_vec(), None).is_err(),
                "{length}"
            );
        }
        for place in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[place] = value;
                if let Ok(mut btf) = Btf::of(bytes, None) {
                    let _ = btf.function(None, "open");
                }
            }
        }
        // A pointer to itself has no end.
        let endless = btf(
            &[
                (0, PTR, 0, 1, &[]),
                (0, FUNC_PROTO, 0, 1, &[]),
                (1, FUNC, 0, 2, &[]),
            ],
            b"\0f\0",
        );
        let f = Btf::of(endless, None).unwrap().function(None, "f").unwrap();
        assert!(f.result.starts_with("? * *"), "{}", f.result);
    }
}
