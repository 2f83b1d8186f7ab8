//! A tolerant look at PTX: where the header, the functions and their instructions are.
//!
//! Opcodes are not known here, nor what their operands mean: only labels, guards, braces, directives
//! and the semicolon that ends an instruction.

use super::{Probe, ProbePoint};
use crate::ParseError;
use crate::token::{Kind, Lexer, Token};
use std::collections::HashMap;

/// Instructions of one module: a bound on memory.
const MOST_INSTRUCTIONS: usize = 32 << 20;

#[derive(Debug)]
pub struct Module<'a> {
    pub source: &'a str,
    /// Number and place of `.version`, and of the target's name.
    pub version: Option<(String, Token)>,
    pub target: Option<(String, Token)>,
    pub narrow: bool,
    /// Where the header ends: the place for functions of ours.
    pub body: u32,
    pub kernels: Vec<Kernel>,
}

/// A `.entry`.
#[derive(Debug, Default)]
pub struct Kernel {
    pub name: String,
    /// Behind the brace that opens the body, and the brace that closes it.
    pub open: u32,
    pub close: u32,
    pub first_parameter: Option<String>,
    pub parameter_bytes: u64,
    pub code: Vec<Instruction>,
    /// Registers by name, or by what stands before their number; bits of each.
    registers: HashMap<String, u32>,
}

#[derive(Debug, Clone)]
pub struct Instruction {
    /// The register of its guard, with its `!`.
    pub guard: Option<String>,
    /// Where the instruction begins, its guard included, and where its opcode does.
    pub start: u32,
    pub begin: u32,
    /// Behind its semicolon.
    pub end: u32,
    /// Of its tokens, opcode first, without the semicolon: those it has in the text.
    pub tokens: Vec<Token>,
    /// The source line that the last `.loc` named.
    pub loc: u32,
    pub line: u32,
    /// It stands in no inner block.
    pub outermost: bool,
}

impl Instruction {
    pub fn opcode<'a>(&self, source: &'a str) -> &'a str {
        self.tokens.first().map_or("", |token| token.text(source))
    }

    /// What follows the opcode, without the dots.
    pub fn modifiers<'a>(&self, source: &'a str) -> impl Iterator<Item = &'a str> + use<'a, '_> {
        let rest = self.tokens.iter().skip(1);
        rest.take_while(|token| token.kind == Kind::Dotted)
            .map(move |token| token.text(source).trim_start_matches('.'))
    }

    pub fn operands(&self) -> &[Token] {
        let modifiers = self.tokens.iter().skip(1);
        let count = modifiers
            .take_while(|token| token.kind == Kind::Dotted)
            .count();
        self.tokens.get(1 + count..).unwrap_or(&[])
    }
}

impl Kernel {
    pub fn reads_parameters(&self, probes: &[&Probe]) -> bool {
        self.first_parameter.is_some()
            && (probes.iter())
                .any(|probe| probe.place != ProbePoint::Memory && probe.context_bytes > 0)
    }

    /// Bits of a register; `None`: no register of that name.
    pub fn register_bits(&self, name: &str) -> Option<u32> {
        let found = self.registers.get(name).or_else(|| {
            let stem = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
            self.registers.get(&format!("{stem}<"))
        });
        found.copied()
    }
}

/// The names of a module's kernels.
pub fn kernels(source: &str) -> Result<Vec<String>, ParseError> {
    let module = Module::scan(source)?;
    Ok(module.kernels.into_iter().map(|one| one.name).collect())
}

impl<'a> Module<'a> {
    pub fn scan(source: &'a str) -> Result<Module<'a>, ParseError> {
        let mut scanner = Scanner {
            lexer: Lexer::new(source)?,
            source,
            instructions: 0,
        };
        scanner.module()
    }
}

struct Scanner<'a> {
    lexer: Lexer<'a>,
    source: &'a str,
    instructions: usize,
}

impl<'a> Scanner<'a> {
    fn next(&mut self) -> Result<Token, ParseError> {
        self.lexer.next_token()
    }

    fn peek(&self) -> Result<Token, ParseError> {
        self.lexer.clone().next_token()
    }

    fn module(&mut self) -> Result<Module<'a>, ParseError> {
        let mut module = Module {
            source: self.source,
            version: None,
            target: None,
            narrow: false,
            body: 0,
            kernels: Vec::new(),
        };
        let mut depth = 0u32;
        loop {
            let token = self.next()?;
            match token.kind {
                Kind::End => return Ok(module),
                Kind::Punct(b'{') => depth += 1,
                Kind::Punct(b'}') => depth = depth.saturating_sub(1),
                Kind::Dotted if depth == 0 => match token.text(self.source) {
                    ".version" => {
                        let number = self.next()?;
                        module.body = number.end;
                        module.version = Some((number.text(self.source).to_owned(), number));
                    }
                    ".target" => {
                        let name = self.next()?;
                        module.body = name.end;
                        module.target = Some((name.text(self.source).to_owned(), name));
                        while self.peek()?.is(b',') {
                            self.next()?;
                            module.body = self.next()?.end;
                        }
                    }
                    ".address_size" => {
                        let bits = self.next()?;
                        module.narrow = bits.text(self.source) == "32";
                        module.body = bits.end;
                    }
                    ".entry" => {
                        if let Some(kernel) = self.kernel()? {
                            module.kernels.push(kernel);
                        }
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }

    /// From the name on; `None` if it is only declared.
    fn kernel(&mut self) -> Result<Option<Kernel>, ParseError> {
        let mut kernel = Kernel {
            name: self.next()?.text(self.source).to_owned(),
            ..Kernel::default()
        };
        if self.peek()?.is(b'(') {
            self.next()?;
            self.parameters(&mut kernel)?;
        }
        // Performance directives, up to the body.
        loop {
            let token = self.next()?;
            match token.kind {
                Kind::Punct(b'{') => {
                    kernel.open = token.end;
                    break;
                }
                Kind::Punct(b';') | Kind::End => return Ok(None),
                _ => {}
            }
        }
        self.body(&mut kernel)?;
        Ok(Some(kernel))
    }

    fn parameters(&mut self, kernel: &mut Kernel) -> Result<(), ParseError> {
        let mut one = Parameter::default();
        loop {
            let token = self.next()?;
            let text = token.text(self.source);
            match token.kind {
                Kind::End => return Ok(()),
                Kind::Punct(b')') | Kind::Punct(b',') => {
                    one.add_to(kernel);
                    one = Parameter::default();
                    if token.is(b')') {
                        return Ok(());
                    }
                }
                Kind::Dotted if text == ".align" => {
                    if let Kind::Int { value, .. } = self.next()?.kind {
                        // `.ptr .align` is about what the parameter points to.
                        if !one.pointer {
                            one.align = value;
                        }
                    }
                }
                Kind::Dotted if text == ".ptr" => one.pointer = true,
                Kind::Dotted => {
                    if let Some(bytes) = super::memory::type_bytes(text.trim_start_matches('.')) {
                        one.bytes = bytes.into();
                    }
                }
                Kind::Word => one.name = Some(text.to_owned()),
                Kind::Int { value, .. } => one.count = Some(value),
                _ => {}
            }
        }
    }

    fn body(&mut self, kernel: &mut Kernel) -> Result<(), ParseError> {
        let mut depth = 1u32;
        let mut loc = 0;
        loop {
            let token = self.next()?;
            match token.kind {
                Kind::End => {
                    kernel.close = token.start;
                    return Ok(());
                }
                Kind::Punct(b'{') => depth += 1,
                Kind::Punct(b'}') => {
                    depth -= 1;
                    if depth == 0 {
                        kernel.close = token.start;
                        return Ok(());
                    }
                }
                Kind::Dotted => self.directive(token, kernel, &mut loc)?,
                Kind::Punct(b'@') => self.instruction(token, kernel, loc, depth)?,
                Kind::Word => {
                    if self.peek()?.is(b':') {
                        self.next()?;
                    } else {
                        self.instruction(token, kernel, loc, depth)?;
                    }
                }
                _ => {}
            }
        }
    }

    /// Ends with a semicolon, but for those of debugging, which end with their line.
    fn directive(
        &mut self,
        first: Token,
        kernel: &mut Kernel,
        loc: &mut u32,
    ) -> Result<(), ParseError> {
        let name = first.text(self.source);
        if matches!(name, ".loc" | ".file") {
            let mut numbers = Vec::new();
            loop {
                let token = self.peek()?;
                if token.kind == Kind::End || token.line != first.line {
                    break;
                }
                if let Kind::Int { value, .. } = self.next()?.kind {
                    numbers.push(value);
                }
            }
            if name == ".loc" {
                *loc = numbers.get(1).map_or(0, |line| *line as u32);
            }
            return Ok(());
        }
        let mut bits = 0;
        let mut last: Option<String> = None;
        loop {
            let token = self.next()?;
            let text = token.text(self.source);
            match token.kind {
                Kind::Punct(b';') | Kind::End => return Ok(()),
                // A block that a directive opens would be closed by the body.
                Kind::Punct(b'{') if name != ".reg" => {
                    self.braces()?;
                }
                Kind::Dotted if name == ".reg" => {
                    let kind = text.trim_start_matches('.');
                    bits = super::memory::type_bytes(kind).map_or(bits, |bytes| bytes * 8);
                }
                Kind::Word if name == ".reg" => {
                    kernel.registers.insert(text.to_owned(), bits);
                    last = Some(text.to_owned());
                }
                Kind::Punct(b'<') => {
                    if let Some(name) = last.take() {
                        kernel.registers.insert(format!("{name}<"), bits);
                    }
                }
                _ => {}
            }
        }
    }

    /// To the brace that closes.
    fn braces(&mut self) -> Result<(), ParseError> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()?.kind {
                Kind::Punct(b'{') => depth += 1,
                Kind::Punct(b'}') => depth -= 1,
                Kind::End => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    fn instruction(
        &mut self,
        first: Token,
        kernel: &mut Kernel,
        loc: u32,
        depth: u32,
    ) -> Result<(), ParseError> {
        self.instructions += 1;
        if self.instructions > MOST_INSTRUCTIONS {
            return Err(ParseError::new(first.line, "too many instructions"));
        }
        let mut guard = None;
        let mut token = first;
        if first.is(b'@') {
            let mut register = self.next()?;
            let mut words = String::new();
            if register.is(b'!') {
                words.push('!');
                register = self.next()?;
            }
            words.push_str(register.text(self.source));
            guard = Some(words);
            token = self.next()?;
        }
        let mut one = Instruction {
            guard,
            start: first.start,
            begin: token.start,
            end: token.end,
            tokens: Vec::new(),
            loc,
            line: token.line,
            outermost: depth == 1,
        };
        loop {
            match token.kind {
                Kind::Punct(b';') => {
                    one.end = token.end;
                    break;
                }
                Kind::End => break,
                _ => one.tokens.push(token),
            }
            token = self.next()?;
        }
        one.tokens.shrink_to_fit();
        kernel.code.push(one);
        Ok(())
    }
}

#[derive(Default)]
struct Parameter {
    name: Option<String>,
    align: u64,
    bytes: u64,
    count: Option<u64>,
    pointer: bool,
}

impl Parameter {
    fn add_to(self, kernel: &mut Kernel) {
        let Some(name) = self.name else {
            return;
        };
        let align = self.align.max(self.bytes).clamp(1, 4096);
        let bytes = self.bytes.max(1).saturating_mul(self.count.unwrap_or(1));
        let at = kernel.parameter_bytes.div_ceil(align).saturating_mul(align);
        kernel.parameter_bytes = at.saturating_add(bytes);
        kernel.first_parameter.get_or_insert(name);
    }
}
