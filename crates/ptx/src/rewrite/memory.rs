//! Probes at memory accesses: loads, stores, atomics, reductions and asynchronous copies, with what is
//! accessed in their context.
//!
//! Parameters are left out: they are constants of the launch, not memory.

use super::scan::{Instruction, Module};
use super::{
    Done, Kernel, Probe, REGISTERS, calls, edit::Edits, inline::InlineProbes, leave::negated,
};
use crate::token::{Kind, Token};

/// `{u64 address; u32 size, space; u64 pc; u32 line, kind;}`, where pc is the access's number in its
/// module.
pub const CONTEXT_BYTES: u32 = 32;

/// Where an access goes, as the instruction says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    Generic = 0,
    Global = 1,
    Shared = 2,
    Local = 3,
    Const = 4,
}

impl Space {
    pub const fn name(self) -> &'static str {
        match self {
            Space::Generic => "generic",
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Const => "const",
        }
    }
}

/// What an instruction does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    Load = 0,
    Store = 1,
    Atomic = 2,
    Reduction = 3,
    CopyFrom = 4,
    CopyTo = 5,
}

/// One access of one instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub space: Space,
    pub kind: Kinds,
    /// 0: only the running program knows.
    pub size: u32,
    /// The source line, where the PTX says; the line of the PTX.
    pub line: u32,
    pub ptx_line: u32,
    /// Register or symbol, and what is added to it, as written.
    base: String,
    offset: String,
    /// The operand that holds the size, where it is no constant.
    size_from: Option<String>,
}

/// Bytes of one element of a PTX type.
pub fn type_bytes(name: &str) -> Option<u32> {
    if let Some(packed) = name.strip_suffix("x2") {
        return type_bytes(packed).map(|bytes| bytes * 2);
    }
    if name == "tf32" {
        return Some(4);
    }
    let digits = name.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
    let letters = &name[..name.len() - digits.len()];
    if !matches!(letters, "b" | "u" | "s" | "f" | "bf") {
        return None;
    }
    match digits {
        "8" => Some(1),
        "16" => Some(2),
        "32" => Some(4),
        "64" => Some(8),
        "128" => Some(16),
        _ => None,
    }
}

fn space(modifier: &str) -> Option<Space> {
    match modifier.split("::").next()? {
        "global" => Some(Space::Global),
        "shared" => Some(Space::Shared),
        "local" => Some(Space::Local),
        "const" => Some(Space::Const),
        _ => None,
    }
}

/// What an instruction accesses. `None`: nothing, as far as is known; an error: something, but it
/// is unknown what.
pub fn accesses(module: &Module, one: &Instruction) -> Option<Result<Vec<Access>, ()>> {
    let source = module.source;
    let kind = match one.opcode(source) {
        "ld" | "ldu" => Kinds::Load,
        "st" => Kinds::Store,
        "atom" => Kinds::Atomic,
        "red" => Kinds::Reduction,
        "cp" => return copy(module, one),
        _ => return None,
    };
    let mut found = Space::Generic;
    let mut bytes = None;
    let mut vector = 1;
    for word in one.modifiers(source) {
        match word {
            "param" | "param::entry" | "param::func" => return None,
            // Asynchronous stores name a barrier too.
            "async" | "bulk" => return Some(Err(())),
            "v2" => vector = 2,
            "v4" => vector = 4,
            "v8" => vector = 8,
            _ => {
                if let Some(space) = space(word) {
                    found = space;
                } else if let Some(size) = type_bytes(word) {
                    bytes = Some(size);
                }
            }
        }
    }
    let places = brackets(source, one.operands());
    let (Some(bytes), Some((base, offset))) = (bytes, places.first().cloned()) else {
        return Some(Err(()));
    };
    let whole = Access {
        space: found,
        kind,
        size: bytes * vector,
        line: one.loc,
        ptx_line: one.line,
        base,
        offset,
        size_from: None,
    };
    Some(Ok(vec![whole]))
}

/// `cp.async` reads one place and writes another.
fn copy(module: &Module, one: &Instruction) -> Option<Result<Vec<Access>, ()>> {
    let source = module.source;
    let words: Vec<&str> = one.modifiers(source).collect();
    let skips = [
        "commit_group",
        "wait_group",
        "wait_all",
        "mbarrier",
        "tensor",
        "prefetch",
        "arrive",
        "noinc",
    ];
    if words.first() != Some(&"async") || words.iter().any(|word| skips.contains(word)) {
        return words.contains(&"tensor").then_some(Err(()));
    }
    let spaces: Vec<Space> = words
        .iter()
        .filter_map(|word| space(word))
        .take(2)
        .collect();
    let places = brackets(source, one.operands());
    let (&[to, from], [(to_base, to_offset), (from_base, from_offset), ..]) =
        (spaces.as_slice(), places.as_slice())
    else {
        return Some(Err(()));
    };
    // What comes third is the size: a number, or for bulk copies a register.
    let operands = one.operands();
    let after = (operands.iter().enumerate())
        .filter(|(_, token)| token.is(b']'))
        .nth(1)
        .map_or(operands.len(), |(at, _)| at + 2);
    let (size, size_from) = match operands.get(after).map(|token| (token.kind, token)) {
        Some((Kind::Int { value, .. }, _)) => (value.min(u32::MAX.into()) as u32, None),
        Some((Kind::Word, token)) => (0, Some(token.text(source).to_owned())),
        _ => return Some(Err(())),
    };
    let access = |space, kind, base: &String, offset: &String| Access {
        space,
        kind,
        size,
        line: one.loc,
        ptx_line: one.line,
        base: base.clone(),
        offset: offset.clone(),
        size_from: size_from.clone(),
    };
    Some(Ok(vec![
        access(from, Kinds::CopyFrom, from_base, from_offset),
        access(to, Kinds::CopyTo, to_base, to_offset),
    ]))
}

/// What stands in square brackets: the first word, and what is added to it.
fn brackets(source: &str, operands: &[Token]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = operands;
    while let Some(open) = rest.iter().position(|token| token.is(b'[')) {
        rest = &rest[open + 1..];
        let Some(close) = rest.iter().position(|token| token.is(b']')) else {
            break;
        };
        let inside = &rest[..close];
        rest = &rest[close..];
        let Some(first) = inside.first() else {
            continue;
        };
        let offset = match inside.get(1) {
            None => Some(String::new()),
            Some(plus) if plus.is(b'+') => {
                let text = |token: &Token| token.text(source).to_owned();
                Some(inside[2..].iter().map(text).collect())
            }
            Some(_) => None,
        };
        if let Some(offset) = offset {
            found.push((first.text(source).to_owned(), offset));
        }
    }
    found
}

/// Puts the probes before every access of the kernel.
pub fn insert(
    module: &Module,
    kernel: &Kernel,
    probes: &[&Probe],
    kept: &InlineProbes,
    sites: &mut usize,
    edits: &mut Edits,
    done: &mut Done,
) {
    if probes.is_empty() {
        return;
    }
    let wants = |inline: bool| {
        let mut readers = probes.iter().filter(|probe| probe.context_bytes > 0);
        readers.any(|probe| kept.inline(probe).is_some() == inline)
    };
    let (wants_context, wants_words) = (wants(false), wants(true));
    let one_of = probes.iter().map(|probe| probe.one_of).min().unwrap_or(1);
    let mut uses_context = false;
    for one in &kernel.code {
        let found = match accesses(module, one) {
            None => continue,
            Some(Err(())) => {
                done.skipped += 1;
                continue;
            }
            Some(Ok(found)) => found,
        };
        let mut text = String::from("{\n");
        if let Some(guard) = &one.guard {
            text.push_str(&format!(
                "\t@{} bra $L__cutrace_past_{sites};\n",
                negated(guard)
            ));
        }
        let label = *sites;
        if one_of > 1 {
            text.push_str(&chance(one_of, label));
        }
        text.push_str(REGISTERS);
        text.push_str("\t.reg .b64 %cutrace_at;\n");
        for access in found {
            let context = match wants_context {
                true => context(kernel, &access, *sites),
                false => Some(String::new()),
            };
            let words = match wants_words {
                true => words(kernel, &access, *sites),
                false => Some(String::new()),
            };
            let (Some(context), Some(words)) = (context, words) else {
                done.skipped += 1;
                continue;
            };
            uses_context |= wants_context;
            text.push_str("{\n");
            text.push_str(&context);
            text.push_str(&words);
            text.push_str(&calls(probes, kept, "%cutrace_ctx"));
            text.push_str("}\n");
            done.accesses += 1;
            done.sites.push(access);
            *sites += 1;
        }
        if one.guard.is_some() || one_of > 1 {
            text.push_str(&format!("$L__cutrace_past_{label}:\n"));
        }
        text.push_str("}\n\t");
        if *sites > label {
            edits.insert(one.start, text);
        }
    }
    if one_of > 1 && done.accesses > 0 {
        edits.insert(kernel.open, SEED.to_owned());
    }
    if uses_context {
        // One for all places: what is declared for each would be memory for each.
        edits.insert(
            kernel.open,
            format!("\n\t.local .align 8 .b8 __cutrace_access[{CONTEXT_BYTES}];\n"),
        );
    }
}

/// Another number for each warp of the launch, so that those that read the same clock choose differently.
const SEED: &str = "
\t.reg .b32 %cutrace_seed;
{
\t.reg .b32 %cutrace_of<4>;
\tmov.u32 %cutrace_of0, %tid.z;
\tmov.u32 %cutrace_of1, %ntid.y;
\tmov.u32 %cutrace_of2, %tid.y;
\tmad.lo.u32 %cutrace_of0, %cutrace_of0, %cutrace_of1, %cutrace_of2;
\tmov.u32 %cutrace_of1, %ntid.x;
\tmov.u32 %cutrace_of2, %tid.x;
\tmad.lo.u32 %cutrace_of0, %cutrace_of0, %cutrace_of1, %cutrace_of2;
\tshr.u32 %cutrace_of0, %cutrace_of0, 5;
\tmul.lo.u32 %cutrace_seed, %cutrace_of0, 0x27d4eb2f;
\tmov.u32 %cutrace_of1, %ctaid.x;
\tmad.lo.u32 %cutrace_seed, %cutrace_of1, 0x85ebca6b, %cutrace_seed;
\tmov.u32 %cutrace_of2, %ctaid.y;
\tmad.lo.u32 %cutrace_seed, %cutrace_of2, 0xc2b2ae35, %cutrace_seed;
\tmov.u32 %cutrace_of3, %ctaid.z;
\tmad.lo.u32 %cutrace_seed, %cutrace_of3, 0x165667b1, %cutrace_seed;
}
";

/// Goes on to the access but for one time in so many. Threads that come here together read one clock, so all of them
/// are counted or none is.
fn chance(one_of: u32, label: usize) -> String {
    let limit = (1u64 << 32) / u64::from(one_of);
    format!(
        "\t.reg .b32 %cutrace_drawn, %cutrace_high;\n\t.reg .pred %cutrace_left_out;\n\
         \tmov.u32 %cutrace_drawn, %clock;\n\
         \tmad.lo.u32 %cutrace_drawn, %cutrace_drawn, 0x9e3779b1, %cutrace_seed;\n\
         \tshr.u32 %cutrace_high, %cutrace_drawn, 15;\n\
         \txor.b32 %cutrace_drawn, %cutrace_drawn, %cutrace_high;\n\
         \tmul.lo.u32 %cutrace_drawn, %cutrace_drawn, 0x85ebca77;\n\
         \tshr.u32 %cutrace_high, %cutrace_drawn, 13;\n\
         \txor.b32 %cutrace_drawn, %cutrace_drawn, %cutrace_high;\n\
         \tmul.lo.u32 %cutrace_drawn, %cutrace_drawn, 0xc2b2ae3d;\n\
         \tsetp.ge.u32 %cutrace_left_out, %cutrace_drawn, {limit};\n\
         \t@%cutrace_left_out bra.uni $L__cutrace_past_{label};\n"
    )
}

/// The address that is accessed, in %cutrace_at.
fn address(kernel: &Kernel, access: &Access) -> Option<String> {
    let name = &access.base;
    let mut text = match kernel.register_bits(name) {
        Some(64) => format!("\tmov.b64 %cutrace_at, {name};\n"),
        Some(32) => format!("\tcvt.u64.u32 %cutrace_at, {name};\n"),
        Some(_) => return None,
        // A variable, or a number.
        None if name.starts_with('%') => return None,
        None => format!("\tmov.u64 %cutrace_at, {name};\n"),
    };
    if !access.offset.is_empty() {
        text.push_str(&format!(
            "\tadd.s64 %cutrace_at, %cutrace_at, {};\n",
            access.offset
        ));
    }
    Some(text)
}

/// The register that holds the size, where it is no constant.
fn size_register<'a>(kernel: &Kernel, access: &'a Access) -> Option<Option<&'a str>> {
    match &access.size_from {
        Some(register) if kernel.register_bits(register) == Some(32) => Some(Some(register)),
        Some(_) => None,
        None => Some(None),
    }
}

/// The context in registers: what an instruction says of itself is constant there.
fn words(kernel: &Kernel, access: &Access, site: usize) -> Option<String> {
    let mut text = address(kernel, access)?;
    let high = |word: u32| u64::from(word) << 32;
    text.push_str("\t.reg .b64 %cutrace_word<4>;\n\tmov.b64 %cutrace_word0, %cutrace_at;\n");
    let space = high(access.space as u32);
    match size_register(kernel, access)? {
        Some(register) => text.push_str(&format!(
            "\tcvt.u64.u32 %cutrace_word1, {register};\n\tor.b64 %cutrace_word1, %cutrace_word1, {space:#x};\n"
        )),
        None => text.push_str(&format!(
            "\tmov.b64 %cutrace_word1, {:#x};\n",
            space | u64::from(access.size)
        )),
    }
    let last = high(access.kind as u32) | u64::from(access.line);
    text.push_str(&format!(
        "\tmov.b64 %cutrace_word2, {site};\n\tmov.b64 %cutrace_word3, {last:#x};\n"
    ));
    Some(text)
}

/// Fills the context in memory, and takes its address.
fn context(kernel: &Kernel, access: &Access, site: usize) -> Option<String> {
    let mut text = address(kernel, access)?;
    text.push_str("\tst.local.b64 [__cutrace_access], %cutrace_at;\n");
    let size = match size_register(kernel, access)? {
        Some(register) => register.to_owned(),
        None => access.size.to_string(),
    };
    text.push_str(&format!("\tst.local.b32 [__cutrace_access+8], {size};\n"));
    let words = [
        (12, access.space as u32),
        (16, site as u32),
        (20, 0),
        (24, access.line),
        (28, access.kind as u32),
    ];
    for (at, word) in words {
        text.push_str(&format!(
            "\tst.local.b32 [__cutrace_access+{at}], {word};\n"
        ));
    }
    text.push_str(
        "\tmov.b64 %cutrace_ctx, __cutrace_access;\n\tcvta.local.u64 %cutrace_ctx, %cutrace_ctx;\n",
    );
    Some(text)
}
