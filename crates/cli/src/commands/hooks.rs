//! `cutrace hooks check`: whether a hooks file is right, and what its hooks are on this machine.

use super::{input::contents, print};
use crate::{arguments::Hooks as Options, embedded::library_folders as folders};
use anyhow::{Context, Result, bail};
use capture::{
    doctor::{Refusals, refusals},
    ebpf::markers::{self, Markers},
    hooks::{Hooks, Probe, Target},
    kernel::{Functions, Tracefs, lore_of_group, resolve, silence},
    library::{all_functions, find, not_found},
};
use std::{
    fmt::Write as _,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Mutex,
};

pub fn run(options: Options) -> Result<ExitCode> {
    let Options::Check { file, simulate } = options;
    let hooks = read(&file)?;
    let machine = Machine::look(folders(simulate)?);
    let mut text = String::new();
    let mut refused = false;
    for hook in &hooks.hooks {
        let _ = writeln!(text, "{}", hook.title());
        let mut taken = false;
        for probe in &hook.probes {
            let (found, words) = machine.describe(probe);
            // It exists, and yet a run would be refused it.
            let (found, words) = match machine.refusal(probe).filter(|_| found) {
                Some(why) => {
                    refused = true;
                    (false, format!("{words}; cannot be attached here: {why}"))
                }
                None => (found, words),
            };
            let mark = match (found, taken) {
                (true, false) => "takes",
                (true, true) => "else ",
                (false, _) => "not  ",
            };
            taken |= found;
            let _ = writeln!(text, "  {mark} {probe}: {words}");
        }
        if let Some(aggregate) = &hook.aggregate {
            let of = aggregate.title(&hook.arguments);
            let _ = writeln!(text, "  gives {aggregate}: {of}");
        }
        if let Some(condition) = &hook.condition {
            let count: usize = condition.alternatives.iter().map(Vec::len).sum();
            let _ = writeln!(text, "  when  {count} comparison(s) in the kernel");
        }
    }
    let _ = writeln!(
        text,
        "{}: {} hooks, no mistakes{}",
        render::printable(&file.display().to_string()),
        hooks.hooks.len(),
        match refused {
            true => "; some cannot be attached here (`cutrace doctor` says what can)",
            false => "",
        }
    );
    print(text.as_bytes())
}

/// More than anybody writes.
const MOST_BYTES: u64 = 16 << 20;

/// A hooks file, or what is wrong with it.
pub fn read(file: &Path) -> Result<Hooks> {
    let bytes = match file == Path::new("-") {
        true => standard_input()?,
        false => contents(file, MOST_BYTES)?,
    };
    let text = String::from_utf8(bytes).with_context(|| format!("{}: no text", file.display()))?;
    match Hooks::parse(&text) {
        Ok(hooks) => Ok(hooks),
        Err(error) => bail!("{}", error.show(&file.display().to_string())),
    }
}

/// What standard input holds: it can be read once, and is asked for more than once.
fn standard_input() -> Result<Vec<u8>> {
    static READ: Mutex<Option<Vec<u8>>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(|broken| broken.into_inner());
    if let Some(bytes) = &*read {
        return Ok(bytes.clone());
    }
    let mut bytes = Vec::new();
    (io::stdin().lock().take(MOST_BYTES + 1))
        .read_to_end(&mut bytes)
        .context("cannot read a hooks file from standard input")?;
    if bytes.len() as u64 > MOST_BYTES {
        bail!("standard input: larger than 16 MiB, which is more than a hooks file can be");
    }
    Ok(read.insert(bytes).clone())
}

/// What there is to be hooked here, as far as this user may see.
struct Machine {
    functions: Option<Functions>,
    tracefs: Option<Tracefs>,
    /// Where libraries are looked for first.
    folders: Vec<PathBuf>,
    refusals: Refusals,
}

impl Machine {
    fn look(folders: Vec<PathBuf>) -> Self {
        let tracefs = Tracefs::find();
        let folder = tracefs.as_ref().map(Tracefs::folder);
        Machine {
            functions: Functions::of_this_kernel(folder).ok(),
            tracefs,
            folders,
            refusals: refusals(),
        }
    }

    /// Why probes of this kind cannot be attached here.
    fn refusal(&self, probe: &Probe) -> Option<&str> {
        match probe.target {
            Target::Library { .. } | Target::Usdt { .. } => self.refusals.libraries.as_deref(),
            Target::Function { .. } => self.refusals.functions.as_deref(),
            Target::Tracepoint { .. } => self.refusals.tracepoints.as_deref(),
        }
    }

    /// Whether a probe exists, and words about it.
    fn describe(&self, probe: &Probe) -> (bool, String) {
        match &probe.target {
            Target::Usdt {
                library,
                provider,
                name,
            } => describe_markers(library, provider, name, &self.folders),
            Target::Library { library, function } => {
                let files = find(library, &self.folders);
                let count = |path: &PathBuf| {
                    let all = all_functions(path).unwrap_or_default();
                    all.iter()
                        .filter(|name| event::matches_glob(function.as_bytes(), name.as_bytes()))
                        .count()
                };
                let found: usize = files.iter().map(count).sum();
                match found {
                    0 if files.is_empty() => (false, not_found(library)),
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
                    return (
                        false,
                        "the kernel does not show its functions to this user".to_owned(),
                    );
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
                    let words = match (count, lore_of_group(group)) {
                        (0, Some(truth)) => format!("no tracepoint: {truth}"),
                        _ => format!("{count} tracepoints"),
                    };
                    return (count > 0, words);
                }
                match (tracefs.tracepoint(group, name), silence(group)) {
                    (Ok(_), Some(why)) => (true, format!("a tracepoint; {why}")),
                    (Ok(point), None) => {
                        let words =
                            format!("a tracepoint of {} fields", point.own_fields().count());
                        (true, words)
                    }
                    (Err(error), _) => {
                        let why = lore_of_group(group).map_or(error.to_string(), str::to_owned);
                        (false, format!("no such tracepoint here: {why}"))
                    }
                }
            }
        }
    }
}

/// Whether a library has markers that are meant, and words about them.
fn describe_markers(
    library: &str,
    provider: &str,
    name: &str,
    folders: &[PathBuf],
) -> (bool, String) {
    let files = find(library, folders);
    if files.is_empty() {
        return (false, not_found(library));
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
