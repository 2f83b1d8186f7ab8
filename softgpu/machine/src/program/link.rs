//! Joining modules: symbols, variables, kernels, and which shared variables each kernel needs.

use std::collections::HashMap;

use ptx::ast::{self, Directive, FunctionKind, Module, Space, Variable};

use super::code::{Builtin, Callee, Constant, Function, Op};
use super::decode::{self, Signature, Surroundings};
use super::layout::{self, Pending};
use super::names::Symbol;
use super::{BuildError, Global, GlobalSpace, Kernel, Program, Relocation, SharedVariable, Target};

type Symbols = HashMap<String, Symbol>;

pub fn link(texts: &[&str]) -> Result<Program, BuildError> {
    let mut modules = Vec::new();
    for text in texts {
        let module = ptx::parse(text).map_err(|e| BuildError::new(e.line, e.message))?;
        if module.address_size != 64 {
            return Err(BuildError::new(1, "only 64-bit addresses are supported"));
        }
        modules.push(module);
    }
    let mut linker = Linker::default();
    let mut symbols: Vec<Symbols> = Vec::new();
    for module in &modules {
        symbols.push(linker.define(module)?);
    }
    for (module, symbols) in modules.iter().zip(&mut symbols) {
        linker.resolve_externals(module, symbols)?;
    }
    linker.relocate(&symbols)?;
    linker.decode(&symbols)?;
    linker.finish()
}

/// A body waiting for all symbols to be known.
struct Body<'a> {
    function: &'a ast::Function,
    module: usize,
    signature: Option<Signature>,
}

#[derive(Default)]
struct Linker<'a> {
    modules: usize,
    exported: Symbols,
    globals: Vec<Global>,
    pending: Vec<(usize, usize, u32, Vec<Pending>)>,
    shared: Vec<SharedVariable>,
    bodies: Vec<Body<'a>>,
    functions: Vec<Function>,
}

impl<'a> Linker<'a> {
    /// Gives everything the module defines its index.
    fn define(&mut self, module: &'a Module) -> Result<Symbols, BuildError> {
        let index = self.modules;
        self.modules += 1;
        let mut symbols = Symbols::new();
        for variable in &module.variables {
            self.define_variable(index, variable, &mut symbols)?;
        }
        for function in &module.functions {
            if function.body.is_none() {
                continue;
            }
            let is_exported = function.linkage.visible
                || function.linkage.weak
                || function.kind == FunctionKind::Entry;
            if let Some(&symbol) = self.exported.get(&function.name)
                && is_exported
            {
                if !function.linkage.weak {
                    return Err(twice(function.line, &function.name));
                }
                symbols.insert(function.name.clone(), symbol);
                continue;
            }
            let symbol = Symbol::Function(self.bodies.len());
            if symbols.insert(function.name.clone(), symbol).is_some() {
                return Err(twice(function.line, &function.name));
            }
            if is_exported {
                self.exported.insert(function.name.clone(), symbol);
            }
            self.bodies.push(Body {
                function,
                module: index,
                signature: Some(decode::signature(function)?),
            });
        }
        Ok(symbols)
    }

    fn define_variable(
        &mut self,
        module: usize,
        variable: &Variable,
        symbols: &mut Symbols,
    ) -> Result<(), BuildError> {
        let (size, align) = layout::size_align(variable)?;
        let linkage = variable.linkage;
        match variable.space {
            Space::Shared => {
                let symbol = Symbol::Shared(self.shared.len());
                self.shared.push(SharedVariable {
                    size,
                    align,
                    dynamic: linkage.external || variable.dims.first() == Some(&0),
                });
                symbols.insert(variable.name.clone(), symbol);
                Ok(())
            }
            Space::Global | Space::Const | Space::Tex if !linkage.external => {
                let is_shareable = linkage.weak || linkage.common;
                let is_exported = linkage.visible || is_shareable;
                if let Some(&symbol) = self.exported.get(&variable.name)
                    && is_exported
                {
                    if !is_shareable {
                        return Err(twice(variable.line, &variable.name));
                    }
                    symbols.insert(variable.name.clone(), symbol);
                    return Ok(());
                }
                let size = layout::size_from_init(variable).unwrap_or(size);
                let (init, pending) = layout::initial_bytes(variable, size)?;
                let index = self.globals.len();
                let symbol = Symbol::Global(index);
                if symbols.insert(variable.name.clone(), symbol).is_some() {
                    return Err(twice(variable.line, &variable.name));
                }
                if is_exported {
                    self.exported.insert(variable.name.clone(), symbol);
                }
                if !pending.is_empty() {
                    self.pending.push((index, module, variable.line, pending));
                }
                self.globals.push(Global {
                    name: variable.name.clone(),
                    space: match variable.space {
                        Space::Const => GlobalSpace::Const,
                        _ => GlobalSpace::Global,
                    },
                    size,
                    align,
                    init,
                    visible: is_exported,
                    managed: variable.managed,
                    relocations: Vec::new(),
                });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Names declared here and defined elsewhere; what stays unknown is an error where it is used.
    fn resolve_externals(&self, module: &Module, symbols: &mut Symbols) -> Result<(), BuildError> {
        let declared = module
            .functions
            .iter()
            .filter(|function| function.body.is_none())
            .map(|function| &function.name);
        let external = module
            .variables
            .iter()
            .filter(|variable| variable.linkage.external)
            .map(|variable| &variable.name);
        for name in declared.chain(external) {
            if symbols.contains_key(name) {
                continue;
            }
            if let Some(&symbol) = self.exported.get(name) {
                symbols.insert(name.clone(), symbol);
            } else if let Some(builtin) = builtin(name) {
                symbols.insert(name.clone(), Symbol::Builtin(builtin));
            }
        }
        for (alias, name) in &module.aliases {
            match symbols.get(name) {
                Some(&symbol) => {
                    symbols.insert(alias.clone(), symbol);
                }
                None => {
                    let message = format!(".alias {alias}: {name} is not defined");
                    return Err(BuildError::new(1, message));
                }
            }
        }
        Ok(())
    }

    fn relocate(&mut self, symbols: &[Symbols]) -> Result<(), BuildError> {
        for (global, module, line, pending) in &self.pending {
            for item in pending {
                let target = match symbols[*module].get(&item.symbol) {
                    Some(&Symbol::Global(index)) => Target::Global(index),
                    Some(&Symbol::Function(index)) => Target::Function(index),
                    _ => {
                        let message = format!("initializer: {} has no address", item.symbol);
                        return Err(BuildError::new(*line, message));
                    }
                };
                self.globals[*global].relocations.push(Relocation {
                    offset: item.offset,
                    size: item.size,
                    target,
                    addend: item.addend,
                    mask: item.mask,
                });
            }
        }
        Ok(())
    }

    fn decode(&mut self, symbols: &[Symbols]) -> Result<(), BuildError> {
        for body in &mut self.bodies {
            let (Some(statements), Some(signature)) = (&body.function.body, body.signature.take())
            else {
                continue;
            };
            let around = Surroundings {
                symbols: &symbols[body.module],
            };
            let function = decode::decode(
                body.function,
                statements,
                signature,
                &around,
                &mut self.shared,
            )
            .map_err(|error| BuildError {
                function: Some(match body.function.kind {
                    FunctionKind::Entry => format!("kernel {}", body.function.name),
                    FunctionKind::Func => format!("function {}", body.function.name),
                }),
                ..error
            })?;
            self.functions.push(function);
        }
        Ok(())
    }

    fn finish(self) -> Result<Program, BuildError> {
        let taken = self.addresses_taken();
        let mut kernels = Vec::new();
        for (index, body) in self.bodies.iter().enumerate() {
            if body.function.kind == FunctionKind::Entry {
                kernels.push(self.kernel(index, body, &taken)?);
            }
        }
        Ok(Program {
            functions: self.functions,
            kernels,
            globals: self.globals,
        })
    }

    /// Functions that an indirect call might reach.
    fn addresses_taken(&self) -> Vec<usize> {
        let in_code = self.functions.iter().flat_map(|function| {
            function
                .constants
                .iter()
                .filter_map(|constant| match constant {
                    Constant::Function(index) => Some(*index),
                    _ => None,
                })
        });
        let in_data = self
            .globals
            .iter()
            .flat_map(|global| &global.relocations)
            .filter_map(|relocation| match relocation.target {
                Target::Function(index) => Some(index),
                Target::Global(_) => None,
            });
        let mut taken: Vec<usize> = in_code.chain(in_data).collect();
        taken.sort_unstable();
        taken.dedup();
        taken
    }

    fn reaches(&self, start: usize, taken: &[usize]) -> Vec<usize> {
        let mut reached = vec![start];
        let mut seen = vec![false; self.functions.len()];
        seen[start] = true;
        let mut next = 0;
        while let Some(&index) = reached.get(next) {
            next += 1;
            let mut visit = |index: usize| {
                if !std::mem::replace(&mut seen[index], true) {
                    reached.push(index);
                }
            };
            for inst in &self.functions[index].code {
                if let Op::Call(call) = &inst.op {
                    match call.callee {
                        Callee::Function(callee) => visit(callee),
                        Callee::Register(_) => taken.iter().copied().for_each(&mut visit),
                        Callee::Builtin(_) => {}
                    }
                }
            }
        }
        reached
    }

    fn kernel(&self, index: usize, body: &Body, taken: &[usize]) -> Result<Kernel, BuildError> {
        let source = body.function;
        let function = &self.functions[index];
        let reaches = self.reaches(index, taken);
        let (shared_offsets, static_shared) = self.lay_out_shared(source, &reaches)?;
        let signature = decode::signature(source)?;
        let required_block = triple(&source.directives, "reqntid");
        let max_block = triple(&source.directives, "maxntid");
        let product = |block: [u32; 3]| block.iter().fold(1u32, |p, &n| p.saturating_mul(n.max(1)));
        let pressure = reaches
            .iter()
            .map(|&reached| self.functions[reached].pressure)
            .max()
            .unwrap_or(0);
        Ok(Kernel {
            name: source.name.clone(),
            params: signature.entry_params,
            param_size: signature.param_size,
            static_shared,
            local_size: function.local_size as usize,
            // A compiler needs a few more than are live, and spills beyond 255.
            register_count: (pressure + 4).clamp(8, 255),
            max_threads: required_block.or(max_block).map(product),
            required_block,
            max_block,
            required_cluster: triple(&source.directives, "reqnctapercluster"),
            min_blocks_per_sm: triple(&source.directives, "minnctapersm").map(|[n, ..]| n),
            function: index,
            shared_offsets,
            reaches,
        })
    }

    /// Offsets of the shared variables that these functions name.
    fn lay_out_shared(
        &self,
        source: &ast::Function,
        reaches: &[usize],
    ) -> Result<(Vec<(usize, u32)>, usize), BuildError> {
        let mut used: Vec<usize> = reaches
            .iter()
            .flat_map(|&function| &self.functions[function].constants)
            .filter_map(|constant| match constant {
                Constant::Shared { index, .. } => Some(*index),
                _ => None,
            })
            .collect();
        used.sort_unstable();
        used.dedup();
        let mut end = 0u64;
        let mut offsets = Vec::new();
        let mut dynamic_align = 16;
        for &index in &used {
            let variable = self.shared[index];
            if variable.dynamic {
                dynamic_align = dynamic_align.max(variable.align);
                continue;
            }
            let offset = layout::align_up(end, variable.align);
            end = offset.saturating_add(variable.size);
            if end > 227 << 10 {
                let message = format!("{} uses too much shared memory", source.name);
                return Err(BuildError::new(source.line, message));
            }
            offsets.push((index, offset as u32));
        }
        let is_dynamic = used.iter().any(|&index| self.shared[index].dynamic);
        if is_dynamic {
            // Dynamic variables all begin at the same place.
            end = layout::align_up(end, dynamic_align);
            for &index in used.iter().filter(|&&index| self.shared[index].dynamic) {
                offsets.push((index, end as u32));
            }
        }
        Ok((offsets, end as usize))
    }
}

fn twice(line: u32, name: &str) -> BuildError {
    BuildError::new(line, format!("{name} is defined twice"))
}

fn builtin(name: &str) -> Option<Builtin> {
    match name {
        "vprintf" => Some(Builtin::Printf),
        "__assertfail" => Some(Builtin::AssertFail),
        "malloc" => Some(Builtin::Malloc),
        "free" => Some(Builtin::Free),
        _ => None,
    }
}

/// The numbers of `.maxntid 16, 16`, missing ones as 1.
fn triple(directives: &[Directive], name: &str) -> Option<[u32; 3]> {
    let directive = directives.iter().find(|directive| directive.name == name)?;
    let mut numbers = [1; 3];
    for (slot, text) in numbers.iter_mut().zip(&directive.args) {
        *slot = text.trim().parse().ok()?;
    }
    Some(numbers)
}
