//! Which kernels match: by their mangled name, their demangled one, a glob or a `/regex/`.

use event::matches_glob;
use regex_lite::Regex;
use std::borrow::Cow;

#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    how: How,
}

#[derive(Debug, Clone)]
enum How {
    Any,
    Name,
    Glob,
    Regex(Regex),
}

#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    #[error("the kernel's name is empty")]
    Empty,
    #[error("/{text}/ is not a valid regular expression: {why}")]
    Regex { text: String, why: String },
}

impl Pattern {
    /// Every kernel.
    pub fn any() -> Pattern {
        Pattern {
            text: "*".into(),
            how: How::Any,
        }
    }

    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let inside = text
            .strip_prefix('/')
            .and_then(|rest| rest.strip_suffix('/'));
        let how = match inside {
            _ if text.is_empty() => return Err(PatternError::Empty),
            Some(inside) => How::Regex(Regex::new(inside).map_err(|why| PatternError::Regex {
                text: inside.to_owned(),
                why: why.to_string(),
            })?),
            None if text == "*" => How::Any,
            // `operator*` and pointers in a demangled name have parentheses behind or before them.
            None if text.contains(['*', '?']) && !text.contains('(') => How::Glob,
            None => How::Name,
        };
        Ok(Pattern {
            text: text.to_owned(),
            how,
        })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn matches(&self, mangled: &str) -> bool {
        if matches!(self.how, How::Any) || mangled == self.text {
            return true;
        }
        let whole = demangled(mangled);
        let whole = whole.as_deref().unwrap_or(mangled);
        // Of templates the demangled name has the result too, and a kernel's is nothing.
        let whole = whole.strip_prefix("void ").unwrap_or(whole);
        match &self.how {
            How::Any => true,
            How::Name => {
                let text = self.text.strip_prefix("void ").unwrap_or(&self.text);
                same_words(whole, text) || bare(whole) == text
            }
            How::Glob => [mangled, whole, bare(whole)]
                .into_iter()
                .any(|name| matches_glob(self.text.as_bytes(), name.as_bytes())),
            How::Regex(regex) => regex.is_match(mangled) || regex.is_match(whole),
        }
    }
}

/// A name for people.
pub fn readable(name: &str) -> String {
    demangled(name).unwrap_or_else(|| name.to_owned())
}

/// A name as its source has it, if it is mangled.
pub fn demangled(name: &str) -> Option<String> {
    match names::demangled(name) {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

/// Equal but for blanks.
fn same_words(a: &str, b: &str) -> bool {
    let dense = |text: &'_ str| -> String { text.chars().filter(|c| !c.is_whitespace()).collect() };
    dense(a) == dense(b)
}

/// The name without its parameters, template arguments, result and scopes' parameters.
fn bare(demangled: &str) -> &str {
    let end = demangled.find(['(', '<']).unwrap_or(demangled.len());
    let name = demangled.get(..end).unwrap_or(demangled);
    name.rsplit_once(' ').map_or(name, |(_, name)| name)
}

/// Kernels like the one that was not found, the likeliest first.
pub fn nearest<'a>(wanted: &str, kernels: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let plain = demangled(wanted);
    let wanted = plain.as_deref().map_or(wanted, bare);
    let kernels: Vec<(String, &str)> = (kernels.into_iter())
        .map(|name| (bare(&readable(name)).to_owned(), name))
        .collect();
    let mut ranked = names::nearest(wanted, kernels.iter().map(|(own, name)| (&**own, *name)));
    ranked.truncate(5);
    (ranked.into_iter())
        .map(|(_, name)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_meant_in_four_ways() {
        let name = "_Z9vectorAddPKfS0_Pfi";
        for text in [
            name,
            "vectorAdd",
            "vectorAdd(float const*, float const*, float*, int)",
            "vectorAdd(float const*,float const*,float*,int)",
            "vector*",
            "_Z9vector*",
            "*Add",
            "/^vector(Add|Sub)/",
            "*",
        ] {
            assert!(Pattern::parse(text).unwrap().matches(name), "{text}");
        }
        for text in [
            "vector",
            "vectorAd",
            "_Z9vectorAddPKfS0_Pf",
            "Vector*",
            "/^Add/",
        ] {
            assert!(!Pattern::parse(text).unwrap().matches(name), "{text}");
        }
        assert!(Pattern::parse("/(/").is_err());
        assert!(Pattern::parse("").is_err());
        let spaced = "_ZN4math5scaleIfEEvPT_";
        assert!(Pattern::parse("math::scale").unwrap().matches(spaced));
        assert!(
            Pattern::parse("math::scale<float>*")
                .unwrap()
                .matches(spaced)
        );
    }

    #[test]
    fn the_nearest_name_comes_first() {
        let names = ["_Z6matmulPf", "_Z9vectorAddPKfS0_Pf", "reduce"];
        assert_eq!(nearest("vectoradd", names)[0], "_Z9vectorAddPKfS0_Pf");
        assert_eq!(nearest("mat", names)[0], "_Z6matmulPf");
    }
}
