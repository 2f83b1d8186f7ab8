//! What `gpu check` shows of an object: plain data, and its text.

use std::fmt;

use crate::btf::{EventType, event_type};
use crate::counters::Counters;
use crate::map::Map;
use crate::object::{HostProgram, Object};
use crate::translate::{TranslateOptions, Translated, translate};
use crate::verify::{Refused, Verified, verify_or_budget};

#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    pub programs: Vec<CheckedProgram>,
    pub host: Vec<HostProgram>,
    pub maps: Vec<Map>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CheckedProgram {
    pub section: String,
    pub name: String,
    pub instructions: usize,
    pub outcome: Result<Accepted, Box<Refused>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    pub context_bytes: u32,
    pub looked_at: u64,
    /// The rounds its loops may make, if it is stopped after them.
    pub budget: Option<u64>,
    pub translated: Translated,
    /// Records it writes: the ring's name, sizes, and the struct they are.
    pub records: Vec<RecordType>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RecordType {
    pub ring: String,
    pub least_bytes: u32,
    pub most_bytes: u32,
    pub ty: Option<EventType>,
}

/// Verifies and translates every program of an object.
pub fn check(object: &Object, options: &TranslateOptions) -> Check {
    let verified: Vec<Result<Verified<'_>, Box<Refused>>> = object
        .programs
        .iter()
        .map(|program| verify_or_budget(object, program))
        .collect();
    let accepted: Vec<Verified<'_>> = verified.iter().flatten().cloned().collect();
    let options = TranslateOptions {
        counters: Some(Counters::of(object, &accepted)),
        ..options.clone()
    };
    let programs = object
        .programs
        .iter()
        .zip(verified)
        .map(|(program, verified)| CheckedProgram {
            section: program.section.clone(),
            name: program.name.clone(),
            instructions: program.instructions.len(),
            outcome: verified.map(|verified| Accepted {
                context_bytes: verified.context_bytes,
                looked_at: verified.looked_at,
                budget: verified.is_budgeted.then_some(options.budget.rounds),
                records: verified
                    .outputs
                    .iter()
                    .map(|output| {
                        let ring = &object.maps[output.map];
                        RecordType {
                            ring: ring.name.clone(),
                            least_bytes: output.least_bytes,
                            most_bytes: output.most_bytes,
                            ty: event_type(&object.btf, ring.value_type, output.most_bytes),
                        }
                    })
                    .collect(),
                translated: translate(&verified, &options),
            }),
        })
        .collect();
    Check {
        programs,
        host: object.host.clone(),
        maps: object.maps.clone(),
    }
}

impl Check {
    /// Whether every program may run.
    pub fn is_accepted(&self) -> bool {
        self.programs.iter().all(|program| program.outcome.is_ok())
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for map in &self.maps {
            writeln!(
                f,
                "map {}: {} ({}), key {} bytes, value {} bytes, {} entries",
                map.name,
                map.kind.name(),
                map.kind.number(),
                map.key_size,
                map.value_size,
                map.max_entries
            )?;
        }
        for program in &self.programs {
            writeln!(f, "\nprogram {} ({})", program.name, program.section)?;
            match &program.outcome {
                Err(refused) => writeln!(f, "  refused: {refused}")?,
                Ok(accepted) => write!(f, "{accepted}")?,
            }
        }
        if !self.host.is_empty() {
            writeln!(f)?;
        }
        for program in &self.host {
            writeln!(
                f,
                "program {} ({}) runs on the host",
                program.name, program.section
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cost = &self.translated.cost;
        write!(f, "  verified: {} instructions examined, ", self.looked_at)?;
        match self.budget {
            None => writeln!(f, "at most {} executed", cost.longest_path)?,
            Some(rounds) => writeln!(
                f,
                "and runs under a budget: its loops have no known bound,\n  so each thread stops after {rounds} \
                 iterations (--budget N)"
            )?,
        }
        if self.context_bytes > 0 {
            writeln!(f, "  reads {} bytes of context", self.context_bytes)?;
        }
        for record in &self.records {
            write!(f, "  writes records of ")?;
            if record.least_bytes == record.most_bytes {
                write!(f, "{} bytes", record.most_bytes)?;
            } else {
                write!(f, "{} to {} bytes", record.least_bytes, record.most_bytes)?;
            }
            write!(f, " into {}", record.ring)?;
            match &record.ty {
                Some(ty) => writeln!(f, ": struct {} ({})", ty.name, ty.why)?,
                None => writeln!(f, " (no struct of that size: shown as numbers of 8 bytes)")?,
            }
        }
        writeln!(
            f,
            "  cost: {} PTX instructions, {} loads, {} stores, {} atomics ({} once a warp), {} calls, \
             {} bytes of local memory, about {} registers",
            cost.instructions,
            cost.global_loads,
            cost.global_stores,
            cost.atomics,
            cost.aggregated,
            cost.calls,
            cost.local_bytes,
            cost.registers
        )?;
        if let Some(inline) = &self.translated.inline {
            let sums = inline.sums.len();
            writeln!(
                f,
                "  only adds: if a thread passes more than once, {sums} sums are kept in registers"
            )?;
        }
        for line in self.translated.functions.lines() {
            writeln!(f, "  | {line}")?;
        }
        Ok(())
    }
}
