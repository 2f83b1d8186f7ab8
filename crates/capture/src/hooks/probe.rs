//! Probes as bpftrace's users write them: `kprobe:nvidia:nvidia_isr`, `uprobe:libnccl.so.2:nccl*`,
//! `tracepoint:irq:irq_handler_entry`.

use super::Located;
use std::fmt;

/// Where to look, and by which means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub way: ProbeKind,
    pub target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeKind {
    /// A function of a library or program: at its entry.
    Uprobe,
    /// At its return.
    Uretprobe,
    Usdt,
    /// A function of the kernel, at its entry, by whichever kind of probe works.
    Kprobe,
    Kretprobe,
    /// The same, by preference through the function's ftrace site.
    Fentry,
    Fexit,
    Tracepoint,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A library by name or by path, and a glob of its functions.
    Library {
        library: String,
        function: String,
    },
    Usdt {
        library: String,
        provider: String,
        name: String,
    },
    /// A glob of the kernel's functions, in one of its modules or anywhere.
    Function {
        module: Option<String>,
        function: String,
    },
    Tracepoint {
        group: String,
        name: String,
    },
}

const WAYS: [(&str, &str, ProbeKind); 8] = [
    ("uprobe", "u", ProbeKind::Uprobe),
    ("uretprobe", "ur", ProbeKind::Uretprobe),
    ("usdt", "U", ProbeKind::Usdt),
    ("kprobe", "k", ProbeKind::Kprobe),
    ("kretprobe", "kr", ProbeKind::Kretprobe),
    ("fentry", "f", ProbeKind::Fentry),
    ("fexit", "fr", ProbeKind::Fexit),
    ("tracepoint", "t", ProbeKind::Tracepoint),
];

impl ProbeKind {
    pub fn as_str(self) -> &'static str {
        WAYS.iter()
            .find(|(_, _, way)| *way == self)
            .map_or("", |w| w.0)
    }

    fn parse(word: &str) -> Option<Self> {
        let found = WAYS
            .iter()
            .find(|(long, short, _)| *long == word || *short == word);
        // What bpftrace called fentry and fexit for some years.
        match word {
            "kfunc" => Some(ProbeKind::Fentry),
            "kretfunc" => Some(ProbeKind::Fexit),
            _ => found.map(|(_, _, way)| *way),
        }
    }

    /// Only the return is seen.
    pub fn is_return(self) -> bool {
        matches!(
            self,
            ProbeKind::Uretprobe | ProbeKind::Kretprobe | ProbeKind::Fexit
        )
    }
}

/// Globs are compared with every symbol: no longer ones.
const LONGEST: usize = 512;

impl Probe {
    pub fn parse(text: &str) -> Result<Self, Located> {
        if text.len() > LONGEST {
            return Err(Located::new(0, format!("longer than {LONGEST} bytes")));
        }
        let (word, rest) = text.split_once(':').ok_or_else(|| {
            Located::new(
                0,
                "expected a probe: uprobe:LIB:FUNCTION, kprobe:[MODULE:]FUNCTION, tracepoint:GROUP:NAME …",
            )
        })?;
        let way = ProbeKind::parse(word).ok_or_else(|| {
            let known: Vec<&str> = WAYS.iter().map(|way| way.0).collect();
            let what = format!(
                "unknown probe type '{word}' (choose from {})",
                known.join(", ")
            );
            Located::new(0, what)
        })?;
        let start = word.len() + 1;
        let target = match way {
            ProbeKind::Uprobe | ProbeKind::Uretprobe => {
                let (library, function) = last_split(rest, start, "LIB:FUNCTION")?;
                Target::Library { library, function }
            }
            ProbeKind::Usdt => {
                let (place, name) = last_split(rest, start, "LIB:PROVIDER:NAME")?;
                let (library, provider) = last_split(&place, start, "LIB:PROVIDER:NAME")?;
                Target::Usdt {
                    library,
                    provider,
                    name,
                }
            }
            ProbeKind::Kprobe | ProbeKind::Kretprobe | ProbeKind::Fentry | ProbeKind::Fexit => {
                let (module, function) = match rest.split_once(':') {
                    Some((module, function)) => (Some(module.to_owned()), function),
                    None => (None, rest),
                };
                let what = "expected [MODULE:]FUNCTION";
                if module.as_ref().is_some_and(String::is_empty) || function.is_empty() {
                    return Err(Located::new(start, what));
                }
                if let Some(place) = function.find(|c: char| !is_of_symbol(c)) {
                    let place = start + module.as_ref().map_or(0, |m| m.len() + 1) + place;
                    return Err(Located::new(
                        place,
                        "a function's name has letters, digits, '_', '.', and '*' or '?' for any",
                    ));
                }
                Target::Function {
                    module,
                    function: function.to_owned(),
                }
            }
            ProbeKind::Tracepoint => match rest.split_once(':') {
                Some((group, name))
                    if is_of_tracefs(group) && is_of_tracefs(name) && !group.contains('*') =>
                {
                    Target::Tracepoint {
                        group: group.to_owned(),
                        name: name.to_owned(),
                    }
                }
                _ => return Err(Located::new(start, "expected GROUP:NAME")),
            },
        };
        Ok(Probe { way, target })
    }
}

fn is_of_symbol(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '*' | '?' | '$')
}

/// These become part of a path.
fn is_of_tracefs(text: &str) -> bool {
    !text.is_empty()
        && (text.chars()).all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '?'))
}

/// Paths may hold colons, names of functions do not.
fn last_split(text: &str, start: usize, wanted: &str) -> Result<(String, String), Located> {
    match text.rsplit_once(':') {
        Some((left, right)) if !left.is_empty() && !right.is_empty() => {
            Ok((left.to_owned(), right.to_owned()))
        }
        _ => Err(Located::new(start, format!("expected {wanted}"))),
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:", self.way.as_str())?;
        match &self.target {
            Target::Library { library, function } => write!(to, "{library}:{function}"),
            Target::Usdt {
                library,
                provider,
                name,
            } => write!(to, "{library}:{provider}:{name}"),
            Target::Function {
                module: Some(module),
                function,
            } => write!(to, "{module}:{function}"),
            Target::Function {
                module: None,
                function,
            } => write!(to, "{function}"),
            Target::Tracepoint { group, name } => write!(to, "{group}:{name}"),
        }
    }
}
