//! Variable, register and parameter declarations.

use super::{Parser, Result};
use crate::ast::{Linkage, Space, Type, Variable};
use crate::token::Kind;

/// No register range of a real program comes near this.
const MAX_RANGE: u32 = 1 << 20;

/// What stands before the names of a declaration and holds for all of them.
struct Prefix {
    line: u32,
    linkage: Linkage,
    space: Space,
    align: Option<u32>,
    vector: u8,
    ty: Type,
    pointer: Option<(Option<Space>, Option<u32>)>,
    managed: bool,
}

pub(super) fn space_named(dotted: &str) -> Option<Space> {
    Some(match dotted {
        ".reg" => Space::Reg,
        ".sreg" => Space::Sreg,
        ".const" => Space::Const,
        ".global" => Space::Global,
        ".local" => Space::Local,
        ".param" => Space::Param,
        ".shared" => Space::Shared,
        ".tex" => Space::Tex,
        _ => return None,
    })
}

impl<'a> Parser<'a> {
    pub(super) fn at_space(&self) -> bool {
        self.current.kind == Kind::Dotted && space_named(self.text(self.current)).is_some()
    }

    /// `.space … name, name[4] = {…};` with its semicolon; one variable for each name.
    pub(super) fn variables(
        &mut self,
        line: u32,
        linkage: Linkage,
        into: &mut Vec<Variable>,
    ) -> Result<()> {
        let prefix = self.prefix(line, linkage)?;
        loop {
            self.grow()?;
            into.push(self.declarator(&prefix, false)?);
            if !self.accept(b',')? {
                break;
            }
        }
        self.expect(b';', "after the declaration")?;
        Ok(())
    }

    /// `(.param .u64 a, .reg .b32 b)`; empty if no parenthesis follows.
    pub(super) fn parameters(&mut self) -> Result<Vec<Variable>> {
        let mut parameters = Vec::new();
        if !self.accept(b'(')? {
            return Ok(parameters);
        }
        while !self.at(b')') {
            self.grow()?;
            if !self.at_space() {
                return Err(self.unexpected("a parameter such as .param .u64 name"));
            }
            let prefix = self.prefix(self.line(), Linkage::default())?;
            parameters.push(self.declarator(&prefix, true)?);
            if !self.accept(b',')? {
                break;
            }
        }
        self.expect(b')', "after the parameters")?;
        Ok(parameters)
    }

    fn prefix(&mut self, line: u32, linkage: Linkage) -> Result<Prefix> {
        let space = space_named(self.text(self.current));
        let space = space.ok_or_else(|| self.unexpected("a state space such as .global"))?;
        self.advance()?;
        let (mut align, mut pointer) = (None, None);
        let (mut vector, mut managed) = (1, false);
        let mut ty = None;
        while self.current.kind == Kind::Dotted {
            match self.text(self.current) {
                ".align" => {
                    self.advance()?;
                    align = Some(self.alignment()?);
                }
                ".v2" | ".v4" | ".v8" => {
                    vector = self.text(self.current).as_bytes()[2] - b'0';
                    self.advance()?;
                }
                ".attribute" => {
                    self.advance()?;
                    managed |= self.attribute()?.iter().any(|a| a == ".managed");
                }
                ".ptr" if ty.is_some() => {
                    self.advance()?;
                    pointer = Some(self.pointer()?);
                }
                name if ty.is_none() => {
                    ty =
                        Some(Type::from_name(&name[1..]).ok_or_else(|| self.unexpected("a type"))?);
                    self.advance()?;
                }
                _ => return Err(self.unexpected("a name")),
            }
        }
        let ty = ty.ok_or_else(|| self.unexpected("a type such as .b32"))?;
        Ok(Prefix {
            line,
            linkage,
            space,
            align,
            vector,
            ty,
            pointer,
            managed,
        })
    }

    fn alignment(&mut self) -> Result<u32> {
        let line = self.line();
        let align = self.expect_u32("an alignment")?;
        if !align.is_power_of_two() {
            let message = format!("alignment {align} is not a power of two");
            return Err(crate::ParseError::new(line, message));
        }
        Ok(align)
    }

    /// `.ptr .global .align 16`, from behind `.ptr`.
    fn pointer(&mut self) -> Result<(Option<Space>, Option<u32>)> {
        let space = space_named(self.text(self.current));
        if space.is_some() {
            self.advance()?;
        }
        let align = match self.accept_dotted(".align")? {
            true => Some(self.alignment()?),
            false => None,
        };
        Ok((space, align))
    }

    /// `(.managed)` or `(.unified(1, 2), .managed)`: the attributes as text.
    pub(super) fn attribute(&mut self) -> Result<Vec<String>> {
        self.expect(b'(', "after .attribute")?;
        let mut attributes = vec![String::new()];
        let mut depth = 1u32;
        loop {
            match self.current.kind {
                Kind::End | Kind::Punct(b';' | b'{' | b'}') => {
                    return Err(self.unexpected("`)` after the attributes"));
                }
                Kind::Punct(b'(') => depth += 1,
                Kind::Punct(b')') => depth -= 1,
                _ => {}
            }
            let token = self.advance()?;
            if depth == 0 {
                return Ok(attributes);
            }
            self.grow()?;
            match attributes.last_mut() {
                Some(last) if depth > 1 || !token.is(b',') => last.push_str(self.text(token)),
                _ => attributes.push(String::new()),
            }
        }
    }

    fn declarator(&mut self, prefix: &Prefix, in_list: bool) -> Result<Variable> {
        // The parameters of a prototype need no names.
        let name = match self.current.kind {
            Kind::Punct(b')' | b',') if in_list => "_",
            _ => self.expect_word("a name")?,
        };
        let range = match self.at(b'<') {
            true => Some(self.range()?),
            false => None,
        };
        let dims = self.dimensions(prefix)?;
        let init = match self.accept(b'=')? {
            true => Some(self.initializer()?),
            false => None,
        };
        if prefix.space != Space::Reg {
            self.scopes.declare(name, prefix.element_size());
        }
        Ok(Variable {
            line: prefix.line,
            linkage: prefix.linkage,
            space: prefix.space,
            align: prefix.align,
            vector: prefix.vector,
            ty: prefix.ty,
            name: name.to_string(),
            range,
            dims,
            init,
            pointer: prefix.pointer,
            managed: prefix.managed,
        })
    }

    /// `<10>`
    fn range(&mut self) -> Result<u32> {
        self.advance()?;
        let count = self.expect_u32("a number of registers")?;
        if count > MAX_RANGE {
            return Err(self.error(format!("{count} registers: the limit is {MAX_RANGE}")));
        }
        self.expect(b'>', "after the number of registers")?;
        Ok(count)
    }

    /// `[4][2]`; the whole must fit the address space.
    fn dimensions(&mut self, prefix: &Prefix) -> Result<Vec<u64>> {
        let mut dims = Vec::new();
        let mut bytes = prefix.element_size();
        while self.accept(b'[')? {
            self.grow()?;
            if dims.is_empty() && self.accept(b']')? {
                dims.push(0);
                continue;
            }
            let size = self.constant("an array size")?;
            let size = u64::try_from(size).map_err(|_| self.error("an array of negative size"))?;
            self.expect(b']', "after the array size")?;
            bytes = bytes
                .checked_mul(size.max(1))
                .filter(|bytes| *bytes <= i64::MAX as u64)
                .ok_or_else(|| self.error("an array larger than the address space"))?;
            dims.push(size);
        }
        Ok(dims)
    }
}

impl Prefix {
    fn element_size(&self) -> u64 {
        self.ty.size() * u64::from(self.vector)
    }
}
