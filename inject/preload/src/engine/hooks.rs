//! The objects of a process: which of them are hooked, and what is known of each.

mod candidates;
mod lines;
mod redirects;
mod stubs;
mod survey;
mod work;

use self::lines::{path_of, push_line, say_about};
use self::survey::Survey;
use self::work::Target;
use super::driver::Driver;
use super::entry::entry;
use super::report;
use super::select::{self, Options};
use super::stand_ins::StandIns;
use super::{changes, stack, watch, window};
use crate::layout::{Entry, Stage};
use crate::objects::{
    self, Loader, Object,
    file::{FileNames, Mapped},
};
use crate::sys;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

const UNWATCHED: &[u8] =
    b"note the C library could not be patched: if the program installs a strict seccomp filter, tracing may kill it\n";

pub struct Hooks {
    entries: *mut Entry,
    whole: usize,
    brief: usize,
    stack_entry: usize,
    thread: isize,
    loader: *const Loader,
    options: Options,
    modules: Vec<Module>,
    libraries: Vec<Library>,
    functions: usize,
    /// Functions that were turned to thunks, with these.
    turned: BTreeMap<usize, usize>,
    /// The C library has been seen to.
    watches: bool,
    stand_ins: StandIns,
    /// The library that stand-ins are for.
    driver: Option<Driver>,
    survey: Survey,
}

/// An object as it was seen in the loader's list.
struct Module {
    bias: usize,
    dynamic: usize,
    hooked: Hooked,
    seen: bool,
}

/// A library under its path; its functions keep their numbers when it is loaded again.
struct Library {
    path: Vec<u8>,
    numbers: BTreeMap<Vec<u8>, u16>,
}

/// What was done to a library, and has to be undone when it is gone.
#[derive(Default)]
struct Hooked {
    /// Which of the libraries it is.
    library: Option<usize>,
    near: Option<(usize, usize)>,
    /// Functions that have been turned to thunks.
    turned: Vec<usize>,
    /// Its first and its last function that was considered.
    code: (usize, usize),
}

/// The entries of a function's last bytes: its jump is within these.
const JUMP_WITHIN: usize = 64;

impl Hooks {
    pub fn new(stage: &Stage, options: Options) -> Hooks {
        Hooks {
            entries: stage.entries,
            whole: stage.whole,
            brief: stage.brief,
            stack_entry: stage.stack_entry,
            thread: stage.thread,
            loader: stage.loader,
            options,
            modules: Vec::new(),
            libraries: Vec::new(),
            functions: super::nvtx::NUMBERS + super::torch::NUMBERS,
            turned: BTreeMap::new(),
            watches: false,
            stand_ins: StandIns::default(),
            driver: None,
            survey: Survey::default(),
        }
    }

    /// Does ahead of a scan, while other threads run, what takes long and needs no lock.
    pub fn survey(&mut self) {
        self.survey.look();
    }

    pub fn scan(&mut self) {
        for module in &mut self.modules {
            module.seen = false;
        }
        // SAFETY: the loader's lock is held, and its list is complete.
        for object in unsafe { objects::objects(self.loader) } {
            let key = (object.bias, object.dynamic as usize);
            let known = self
                .modules
                .iter_mut()
                .find(|module| (module.bias, module.dynamic) == key);
            if let Some(module) = known {
                module.seen = true;
                continue;
            }
            if self.options.has_stacks() {
                stack::add_object(&object);
            } else if self.options.has_lines() {
                stack::add_interpreter(&object);
            } else if changes::is_only_code() {
                // Kernels were registered before: the tracer finds their names in the files.
                stack::say_object(&object);
            }
            if self.stand_ins.look_at(&object)
                && let Some(driver) = &self.driver
            {
                driver.turn_to(&mut self.stand_ins, self.entries);
            }
            let hooked = self.consider(&object).unwrap_or_default();
            super::torch::look_at(&object, self.loader);
            if !self.watches && watch::is_libc(&object) {
                self.watches = true;
                if !watch::install(&object, self.loader) {
                    report::say(UNWATCHED);
                }
            }
            self.modules.push(Module {
                bias: key.0,
                dynamic: key.1,
                hooked,
                seen: true,
            });
        }
        let (turned, driver) = (&mut self.turned, &mut self.driver);
        self.modules.retain(|module| {
            if !module.seen {
                driver.take_if(|driver| module.hooked.library == Some(driver.library));
                if module.hooked.library.is_some() {
                    let (first, last) = module.hooked.code;
                    let code = first as u64..(last + JUMP_WITHIN) as u64;
                    changes::forget(|change| code.contains(&change.at));
                }
                if let Some((at, bytes)) = module.hooked.near {
                    // SAFETY: the library is gone, and with it all that jumped there.
                    unsafe { sys::unmap(at, bytes) };
                }
                for function in &module.hooked.turned {
                    turned.remove(function);
                }
                stack::remove_object(module.bias, module.dynamic);
            }
            module.seen
        });
        self.survey.forget();
    }

    /// Another session. With the same selection of functions, what was prepared for them is used again; for another,
    /// all of it is prepared anew, under new numbers: calls that are under way still use the old.
    pub fn begin_again(&mut self, options: Options) {
        if options.is_same(&self.options) {
            return;
        }
        self.options = options;
        report::forget_hooks();
        changes::forget(|change| change.lasting == 0);
        for module in self.modules.drain(..) {
            // Its new code stays: a thread may be in it.
            stack::remove_object(module.bias, module.dynamic);
        }
        self.libraries.clear();
        self.turned.clear();
        self.driver = None;
        self.stand_ins = StandIns::default();
    }

    /// Says which libraries came without our knowledge, and were not hooked.
    pub fn tell_missed(&self) {
        // SAFETY: the program ends, and the list is complete.
        for object in unsafe { objects::objects(self.loader) } {
            let key = (object.bias, object.dynamic as usize);
            let mut known = self.modules.iter();
            if known.any(|module| (module.bias, module.dynamic) == key) {
                continue;
            }
            let is_wanted = object.defines(b"cuInit")
                || object.defines(b"cudaMalloc")
                || self.options.names_library(object.path())
                || self.survey.names(&object).has_runtime;
            if is_wanted {
                say_about("missed", &path_of(&object));
            }
        }
    }

    /// Whether stand-ins are for this library from now on.
    fn becomes_driver(&mut self, object: &Object, library: usize) -> bool {
        let Some(driver) = Driver::instead_of(self.driver.as_ref(), object, library) else {
            return false;
        };
        if let Some(before) = self.driver.replace(driver) {
            before.turn_back(self.entries);
        }
        true
    }

    fn consider(&mut self, object: &Object) -> Option<Hooked> {
        let path = object.path();
        let exports_cuda = object.defines(b"cuInit") || object.defines(b"cudaMalloc");
        let named = self.options.names_library(path);
        let names = match exports_cuda {
            true => FileNames::default(),
            false => self.survey.names(object),
        };
        let has_runtime = names.has_runtime;
        if !exports_cuda && !has_runtime && names.hide_runtime(object) {
            say_about("hidden-runtime", &path_of(object));
        }
        if !(exports_cuda || named || has_runtime) {
            return None;
        }
        let Some(file) = Mapped::object(object) else {
            say_about("changed-file", path);
            return None;
        };
        let mut found = Vec::new();
        if exports_cuda || named {
            self.collect(&object.symbols(), object.bias, path, false, &mut found);
        }
        if has_runtime {
            let mut linked_in = Vec::new();
            self.collect(
                &file.symbols(object),
                object.bias,
                path,
                true,
                &mut linked_in,
            );
            // Calls of stubs are recorded where they lead to.
            if !self.are_stubs(object, &file, &linked_in) {
                found.append(&mut linked_in);
            }
        }
        if found.is_empty() {
            return None;
        }
        self.hook(object, &file, found)
    }

    /// Gives a function its number, and says which it is.
    fn name(&mut self, library: usize, name: &[u8], number: usize, lines: &mut Vec<u8>) {
        if number == self.functions {
            self.functions += 1;
            let numbers = &mut self.libraries[library].numbers;
            numbers.insert(name.to_vec(), number as u16);
            push_line(
                lines,
                &[
                    "function ",
                    &lines::dec(number),
                    " ",
                    &lines::dec(library),
                    " ",
                ],
                name,
            );
        }
    }

    /// Another name of the function that was last hooked.
    fn tell_same(&mut self, is_driver: bool, name: &[u8]) {
        if let Some(driver) = self.driver.as_mut().filter(|_| is_driver) {
            self.stand_ins.tell_same(name);
            driver.keep_same(name);
        }
    }

    /// Says where a function of the driver's is that is not hooked.
    fn tell(&mut self, is_driver: bool, name: &[u8], address: usize) {
        if is_driver {
            self.stand_ins.tell(name, address);
        }
        self.keep(is_driver, name, None, address);
    }

    /// For stand-ins that come later.
    fn keep(&mut self, is_driver: bool, name: &[u8], number: Option<u16>, original: usize) {
        if let Some(driver) = self.driver.as_mut().filter(|_| is_driver) {
            driver.keep(name, number, original);
        }
    }

    fn wants(&self, name: &[u8]) -> bool {
        self.options.wants(name) || select::ends_context(name) || self.stand_ins.stands_in_for(name)
    }

    /// A function's row in the table that the code on every call reads.
    fn row(&mut self, of: &Target, name: &[u8], number: usize, original: usize) -> &Entry {
        let target = if of.is_driver {
            window::turn(name, self.stand_ins.turn(name, original))
        } else {
            original
        };
        // SAFETY: below the table's length; nothing calls it yet.
        unsafe {
            let row = self.entries.add(number);
            if number == self.functions {
                if self.options.wants_stack(name) {
                    stack::want(number);
                } else if self.options.wants_line(name) {
                    stack::want_python(number);
                }
                row.write(entry(
                    name,
                    of.object.path(),
                    number as u16,
                    target,
                    self.thread,
                ));
            } else {
                (*row).target = target;
            }
            &*row
        }
    }

    /// A file that is loaded a second time beside the first, in another namespace, is another library: each
    /// continues with its own code.
    fn library(&mut self, object: &Object) -> usize {
        let path = path_of(object);
        let is_loaded = |at: usize| {
            let mut modules = self.modules.iter();
            modules.any(|module| module.seen && module.hooked.library == Some(at))
        };
        let at = (0..self.libraries.len())
            .find(|at| self.libraries[*at].path == path && !is_loaded(*at));
        at.unwrap_or_else(|| {
            self.libraries.push(Library {
                path,
                numbers: BTreeMap::new(),
            });
            self.libraries.len() - 1
        })
    }
}
