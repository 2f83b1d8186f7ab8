//! Probes that only add: written into the kernel itself, where they add to registers that the thread
//! carries along, and that go to memory before it leaves.
//!
//! That is worth it where a thread comes by often: at memory accesses, or at entry and again on its
//! way out. A thread that ends elsewhere would take its sums with it, so there must be no other end.

use super::{Kernel, Plan, Probe, ProbePoint, scan::Module};
use std::cell::Cell;

/// A probe's function as text for the place where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inline {
    /// Instructions, with [`SITE`] in the names of labels. What a memory access is about is in
    /// %cutrace_word0 to 3, as its context has it; other contexts are at %cutrace_ctx.
    pub text: String,
    pub sums: Vec<Sum>,
    /// Whether lanes of a warp may go different ways in it.
    pub diverges: bool,
}

/// A register of 64 bits that is 0 when the thread begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    pub register: String,
    /// Instructions that add it to memory.
    pub flush: String,
}

/// Stands in labels of an [`Inline`] for a number that is another in each place.
pub const SITE: &str = "SITE";

/// What is kept in one kernel.
#[derive(Default)]
pub struct InlineProbes<'a> {
    probes: Vec<&'a Probe>,
    sums: Vec<&'a Sum>,
    sites: Cell<usize>,
}

impl<'a> InlineProbes<'a> {
    /// Which of a kernel's probes are written into it.
    pub fn choose(
        module: &Module,
        plan: &Plan,
        probes: &[&'a Probe],
        has_stubs: bool,
    ) -> InlineProbes<'a> {
        let mut kept = InlineProbes::default();
        if ends_elsewhere(module, plan) {
            return kept;
        }
        for probe in probes {
            let Some(inline) = &probe.inline else {
                continue;
            };
            let is_worth_it = match probe.place {
                ProbePoint::Memory => true,
                ProbePoint::Entry if has_stubs => false,
                ProbePoint::Entry => shares(inline, probes, ProbePoint::Return),
                ProbePoint::Return => !has_stubs && shares(inline, probes, ProbePoint::Entry),
            };
            if is_worth_it {
                kept.probes.push(probe);
                for sum in &inline.sums {
                    if kept.sums.iter().all(|known| known.register != sum.register) {
                        kept.sums.push(sum);
                    }
                }
            }
        }
        kept
    }

    /// The text of a probe that is written into the kernel.
    pub fn inline(&self, probe: &Probe) -> Option<&'a Inline> {
        let found = self.probes.iter().find(|one| std::ptr::eq(**one, probe))?;
        found.inline.as_ref()
    }

    /// It, for one more place.
    pub fn text(&self, inline: &Inline) -> String {
        format!("{{\n{}}}\n", self.numbered(&inline.text))
    }

    /// What adds all sums to memory, before a thread leaves.
    pub fn flush(&self) -> String {
        let all = self.sums.iter().map(|sum| self.numbered(&sum.flush));
        all.collect()
    }

    /// Declares the sums, at the kernel's beginning.
    pub fn begin(&self) -> String {
        let mut text = String::new();
        for sum in &self.sums {
            let name = &sum.register;
            text.push_str(&format!("\n\t.reg .b64 {name};\n\tmov.b64 {name}, 0;\n"));
        }
        text
    }

    fn numbered(&self, text: &str) -> String {
        let site = self.sites.get();
        self.sites.set(site + 1);
        text.replace(SITE, &site.to_string())
    }
}

fn shares(inline: &Inline, probes: &[&Probe], place: ProbePoint) -> bool {
    let others = probes.iter().filter(|probe| probe.place == place);
    let mut sums = others
        .filter_map(|probe| probe.inline.as_ref())
        .flat_map(|other| &other.sums);
    sums.any(|sum| inline.sums.iter().any(|own| own.register == sum.register))
}

/// Whether a thread may end in a function: there is no place for what it kept.
fn ends_elsewhere(module: &Module, plan: &Plan) -> bool {
    let count = |text: &str| -> usize {
        // Comments may name it, too.
        let code = (text.lines()).map(|line| line.split_once("//").map_or(line, |(code, _)| code));
        let is_other = |letter: char| !(letter.is_ascii_alphanumeric() || "_$%.".contains(letter));
        let exits = |line: &str| line.split(is_other).filter(|word| *word == "exit").count();
        code.map(exits).sum()
    };
    let of_kernel = |kernel: &Kernel| {
        let own = kernel
            .code
            .iter()
            .filter(|one| one.opcode(module.source) == "exit");
        own.count()
    };
    let in_kernels: usize = module.kernels.iter().map(of_kernel).sum();
    count(&plan.prelude) > 0 || count(module.source) > in_kernels
}
