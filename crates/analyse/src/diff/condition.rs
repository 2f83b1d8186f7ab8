//! `--fail-on`: conditions on how two runs differ.
//!
//! `total>+5%` holds where the run takes over 5 % longer; `sync.total>+3ms` where waiting takes over
//! 3 ms more; `memory.peak>2GiB` where the peak is above 2 GiB, whatever it was before. Several may
//! stand in a row with commas; each counts by itself. Names with other characters than letters,
//! digits and `_` stand in quotes: `"void scale<float>(float*)".p50>+10%`.

use super::metric::{self, MetricError, STATS, TOTALS, Unit};
use crate::Report;
use serde::Serialize;
use std::fmt;

/// One thing that must not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// As it was written.
    pub text: String,
    name: String,
    stat: Option<String>,
    above: bool,
    or_equal: bool,
    limit: Limit,
}

/// What a number is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The change, as a part of what was before.
    Relative(f64),
    /// The change itself.
    Change(f64, Option<Unit>),
    /// The number after, whatever it was before.
    Value(f64, Option<Unit>),
}

/// Conditions as one argument gives them.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions(pub Vec<Condition>);

/// What became of a condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    pub condition: String,
    pub holds: bool,
    pub unit: Unit,
    pub a: u64,
    pub b: u64,
    pub relative: Option<f64>,
}

/// A condition that cannot be read: what is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionError {
    pub text: String,
    /// The character at fault, counted from 0.
    pub at: usize,
    pub problem: String,
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConditionError { text, at, problem } = self;
        write!(
            f,
            "{problem}, at character {}:\n  {text}\n  {:at$}^",
            at + 1,
            ""
        )
    }
}

impl std::error::Error for ConditionError {}

impl std::str::FromStr for Conditions {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parser = Parser {
            text,
            characters: text.chars().collect(),
            at: 0,
        };
        let mut conditions = vec![parser.condition()?];
        while parser.take(',') {
            conditions.push(parser.condition()?);
        }
        parser.blanks();
        match parser.peek() {
            None => Ok(Conditions(conditions)),
            Some(_) => parser.fail("expected a comma or the end"),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    characters: Vec<char>,
    at: usize,
}

impl Parser<'_> {
    fn fail<T>(&self, problem: impl Into<String>) -> Result<T, ConditionError> {
        self.fail_at(self.at, problem)
    }

    fn fail_at<T>(&self, at: usize, problem: impl Into<String>) -> Result<T, ConditionError> {
        Err(ConditionError {
            text: self.text.to_owned(),
            at,
            problem: problem.into(),
        })
    }

    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn take(&mut self, character: char) -> bool {
        self.blanks();
        let there = self.peek() == Some(character);
        self.at += usize::from(there);
        there
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek().is_some_and(&belongs) {
            self.at += 1;
        }
        self.characters[start..self.at].iter().collect()
    }

    fn condition(&mut self) -> Result<Condition, ConditionError> {
        self.blanks();
        let start = self.at;
        let (name, stat) = self.metric()?;
        self.blanks();
        let above = match self.peek() {
            Some('>') => true,
            Some('<') => false,
            Some('=') => return self.fail("compare with > or <"),
            _ => return self.fail("expected > or < after the name"),
        };
        self.at += 1;
        let or_equal = self.peek() == Some('=');
        self.at += usize::from(or_equal);
        let limit = self.limit()?;
        let text: String = self.characters[start..self.at].iter().collect();
        Ok(Condition {
            text: text.trim().to_owned(),
            name,
            stat,
            above,
            or_equal,
            limit,
        })
    }

    fn metric(&mut self) -> Result<(String, Option<String>), ConditionError> {
        let start = self.at;
        let name = match self.peek() {
            Some(quote @ ('"' | '\'' | '`')) => {
                self.at += 1;
                let name = self.word(|character| character != quote);
                if self.peek().is_none() {
                    return self.fail_at(start, "unclosed quote");
                }
                self.at += 1;
                name
            }
            _ => self.word(|character| character.is_alphanumeric() || character == '_'),
        };
        if name.is_empty() {
            return self.fail_at(
                start,
                "expected a name, such as total, sync or cuMemAlloc.p50",
            );
        }
        if self.peek() != Some('.') {
            return Ok((name, None));
        }
        self.at += 1;
        let place = self.at;
        let stat = self.word(|character| character.is_alphanumeric());
        let whole = format!("{name}.{stat}");
        if !STATS.contains(&stat.as_str()) && !TOTALS.contains(&whole.as_str()) {
            let known = STATS.join(", ");
            return self.fail_at(place, format!("'{stat}' is not one of {known}"));
        }
        Ok((name, Some(stat)))
    }

    fn limit(&mut self) -> Result<Limit, ConditionError> {
        self.blanks();
        let sign = match self.peek() {
            Some('+') => Some(1.0),
            Some('-' | '−') => Some(-1.0),
            _ => None,
        };
        self.at += usize::from(sign.is_some());
        self.blanks();
        let start = self.at;
        let digits = self.word(|character| character.is_ascii_digit() || character == '.');
        let Ok(number) = digits.parse::<f64>() else {
            return self.fail_at(start, "expected a number, such as +5%, +3ms or 2GiB");
        };
        self.blanks();
        let place = self.at;
        let unit = self.word(|character| character.is_alphabetic() || character == '%');
        let number = number * sign.unwrap_or(1.0);
        let (scale, unit) = match unit.as_str() {
            // A part can only be of the change.
            "%" => return Ok(Limit::Relative(number / 100.0)),
            "" => (1.0, None),
            "ns" => (1.0, Some(Unit::Time)),
            "us" | "µs" | "μs" => (1e3, Some(Unit::Time)),
            "ms" => (1e6, Some(Unit::Time)),
            "s" => (1e9, Some(Unit::Time)),
            "min" => (60e9, Some(Unit::Time)),
            "B" => (1.0, Some(Unit::Bytes)),
            "KiB" | "K" => (1024.0, Some(Unit::Bytes)),
            "MiB" | "M" => (1024.0 * 1024.0, Some(Unit::Bytes)),
            "GiB" | "G" => (1024.0 * 1024.0 * 1024.0, Some(Unit::Bytes)),
            "kB" => (1e3, Some(Unit::Bytes)),
            "MB" => (1e6, Some(Unit::Bytes)),
            "GB" => (1e9, Some(Unit::Bytes)),
            other => {
                let problem = format!(
                    "unknown unit '{other}' (use %, ns, us, ms, s, min, B, KiB, MiB or GiB)"
                );
                return self.fail_at(place, problem);
            }
        };
        let number = number * scale;
        Ok(match sign {
            Some(_) => Limit::Change(number, unit),
            None => Limit::Value(number, unit),
        })
    }
}

/// Why a condition could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    #[error("'{condition}': {source}")]
    Metric {
        condition: String,
        source: MetricError,
    },
    #[error("'{condition}': cannot compare {is} with {given}")]
    Unit {
        condition: String,
        is: &'static str,
        given: &'static str,
    },
}

impl Condition {
    /// Whether it holds of run `b` after run `a`.
    pub fn check(&self, a: &Report, b: &Report) -> Result<Outcome, CheckError> {
        let number = metric::both(a, b, &self.name, self.stat.as_deref());
        let (a, b, unit) = number.map_err(|source| CheckError::Metric {
            condition: self.text.clone(),
            source,
        })?;
        self.of(a, b, unit)
    }

    /// What it is about, as it was written: `sync.total`, `bad_hosts.count`.
    pub fn metric(&self) -> (&str, Option<&str>) {
        (&self.name, self.stat.as_deref())
    }

    /// Whether it holds of a number that was `a` and is `b`.
    pub fn of(&self, a: u64, b: u64, unit: Unit) -> Result<Outcome, CheckError> {
        let change = b as f64 - a as f64;
        let (value, limit, given) = match self.limit {
            // From nothing to something is more than any part; from nothing to nothing, none.
            Limit::Relative(limit) if a == 0 => {
                let grown = if b > 0 { f64::INFINITY } else { 0.0 };
                (grown, limit, None)
            }
            Limit::Relative(limit) => (change / a as f64, limit, None),
            Limit::Change(limit, given) => (change, limit, given),
            Limit::Value(limit, given) => (b as f64, limit, given),
        };
        if let Some(given) = given.filter(|given| *given != unit) {
            return Err(CheckError::Unit {
                condition: self.text.clone(),
                is: unit.words(),
                given: given.words(),
            });
        }
        let beyond = if self.above {
            value > limit
        } else {
            value < limit
        };
        Ok(Outcome {
            condition: self.text.clone(),
            holds: beyond || (self.or_equal && value == limit),
            unit,
            a,
            b,
            relative: (a > 0).then(|| change / a as f64),
        })
    }
}

impl Conditions {
    /// What became of each.
    pub fn check(&self, a: &Report, b: &Report) -> Result<Vec<Outcome>, CheckError> {
        self.0
            .iter()
            .map(|condition| condition.check(a, b))
            .collect()
    }
}

impl Unit {
    fn words(self) -> &'static str {
        match self {
            Unit::Time => "time",
            Unit::Bytes => "bytes",
            Unit::Count => "calls",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limit(text: &str) -> Limit {
        text.parse::<Conditions>().unwrap().0.remove(0).limit
    }

    #[test]
    fn limits() {
        assert_eq!(limit("total>+5%"), Limit::Relative(0.05));
        assert_eq!(limit("total > 5 %"), Limit::Relative(0.05));
        assert_eq!(limit("total<-12.5%"), Limit::Relative(-0.125));
        assert_eq!(limit("sync>=+3ms"), Limit::Change(3e6, Some(Unit::Time)));
        assert_eq!(limit("cuMemAlloc.count>+100"), Limit::Change(100.0, None));
        assert_eq!(
            limit("memory.peak>2GiB"),
            Limit::Value(2_147_483_648.0, Some(Unit::Bytes))
        );
        assert_eq!(
            limit("iteration > 20 µs"),
            Limit::Value(20e3, Some(Unit::Time))
        );
    }

    #[test]
    fn several_and_quoted() {
        let conditions: Conditions =
            "total>+5%, \"scale<float>(float*)\".p50 > +10% ,cudaMalloc.max>1ms"
                .parse()
                .unwrap();
        let texts: Vec<_> = conditions.0.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "total>+5%",
                "\"scale<float>(float*)\".p50 > +10%",
                "cudaMalloc.max>1ms"
            ]
        );
        assert_eq!(conditions.0[1].name, "scale<float>(float*)");
    }

    #[test]
    fn errors_point_at_the_place() {
        for (text, at, words) in [
            ("", 0, "expected a name"),
            ("total", 5, "expected > or <"),
            ("total=5%", 5, "compare with > or <"),
            ("total>", 6, "expected a number"),
            ("total>+x%", 7, "expected a number"),
            ("total>5 parsecs", 8, "unknown unit 'parsecs'"),
            ("sync.p75>1ms", 5, "'p75' is not one of"),
            ("total>5%,", 9, "expected a name"),
            ("total>5% sync>1", 9, "a comma or the end"),
            ("\"open>5%", 0, "unclosed quote"),
            ("total>1.2.3ms", 6, "expected a number"),
        ] {
            let error = text.parse::<Conditions>().unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.problem.contains(words), "{text}: {error}");
        }
        let shown = "total>5 parsecs"
            .parse::<Conditions>()
            .unwrap_err()
            .to_string();
        assert!(shown.ends_with("  total>5 parsecs\n          ^"), "{shown}");
    }

    proptest! {
        #[test]
        fn nothing_that_is_typed_makes_it_panic(text in "\\PC{0,40}") {
            if let Err(error) = text.parse::<Conditions>() {
                prop_assert!(error.at <= text.chars().count());
            }
        }
    }
}
