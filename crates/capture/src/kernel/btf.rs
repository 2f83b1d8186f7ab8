//! BTF: the kernel's own description of its types, read by libbpf for one purpose: the names and types of
//! functions' arguments. A module's types continue those of the kernel.
//!
//! libbpf finds a name by looking at all types; `probes --arguments` asks for tens of thousands, so there is an
//! index of functions here. `gpubpf` has a reader of its own for the objects that users bring, which may lie.

use libbpf_sys as sys;
use std::{
    collections::HashMap,
    ffi::{CStr, CString},
    fmt::Write as _,
    io,
    path::Path,
    ptr::NonNull,
};

const FOLDER: &str = "/sys/kernel/btf";
/// Pointers to pointers to arrays of …
const DEEPEST: u32 = 16;

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

/// The kernel's types, and with them those of its modules as they are asked for.
#[derive(Debug)]
pub struct Btf {
    // Those of modules refer to the kernel's, and go first.
    modules: HashMap<String, Option<Types>>,
    kernel: Types,
}

impl Btf {
    /// That of the running kernel.
    pub fn of_this_kernel() -> io::Result<Self> {
        Ok(Btf {
            kernel: Types::read(&Path::new(FOLDER).join("vmlinux"), None)?,
            modules: HashMap::new(),
        })
    }

    /// Whether a module tells its types.
    pub fn has_module(module: &str) -> bool {
        !module.contains('/') && Path::new(FOLDER).join(module).exists()
    }

    /// A function of the kernel, or of one of its modules.
    pub fn function(&mut self, module: Option<&str>, name: &str) -> Option<Function> {
        let types = match module {
            None => &self.kernel,
            Some(module) => {
                if !self.modules.contains_key(module) {
                    let types = Self::has_module(module)
                        .then(|| Types::read(&Path::new(FOLDER).join(module), Some(&self.kernel)));
                    let types = types.and_then(Result::ok);
                    self.modules.insert(module.to_owned(), types);
                }
                self.modules.get(module)?.as_ref()?
            }
        };
        types.function(name)
    }
}

/// The types of the kernel, or of a module whose kernel's outlive it.
#[derive(Debug)]
struct Types {
    btf: NonNull<sys::btf>,
    functions: HashMap<Box<str>, u32>,
}

// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Types {}

impl Types {
    fn read(path: &Path, kernel: Option<&Types>) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_encoded_bytes())?;
        // SAFETY: the path ends in a zero; no base is null.
        Self::made(
            unsafe { sys::btf__parse_raw_split(path.as_ptr(), base(kernel)) },
            kernel,
        )
    }

    #[cfg(test)]
    fn of(bytes: &[u8], kernel: Option<&Types>) -> io::Result<Self> {
        let size = bytes.len() as u32;
        // SAFETY: libbpf copies so many bytes.
        let btf = unsafe { sys::btf__new_split(bytes.as_ptr().cast(), size, base(kernel)) };
        Self::made(btf, kernel)
    }

    fn made(btf: *mut sys::btf, kernel: Option<&Types>) -> io::Result<Self> {
        // libbpf says why in errno.
        let btf = NonNull::new(btf).ok_or_else(io::Error::last_os_error)?;
        let mut types = Types {
            btf,
            functions: HashMap::new(),
        };
        let first = kernel.map_or(1, Types::count);
        for id in first..types.count() {
            if let Some(found) = types
                .get(id)
                .filter(|found| found.kind == sys::BTF_KIND_FUNC)
                && let Some(name) = types.string(found.name)
            {
                let name = name.into();
                types.functions.insert(name, id);
            }
        }
        Ok(types)
    }

    /// How many types there are, the kernel's included.
    fn count(&self) -> u32 {
        // SAFETY: it lives until it is dropped.
        unsafe { sys::btf__type_cnt(self.btf.as_ptr()) }
    }

    fn function(&self, name: &str) -> Option<Function> {
        let function = self.get(*self.functions.get(name)?)?;
        let proto = self.get(function.reference)?;
        let parameters = (proto.parameters()?.iter()).map(|parameter| {
            let name = self.string(parameter.name_off).unwrap_or_default();
            (self.shown(parameter.type_, DEEPEST), name.to_owned())
        });
        Some(Function {
            parameters: parameters.collect(),
            result: self.shown(proto.reference, DEEPEST),
        })
    }

    fn get(&self, id: u32) -> Option<Type<'_>> {
        // SAFETY: numbers of no type give null, and types stay where they are as long as nobody adds any.
        let found = unsafe { sys::btf__type_by_id(self.btf.as_ptr(), id).as_ref() }?;
        Some(Type {
            name: found.name_off,
            kind: found.info >> 24 & 0x1f,
            // SAFETY: both members are a word.
            reference: unsafe { found.__bindgen_anon_1.type_ },
            raw: found,
        })
    }

    fn string(&self, offset: u32) -> Option<&str> {
        // SAFETY: offsets past the end give null, and libbpf has checked that the last string ends.
        let text = unsafe {
            let text = sys::btf__name_by_offset(self.btf.as_ptr(), offset);
            NonNull::new(text.cast_mut()).map(|text| CStr::from_ptr(text.as_ptr()))
        };
        text?.to_str().ok()
    }

    /// The type as C writes it, near enough.
    fn shown(&self, id: u32, depth: u32) -> String {
        if id == 0 {
            return "void".to_owned();
        }
        let Some(found) = self.get(id).filter(|_| depth > 0) else {
            return "?".to_owned();
        };
        let name = self.string(found.name).unwrap_or_default();
        let inner = || self.shown(found.reference, depth - 1);
        match found.kind {
            sys::BTF_KIND_PTR => format!("{} *", inner()),
            sys::BTF_KIND_STRUCT | sys::BTF_KIND_FWD => format!("struct {name}"),
            sys::BTF_KIND_UNION => format!("union {name}"),
            sys::BTF_KIND_ENUM | sys::BTF_KIND_ENUM64 => format!("enum {name}"),
            sys::BTF_KIND_CONST => format!("const {}", inner()),
            sys::BTF_KIND_VOLATILE => format!("volatile {}", inner()),
            sys::BTF_KIND_RESTRICT | sys::BTF_KIND_TYPE_TAG => inner(),
            sys::BTF_KIND_FUNC_PROTO => "function".to_owned(),
            sys::BTF_KIND_ARRAY => "array".to_owned(),
            _ => name.to_owned(),
        }
    }
}

impl Drop for Types {
    fn drop(&mut self) {
        // SAFETY: it was made by libbpf, and nobody has it any more.
        unsafe { sys::btf__free(self.btf.as_ptr()) };
    }
}

fn base(kernel: Option<&Types>) -> *mut sys::btf {
    kernel.map_or(std::ptr::null_mut(), |kernel| kernel.btf.as_ptr())
}

/// One type.
struct Type<'a> {
    name: u32,
    kind: u32,
    /// The size, or the type that this one is of.
    reference: u32,
    raw: &'a sys::btf_type,
}

impl Type<'_> {
    /// Those of a function's prototype.
    fn parameters(&self) -> Option<&[sys::btf_param]> {
        let count = (self.raw.info & 0xffff) as usize;
        let first = std::ptr::from_ref(self.raw).wrapping_add(1).cast();
        // SAFETY: a prototype is followed by so many, as libbpf has checked.
        (self.kind == sys::BTF_KIND_FUNC_PROTO)
            .then(|| unsafe { std::slice::from_raw_parts(first, count) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BTF of types (name, kind, members, reference, rest), with these strings.
    fn btf(types: &[(u32, u32, u16, u32, &[u32])], strings: &[u8]) -> Vec<u8> {
        let mut section = Vec::new();
        for (name, kind, members, reference, rest) in types {
            let info = *kind << 24 | u32::from(*members);
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
                (1, sys::BTF_KIND_INT, 0, 4, &[32]),
                (5, sys::BTF_KIND_FWD, 0, 0, &[]),
                (0, sys::BTF_KIND_PTR, 0, 2, &[]),
                (0, sys::BTF_KIND_FUNC_PROTO, 2, 1, &[10, 3, 0, 1]),
                (15, sys::BTF_KIND_FUNC, 0, 4, &[]),
            ],
            b"\0int\0file\0from\0open\0",
        )
    }

    #[test]
    fn functions_of_the_kernel_and_of_a_module() {
        // The module's: 6 const file, 7 const file *, 8 void(const file * to), 9 close.
        let module = btf(
            &[
                (0, sys::BTF_KIND_CONST, 0, 2, &[]),
                (0, sys::BTF_KIND_PTR, 0, 6, &[]),
                (0, sys::BTF_KIND_FUNC_PROTO, 1, 0, &[21, 7]),
                (24, sys::BTF_KIND_FUNC, 0, 8, &[]),
                // One whose name the kernel has, too.
                (15, sys::BTF_KIND_FUNC, 0, 8, &[]),
            ],
            b"\0to\0close\0",
        );
        let kernel = Types::of(&kernel(), None).unwrap();
        let module = Types::of(&module, Some(&kernel)).unwrap();
        let open = kernel.function("open").unwrap();
        assert_eq!(
            open.declaration("open"),
            "int open(struct file * from, int )"
        );
        let close = module.function("close").unwrap();
        assert_eq!(
            close.declaration("close"),
            "void close(const struct file * to)"
        );
        let own = module.function("open").unwrap();
        assert_eq!(own.parameters.len(), 1);
        assert_eq!(kernel.function("close"), None);
        assert!(!Btf::has_module("../../etc"));
    }

    #[test]
    fn bytes_that_lie_are_refused_or_told_as_far_as_they_go() {
        let whole = kernel();
        for length in 0..whole.len() {
            assert!(Types::of(&whole[..length], None).is_err(), "{length}");
        }
        for place in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[place] = value;
                if let Ok(types) = Types::of(&bytes, None) {
                    let _ = types.function("open");
                }
            }
        }
        // A pointer to itself has no end.
        let endless = btf(
            &[
                (0, sys::BTF_KIND_PTR, 0, 1, &[]),
                (0, sys::BTF_KIND_FUNC_PROTO, 0, 1, &[]),
                (1, sys::BTF_KIND_FUNC, 0, 2, &[]),
            ],
            b"\0f\0",
        );
        let f = Types::of(&endless, None).unwrap().function("f").unwrap();
        assert!(f.result.starts_with("? * *"), "{}", f.result);
    }
}
