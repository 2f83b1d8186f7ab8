//! The top level: `.version`, `.target`, `.file`, `.section`, variables, functions.

use super::{Parser, Result};
use crate::ast::{Directive, Linkage, Module, Section};
use crate::token::Kind;

impl<'a> Parser<'a> {
    pub(super) fn module(&mut self) -> Result<Module> {
        let mut module = Module {
            version: self.version()?,
            target: Vec::new(),
            // What ptxas assumes when `.address_size` is left out: it has no 32-bit addresses any more.
            address_size: 64,
            variables: Vec::new(),
            functions: Vec::new(),
            aliases: Vec::new(),
            files: Vec::new(),
            directives: Vec::new(),
            sections: Vec::new(),
        };
        if !self.at_dotted(".target") {
            return Err(self.unexpected("`.target` after `.version`"));
        }
        while self.current.kind != Kind::End {
            self.module_item(&mut module)?;
        }
        Ok(module)
    }

    fn version(&mut self) -> Result<(u32, u32)> {
        if !self.accept_dotted(".version")? {
            return Err(self.unexpected("`.version` at the start of the module"));
        }
        let text = self.text(self.current);
        let parts = text.split_once('.');
        let version =
            parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let version = version.ok_or_else(|| self.unexpected("a version such as 8.7"))?;
        self.advance()?;
        Ok(version)
    }

    fn module_item(&mut self, module: &mut Module) -> Result<()> {
        if self.accept(b';')? {
            return Ok(());
        }
        if self.current.kind != Kind::Dotted {
            return Err(self.unexpected("a directive"));
        }
        self.grow()?;
        match self.text(self.current) {
            ".target" => {
                self.advance()?;
                self.targets(&mut module.target)?;
            }
            ".address_size" => {
                self.advance()?;
                module.address_size = match self.expect_u32("32 or 64")? {
                    size @ (32 | 64) => size,
                    other => {
                        return Err(self.error(format!("address size {other}: expected 32 or 64")));
                    }
                };
            }
            ".file" => module.files.push(self.file()?),
            ".section" => {
                let section = self.section()?;
                module.sections.push(section);
            }
            ".alias" => {
                self.advance()?;
                let alias = self.expect_word("the alias's name")?;
                self.expect(b',', "between alias and function")?;
                let aliasee = self.expect_word("the function it refers to")?;
                self.expect(b';', "after .alias")?;
                module
                    .aliases
                    .push((alias.to_string(), aliasee.to_string()));
            }
            ".pragma" => module.directives.push(self.pragma()?),
            ".loc" => module.directives.push(self.loc()?),
            _ => self.declaration(module)?,
        }
        Ok(())
    }

    fn targets(&mut self, targets: &mut Vec<String>) -> Result<()> {
        loop {
            self.grow()?;
            targets.push(self.expect_word("a target such as sm_90")?.to_string());
            if !self.accept(b',')? {
                return Ok(());
            }
        }
    }

    /// `.file 1 "name"`, and optionally `, timestamp, size`.
    fn file(&mut self) -> Result<(u32, String)> {
        self.advance()?;
        let index = self.expect_u32("a file index")?;
        let name = self.expect_string("a file name in quotes")?.to_string();
        while self.accept(b',')? {
            self.expect_integer("the file's timestamp or size")?;
        }
        Ok((index, name))
    }

    fn section(&mut self) -> Result<Section> {
        let line = self.line();
        self.advance()?;
        if !matches!(self.current.kind, Kind::Dotted | Kind::Word) {
            return Err(self.unexpected("a section name"));
        }
        let name = self.advance()?;
        let open = self.expect(b'{', "after the section's name")?;
        let mut depth = 1u32;
        loop {
            match self.current.kind {
                Kind::End => return Err(self.unexpected("`}` at the end of the section")),
                Kind::Punct(b'{') => depth += 1,
                Kind::Punct(b'}') => depth -= 1,
                _ => {}
            }
            let token = self.advance()?;
            if depth == 0 {
                let inside = open.end as usize..token.start as usize;
                let text = self.lexer.source().get(inside).unwrap_or("").to_string();
                return Ok(Section {
                    line,
                    name: self.text(name).to_string(),
                    text,
                });
            }
        }
    }

    /// `.pragma "a", "b";`
    pub(super) fn pragma(&mut self) -> Result<Directive> {
        let line = self.line();
        self.advance()?;
        let mut args = Vec::new();
        loop {
            self.grow()?;
            args.push(format!("\"{}\"", self.expect_string("a pragma in quotes")?));
            if !self.accept(b',')? {
                break;
            }
        }
        self.expect(b';', "after .pragma")?;
        Ok(Directive {
            line,
            name: "pragma".into(),
            args,
        })
    }

    /// `.loc 1 20 5, function_name $L__info_string0, inlined_at 1 34 5`; no semicolon ends it.
    pub(super) fn loc(&mut self) -> Result<Directive> {
        let line = self.line();
        self.advance()?;
        let mut args = Vec::new();
        for what in ["a file index", "a line number", "a column"] {
            args.push(self.expect_integer(what)?.to_string());
        }
        while self.accept(b',')? {
            self.grow()?;
            let key = self.expect_word("function_name or inlined_at")?;
            args.push(key.to_string());
            if key == "inlined_at" {
                for what in ["a file index", "a line number", "a column"] {
                    args.push(self.expect_integer(what)?.to_string());
                }
                continue;
            }
            let mut label = self.expect_word("a label in .debug_str")?.to_string();
            if self.accept(b'+')? {
                label.push('+');
                label.push_str(&self.expect_integer("an offset")?.to_string());
            }
            args.push(label);
        }
        Ok(Directive {
            line,
            name: "loc".into(),
            args,
        })
    }

    fn declaration(&mut self, module: &mut Module) -> Result<()> {
        let line = self.line();
        let linkage = self.linkage()?;
        if self.at_dotted(".entry") || self.at_dotted(".func") {
            module.functions.push(self.function(line, linkage)?);
            return Ok(());
        }
        if !self.at_space() {
            return Err(self.unexpected("a variable, .entry or .func"));
        }
        self.variables(line, linkage, &mut module.variables)
    }

    pub(super) fn linkage(&mut self) -> Result<Linkage> {
        let mut linkage = Linkage::default();
        loop {
            let flag = match self.text(self.current) {
                ".extern" => &mut linkage.external,
                ".visible" => &mut linkage.visible,
                ".weak" => &mut linkage.weak,
                ".common" => &mut linkage.common,
                _ => return Ok(linkage),
            };
            *flag = true;
            self.advance()?;
        }
    }
}
