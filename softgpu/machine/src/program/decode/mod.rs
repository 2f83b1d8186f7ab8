//! Decoding one function's body: statements in order, names resolved, instructions emitted.
//! Each family of instructions has a file of its own here.

mod alu;
mod atomic;
mod barrier;
mod bulk;
mod control;
mod memory;
mod moves;
mod operand;
mod unknown;
mod warp;

use std::collections::HashMap;

use ptx::ast::{self, Instruction, Space as AstSpace, Statement, Variable};

use super::code::{CONSTANT, Constant, Function, Inst, List, NONE, Op, Reg, ValueLocation};
use super::names::{Meaning, Names, Symbol};
use super::{BuildError, SharedVariable, compact, layout};

/// Deeper nesting of `{ }` than any compiler writes.
const MAX_NESTING: usize = 256;
/// The largest frame in local memory: CUDA's limit for a thread is 512 KB.
const MAX_FRAME: u64 = 512 << 10;
/// More registers than this cannot be meant.
const MAX_REGISTERS: u32 = 1 << 20;

/// Where slots could not be shared, a frame with more of them is refused.
const MAX_FRAME_REGISTERS: u32 = 1 << 14;

/// What a body can see of its module.
pub struct Surroundings<'a> {
    pub symbols: &'a HashMap<String, Symbol>,
}

/// The parts of a function known before any body is decoded.
pub struct Signature {
    pub names: Names,
    pub frame: u32,
    pub params: Vec<ValueLocation>,
    pub returns: Vec<ValueLocation>,
    pub entry_params: Vec<super::Param>,
    pub param_size: usize,
}

/// Lays out parameters and results.
pub fn signature(function: &ast::Function) -> Result<Signature, BuildError> {
    let mut names = Names::new();
    let mut frame = 0;
    let mut params = Vec::new();
    let mut returns = Vec::new();
    let mut entry_params = Vec::new();
    let mut param_size = 0u64;
    if function.kind == ast::FunctionKind::Entry {
        for param in &function.params {
            let (size, align) = layout::size_align(param)?;
            let offset = layout::align_up(param_size, align);
            param_size = offset + size;
            if param_size > 32764 {
                let message = format!("the parameters of {} are too large", function.name);
                return Err(BuildError::new(param.line, message));
            }
            let meaning = Meaning::Param {
                offset: offset as u32,
            };
            names.declare(&param.name, meaning);
            entry_params.push(super::Param {
                offset: offset as usize,
                size: size as usize,
                align: align as usize,
            });
        }
    } else {
        for param in &function.params {
            params.push(place(&mut names, &mut frame, param)?);
        }
        for result in &function.returns {
            returns.push(place(&mut names, &mut frame, result)?);
        }
    }
    Ok(Signature {
        names,
        frame,
        params,
        returns,
        entry_params,
        param_size: param_size as usize,
    })
}

/// A formal parameter or result: a register, or bytes of the frame.
fn place(
    names: &mut Names,
    frame: &mut u32,
    variable: &Variable,
) -> Result<ValueLocation, BuildError> {
    if variable.space == AstSpace::Reg {
        names.declare_register(variable);
        let size = layout::type_bytes(variable.ty) as u32;
        return match names.find(&variable.name) {
            Some(Meaning::Register(register)) if size <= 8 => Ok(ValueLocation::Register {
                reg: register.reg,
                size,
            }),
            _ => Err(BuildError::new(
                variable.line,
                format!(
                    "register parameter {} is not a plain register",
                    variable.name
                ),
            )),
        };
    }
    let (offset, size) = in_frame(frame, variable)?;
    names.declare(&variable.name, Meaning::Frame { offset, size });
    Ok(ValueLocation::Local { offset, size })
}

/// Gives a variable its bytes in the frame.
fn in_frame(frame: &mut u32, variable: &Variable) -> Result<(u32, u32), BuildError> {
    let (size, align) = layout::size_align(variable)?;
    let offset = layout::align_up(u64::from(*frame), align);
    let end = offset.saturating_add(size);
    if end > MAX_FRAME {
        return Err(BuildError::new(
            variable.line,
            format!(
                "{} needs more local memory than a thread has",
                variable.name
            ),
        ));
    }
    *frame = end as u32;
    Ok((offset as u32, size as u32))
}

pub struct Decoder<'a> {
    around: &'a Surroundings<'a>,
    shared: &'a mut Vec<SharedVariable>,
    names: Names,
    frame: u32,
    is_entry: bool,
    code: Vec<Inst>,
    lists: Vec<Reg>,
    tables: Vec<Vec<u32>>,
    constants: Vec<Constant>,
    /// Position of each label, once met.
    labels: Vec<(Option<u32>, ast::Line, String)>,
    carry: Reg,
    guard: Reg,
    negated: bool,
    line: u32,
}

/// Decodes a function that has a body.
pub fn decode(
    function: &ast::Function,
    body: &[Statement],
    signature: Signature,
    around: &Surroundings,
    shared: &mut Vec<SharedVariable>,
) -> Result<Function, BuildError> {
    let mut decoder = Decoder {
        around,
        shared,
        names: signature.names,
        frame: signature.frame,
        is_entry: function.kind == ast::FunctionKind::Entry,
        code: Vec::new(),
        lists: Vec::new(),
        tables: Vec::new(),
        constants: Vec::new(),
        labels: Vec::new(),
        carry: NONE,
        guard: NONE,
        negated: false,
        line: function.line,
    };
    decoder.block(body)?;
    decoder.guard = NONE;
    decoder.emit(Op::Return);
    decoder.patch()?;
    let mut decoded = Function {
        name: function.name.clone(),
        registers: decoder.names.registers,
        pressure: 0,
        local_size: layout::align_up(u64::from(decoder.frame), 16) as u32,
        params: signature.params,
        returns: signature.returns,
        code: decoder.code,
        lists: decoder.lists,
        tables: decoder.tables,
        constants: decoder.constants,
    };
    let widths = decoder.names.widths;
    if !compact::compact(&mut decoded, &widths) && decoded.registers > MAX_FRAME_REGISTERS {
        let message = format!("{} needs too many registers", function.name);
        return Err(BuildError::new(function.line, message));
    }
    Ok(decoded)
}

type Decoded<T = ()> = Result<T, BuildError>;

impl Decoder<'_> {
    fn error<T>(&self, message: impl Into<String>) -> Decoded<T> {
        Err(BuildError::new(self.line, message))
    }

    fn emit(&mut self, op: Op) {
        self.code.push(Inst {
            op,
            guard: self.guard,
            negated: self.negated,
            line: self.line,
        });
    }

    fn block(&mut self, statements: &[Statement]) -> Decoded {
        if self.names.depth() > MAX_NESTING {
            return self.error("blocks are nested too deeply");
        }
        // Labels may be used before they stand; they are visible in their block only.
        for statement in statements {
            if let Statement::Label(line, name) = statement {
                let index = self.labels.len() as u32;
                self.labels.push((None, *line, name.clone()));
                self.names.declare(name, Meaning::Label(index));
            }
        }
        for statement in statements {
            self.statement(statement)?;
            if self.names.registers > MAX_REGISTERS {
                return self.error("too many registers");
            }
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Decoded {
        match statement {
            Statement::Label(line, name) => {
                self.line = *line;
                if let Some(Meaning::Label(index)) = self.names.find(name) {
                    self.labels[index as usize].0 = Some(self.code.len() as u32);
                }
                Ok(())
            }
            Statement::Variable(variable) => self.variable(variable),
            Statement::Instruction(instruction) => self.instruction(instruction),
            Statement::Block(inner) => {
                self.names.open();
                let result = self.block(inner);
                self.names.close();
                result
            }
            Statement::Directive(_) => Ok(()),
            Statement::Targets {
                line,
                label,
                names,
                calls,
            } => {
                self.line = *line;
                let mut targets = Vec::new();
                // .calltargets lists functions: a hint, the call itself is checked when it runs.
                for name in names.iter().filter(|_| !calls) {
                    match self.names.find(name) {
                        Some(Meaning::Label(index)) => targets.push(index),
                        _ => return self.error(format!("{name} is not a label")),
                    }
                }
                self.names.declare(label, Meaning::Targets(targets));
                Ok(())
            }
            Statement::Prototype { label, .. } => {
                self.names.declare(label, Meaning::Prototype);
                Ok(())
            }
        }
    }

    fn variable(&mut self, variable: &Variable) -> Decoded {
        self.line = variable.line;
        match variable.space {
            AstSpace::Reg => self.names.declare_register(variable),
            AstSpace::Local | AstSpace::Param => {
                let copies = variable.range.unwrap_or(1);
                if copies > 4096 {
                    return self.error(format!("too many variables {}", variable.name));
                }
                for copy in 0..copies {
                    let (offset, size) = in_frame(&mut self.frame, variable)?;
                    let name = match variable.range {
                        Some(_) => format!("{}{copy}", variable.name),
                        None => variable.name.clone(),
                    };
                    self.names.declare(&name, Meaning::Frame { offset, size });
                }
            }
            AstSpace::Shared => {
                let (size, align) = layout::size_align(variable)?;
                let index = self.shared.len();
                self.shared.push(SharedVariable {
                    size,
                    align,
                    dynamic: variable.linkage.external || variable.dims.first() == Some(&0),
                });
                self.names.declare(&variable.name, Meaning::Shared(index));
            }
            _ => {
                return self.error(format!(
                    "{} is declared in a function, in a space that belongs at module scope",
                    variable.name
                ));
            }
        }
        Ok(())
    }

    /// Turns label numbers into positions.
    fn patch(&mut self) -> Decoded {
        let position = |label: u32| -> Decoded<u32> {
            match &self.labels[label as usize] {
                (Some(position), ..) => Ok(*position),
                (None, line, name) => Err(BuildError::new(*line, format!("label {name}"))),
            }
        };
        for inst in &mut self.code {
            if let Op::Branch { target } = &mut inst.op {
                *target = position(*target)?;
            }
        }
        for table in &mut self.tables {
            for target in table {
                *target = position(*target)?;
            }
        }
        Ok(())
    }

    fn instruction(&mut self, inst: &Instruction) -> Decoded {
        self.line = inst.line;
        (self.guard, self.negated) = match &inst.guard {
            None => (NONE, false),
            Some(guard) => {
                let register = self.register_named(&guard.register)?;
                if register.ty != ast::Type::Pred {
                    return self.error(format!("guard {} is not a predicate", guard.register));
                }
                (register.reg, guard.negated)
            }
        };
        match inst.opcode.as_str() {
            "mov" => self.mov(inst),
            "cvta" => self.cvta(inst),
            "isspacep" => self.isspacep(inst),
            "mapa" => self.mapa(inst),
            "getctarank" => self.getctarank(inst),
            "ld" | "ldu" => self.load(inst),
            "st" => self.store(inst),
            "cp" => self.copy(inst),
            "prefetch" | "prefetchu" | "discard" | "applypriority" | "pmevent"
            | "griddepcontrol" | "setmaxnreg" => Ok(()),
            "createpolicy" => self.createpolicy(inst),
            "atom" | "red" => self.atomic(inst),
            "bra" => self.bra(inst),
            "brx" => self.brx(inst),
            "call" => self.call(inst),
            "ret" => self.simple(Op::Return),
            "exit" => self.simple(Op::Exit),
            "trap" => self.simple(Op::Trap),
            "brkpt" => self.simple(Op::Breakpoint),
            "membar" | "fence" => self.simple(Op::Fence),
            "nanosleep" => self.simple(Op::Sleep),
            "alloca" => self.alloca(inst),
            "stacksave" => self.stacksave(inst),
            "stackrestore" => self.stackrestore(inst),
            "bar" | "barrier" => self.barrier(inst),
            "mbarrier" => self.mbarrier(inst),
            "shfl" => self.shuffle(inst),
            "vote" => self.vote(inst),
            "match" => self.matching(inst),
            "redux" => self.redux(inst),
            "elect" => self.elect(inst),
            "activemask" => {
                let dst = self.destination(first(inst), 32)?;
                self.simple(Op::ActiveMask { dst })
            }
            _ => self.arithmetic(inst),
        }
    }

    fn simple(&mut self, op: Op) -> Decoded {
        self.emit(op);
        Ok(())
    }

    fn constant(&mut self, constant: Constant) -> Reg {
        // Functions have few constants: a scan from the back finds repeats soon enough.
        let near = self.constants.len().saturating_sub(64);
        let index = match self.constants[near..].iter().rposition(|&c| c == constant) {
            Some(index) => near + index,
            None => {
                self.constants.push(constant);
                self.constants.len() - 1
            }
        };
        index as u32 | CONSTANT
    }

    fn bits(&mut self, bits: u64) -> Reg {
        self.constant(Constant::Bits(bits))
    }

    fn list(&mut self, regs: &[Reg]) -> List {
        let start = self.lists.len() as u32;
        self.lists.extend_from_slice(regs);
        List {
            start,
            len: regs.len() as u8,
        }
    }
}

/// The first operand, or a sink that no instruction accepts as what it needs.
fn first(inst: &Instruction) -> &ast::Operand {
    operand_at(inst, 0)
}

fn operand_at(inst: &Instruction, index: usize) -> &ast::Operand {
    inst.operands.get(index).unwrap_or(&ast::Operand::Sink)
}

/// `ld.global.f32`: the instruction as people write it.
fn full_name(inst: &Instruction) -> String {
    let mut name = inst.opcode.clone();
    for modifier in &inst.modifiers {
        name.push('.');
        name.push_str(modifier);
    }
    name
}

fn unsupported<T>(inst: &Instruction, why: &str) -> Decoded<T> {
    let message = format!("softgpu does not implement {}: {why}", full_name(inst));
    Err(BuildError::new(inst.line, message))
}
