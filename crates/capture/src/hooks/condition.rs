//! `when`: which calls are recorded at all, decided in the kernel.
//!
//! A condition becomes at most [`MOST_TERMS`] comparisons, in alternatives: the form that a program
//! without loops of its own can evaluate.

use super::{
    Argument, CopiedAt, Format, Located, ValueOrigin,
    lex::{Token, Walk},
};

/// Comparisons of one condition.
pub const MOST_TERMS: usize = 8;
const DEEPEST: u32 = 32;
/// Bytes of a text that can be compared, with its end.
const LONGEST_TEXT: usize = 32;

/// Holds if all terms of one of its alternatives hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub alternatives: Vec<Vec<Term>>,
}

/// One comparison: (argument & mask) compared with the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Which of the hook's arguments.
    pub argument: usize,
    /// Of a text: which bytes of it, eight at a time.
    pub offset: usize,
    pub mask: u64,
    pub compare: Compare,
    /// As a signed number where the argument's type is signed.
    pub value: u64,
    pub signed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    Equal,
    Different,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Compare {
    fn of(sign: &str) -> Option<Self> {
        Some(match sign {
            "==" => Compare::Equal,
            "!=" => Compare::Different,
            "<" => Compare::Less,
            "<=" => Compare::LessOrEqual,
            ">" => Compare::Greater,
            ">=" => Compare::GreaterOrEqual,
            _ => return None,
        })
    }

    fn opposite(self) -> Self {
        match self {
            Compare::Equal => Compare::Different,
            Compare::Different => Compare::Equal,
            Compare::Less => Compare::GreaterOrEqual,
            Compare::GreaterOrEqual => Compare::Less,
            Compare::Greater => Compare::LessOrEqual,
            Compare::LessOrEqual => Compare::Greater,
        }
    }

    /// What the kernel's program computes.
    pub fn holds(self, a: u64, b: u64, signed: bool) -> bool {
        let order = if signed {
            (a as i64).cmp(&(b as i64))
        } else {
            a.cmp(&b)
        };
        match self {
            Compare::Equal => order.is_eq(),
            Compare::Different => order.is_ne(),
            Compare::Less => order.is_lt(),
            Compare::LessOrEqual => order.is_le(),
            Compare::Greater => order.is_gt(),
            Compare::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// A tree of what was written; negations are already inside the comparisons.
enum Tree {
    All(Vec<Tree>),
    Any(Vec<Tree>),
    Term(Term),
}

impl Condition {
    /// Reads `text` against a hook's arguments. A function's argument that only the condition
    /// names is added to them, hidden.
    pub fn parse(text: &str, arguments: &mut Vec<Argument>) -> Result<Self, Located> {
        let mut reading = Reading {
            walk: Walk::new(text)?,
            arguments,
        };
        let tree = reading.any(false, 0)?;
        reading.walk.finish()?;
        let alternatives = alternatives(&tree).ok_or_else(|| {
            Located::new(
                0,
                format!("the condition expands to more than {MOST_TERMS} comparisons"),
            )
        })?;
        Ok(Condition { alternatives })
    }

    /// Whether it holds for these values, one for each of the hook's arguments; texts aside.
    pub fn holds(&self, values: &[u64]) -> bool {
        let term = |term: &Term| {
            let value = values.get(term.argument).copied().unwrap_or(0) & term.mask;
            term.compare.holds(value, term.value, term.signed)
        };
        self.alternatives.iter().any(|all| all.iter().all(term))
    }
}

/// The tree as alternatives; none if they are too many.
fn alternatives(tree: &Tree) -> Option<Vec<Vec<Term>>> {
    let found = match tree {
        Tree::Term(term) => vec![vec![term.clone()]],
        Tree::Any(parts) => {
            let mut found = Vec::new();
            for part in parts {
                found.extend(alternatives(part)?);
            }
            found
        }
        Tree::All(parts) => {
            let mut found = vec![Vec::new()];
            for part in parts {
                let more = alternatives(part)?;
                let product: Vec<Vec<Term>> = (found.iter())
                    .flat_map(|left| more.iter().map(move |right| [&left[..], right].concat()))
                    .collect();
                found = product;
                if found.len() > MOST_TERMS {
                    return None;
                }
            }
            found
        }
    };
    (found.iter().map(Vec::len).sum::<usize>() <= MOST_TERMS).then_some(found)
}

struct Reading<'a, 'b> {
    walk: Walk<'a>,
    arguments: &'b mut Vec<Argument>,
}

impl Reading<'_, '_> {
    fn any(&mut self, negated: bool, depth: u32) -> Result<Tree, Located> {
        let mut parts = vec![self.all(negated, depth)?];
        while self.walk.take("||") {
            parts.push(self.all(negated, depth)?);
        }
        Ok(match (parts.len(), negated) {
            (1, _) => parts.remove(0),
            (_, false) => Tree::Any(parts),
            (_, true) => Tree::All(parts),
        })
    }

    fn all(&mut self, negated: bool, depth: u32) -> Result<Tree, Located> {
        let mut parts = vec![self.one(negated, depth)?];
        while self.walk.take("&&") {
            parts.push(self.one(negated, depth)?);
        }
        Ok(match (parts.len(), negated) {
            (1, _) => parts.remove(0),
            (_, false) => Tree::All(parts),
            (_, true) => Tree::Any(parts),
        })
    }

    fn one(&mut self, negated: bool, depth: u32) -> Result<Tree, Located> {
        if depth > DEEPEST {
            return Err(Located::new(self.walk.place(), "nested too deep"));
        }
        if self.walk.take("!") {
            return self.one(!negated, depth + 1);
        }
        // `(flags & 4) != 0`: a bracket around a masked value, not around a condition.
        if self.masked_in_brackets() {
            self.walk.take("(");
            let (argument, mask) = self.operand()?;
            self.walk.expect(")", "')'")?;
            return self.comparison(argument, mask, negated);
        }
        if self.walk.take("(") {
            let inner = self.any(negated, depth + 1)?;
            self.walk.expect(")", "')'")?;
            return Ok(inner);
        }
        let (argument, mask) = self.operand()?;
        self.comparison(argument, mask, negated)
    }

    fn masked_in_brackets(&self) -> bool {
        let sign = |ahead: usize, wanted: &str| matches!(self.walk.peek_at(ahead), Some(Token::Sign(sign)) if *sign == wanted);
        sign(0, "(")
            && matches!(self.walk.peek_at(1), Some(Token::Word(_)))
            && sign(2, "&")
            && sign(4, ")")
    }

    /// A value, and the bits of it that count.
    fn operand(&mut self) -> Result<(usize, u64), Located> {
        let place = self.walk.place();
        let argument = match self.walk.next() {
            Some(Token::Word(word)) => self.argument(word, place)?,
            Some(Token::Number(_)) => {
                return Err(Located::new(
                    place,
                    "write the argument on the left: size > 4096",
                ));
            }
            _ => return Err(Located::new(place, "expected the name of an argument")),
        };
        let mut mask = u64::MAX;
        if self.walk.take("&") {
            let place = self.walk.place();
            mask = match self.walk.next() {
                Some(Token::Number(number)) => number,
                _ => return Err(Located::new(place, "expected a number: a mask of bits")),
            };
        }
        Ok((argument, mask))
    }

    fn comparison(&mut self, argument: usize, mask: u64, negated: bool) -> Result<Tree, Located> {
        if self.arguments[argument].format == Format::Text {
            return self.text_comparison(argument, negated);
        }
        let signed = self.arguments[argument].format.is_signed() && mask == u64::MAX;
        let mut compare = Compare::Different;
        let mut value = 0;
        if let Some(Token::Sign(sign)) = self.walk.peek()
            && let Some(found) = Compare::of(sign)
        {
            compare = found;
            self.walk.next();
            let place = self.walk.place();
            let negative = self.walk.take("-");
            value = match self.walk.next() {
                Some(Token::Number(number)) if negative => {
                    if !signed {
                        let what = "this argument is unsigned: give it a signed type such as i32";
                        return Err(Located::new(place, what));
                    }
                    number.wrapping_neg()
                }
                Some(Token::Number(number)) => number,
                _ => return Err(Located::new(place, "expected a number")),
            };
        }
        if negated {
            compare = compare.opposite();
        }
        Ok(Tree::Term(Term {
            argument,
            offset: 0,
            mask,
            compare,
            value,
            signed,
        }))
    }

    /// A text is compared eight bytes at a time, with its end, or without it before a `*`.
    fn text_comparison(&mut self, argument: usize, negated: bool) -> Result<Tree, Located> {
        let place = self.walk.place();
        let different = match self.walk.next() {
            Some(Token::Sign("==")) => negated,
            Some(Token::Sign("!=")) => !negated,
            _ => return Err(Located::new(place, "compare strings with == or !=")),
        };
        let place = self.walk.place();
        let Some(Token::Text(text)) = self.walk.next() else {
            return Err(Located::new(place, "expected a quoted string"));
        };
        let mut bytes = text.as_bytes().to_vec();
        match bytes.last() {
            Some(b'*') => {
                bytes.pop();
            }
            _ => bytes.push(0),
        }
        if bytes.is_empty() || bytes.len() > LONGEST_TEXT {
            let what = format!(
                "only strings of 1 to {} bytes can be compared",
                LONGEST_TEXT - 1
            );
            return Err(Located::new(place, what));
        }
        let terms = bytes.chunks(8).enumerate().map(|(number, part)| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            Tree::Term(Term {
                argument,
                offset: number * 8,
                mask: u64::MAX >> (64 - 8 * part.len()),
                compare: if different {
                    Compare::Different
                } else {
                    Compare::Equal
                },
                value: u64::from_le_bytes(word),
                signed: false,
            })
        });
        let terms: Vec<Tree> = terms.collect();
        Ok(if different {
            Tree::Any(terms)
        } else {
            Tree::All(terms)
        })
    }

    fn argument(&mut self, word: &str, place: usize) -> Result<usize, Located> {
        if let Some(found) = self.arguments.iter().position(|a| a.name == word) {
            return Ok(found);
        }
        let written = Argument::parse(word, word).map_err(|error| Located { place, ..error })?;
        if matches!(written.source, ValueOrigin::Field(_)) {
            let names: Vec<&str> = self.arguments.iter().map(|a| a.name.as_str()).collect();
            let among = match names.is_empty() {
                true => ", which is empty".to_owned(),
                false => format!(": {}", names.join(", ")),
            };
            let what = format!("'{word}' is not among the hook's args{among}");
            return Err(Located::new(place, what));
        }
        self.arguments.push(Argument {
            hidden: true,
            ..written
        });
        Ok(self.arguments.len() - 1)
    }
}

impl Condition {
    /// Whether it needs what is known only when the function returns.
    pub fn needs_return(&self, arguments: &[Argument]) -> bool {
        (self.alternatives.iter().flatten())
            .filter_map(|term| arguments.get(term.argument))
            .any(|argument| argument.place == CopiedAt::Return)
    }
}
