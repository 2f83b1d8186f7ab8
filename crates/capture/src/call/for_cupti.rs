//! Calls that are made only because CUPTI is on: it asks for the driver's tables inside of cuInit, and the runtime asks
//! for a kernel's name right before it launches it, to tell CUPTI. They are calls like others, and counted to say so.

use super::role::Role;
use super::signature::{Signature, Words};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForCupti {
    tables: u64,
    names: u64,
}

/// What a function is asked for, as far as CUPTI wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    None,
    Table,
    KernelName,
}

impl Question {
    pub fn of(name: &str) -> Self {
        match name {
            "cuGetExportTable" => Question::Table,
            "cuKernelGetName" => Question::KernelName,
            _ => Question::None,
        }
    }
}

impl ForCupti {
    /// A call that is shown begins on a thread, inside of `around`; `asked` is the kernel whose name its call before
    /// asked for.
    pub fn begin(
        &mut self,
        asked: &mut Option<u64>,
        call: &Signature,
        words: &Words,
        around: Option<&Signature>,
    ) {
        let before = asked.take();
        match call.question {
            Question::KernelName => *asked = words.get(1),
            Question::Table if around.is_some_and(|around| &*around.name == "cuInit") => {
                self.tables += 1;
            }
            // The kernel is the first argument, or the second.
            _ if before.is_some()
                && matches!(call.role, Role::Launch(_))
                && (words.get(0) == before || words.get(1) == before) =>
            {
                self.names += 1;
            }
            _ => {}
        }
    }

    pub fn note(&self) -> Option<String> {
        let calls: Vec<String> = [
            (self.tables, "cuGetExportTable"),
            (self.names, "cuKernelGetName"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
        let word = if self.tables + self.names == 1 {
            "call was"
        } else {
            "calls were"
        };
        (!calls.is_empty()).then(|| {
            format!(
                "{} {word} made by CUPTI, not by your program (--method preload turns CUPTI off)",
                calls.join(" and ")
            )
        })
    }
}
