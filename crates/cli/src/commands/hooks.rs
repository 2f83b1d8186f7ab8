//! `cutrace hooks check`: whether a hooks file is right, and what its hooks are on this machine.

use crate::arguments::Hooks as Options;
use anyhow::{Context, Result, bail};
use capture::{
    hooks::{Hooks, Probe, Target},
    kernel::{Functions, Tracefs, resolve, silence},
};
use std::{fmt::Write as _, fs, io, path::Path, process::ExitCode};

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
                (Some(true), false) => "takes",
                (Some(true), true) => "else ",
                (Some(false), _) => "not  ",
                (None, _) => "later",
            };
            taken |= found == Some(true);
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
        file.display(),
        hooks.hooks.len()
    );
    io::Write::write_all(&mut io::stdout().lock(), text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A hooks file, or what is wrong with it.
pub fn read(file: &Path) -> Result<Hooks> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
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

    /// Whether a probe exists (None: known only when the program runs), and words about it.
    fn describe(&self, probe: &Probe) -> (Option<bool>, String) {
        match &probe.target {
            Target::Library { .. } | Target::Usdt { .. } => {
                (None, "looked for in what the program maps".to_owned())
            }
            Target::Function { module, function } => {
                let Some(functions) = &self.functions else {
                    return (
                        Some(false),
                        "the kernel does not tell its functions".to_owned(),
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
                        (Some(true), words)
                    }
                    Err(missing) => (Some(false), missing.to_string()),
                }
            }
            Target::Tracepoint { group, name } => {
                let Some(tracefs) = &self.tracefs else {
                    let words = "tracefs is not mounted, or not readable by this user";
                    return (Some(false), words.to_owned());
                };
                if name.contains(['*', '?']) {
                    let all = tracefs.list().unwrap_or_default();
                    let count = (all.iter())
                        .filter(|(g, n)| {
                            g == group && event::matches_glob(name.as_bytes(), n.as_bytes())
                        })
                        .count();
                    return (Some(count > 0), format!("{count} tracepoints"));
                }
                match (tracefs.tracepoint(group, name), silence(group)) {
                    (Ok(_), Some(why)) => (Some(true), format!("a tracepoint; {why}")),
                    (Ok(point), None) => {
                        let words =
                            format!("a tracepoint of {} fields", point.own_fields().count());
                        (Some(true), words)
                    }
                    (Err(error), _) => (Some(false), format!("no such tracepoint here: {error}")),
                }
            }
        }
    }
}
