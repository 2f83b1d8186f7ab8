//! Programs that run under a budget, and how many threads used it up: counted in a map of cutrace's own.

use crate::gpu_probe::MapDump;
use ptx::device::{Map, map_kind};

/// Programs under a budget.
#[derive(Debug, Clone)]
pub struct Budgeted {
    /// Of loops, in one thread.
    pub rounds: u64,
    /// Their names; each has a number in the map.
    pub programs: Vec<String>,
    /// The map's place in the orders.
    pub map: usize,
}

/// Threads of a program that were stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    pub pid: u32,
    pub context: u32,
    pub program: String,
    pub threads: u64,
    pub rounds: u64,
}

impl Budgeted {
    /// The map that counts.
    pub fn spec(&self) -> Map {
        Map {
            name: "threads stopped by --rounds".into(),
            kind: map_kind::GPU_ARRAY,
            key_size: 4,
            value_size: 8,
            max_entries: self.programs.len() as u32,
            initial: None,
            summed: 0,
        }
    }

    /// Takes the counts out of what was read of maps.
    pub fn take(&self, dumps: &mut Vec<MapDump>) -> Vec<Stopped> {
        let mut all = Vec::new();
        dumps.retain(|dump| {
            if dump.map != Some(self.map) {
                return true;
            }
            let counts = dump.bytes().chunks_exact(8).zip(&self.programs);
            for (word, program) in counts {
                let threads = u64::from_le_bytes(word.try_into().unwrap_or_default());
                if threads > 0 {
                    all.push(Stopped {
                        pid: dump.pid,
                        context: dump.context,
                        program: program.clone(),
                        threads,
                        rounds: self.rounds,
                    });
                }
            }
            false
        });
        all
    }
}

impl Stopped {
    pub fn note(&self) -> String {
        let Stopped {
            program,
            threads,
            rounds,
            ..
        } = self;
        let unit = if *threads == 1 { "thread" } else { "threads" };
        format!(
            "program {program} was stopped in {threads} {unit} after {rounds} loop iterations: its counts there are \
             incomplete (raise the limit with --budget N)"
        )
    }
}
