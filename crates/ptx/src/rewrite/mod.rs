//! Probes put into PTX text: calls at a kernel's entry, before every way out of it, at its memory
//! accesses, and in place of calls to the stub function.
//!
//! Edits are made in the text by the places of its tokens: what is not touched stays as it was
//! written, whatever ISA version it is of. What the calls lead to is text of the plan.

mod edit;
mod entry;
mod header;
mod inline;
mod leave;
mod memory;
mod name;
mod scan;
mod stub;

pub use header::{Isa, Target};
pub use inline::{Inline, SITE, Sum};
pub use memory::{Access, CONTEXT_BYTES as MEMORY_CONTEXT_BYTES, Space};
pub use name::{Pattern, PatternError, nearest, readable};
pub use scan::{Kernel, kernels};

use crate::ParseError;
use edit::Edits;
use inline::InlineProbes;
use scan::Module;
use std::collections::BTreeSet;

/// Where a probe stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePoint {
    Entry,
    Return,
    Memory,
}

/// A call that is put into kernels.
#[derive(Debug, Clone)]
pub struct Probe {
    pub place: ProbePoint,
    /// Which kernels.
    pub kernels: Pattern,
    /// The function to call, `(.reg .b64 result) name (.reg .b64 ctx)`.
    pub function: String,
    /// Bytes of its context that it reads; with none, it is given 0.
    pub context_bytes: u32,
    /// At memory accesses: one in so many, chosen at random for each access of each warp. 1: all.
    pub one_of: u32,
    /// The same as text for the kernel itself, if all it does is add.
    pub inline: Option<Inline>,
}

/// What to put in.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub probes: Vec<Probe>,
    /// Functions and variables that the probes need, put behind the module's header.
    pub prelude: String,
    /// Of the prelude.
    pub isa: Isa,
}

/// The text with its probes, and what was done.
#[derive(Debug, Clone)]
pub struct Rewritten {
    pub text: String,
    pub kernels: Vec<Done>,
}

/// What happened to one kernel that a probe was meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub kernel: String,
    pub entries: usize,
    pub returns: usize,
    pub accesses: usize,
    pub stubs: usize,
    /// Accesses that could not be distinguished, and were left as they were.
    pub skipped: usize,
    /// Why it was left as it was.
    pub refused: Option<String>,
    /// The accesses by their number, for code that shows the events.
    pub sites: Vec<Access>,
}

impl Done {
    fn of(kernel: &str) -> Done {
        Done {
            kernel: kernel.to_owned(),
            entries: 0,
            returns: 0,
            accesses: 0,
            stubs: 0,
            skipped: 0,
            refused: None,
            sites: Vec::new(),
        }
    }

    fn refuse(kernel: &str, why: impl Into<String>) -> Done {
        Done {
            refused: Some(why.into()),
            ..Done::of(kernel)
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    #[error("the PTX cannot be read: {0}")]
    Syntax(#[from] ParseError),
    #[error("the PTX has no {0}")]
    NoHeader(&'static str),
    #[error("the PTX has 32-bit addresses")]
    Narrow,
}

/// Puts the plan's probes into the kernels they are for. `None`: there is nothing to do here.
pub fn rewrite(source: &str, plan: &Plan) -> Result<Option<Rewritten>, RewriteError> {
    let module = Module::scan(source)?;
    let mut edits = Edits::default();
    let mut done = Vec::new();
    let mut isa = plan.isa;
    let mut sites = 0;
    for kernel in &module.kernels {
        let probes: Vec<&Probe> = (plan.probes.iter())
            .filter(|probe| probe.kernels.matches(&kernel.name))
            .collect();
        if probes.is_empty() {
            continue;
        }
        if let Some(why) = refusal(&module, kernel, &probes) {
            done.push(Done::refuse(&kernel.name, why));
            continue;
        }
        let mut one = Done::of(&kernel.name);
        let (at_entry, others): (Vec<_>, Vec<_>) =
            (probes.iter().copied()).partition(|probe| probe.place == ProbePoint::Entry);
        one.stubs = stub::redirect(&module, kernel, &at_entry, &mut edits);
        let kept = InlineProbes::choose(&module, plan, &probes, one.stubs > 0);
        edits.insert(kernel.open, kept.begin());
        if one.stubs == 0 {
            one.entries = entry::insert(kernel, &at_entry, &kept, &mut edits);
        }
        let returns = pick(&others, ProbePoint::Return);
        one.returns = leave::insert(&module, kernel, &returns, &kept, &mut edits);
        let accesses = pick(&others, ProbePoint::Memory);
        memory::insert(
            &module, kernel, &accesses, &kept, &mut sites, &mut edits, &mut one,
        );
        if kernel.reads_parameters(&probes) {
            isa = isa.at_least(Isa::PARAMETER_ADDRESS);
        }
        done.push(one);
    }
    if done.is_empty() {
        return Ok(None);
    }
    if done.iter().all(|one| one.refused.is_some()) {
        return Ok(Some(Rewritten {
            text: source.to_owned(),
            kernels: done,
        }));
    }
    header::raise(&module, isa.at_least(Isa::PROBES), &mut edits)?;
    edits.insert(module.body, format!("\n{}\n", plan.prelude));
    Ok(Some(Rewritten {
        text: edits.apply(source),
        kernels: done,
    }))
}

fn pick<'a>(probes: &[&'a Probe], place: ProbePoint) -> Vec<&'a Probe> {
    let wanted = probes.iter().filter(|probe| probe.place == place);
    wanted.copied().collect()
}

/// Why a kernel must be left alone.
fn refusal(module: &Module, kernel: &Kernel, probes: &[&Probe]) -> Option<String> {
    let mut opcodes: BTreeSet<&str> = BTreeSet::new();
    opcodes.extend(kernel.code.iter().map(|one| one.opcode(module.source)));
    if opcodes.contains("setmaxnreg") {
        return Some("it distributes registers among its warps itself (setmaxnreg)".into());
    }
    let parameters = kernel.parameter_bytes;
    let short = probes.iter().find(|probe| {
        probe.place != ProbePoint::Memory && u64::from(probe.context_bytes) > parameters
    });
    short.map(|probe| {
        format!(
            "{} reads {} bytes of parameters, but the kernel has {parameters}",
            probe.function, probe.context_bytes
        )
    })
}

/// Calls of probes, as text: what every place has in common.
///
/// Threads of a warp that come here together leave together: what follows may be an instruction that
/// wants them to.
fn calls(probes: &[&Probe], kept: &InlineProbes, context: &str) -> String {
    let part = (probes.iter()).any(|probe| kept.inline(probe).is_none_or(|text| text.diverges));
    let text = plain_calls(probes, kept, context);
    if !part {
        return text;
    }
    format!("\tactivemask.b32 %cutrace_mask;\n{text}\tbar.warp.sync %cutrace_mask;\n")
}

/// The calls alone.
fn plain_calls(probes: &[&Probe], kept: &InlineProbes, context: &str) -> String {
    let mut text = String::new();
    for probe in probes {
        if let Some(inline) = kept.inline(probe) {
            text.push_str(&kept.text(inline));
            continue;
        }
        let context = if probe.context_bytes == 0 {
            "%cutrace_none"
        } else {
            context
        };
        text.push_str(&format!(
            "\tcall (%cutrace_result), {}, ({context});\n",
            probe.function
        ));
    }
    text
}

/// Registers that [`calls`] uses; a block of its own for each place.
const REGISTERS: &str = "\t.reg .b32 %cutrace_mask;\n\t.reg .b64 %cutrace_result, %cutrace_ctx, %cutrace_none;\n\tmov.b64 %cutrace_none, 0;\n\tmov.b64 %cutrace_ctx, 0;\n";
