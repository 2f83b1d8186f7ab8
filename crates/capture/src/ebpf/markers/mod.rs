//! Markers that programs and libraries were built with (usdt): where they are, and where the compiler
//! had their arguments. Read from notes of the file, which may be anybody's: every number is checked.

mod notes;
mod operand;
#[cfg(test)]
mod tests;

pub use operand::Unreadable;

use super::layout::{MOST_OPERANDS, Operand, Site};
use crate::notes::counted;
use memmap2::Mmap;
use std::{fmt, fs::File, io};

/// Markers of one file, at most: more would be a mistake, or an attack.
pub const MOST_MARKERS: usize = 65_536;

/// What a file's notes say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Markers {
    /// One for each place, in the order of the file.
    pub markers: Vec<Marker>,
    /// What cannot be hooked, and why.
    pub refused: Vec<Refused>,
}

/// One place of a marker; the compiler may have made several of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    pub provider: String,
    pub name: String,
    /// Where in the file the instruction is.
    pub offset: u64,
    /// Where in the file the counter is that says whether a tracer listens.
    pub semaphore: Option<u64>,
    pub arguments: Vec<Argument>,
}

/// Where an argument is, in the compiler's words and in ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    pub text: String,
    /// Or why it cannot be read.
    pub operand: Result<Operand, Unreadable>,
}

/// Why a note is no marker that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoMarker {
    #[error("its marker notes (.note.stapsdt) cannot be read")]
    Notes,
    #[error("it has more markers than can be hooked")]
    TooMany,
    #[error("a note is longer than its section")]
    Long,
    #[error("its note cannot be read")]
    Damaged,
    #[error("there is no code at its address")]
    NoCode,
    #[error("there is no NOP at its address")]
    NoNop,
    #[error("its counter is not in the file")]
    NoCounter,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// `provider:name`, as far as it could be read.
    pub marker: String,
    pub why: NoMarker,
}

impl Marker {
    /// What its events are called.
    pub fn title(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }

    /// Whether two globs mean it.
    pub fn matches(&self, provider: &str, name: &str) -> bool {
        event::matches_glob(provider.as_bytes(), self.provider.as_bytes())
            && event::matches_glob(name.as_bytes(), self.name.as_bytes())
    }

    /// As the kernel's program understands its arguments.
    pub fn site(&self) -> Site {
        let mut site = Site::default();
        for (place, argument) in site.at.iter_mut().zip(&self.arguments) {
            *place = argument.operand.unwrap_or_default();
        }
        site
    }

    /// Why the argument of this number cannot be read, if it cannot.
    pub fn lacks(&self, number: usize) -> Option<String> {
        match self.arguments.get(number) {
            _ if number >= MOST_OPERANDS => Some(format!("there is no arg{number}")),
            None => Some(format!(
                "it has {}",
                counted(self.arguments.len() as u64, "argument", "arguments")
            )),
            Some(argument) => {
                let why = argument.operand.err()?;
                Some(format!("arg{number} ({}) is {why}", argument.text))
            }
        }
    }
}

impl fmt::Display for Argument {
    /// Its type and its place: `i32 %eax`.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.text.rsplit('@').next().unwrap_or_default();
        match &self.operand {
            Ok(operand) => {
                let sign = if operand.is_signed != 0 { 'i' } else { 'u' };
                write!(to, "{sign}{} {place}", 8 * u32::from(operand.size))
            }
            Err(why) => write!(to, "{}  ({why})", self.text),
        }
    }
}

/// The markers of a file; none of one that has no notes, or is no program of this machine's.
pub fn read(file: &File) -> io::Result<Markers> {
    if file.metadata()?.len() == 0 {
        return Ok(Markers::default());
    }
    // SAFETY: the mapping is only read, and every number in it is checked; a file that is cut short
    // meanwhile would be a library that its own program cannot use either.
    let bytes = unsafe { Mmap::map(file) }?;
    Ok(notes::read(&bytes))
}
