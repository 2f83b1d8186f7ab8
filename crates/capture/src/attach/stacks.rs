//! The stacks of a process's threads, looked through for words: return addresses of signal handlers, and addresses that
//! handlers will return to.
#![allow(
    clippy::single_range_in_vec_init,
    reason = "one part of a stack is a list of one range"
)]

use crate::ptrace::{self, Registers};
use std::ops::Range;

/// Of a stack, at most so much is looked through.
const MOST_STACK: u64 = 16 << 20;

/// Where stacks can be: the process's writable memory, as it was when this was read.
pub struct Stacks(Vec<Range<u64>>);

impl Stacks {
    pub fn of(pid: u32) -> Stacks {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        Stacks(maps.lines().filter_map(writable).collect())
    }

    /// Whether one of the words on a thread's stack is such. A stack that cannot be read has any word.
    pub fn any_word(
        &self,
        tid: libc::pid_t,
        registers: &Registers,
        is_such: impl Fn(u64) -> bool,
    ) -> bool {
        let parts = self.parts(registers.stack(), registers.thread_block());
        parts
            .into_iter()
            .any(|part| any_word_in(tid, part, &is_such).unwrap_or(true))
    }

    /// From the stack's end up to where the C library keeps what it knows of the thread, above which there is no
    /// stack. A thread on another stack than its own (a handler's, a coroutine's) will come back to its own.
    fn parts(&self, stack: u64, block: u64) -> Vec<Range<u64>> {
        let around = |address: u64| self.0.iter().find(|part| part.contains(&address));
        let Some(here) = around(stack) else {
            return vec![stack..stack + 1];
        };
        let own = around(block);
        let begin = stack & !7;
        let is_own = here.contains(&block) && block > stack;
        let end = if is_own { block } else { here.end };
        let mut parts = vec![begin..end.min(begin + MOST_STACK)];
        // The first thread's block is in no stack, and nothing else is either.
        if let Some(own) = own.filter(|own| !is_own && *own != here) {
            parts.push(own.start.max(block.saturating_sub(MOST_STACK))..block);
        }
        parts
    }
}

fn writable(line: &str) -> Option<Range<u64>> {
    let mut words = line.split_ascii_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let range = number(begin)?..number(end)?;
    words.next()?.starts_with("rw").then_some(range)
}

/// None: it cannot be read.
fn any_word_in(
    tid: libc::pid_t,
    range: Range<u64>,
    is_such: &impl Fn(u64) -> bool,
) -> Option<bool> {
    const PART: u64 = 256 << 10;
    let mut at = range.start & !7;
    while at < range.end {
        let end = (at + PART).min(range.end);
        let mut part = [(at, vec![0; (end - at) as usize])];
        ptrace::read_memory(tid, &mut part);
        let [(_, bytes)] = part;
        if bytes.is_empty() {
            return None;
        }
        let words = bytes.chunks_exact(8);
        let mut words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        if words.any(is_such) {
            return Some(true);
        }
        at = end;
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks() -> Stacks {
        Stacks(vec![0x1000..0x5000, 0x8000..0x9000, 0x20000..0x30000])
    }

    #[test]
    fn a_threads_stack_ends_at_its_block() {
        assert_eq!(stacks().parts(0x2000, 0x4800), [0x2000..0x4800]);
    }

    #[test]
    fn the_first_threads_stack_ends_with_its_memory() {
        // Its block is in memory of its own, below which nothing is.
        let parts = stacks().parts(0x2a000, 0x8000);
        assert_eq!(parts, [0x2a000..0x30000, 0x8000..0x8000]);
    }

    #[test]
    fn on_another_stack_its_own_counts_as_well() {
        let parts = stacks().parts(0x8100, 0x4800);
        assert_eq!(parts, [0x8100..0x9000, 0x1000..0x4800]);
    }

    #[test]
    fn an_unknown_stack_is_said_to_have_any_word() {
        let own = std::process::id() as libc::pid_t;
        assert_eq!(stacks().parts(0x7000, 0x4800), [0x7000..0x7001]);
        assert_eq!(any_word_in(own, 0..8, &|_| false), None);
    }

    #[test]
    fn own_memory_is_searched() {
        let words = [7u64, 8, 0x1234_5678_9abc, 9];
        let at = words.as_ptr() as u64;
        let own = std::process::id() as libc::pid_t;
        let find = |wanted| any_word_in(own, at..at + 32, &|word| word == wanted);
        assert_eq!(find(0x1234_5678_9abc), Some(true));
        assert_eq!(find(1), Some(false));
    }
}
