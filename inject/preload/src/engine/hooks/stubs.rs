//! New code for a function: the stub that its entry jumps to, and its moved beginning.

use super::Hooks;
use super::candidates::Candidate;
use super::work::Target;
use crate::engine::code::{self, Patch};
use crate::engine::entry::known;
use crate::engine::first::Undo;
use crate::engine::prologue::{self, Detour, MOST_BYTES};
use crate::layout::{IS_BRIEF, MAX_FUNCTIONS};
use crate::text::{self, Near};
use alloc::vec::Vec;

/// Stub and moved beginning of one function, and what is left free so that both are in one cache line.
pub(super) const ROOM: usize = STUB + MOST_BYTES + LINE;
/// The first instruction taken back; mov r11, word; mov rax, common; jmp rax
const STUB: usize = Undo::MOST_BYTES + 10 + 10 + 2;
const LINE: usize = 64;

impl Hooks {
    /// The patch, and what continues with the function itself. `next` is where the next function begins.
    pub(super) fn prepare(
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
        let noted = self.options.wants_stack(one.name) || self.options.wants_line(one.name);
        let (word, common) = if noted {
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
        let before = code::jump_bytes(code, detour.at).ok_or("too short")?;
        Ok((Patch { at, before, jump }, original))
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
