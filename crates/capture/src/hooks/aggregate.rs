//! What is computed in the kernel instead of recording calls: `count`, `hist(duration)`, `hist(arg1)`.

use super::{Argument, CopiedAt, Format, Located, ValueOrigin};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aggregate {
    Count,
    /// By powers of two.
    Histogram(Measure),
}

/// What a histogram is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measure {
    /// Nanoseconds from a function's beginning to its return.
    Duration,
    /// One of the hook's arguments.
    Argument(usize),
}

const KNOWN: &str =
    "choose count, hist(duration), hist(argN), hist(retval) or hist(NAME) with NAME from args";

impl Aggregate {
    /// Reads it; what it measures is added to the hook's arguments unless it is there.
    pub fn parse(text: &str, arguments: &mut Vec<Argument>) -> Result<Self, Located> {
        let text = text.trim();
        if matches!(text, "count" | "count()") {
            return Ok(Aggregate::Count);
        }
        let inner = (text.strip_prefix("hist("))
            .and_then(|rest| rest.strip_suffix(')'))
            .map(str::trim)
            .filter(|inner| !inner.is_empty());
        let Some(inner) = inner else {
            let what = format!("'{text}' cannot be computed in the kernel: {KNOWN}");
            return Err(Located::new(0, what));
        };
        if inner == "duration" {
            return Ok(Aggregate::Histogram(Measure::Duration));
        }
        let place = match arguments.iter().position(|known| known.name == inner) {
            Some(place) => place,
            None => {
                // Its type is no part of its name.
                let name = inner.split(':').next().unwrap_or(inner).trim_end();
                let argument = Argument::parse(name, inner).map_err(|error| Located {
                    place: error.place + "hist(".len(),
                    ..error
                })?;
                arguments.push(Argument {
                    hidden: true,
                    ..argument
                });
                arguments.len() - 1
            }
        };
        let argument = &arguments[place];
        if argument.format == Format::Text {
            return Err(Located::new(5, "a histogram needs a number, not a string"));
        }
        if argument.place == CopiedAt::Return && argument.source != ValueOrigin::Returned {
            let what = "a histogram can use arguments at entry, retval or duration";
            return Err(Located::new(5, what));
        }
        Ok(Aggregate::Histogram(Measure::Argument(place)))
    }

    /// Whether it takes the function's return.
    pub fn needs_return(&self, arguments: &[Argument]) -> bool {
        match self {
            Aggregate::Count => false,
            Aggregate::Histogram(Measure::Duration) => true,
            Aggregate::Histogram(Measure::Argument(place)) => {
                (arguments.get(*place)).is_some_and(|it| it.source == ValueOrigin::Returned)
            }
        }
    }

    /// What is counted, in a word: `count`, `duration_ns`, `arg1`.
    pub fn title(&self, arguments: &[Argument]) -> String {
        match self {
            Aggregate::Count => "count".to_owned(),
            Aggregate::Histogram(Measure::Duration) => "duration_ns".to_owned(),
            Aggregate::Histogram(Measure::Argument(place)) => {
                (arguments.get(*place)).map_or_else(String::new, |it| it.name.clone())
            }
        }
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Aggregate::Count => "counted in the kernel",
            Aggregate::Histogram(_) => "a histogram, made in the kernel",
        })
    }
}
