//! PTX text to [`ast::Module`]: the cursor over tokens that all parts of the parser share.
//!
//! The parts: `module` (top level), `function` (headers), `statement` (bodies), `variable`,
//! `initializer`, `operand`, `expression` (constant arithmetic).

mod expression;
mod function;
mod initializer;
mod module;
mod operand;
mod scope;
mod statement;
mod variable;

use crate::ast;
use crate::error::ParseError;
use crate::token::{Kind, Lexer, Token};
use scope::Scopes;

/// The longest PTX text accepted.
pub const MAX_TEXT: usize = 256 << 20;
/// Blocks, expressions, vectors and lists may nest this deep.
const MAX_DEPTH: u32 = 128;
/// Statements, operands and initializer values of one module: a limit on memory.
const MAX_NODES: usize = 1 << 24;

type Result<T> = std::result::Result<T, ParseError>;

/// Parses a whole PTX module. A NUL ends the text, as the driver API has it.
pub fn parse(text: &str) -> Result<ast::Module> {
    if text.len() > MAX_TEXT {
        return Err(ParseError::new(
            1,
            format!("the text is longer than {MAX_TEXT} bytes"),
        ));
    }
    let mut parser = Parser::new(text)?;
    parser.module()
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// Two tokens of lookahead are enough for PTX: a label needs the second.
    current: Token,
    following: Token,
    depth: u32,
    nodes: usize,
    scopes: Scopes<'a>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self> {
        let mut lexer = Lexer::new(text)?;
        let current = lexer.next_token()?;
        let following = lexer.next_token()?;
        Ok(Parser {
            lexer,
            current,
            following,
            depth: 0,
            nodes: 0,
            scopes: Scopes::new(),
        })
    }

    fn text(&self, token: Token) -> &'a str {
        token.text(self.lexer.source())
    }

    fn line(&self) -> u32 {
        self.current.line
    }

    fn advance(&mut self) -> Result<Token> {
        let token = self.current;
        self.current = self.following;
        self.following = self.lexer.next_token()?;
        Ok(token)
    }

    fn at(&self, punct: u8) -> bool {
        self.current.is(punct)
    }

    /// Is the current token the directive or modifier `.name`? `name` comes with its dot.
    fn at_dotted(&self, name: &str) -> bool {
        self.current.kind == Kind::Dotted && self.text(self.current) == name
    }

    fn accept(&mut self, punct: u8) -> Result<bool> {
        let found = self.at(punct);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn accept_dotted(&mut self, name: &str) -> Result<bool> {
        let found = self.at_dotted(name);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, punct: u8, context: &str) -> Result<Token> {
        if self.at(punct) {
            return self.advance();
        }
        Err(self.unexpected(&format!("`{}` {context}", punct as char)))
    }

    fn expect_word(&mut self, what: &str) -> Result<&'a str> {
        if self.current.kind != Kind::Word {
            return Err(self.unexpected(what));
        }
        let token = self.advance()?;
        Ok(self.text(token))
    }

    fn expect_string(&mut self, what: &str) -> Result<&'a str> {
        if self.current.kind != Kind::Str {
            return Err(self.unexpected(what));
        }
        let token = self.advance()?;
        let quoted = self.text(token);
        Ok(&quoted[1..quoted.len() - 1])
    }

    /// A plain non-negative integer literal.
    fn expect_integer(&mut self, what: &str) -> Result<u64> {
        let Kind::Int { value, .. } = self.current.kind else {
            return Err(self.unexpected(what));
        };
        self.advance()?;
        Ok(value)
    }

    fn expect_u32(&mut self, what: &str) -> Result<u32> {
        let line = self.line();
        let value = self.expect_integer(what)?;
        u32::try_from(value)
            .map_err(|_| ParseError::new(line, format!("{what} {value} is too large")))
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError::new(self.line(), message)
    }

    fn unexpected(&self, expected: &str) -> ParseError {
        let found = match self.current.kind {
            Kind::End => "the end of the text".to_string(),
            _ => {
                let text = self.text(self.current);
                let shown: String = text.chars().take(40).collect();
                let dots = if shown.len() < text.len() { "…" } else { "" };
                format!("`{shown}{dots}`")
            }
        };
        self.error(format!("expected {expected}, found {found}"))
    }

    /// Runs `inner` one level deeper; recursion of any kind goes through here.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Accounts for one more piece of the tree.
    fn grow(&mut self) -> Result<()> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(self.error(format!("the module has more than {MAX_NODES} parts")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_parts_is_limited() {
        let text = ".version 8.0\n.target sm_80\n.entry k() { ret; ret; ret; }";
        let mut parser = Parser::new(text).unwrap();
        parser.nodes = MAX_NODES - 3;
        assert_eq!(parser.module().unwrap_err().line, 3);
        parser = Parser::new(text).unwrap();
        parser.nodes = MAX_NODES - 100;
        assert!(parser.module().is_ok());
    }
}
