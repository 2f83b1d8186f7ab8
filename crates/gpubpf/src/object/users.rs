//! Who uses which map: programs of the GPU, programs of the host, or both.

use std::collections::BTreeSet;

use super::Object;
use super::elf::{Image, Symbol};
use super::maps::MapError;
use crate::instruction::{Operation, Wide};
use crate::map::MapKind;

/// Maps that a function names, or one that it may call. What belongs on the host is not understood any
/// further: the kernel will look at it.
pub fn named(image: &Image, entry: &Symbol) -> Vec<usize> {
    let mut maps = BTreeSet::new();
    let mut functions = vec![entry];
    let mut next = 0;
    while let Some(&function) = functions.get(next) {
        next += 1;
        let code = &image.code[&function.section];
        for (slot, raw) in code.raw[function.start..function.end].iter().enumerate() {
            let at = function.start + slot;
            let reference = code.references.get(&(at as u64 * 8));
            if raw.is_local_call() {
                let (section, base) = match reference.and_then(|it| Some((it.section?, it.value))) {
                    Some((section, value)) => (section, value as i64 / 8),
                    None => (function.section, at as i64),
                };
                let start = base.saturating_add(i64::from(raw.immediate) + 1);
                let is_called = |one: &&Symbol| one.section == section && one.start as i64 == start;
                if let Some(callee) = image.functions.iter().find(is_called)
                    && !functions.iter().any(|known| std::ptr::eq(*known, callee))
                {
                    functions.push(callee);
                }
                continue;
            }
            let Some((reference, section)) = reference.and_then(|it| Some((it, it.section?)))
            else {
                continue;
            };
            if image.maps_section == Some(section) {
                let offset = reference.value.wrapping_add(raw.immediate as i64 as u64);
                maps.extend(image.maps.get(&offset));
            } else {
                maps.extend(image.data.get(&section));
            }
        }
    }
    maps.into_iter().collect()
}

impl Object {
    /// Whether a program of the GPU names the map.
    pub fn is_on_gpu(&self, map: usize) -> bool {
        let instructions = self.programs.iter().flat_map(|one| &one.instructions);
        instructions
            .into_iter()
            .any(|instruction| match instruction.operation {
                Operation::Constant { value, .. } => match value {
                    Wide::Map(named) | Wide::MapValue { map: named, .. } => named == map,
                    Wide::Number(_) => false,
                },
                _ => false,
            })
    }

    /// Whether a program of the host names the map.
    pub fn is_on_host(&self, map: usize) -> bool {
        self.host.iter().any(|program| program.maps.contains(&map))
    }
}

/// Arrays that both sides use become the kernel's, which the GPU can reach.
pub fn share(object: &mut Object) -> Result<(), MapError> {
    for map in 0..object.maps.len() {
        if !object.is_on_host(map) || !object.is_on_gpu(map) {
            continue;
        }
        let found = &mut object.maps[map];
        match found.kind {
            // Both have the same constants.
            _ if found.read_only => {}
            MapKind::Array { .. } | MapKind::KernelShared => found.kind = MapKind::KernelShared,
            // The verifier says so, with the instruction.
            MapKind::HostOnly(_) => {}
            other => {
                return Err(MapError::Shared {
                    name: found.name.clone(),
                    kind: other.name(),
                });
            }
        }
    }
    Ok(())
}
