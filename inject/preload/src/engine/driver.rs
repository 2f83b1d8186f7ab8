//! The library that stand-ins are for: CUDA's driver, and where its functions go on.

use super::runaway;
use super::stand_ins::StandIns;
use crate::layout::Entry;
use crate::objects::Object;
use alloc::vec::Vec;

/// CUDA's driver. Other libraries may define its functions too, and lead to it: stubs and wrappers. What
/// stands in for a function stands in for the driver's alone, so that what it continues with never comes
/// back to it.
pub struct Driver {
    pub library: usize,
    is_named_so: bool,
    functions: Vec<Function>,
}

/// One name of a function of the driver's.
struct Function {
    name: Vec<u8>,
    /// None: it is not hooked.
    number: Option<u16>,
    /// Continues with the function itself.
    original: usize,
    /// Another name for the function before it.
    is_alias: bool,
}

impl Driver {
    /// An object if stand-ins are for it from now on: the one that has the driver's name, and of several the
    /// last, to which the others lead.
    pub fn instead_of(before: Option<&Driver>, object: &Object, library: usize) -> Option<Driver> {
        let is_named_so = is_named_libcuda(object.path());
        let is_better = before.is_none_or(|before| is_named_so || !before.is_named_so);
        (object.defines(b"cuInit") && is_better).then(|| Driver {
            library,
            is_named_so,
            functions: Vec::new(),
        })
    }

    pub fn keep(&mut self, name: &[u8], number: Option<u16>, original: usize) {
        self.functions.push(Function {
            name: name.to_vec(),
            number,
            original,
            is_alias: false,
        });
    }

    /// Another name for the function that was kept last.
    pub fn keep_same(&mut self, name: &[u8]) {
        self.functions.push(Function {
            name: name.to_vec(),
            number: None,
            original: 0,
            is_alias: true,
        });
    }

    /// A library has come that stands in for functions, some of which may be hooked already.
    pub fn turn_to(&self, stand_ins: &mut StandIns, entries: *mut Entry) {
        for function in &self.functions {
            match function.number {
                _ if function.is_alias => stand_ins.tell_last_same(&function.name),
                None => stand_ins.tell_last(&function.name, function.original),
                Some(number) => {
                    // SAFETY: a row of the table; calls read its target as one word.
                    unsafe {
                        let target = &raw mut (*entries.add(number.into())).target;
                        let next = stand_ins.turn_to_last(&function.name, target.read());
                        target.write_volatile(next);
                    }
                }
            }
        }
    }

    /// Nothing stands in for these functions any more.
    pub fn turn_back(&self, entries: *mut Entry) {
        for (number, original) in self.hooked() {
            // SAFETY: a row of the table; calls read its target as one word.
            unsafe { (&raw mut (*entries.add(number.into())).target).write_volatile(original) };
        }
    }

    /// For code that has to do without stand-ins.
    pub fn publish_originals(&self, entries: *mut Entry) {
        runaway::publish(entries, self.hooked().collect());
    }

    fn hooked(&self) -> impl Iterator<Item = (u16, usize)> + '_ {
        let functions = self.functions.iter();
        functions.filter_map(|one| Some((one.number?, one.original)))
    }
}

fn is_named_libcuda(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.starts_with(b"libcuda.so")
}
