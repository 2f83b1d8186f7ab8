//! Hooking an object: which functions, their stubs, and the patches.

use super::code::{self, Part, Patch, Writer};
use super::driver::Driver;
use super::entry::{entry, known};
use super::first::Undo;
use super::prologue::{self, Detour, MOST_BYTES};
use super::redirect::{Data, How, Redirect};
use super::report;
use super::select::{self, Method, Options};
use super::stand_ins::StandIns;
use super::{forward, stack, thunks, watch};
use crate::layout::{Entry, IS_BRIEF, MAX_FUNCTIONS, Stage};
use crate::objects::{self, Loader, Object, Symbols, file::Mapped};
use crate::sys;
use crate::text::{self, Near};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Stub and moved beginning of one function, and what is left free so that both are in one cache line.
const ROOM: usize = STUB + MOST_BYTES + LINE;
/// The first instruction taken back; mov r11, word; mov rax, common; jmp rax
const STUB: usize = Undo::MOST_BYTES + 10 + 10 + 2;
const LINE: usize = 64;
const UNWATCHED: &[u8] =
    b"note the C library could not be changed: if the program gives up system calls (seccomp), tracing may end it\n";

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

struct Candidate {
    name: &'static [u8],
    address: usize,
    size: usize,
    /// Where the loader's symbol is; 0: the loader knows none.
    symbol: usize,
}

/// What is being hooked.
struct Target<'a> {
    object: &'a Object,
    file: &'a Mapped,
    parts: &'a [Part],
    /// Stand-ins are for its functions.
    is_driver: bool,
}

/// What was done to a library, and has to be undone when it is gone.
#[derive(Default)]
struct Hooked {
    /// Which of the libraries it is.
    library: Option<usize>,
    near: Option<(usize, usize)>,
    /// Functions that have been turned to thunks.
    turned: Vec<usize>,
}

/// What is about to be done to a library.
#[derive(Default)]
struct Work {
    patches: Vec<Patch>,
    redirects: Vec<Redirect>,
    lines: Vec<u8>,
    hooked: usize,
}

impl Work {
    /// Functions that lookups are turned away from.
    fn turned(&self) -> Vec<usize> {
        let by_symbols = |redirect: &&Redirect| matches!(redirect.how, How::Symbols(_));
        let redirects = self.redirects.iter().filter(by_symbols);
        redirects.map(|redirect| redirect.address).collect()
    }
}

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
            functions: super::nvtx::NUMBERS,
            turned: BTreeMap::new(),
            watches: false,
            stand_ins: StandIns::default(),
            driver: None,
        }
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
            }
            if self.stand_ins.look_at(&object)
                && let Some(driver) = &self.driver
            {
                driver.turn_to(&mut self.stand_ins, self.entries);
            }
            let hooked = self.consider(&object).unwrap_or_default();
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
                || objects::file::has_runtime_symbols(&object);
            if is_wanted {
                let mut lines = Vec::new();
                push_line(&mut lines, &["about missed "], &path_of(&object));
                report::say(&lines);
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
        let has_runtime = !exports_cuda && objects::file::has_runtime_symbols(object);
        if !exports_cuda && !has_runtime && objects::file::hides_runtime(object) {
            let mut lines = Vec::new();
            push_line(&mut lines, &["about hidden-runtime "], &path_of(object));
            report::say(&lines);
        }
        if !(exports_cuda || named || has_runtime) {
            return None;
        }
        let Some(file) = Mapped::object(object) else {
            let mut lines = Vec::new();
            push_line(&mut lines, &["about changed-file "], path);
            report::say(&lines);
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

    fn collect(
        &self,
        symbols: &Symbols,
        bias: usize,
        path: &[u8],
        only_known: bool,
        found: &mut Vec<Candidate>,
    ) {
        for index in 0..symbols.count {
            let Some((symbol, name)) = symbols.get(index) else {
                continue;
            };
            if !symbol.is_defined_function() || !self.options.considers(path, name) {
                continue;
            }
            // A program's own functions may be called cudaThis and cudaThat, and nobody has the driver
            // linked in.
            if only_known && !is_of_runtime(name) {
                continue;
            }
            found.push(Candidate {
                name,
                address: bias.wrapping_add(symbol.value as usize),
                size: symbol.size as usize,
                symbol: if only_known {
                    0
                } else {
                    symbols.address_of(index)
                },
            });
        }
    }

    /// Whether an object's own copies of CUDA's functions do nothing but lead to another library's: lazy
    /// stubs, as XLA and implib.so make them. NVIDIA's own runtime has names that no stub has.
    fn are_stubs(&self, object: &Object, file: &Mapped, found: &[Candidate]) -> bool {
        if objects::file::is_nvidias_runtime(object) {
            return false;
        }
        let parts = code::parts(object, file);
        let codes = found.iter().filter_map(|one| {
            let code = code::original(object, file, &parts, (one.address, one.size));
            Some((one.address, code.ok()?))
        });
        forward::most_forward(codes)
    }

    fn hook(
        &mut self,
        object: &Object,
        file: &Mapped,
        mut found: Vec<Candidate>,
    ) -> Option<Hooked> {
        let exported = found.len();
        // Of several names for one function the plainest stands for all.
        found.sort_by_key(|one| (one.address, one.name.len(), one.name));
        let library = self.library(object);
        let is_driver = self.becomes_driver(object, library);
        let wanted = (found.iter()).filter(|one| self.wants(one.name)).count();
        let first = found.first()?.address;
        let parts = code::parts(object, file);
        let of = Target {
            object,
            file,
            parts: &parts,
            is_driver,
        };
        let may_patch = self.options.method == Method::Patch;
        let writer = (may_patch && text::can_make_code())
            .then(|| Writer::open(&parts))
            .flatten();
        let mut near = (writer.as_ref()).and_then(|_| Near::reserve(first, wanted * ROOM + 4096));
        let refusal = match (&writer, &near) {
            _ if !may_patch => "told to leave code alone",
            (None, _) => "this process may not change code",
            (_, None) => "no free memory within reach",
            _ => "",
        };
        let mut work = Work::default();
        let mut data = None;
        let mut previous = 0;
        for (place, one) in found.iter().enumerate() {
            if one.address == previous {
                work.hooked += 1;
                self.tell_same(is_driver, one.name);
                continue;
            }
            if !self.wants(one.name) {
                self.tell(is_driver, one.name, one.address);
                continue;
            }
            let number = match self.libraries[library].numbers.get(one.name) {
                Some(number) => usize::from(*number),
                None => self.functions,
            };
            let rest = &found[place..];
            let next = rest.iter().find(|next| next.address > one.address);
            let mut names = rest.iter().take_while(|name| name.address == one.address);
            let patched = match &mut near {
                None => Err(refusal),
                Some(_) if names.any(|name| self.options.leaves_intact(name.name)) => {
                    Err("its code is to stay as it is")
                }
                Some(near) => {
                    let next = next.map(|next| next.address);
                    self.prepare(&of, (one, next), number, near)
                }
            };
            let done = match patched {
                Ok((patch, original)) => {
                    work.patches.push(patch);
                    Ok(original)
                }
                Err(why) => {
                    let data = data.get_or_insert_with(|| {
                        let mut data = Data::of(object, file.segments());
                        data.learn_relocations(object);
                        data
                    });
                    match self.redirect(&of, rest, number, data) {
                        Some((redirect, original)) => {
                            work.redirects.push(redirect);
                            Ok(original)
                        }
                        None => Err(why),
                    }
                }
            };
            match done {
                Ok(original) => {
                    previous = one.address;
                    work.hooked += 1;
                    self.keep(is_driver, one.name, Some(number as u16), original);
                    self.name(library, one.name, number, &mut work.lines);
                }
                Err(why) => {
                    self.tell(is_driver, one.name, one.address);
                    skip(&mut work.lines, library, one.name, why);
                }
            }
        }
        let sealed = near.as_ref().is_none_or(Near::seal);
        if work.hooked == 0 || !sealed {
            if let Some((at, bytes)) = near.map(|near| near.range()) {
                // SAFETY: nothing jumps there.
                unsafe { sys::unmap(at, bytes) };
            }
            writer.into_iter().for_each(Writer::close);
            let why = match refusal {
                _ if wanted == 0 => "none of its functions was asked for",
                "" => "no function's entry can be changed",
                refusal => refusal,
            };
            refuse_all(&mut work.lines, library, exported, object, why);
            report::say(&work.lines);
            return None;
        }
        if let Some(driver) = self.driver.as_ref().filter(|_| is_driver) {
            driver.publish_originals(self.entries);
        }
        let turned = work.turned();
        if !turned.is_empty() {
            self.hand_out_thunks(library);
        }
        self.announce(object, library, exported, &work, writer.as_ref());
        if let Some(writer) = writer {
            // Looked at again: the kernel, putting a breakpoint into the same page just then, may have copied
            // the page before the write.
            for _ in 0..3 {
                let missing = work.patches.iter().filter(|patch| !patch.is_there());
                missing.for_each(|patch| writer.write(patch));
            }
            writer.close();
        }
        if let Some(data) = data {
            self.turn(object, &data, &work.redirects);
        }
        Some(Hooked {
            library: Some(library),
            near: near.map(|near| near.range()),
            turned,
        })
    }

    /// The driver's own lookup knows nothing of symbols.
    fn hand_out_thunks(&mut self, library: usize) {
        for name in thunks::LOOKUPS {
            if let Some(number) = self.libraries[library].numbers.get(name) {
                // SAFETY: a row of the table; nothing calls it yet.
                let row = unsafe { &mut *self.entries.add((*number).into()) };
                row.target = thunks::lookup(name, row.target).unwrap_or(row.target);
            }
        }
    }

    /// Gives a function its number, and says which it is.
    fn name(&mut self, library: usize, name: &[u8], number: usize, lines: &mut Vec<u8>) {
        if number == self.functions {
            self.functions += 1;
            let numbers = &mut self.libraries[library].numbers;
            numbers.insert(name.to_vec(), number as u16);
            push_line(
                lines,
                &["function ", &dec(number), " ", &dec(library), " "],
                name,
            );
        }
    }

    /// Said before the first call can be recorded.
    fn announce(
        &self,
        object: &Object,
        library: usize,
        exported: usize,
        work: &Work,
        writer: Option<&Writer>,
    ) {
        let slots = |redirect: &Redirect| matches!(redirect.how, How::Slot(_));
        let mut methods = Vec::new();
        methods.extend(
            writer
                .filter(|_| !work.patches.is_empty())
                .map(Writer::method),
        );
        methods.extend(work.redirects.iter().any(slots).then_some("slots"));
        let by_symbols = work.redirects.iter().any(|redirect| !slots(redirect));
        methods.extend(by_symbols.then_some("symbols"));
        let mut lines = Vec::new();
        push_line(
            &mut lines,
            &[
                "library ",
                &dec(library),
                " hooked=",
                &dec(work.hooked),
                " exported=",
                &dec(exported),
                " method=",
                &methods.join("+"),
                " path=",
            ],
            &path_of(object),
        );
        lines.extend(&work.lines);
        report::say(&lines);
    }

    /// Hooks the first of `names` without its code being changed; the others may be names of it too.
    fn redirect(
        &mut self,
        of: &Target,
        names: &[Candidate],
        number: usize,
        data: &Data,
    ) -> Option<(Redirect, usize)> {
        let one = names.first()?;
        let thunk = thunks::of(number)?;
        let slot = (self.options.method != Method::Symbols)
            .then(|| data.slot_of(one.address, of.parts))
            .flatten();
        let (how, original) = match slot {
            Some(slot) => (How::Slot(slot), slot.function),
            None if self.options.method == Method::Slots => return None,
            None => {
                let same = names.iter().filter(|next| next.address == one.address);
                let symbols: Vec<usize> = same.map(|name| name.symbol).collect();
                if !symbols.iter().all(|symbol| data.may_change(*symbol)) {
                    return None;
                }
                (How::Symbols(symbols), one.address)
            }
        };
        self.row(of, one.name, number, original);
        let redirect = Redirect {
            address: one.address,
            thunk,
            how,
        };
        Some((redirect, original))
    }

    /// Turns what points to the functions to their thunks, in every object there is.
    fn turn(&mut self, object: &Object, data: &Data, redirects: &[Redirect]) {
        let mut turned = BTreeMap::new();
        for redirect in redirects {
            if data.turn(redirect) && matches!(redirect.how, How::Symbols(_)) {
                turned.insert(redirect.address, redirect.thunk);
            }
        }
        if turned.is_empty() {
            return;
        }
        self.turned.extend(&turned);
        thunks::publish(self.turned.iter().map(|(from, to)| (*from, *to)).collect());
        // SAFETY: the loader's lock is held, and its list is complete.
        for other in unsafe { objects::objects(self.loader) } {
            if other.bias == object.bias {
                data.turn_pointers(&other, &turned);
            } else if let Some(file) = Mapped::object(&other) {
                Data::of(&other, file.segments()).turn_pointers(&other, &turned);
            }
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
            self.stand_ins.turn(name, original)
        } else {
            original
        };
        // SAFETY: below the table's length; nothing calls it yet.
        unsafe {
            let row = self.entries.add(number);
            if number == self.functions {
                if self.options.wants_stack(name) {
                    stack::want(number);
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

    /// The patch, and what continues with the function itself. `next` is where the next function begins.
    fn prepare(
        &mut self,
        of: &Target,
        (one, next): (&Candidate, Option<usize>),
        number: usize,
        near: &mut Near,
    ) -> Result<(Patch, usize), &'static str> {
        if number >= MAX_FUNCTIONS {
            return Err("too many functions");
        }
        let code = &*code::original(of.object, of.file, of.parts, (one.address, one.size))?;
        let entry = one.address as u64;
        let detour = prologue::detour(code, entry, register_arguments(one.name))
            .map_err(prologue::Refusal::reason)?;
        if next.is_some_and(|next| next < one.address + detour.end()) {
            return Err("another function begins inside");
        }
        let move_to = |to: usize| {
            prologue::relocate(code, entry, one.size, detour.end(), to as u64)
                .map_err(prologue::Refusal::reason)
        };
        let mut bytes = stub_to(near.next(), &detour, 0, self.whole).len();
        let mut moved = move_to(near.next() + bytes)?;
        if near.next() % LINE + bytes + moved.len() > LINE {
            near.align(LINE);
            bytes = stub_to(near.next(), &detour, 0, self.whole).len();
            moved = move_to(near.next() + bytes)?;
        }
        let stub_at = near.next();
        let at = one.address + detour.at;
        let jump = text::near_jump(at, stub_at).ok_or("out of reach")?;
        let original = stub_at + bytes;
        let row = self.row(of, one.name, number, original);
        let (address, is_brief) = (&raw const *row as usize, row.flags & IS_BRIEF != 0);
        let (word, common) = if self.options.wants_stack(one.name) {
            (number, self.stack_entry)
        } else if is_brief {
            (address, self.brief)
        } else {
            (address, self.whole)
        };
        let stub = stub_to(stub_at, &detour, word, common);
        if stub.len() != bytes {
            return Err("out of reach");
        }
        near.push(&[stub, moved].concat()).ok_or("no room")?;
        Ok((Patch { at, jump }, original))
    }
}

/// How many arguments a function takes in general registers; all, where that is not known.
fn register_arguments(name: &[u8]) -> usize {
    let rows = known(name);
    let words = [rows.0, rows.1].into_iter().flatten();
    words
        .map(cuda::capture::register_words)
        .max()
        .unwrap_or(cuda::capture::REGISTER_WORDS)
}

/// Whether this is a function of CUDA's runtime.
fn is_of_runtime(name: &[u8]) -> bool {
    let text = core::str::from_utf8(name).unwrap_or("");
    select::is_cuda_name(name)
        && cuda::layer(text) == event::Layer::Runtime
        && known(name).0.is_some()
}

/// Code for `at`: takes back the function's first instruction, puts a word into r11 and goes on at `common`.
fn stub_to(at: usize, detour: &Detour, word: usize, common: usize) -> Vec<u8> {
    let mut stub = detour.undo.code().to_vec();
    stub.extend([0x49, 0xbb]);
    stub.extend(word.to_le_bytes());
    match text::near_jump(at + stub.len(), common) {
        Some(jump) => stub.extend(jump),
        // Not through a word of data: a call touches one line less.
        None => {
            stub.extend([0x48, 0xb8]);
            stub.extend(common.to_le_bytes());
            stub.extend([0xff, 0xe0]);
        }
    }
    stub
}

fn path_of(object: &Object) -> Vec<u8> {
    let path = object.path();
    if path.is_empty() {
        b"[program]".to_vec()
    } else {
        path.to_vec()
    }
}

fn refuse_all(lines: &mut Vec<u8>, index: usize, exported: usize, object: &Object, why: &str) {
    let counts = [
        "library ",
        &dec(index),
        " hooked=0 exported=",
        &dec(exported),
        " method=none path=",
    ];
    push_line(lines, &counts, &path_of(object));
    push_line(lines, &["about not-hooked ", why, ": "], &path_of(object));
}

fn skip(lines: &mut Vec<u8>, library: usize, name: &[u8], why: &str) {
    push_line(lines, &["skipped ", &dec(library), " "], name);
    lines.pop();
    push_line(lines, &[" ", why], b"");
}

fn push_line(lines: &mut Vec<u8>, words: &[&str], last: &[u8]) {
    for word in words {
        lines.extend(word.as_bytes());
    }
    lines.extend(
        last.iter()
            .map(|byte| if *byte == b'\n' { b'?' } else { *byte }),
    );
    lines.push(b'\n');
}

fn dec(number: usize) -> alloc::string::String {
    alloc::format!("{number}")
}
