//! A demangled C++ name as a tree: its parts between `::`, each with template arguments and
//! parameters. Tolerant: what it does not understand it passes over, and a name that was cut off
//! ends where it ends.

/// `ns::function<args>(parameters)::{lambda(parameters)#1}`
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Path<'a> {
    pub parts: Vec<Part<'a>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Part<'a> {
    pub text: &'a str,
    /// Template arguments.
    pub args: Vec<Path<'a>>,
    /// Parameters, where it is a function or a lambda.
    pub parameters: Option<Vec<Path<'a>>>,
    /// A lambda's number within its function.
    pub lambda: Option<&'a str>,
}

impl<'a> Path<'a> {
    pub fn last(&self) -> Option<&Part<'a>> {
        self.parts.last()
    }

    /// The first part that is more than a scope: a template, a function, or what comes last.
    pub fn head(&self) -> Option<usize> {
        let own = |part: &Part<'_>| {
            !part.args.is_empty() || part.parameters.is_some() || part.lambda.is_some()
        };
        let first = self.parts.iter().position(own);
        first.or(self.parts.len().checked_sub(1))
    }

    /// `4`, `-1`, `3ul`, `true`
    pub fn is_value(&self) -> bool {
        match &self.parts[..] {
            [only] => {
                matches!(only.text, "true" | "false")
                    || only
                        .text
                        .starts_with(|c: char| c.is_ascii_digit() || c == '-')
            }
            _ => false,
        }
    }
}

/// Arguments nested deeper than that are passed over.
const DEEPEST: usize = 48;
/// Words that make up the name of one type.
const TYPE_WORDS: [&str; 7] = [
    "unsigned", "signed", "long", "short", "int", "char", "double",
];
const QUALIFIERS: [&str; 6] = [
    "const",
    "volatile",
    "restrict",
    "__restrict__",
    "noexcept",
    "static",
];

pub fn parse(text: &str) -> Path<'_> {
    Parser { text, at: 0 }.path(0)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn skip(&mut self, prefix: &str) -> bool {
        let there = self.rest().starts_with(prefix);
        self.at += if there { prefix.len() } else { 0 };
        there
    }

    /// Up to the `,`, `>`, `)` or `}` of an outer list.
    fn path(&mut self, depth: usize) -> Path<'a> {
        let mut parts: Vec<Part<'a>> = Vec::new();
        // Where the last part's text began.
        let mut began = 0;
        // Behind a blank another word begins: what came before it was a return type.
        let mut apart = false;
        while let Some(next) = self.peek() {
            match next {
                ',' | '>' | ')' | '}' => break,
                ' ' => {
                    self.next();
                    apart = true;
                }
                ':' => {
                    self.next();
                    apart = false;
                }
                // `[abi:cxx11]`, `[clone .1]`, `[3]`
                '[' => {
                    self.next();
                    while self.peek().is_some_and(|c| c != ']') {
                        self.next();
                    }
                    self.skip("]");
                }
                '{' => parts.push(self.lambda(depth)),
                '(' if self.skip("(anonymous namespace)") => {
                    if std::mem::take(&mut apart) {
                        parts.clear();
                    }
                }
                '(' => {
                    self.next();
                    let parameters = self.list(')', depth);
                    match parts.last_mut() {
                        Some(part) if !apart => {
                            part.parameters.get_or_insert(parameters);
                        }
                        // `(Mode)1`: the value behind it says all. `void (*)(int)`: nothing to say.
                        _ => {}
                    }
                }
                '<' if self.skip("<unnamed>") => {}
                '<' => {
                    self.next();
                    let args = self.list('>', depth);
                    if let Some(part) = parts.last_mut() {
                        part.args.extend(args);
                    }
                }
                _ if is_word(next) => {
                    let start = self.at;
                    let text = self.word();
                    if QUALIFIERS.contains(&text) {
                        continue;
                    }
                    let goes_on = apart
                        && TYPE_WORDS.contains(&text)
                        && parts.len() == 1
                        && parts[0]
                            .text
                            .split(' ')
                            .all(|word| TYPE_WORDS.contains(&word));
                    if goes_on {
                        parts[0].text = &self.text[began..self.at];
                    } else {
                        if apart {
                            parts.clear();
                        }
                        began = start;
                        parts.push(Part {
                            text,
                            ..Part::default()
                        });
                    }
                    apart = false;
                }
                // Pointers, references, arrays, suffixes of compilers.
                _ => self.next(),
            }
        }
        Path { parts }
    }

    /// A name, a number, or `operator` with its sign.
    fn word(&mut self) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(is_word) {
            self.next();
        }
        if &self.text[start..self.at] == "operator" && !self.skip("()") {
            while self.peek().is_some_and(|c| "+-*/%^&|~!=<>[]".contains(c)) {
                self.next();
            }
        }
        &self.text[start..self.at]
    }

    /// `{lambda(float)#1}`, `{unnamed type#2}`
    fn lambda(&mut self, depth: usize) -> Part<'a> {
        self.next();
        let parameters = self.skip("lambda(").then(|| self.list(')', depth));
        let start = self.at;
        let mut inner = 0u32;
        while let Some(next) = self.peek() {
            match next {
                '{' => inner += 1,
                '}' if inner == 0 => break,
                '}' => inner -= 1,
                _ => {}
            }
            self.next();
        }
        let number = self.text[start..self.at].trim_start_matches('#');
        self.skip("}");
        Part {
            text: "{lambda}",
            args: Vec::new(),
            parameters,
            lambda: Some(number),
        }
    }

    /// Behind its opening bracket, up to and with the closing one.
    fn list(&mut self, end: char, depth: usize) -> Vec<Path<'a>> {
        let mut list = Vec::new();
        if depth >= DEEPEST {
            self.pass_over(end);
            return list;
        }
        loop {
            let path = self.path(depth + 1);
            if !path.parts.is_empty() {
                list.push(path);
            }
            match self.peek() {
                None => return list,
                Some(',') => self.next(),
                Some(close) => {
                    // A bracket of another kind: an operator's name, or not C++. Go on behind it.
                    self.next();
                    if close == end {
                        return list;
                    }
                }
            }
        }
    }

    fn pass_over(&mut self, end: char) {
        let begin = if end == '>' { '<' } else { '(' };
        let mut depth = 0u32;
        while let Some(next) = self.peek() {
            self.next();
            if next == begin {
                depth += 1;
            } else if next == end {
                if depth == 0 {
                    return;
                }
                depth -= 1;
            }
        }
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$' | '~' | '-' | '.' | '@')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As it was understood: `a::b<c>(d)`.
    fn shown(path: &Path<'_>) -> String {
        let list = |paths: &[Path<'_>]| paths.iter().map(shown).collect::<Vec<_>>().join(",");
        let part = |part: &Part<'_>| {
            let mut text = part.text.to_owned();
            if !part.args.is_empty() {
                text += &format!("<{}>", list(&part.args));
            }
            if let Some(parameters) = &part.parameters {
                text += &format!("({})", list(parameters));
            }
            text + part.lambda.unwrap_or("")
        };
        path.parts.iter().map(part).collect::<Vec<_>>().join("::")
    }

    #[test]
    fn names_are_taken_apart() {
        for (name, tree) in [
            (
                "void f<float>(float*, unsigned long long)",
                "f<float>(float,unsigned long long)",
            ),
            (
                "void at::native::k<4, at::F<c10::Half>, std::array<char*, 3ul> >(int, at::F<c10::Half>)",
                "at::native::k<4,at::F<c10::Half>,std::array<char,3ul>>(int,at::F<c10::Half>)",
            ),
            (
                "std::enable_if<!(false), void>::type a::b<(Mode)1, (bool)0>(int const*) [clone .1]",
                "a::b<1,0>(int)",
            ),
            (
                "void g<h(X&)::{lambda()#3}::operator()() const::{lambda(float)#1}>(int)",
                "g<h(X)::{lambda}()3::operator()()::{lambda}(float)1>(int)",
            ),
            (
                "void (anonymous namespace)::softmax<float, true>(float const*)",
                "softmax<float,true>(float)",
            ),
            ("void k<void (*)(int)>()", "k<void>()"),
            (
                "__main__::add[abi:v1][abi:cw51](Array<float, 1>)",
                "__main__::add(Array<float,1>)",
            ),
            ("", ""),
            ("<<<", ""),
            ("a<b", "a<b>"),
            ("f(", "f()"),
        ] {
            assert_eq!(shown(&parse(name)), tree, "{name}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("f{}{}(int)", "<a".repeat(3_000), ">".repeat(3_000));
        let path = parse(&deep);
        assert_eq!(path.parts[0].text, "f");
        assert_eq!(path.parts[0].parameters.as_ref().map(Vec::len), Some(1));
    }
}
