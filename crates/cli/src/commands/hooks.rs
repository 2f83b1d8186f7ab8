//! `cutrace hooks check`: whether a hooks file is right, and what its hooks are on this machine.

use super::{input::contents, print};
use crate::arguments::Hooks as Options;
use anyhow::{Context, Result, bail};
use capture::{
    ebpf::markers::{self, Markers},
    hooks::{Hooks, Probe, Target},
    kernel::{Functions, Tracefs, resolve, silence},
    library::{functions, installed},
};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

pub fn run(options: Options) -> Result<ExitCode> {
    let Options::Check { file } = options;
    let hooks = read(&file)?;
    let machine = Machine::look();
    let mut text = String::new();
    for hook in &hooks.hooks {
        let _ = writeln!(text, "{}", hook.title());
        let mut taken = false;
        for probe in &hook.probes {
            let (found, words) = machine.describe(probe);
            let mark = match (found, taken) {
                (true, false) => "takes",
                (true, true) => "else ",
                (false, _) => "not  ",
            };
            taken |= found;
            let _ = writeln!(text, "  {mark} {probe}: {words}");
        }
        if let Some(condition) = &hook.condition {
            let count: usize = condition.alternatives.iter().map(Vec::len).sum();
            let _ = writeln!(text, "  when  {count} comparison(s) in the kernel");
        }
    }
    let _ = writeln!(
        text,
        "{}: {} hooks, no mistakes",
        render::printable(&file.display().to_string()),
        hooks.hooks.len()
    );
    print(text.as_bytes())
}

/// More than anybody writes.
const MOST_BYTES: u64 = 16 << 20;

/// A hooks file, or what is wrong with it.
pub fn read(file: &Path) -> Result<Hooks> {
    let text = String::from_utf8(contents(file, MOST_BYTES)?)
        .with_context(|| format!("{}: no text", file.display()))?;
    match Hooks::parse(&text) {
        Ok(hooks) => Ok(hooks),
        Err(error) => bail!("{}", error.show(&file.display().to_string())),
    }
}

/// What there is to be hooked here, as far as this user may see.
struct Machine {
    functions: Option<Functions>,
    tracefs: Option<Tracefs>,
}

impl Machine {
    fn look() -> Self {
        let tracefs = Tracefs::find();
        let folder = tracefs.as_ref().map(Tracefs::folder);
        Machine {
            functions: Functions::of_this_kernel(folder).ok(),
            tracefs,
        }
    }

    /// Whether a probe exists, and words about it.
    fn describe(&self, probe: &Probe) -> (bool, String) {
        match &probe.target {
            Target::Usdt {
                library,
                provider,
                name,
            } => describe_markers(library, provider, name),
            Target::Library { library, function } => {
                let files = installed(Some(&format!("uprobe:{library}:{function}")));
                let count = |path: &PathBuf| {
                    let all = functions(path).unwrap_or_default();
                    all.iter()
                        .filter(|name| event::matches_glob(function.as_bytes(), name.as_bytes()))
                        .count()
                };
                let found: usize = files.iter().map(count).sum();
                match found {
                    0 if files.is_empty() => (
                        false,
                        format!("no {library} along the loader's path or in wheels"),
                    ),
                    count => {
                        let names: Vec<String> = files
                            .iter()
                            .map(|file| file.display().to_string())
                            .collect();
                        (
                            count > 0,
                            format!("{count} functions of {}", names.join(", ")),
                        )
                    }
                }
            }
            Target::Function { module, function } => {
                let Some(functions) = &self.functions else {
                    return (false, "the kernel does not tell its functions".to_owned());
                };
                match resolve(functions, module.as_deref(), function) {
                    Ok(found) => {
                        let first = found.functions.first();
                        let module = first.and_then(|f| f.module.as_deref());
                        let words = match (found.functions.len(), found.note) {
                            (_, Some(note)) => note,
                            (1, None) => format!("a function of {}", module.unwrap_or("vmlinux")),
                            (count, None) => format!("{count} functions"),
                        };
                        (true, words)
                    }
                    Err(missing) => (false, missing.to_string()),
                }
            }
            Target::Tracepoint { group, name } => {
                let Some(tracefs) = &self.tracefs else {
                    let words = "tracefs is not mounted, or not readable by this user";
                    return (false, words.to_owned());
                };
                if name.contains(['*', '?']) {
                    let all = tracefs.list().unwrap_or_default();
                    let count = (all.iter())
                        .filter(|(g, n)| {
                            g == group && event::matches_glob(name.as_bytes(), n.as_bytes())
                        })
                        .count();
                    return (count > 0, format!("{count} tracepoints"));
                }
                match (tracefs.tracepoint(group, name), silence(group)) {
                    (Ok(_), Some(why)) => (true, format!("a tracepoint; {why}")),
                    (Ok(point), None) => {
                        let words =
                            format!("a tracepoint of {} fields", point.own_fields().count());
                        (true, words)
                    }
                    (Err(error), _) => (false, format!("no such tracepoint here: {error}")),
                }
            }
        }
    }
}

/// Whether a library has markers that are meant, and words about them.
fn describe_markers(library: &str, provider: &str, name: &str) -> (bool, String) {
    let files = installed(Some(&format!("uprobe:{library}:*")));
    if files.is_empty() {
        let words = format!("no {library} along the loader's path or in wheels");
        return (false, words);
    }
    let (mut count, mut refused) = (0, None);
    for file in &files {
        let found: Markers = match fs::File::open(file).and_then(|file| markers::read(&file)) {
            Ok(found) => found,
            Err(error) => return (false, format!("{}: {error}", file.display())),
        };
        let meant = found
            .markers
            .iter()
            .filter(|one| one.matches(provider, name));
        count += meant.count();
        refused = refused.or(found.refused.into_iter().next());
    }
    let names: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let mut words = format!("{count} markers of {}", names.join(", "));
    if let Some(refused) = refused {
        let _ = write!(words, "; {}: {}", refused.marker, refused.why);
    }
    (count > 0, words)
}
