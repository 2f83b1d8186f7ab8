//! Hooks files: what to hook besides what cutrace knows by itself, in TOML.
//!
//! `docs/HOOKS.md` is the user's side of this. A file becomes [`Hooks`], with errors that name line
//! and column; nothing here looks at the machine. The driver's own functions are a file of the same
//! kind (`driver.toml`), so that adding one is editing data.

mod aggregate;
mod argument;
mod condition;
mod error;
mod file;
mod lex;
mod line;
mod probe;
#[cfg(test)]
mod tests;

pub use aggregate::{Aggregate, Measure};
pub use argument::{Argument, CopiedAt, Format, ValueOrigin};
pub use condition::{Compare, Condition, MOST_TERMS, Term};
pub use error::{Error, Located};
pub use line::LineError;
pub use probe::{Probe, ProbeKind, Target};

use event::{Category, Kind, Layer};

/// Arguments of one hook that the kernel's program copies.
pub const MOST_ARGUMENTS: usize = 12;
/// Hooks of one file: more are a mistake, or an attack.
pub const MOST_HOOKS: usize = 10_000;
/// Bytes of a file.
pub const MOST_BYTES: usize = 4 << 20;

/// What a hooks file asks for, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hooks {
    pub hooks: Vec<Hook>,
}

/// One `[[hook]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// What it is called in events; the function's own name where the file does not say.
    pub name: Option<String>,
    /// Hooks that belong together: `--kernel=GROUP`.
    pub group: Option<String>,
    /// The first that exists is taken.
    pub probes: Vec<Probe>,
    pub kind: Option<Kind>,
    pub layer: Option<Layer>,
    pub category: Category,
    /// Entry and return, with a duration.
    pub time: bool,
    pub stack: bool,
    /// The run fails if it cannot be attached.
    pub required: bool,
    /// Seen in every process, not only in the traced ones: interrupts come to whatever runs.
    pub everywhere: bool,
    pub arguments: Vec<Argument>,
    pub condition: Option<Condition>,
    /// Computed in the kernel; calls are not recorded then.
    pub aggregate: Option<Aggregate>,
    /// The line of its `[[hook]]`.
    pub line: usize,
}

/// The driver's functions that `--kernel` hooks.
pub const DRIVER: &str = include_str!("driver.toml");

impl Hooks {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self, Error> {
        file::parse(text)
    }

    /// Reads one hook of a command line: `PROBE`, or `PROBE=count`, `PROBE=hist(arg1)`, `PROBE=time`.
    pub fn of_line(text: &str) -> Result<Hook, LineError> {
        line::parse(text)
    }

    /// The driver's functions: a file like any other, that comes with cutrace.
    pub fn of_driver() -> Self {
        // A test reads it; what the text is does not change at run time.
        Self::parse(DRIVER).unwrap_or_default()
    }
}

impl Hook {
    /// Whether its condition asks for the argument of this number.
    pub fn decides_by(&self, number: usize) -> bool {
        let alternatives = self.condition.iter().flat_map(|all| &all.alternatives);
        let arguments = alternatives
            .flatten()
            .filter_map(|term| self.arguments.get(term.argument));
        arguments
            .filter_map(|argument| match argument.source {
                ValueOrigin::Argument(word) => Some(usize::from(word)),
                ValueOrigin::Returned | ValueOrigin::Field(_) => None,
            })
            .any(|word| word == number)
    }

    /// What the user calls it: its name, or its first probe.
    pub fn title(&self) -> String {
        match (&self.name, self.probes.first()) {
            (Some(name), _) => name.clone(),
            (None, Some(probe)) => probe.to_string(),
            (None, None) => String::new(),
        }
    }
}
