//! Hooking an object's functions: everything is prepared first, said second, and done last.

use super::candidates::Candidate;
use super::stubs::ROOM;
use super::{Hooked, Hooks, lines};
use crate::engine::changes;
use crate::engine::code::{self, Part, Patch, Writer};
use crate::engine::redirect::{Data, How, Redirect};
use crate::engine::report;
use crate::engine::select::Method;
use crate::objects::{Object, file::Mapped};
use crate::sys;
use crate::text::{self, Near};
use alloc::vec::Vec;

/// What is being hooked.
pub(super) struct Target<'a> {
    pub(super) object: &'a Object,
    pub(super) file: &'a Mapped,
    pub(super) parts: &'a [Part],
    pub(super) library: usize,
    /// Stand-ins are for its functions.
    pub(super) is_driver: bool,
}

/// What is about to be done to a library.
#[derive(Default)]
pub(super) struct Work {
    pub(super) patches: Vec<Patch>,
    pub(super) redirects: Vec<Redirect>,
    /// Looked up with the first function that is redirected.
    data: Option<Data>,
    pub(super) lines: Vec<u8>,
    pub(super) hooked: usize,
}

impl Work {
    /// Functions that lookups are turned away from.
    fn turned(&self) -> Vec<usize> {
        let by_symbols = |redirect: &&Redirect| matches!(redirect.how, How::Symbols(_));
        let redirects = self.redirects.iter().filter(by_symbols);
        redirects.map(|redirect| redirect.address).collect()
    }
}

/// What changing code takes; without all of it, why code cannot be changed.
struct Tools {
    writer: Option<Writer>,
    near: Option<Near>,
    refusal: &'static str,
}

impl Tools {
    /// For so many functions, of which `first` is the first.
    fn new(method: Method, parts: &[Part], first: usize, wanted: usize) -> Tools {
        let may_patch = method == Method::Patch;
        let writer = (may_patch && text::can_make_code())
            .then(|| Writer::open(parts))
            .flatten();
        let near = (writer.as_ref()).and_then(|_| Near::reserve(first, wanted * ROOM + 4096));
        let refusal = match (&writer, &near) {
            _ if !may_patch => "code patching is turned off",
            (None, _) => "this process may not modify its code",
            (_, None) => "no free memory within reach",
            _ => "",
        };
        Tools {
            writer,
            near,
            refusal,
        }
    }

    /// Nothing was changed, and nothing will be.
    fn put_away(self) {
        if let Some((at, bytes)) = self.near.map(|near| near.range()) {
            // SAFETY: nothing jumps there.
            unsafe { sys::unmap(at, bytes) };
        }
        self.writer.into_iter().for_each(Writer::close);
    }
}

impl Hooks {
    pub(super) fn hook(
        &mut self,
        object: &Object,
        file: &Mapped,
        mut found: Vec<Candidate>,
    ) -> Option<Hooked> {
        // Of several names for one function the plainest stands for all.
        found.sort_by_key(|one| (one.address, one.name.len(), one.name));
        let library = self.library(object);
        let of = Target {
            object,
            file,
            parts: &code::parts(object, file),
            library,
            is_driver: self.becomes_driver(object, library),
        };
        let wanted = (found.iter()).filter(|one| self.wants(one.name)).count();
        let first = found.first()?.address;
        let mut tools = Tools::new(self.options.method, of.parts, first, wanted);
        let mut work = Work::default();
        let mut previous = 0;
        for (place, one) in found.iter().enumerate() {
            if one.address == previous {
                work.hooked += 1;
                self.tell_same(of.is_driver, one.name);
            } else if !self.wants(one.name) {
                self.tell(of.is_driver, one.name, one.address);
            } else if self.hook_function(&of, &found[place..], &mut tools, &mut work) {
                previous = one.address;
            }
        }
        let sealed = tools.near.as_ref().is_none_or(Near::seal);
        if work.hooked == 0 || !sealed {
            let why = match tools.refusal {
                _ if wanted == 0 => "none of its functions was selected",
                "" => "none of its functions' entries can be patched",
                refusal => refusal,
            };
            tools.put_away();
            lines::refuse_all(&mut work.lines, library, found.len(), object, why);
            report::say(&work.lines);
            return None;
        }
        if let Some(driver) = self.driver.as_ref().filter(|_| of.is_driver) {
            driver.publish_originals(self.entries);
        }
        let turned = work.turned();
        if !turned.is_empty() {
            self.hand_out_thunks(library);
        }
        self.announce(object, library, found.len(), &work, tools.writer.as_ref());
        for patch in &work.patches {
            changes::add(patch, false);
        }
        if let Some(writer) = tools.writer {
            // Looked at again: the kernel, putting a breakpoint into the same page just then, may have copied
            // the page before the write.
            for _ in 0..3 {
                let missing = work.patches.iter().filter(|patch| !patch.is_there());
                missing.for_each(|patch| writer.write(patch));
            }
            writer.close();
        }
        if let Some(data) = work.data {
            self.turn(object, &data, &work.redirects);
        }
        Some(Hooked {
            library: Some(library),
            near: tools.near.map(|near| near.range()),
            turned,
            code: (first, found.last()?.address),
        })
    }

    /// Prepares the first of `names`; the others may be names of it too. False: it cannot be hooked.
    fn hook_function(
        &mut self,
        of: &Target,
        names: &[Candidate],
        tools: &mut Tools,
        work: &mut Work,
    ) -> bool {
        let one = &names[0];
        let number = match self.libraries[of.library].numbers.get(one.name) {
            Some(number) => usize::from(*number),
            None => self.functions,
        };
        let next = names.iter().find(|next| next.address > one.address);
        let mut same = names.iter().take_while(|name| name.address == one.address);
        let patched = match &mut tools.near {
            None => Err(tools.refusal),
            Some(_) if same.any(|name| self.options.leaves_intact(name.name)) => {
                Err("its code must not be patched")
            }
            Some(near) => self.prepare(of, (one, next.map(|next| next.address)), number, near),
        };
        let done = match patched {
            Ok((patch, original)) => {
                work.patches.push(patch);
                Ok(original)
            }
            Err(why) if changes::is_only_code() => Err(why),
            Err(why) => {
                let data = work.data.get_or_insert_with(|| {
                    let mut data = Data::of(of.object, of.file.segments());
                    data.learn_relocations(of.object);
                    data
                });
                match self.redirect(of, names, number, data) {
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
                work.hooked += 1;
                self.keep(of.is_driver, one.name, Some(number as u16), original);
                self.name(of.library, one.name, number, &mut work.lines);
            }
            Err(why) => {
                self.tell(of.is_driver, one.name, one.address);
                lines::skip(&mut work.lines, of.library, one.name, why);
            }
        }
        done.is_ok()
    }
}
