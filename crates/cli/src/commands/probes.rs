//! `cutrace probes`: what can be hooked here, one probe a line, as `bpftrace -l` lists them.

use crate::{arguments::Probes, embedded::library_folders as folders, say::say};
use anyhow::Result;
use capture::{
    doctor::refusals,
    ebpf::markers,
    kernel::{Btf, Functions, Tracefs, silence},
    library,
};
use event::matches_glob;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Modules of NVIDIA's driver.
const MODULES: [&str; 5] = [
    "nvidia",
    "nvidia_uvm",
    "nvidia_drm",
    "nvidia_modeset",
    "nvidia_peermem",
];
/// Tracepoints that tell about a GPU's work, by group.
const GROUPS: [&str; 5] = [
    "nvidia",
    "nvswitch",
    "dma_fence",
    "gpu_mem",
    "gpu_scheduler",
];

pub fn run(options: Probes) -> Result<ExitCode> {
    let wanted = Wanted {
        glob: options.glob.as_deref(),
        folders: folders(options.simulate)?,
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let libraries = functions_of_libraries(&wanted, &mut out)?
        + markers_of_libraries(&wanted, options.arguments, &mut out)?;
    let tracefs = Tracefs::find();
    let functions = functions_of_kernel(&wanted, tracefs.as_ref(), options.arguments, &mut out)?;
    let points = tracepoints(&wanted, tracefs.as_ref(), options.arguments, &mut out)?;
    out.flush()?;
    drop(out);
    if libraries + functions + points == 0 {
        match &options.glob {
            Some(glob) => say!("cutrace: nothing here matches {glob}{}", advice(glob)),
            None => say!("cutrace: found no CUDA library, driver module or GPU tracepoint here"),
        }
        return Ok(ExitCode::from(1));
    }
    // Whoever looks for a probe wants to attach it: what a run would be refused is said now.
    let refusals = refusals();
    for (listed, kind, why) in [
        (libraries, "uprobe and usdt", refusals.libraries),
        (functions, "kprobe", refusals.functions),
        (points, "tracepoint", refusals.tracepoints),
    ] {
        if let Some(why) = why.filter(|_| listed > 0) {
            say!("cutrace: {kind} probes cannot be attached here: {why}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is known about a name that is not here.
fn advice(glob: &str) -> String {
    let name = glob.rsplit(':').next().unwrap_or(glob);
    let mut parts = glob.split(':');
    let group = match (parts.next(), parts.next()) {
        (Some("tracepoint" | "t"), Some(group)) => capture::kernel::lore_of_group(group),
        _ => None,
    };
    match group.or_else(|| capture::kernel::lore(name)) {
        Some(truth) => format!(" ({truth})"),
        None => String::new(),
    }
}

/// What was asked for.
struct Wanted<'a> {
    glob: Option<&'a str>,
    /// Where libraries are looked for first.
    folders: Vec<PathBuf>,
}

impl Wanted<'_> {
    /// By its name, or as a whole where the glob has a colon.
    fn takes(&self, name: &str, whole: impl FnOnce() -> String) -> Option<String> {
        let Some(glob) = self.glob else {
            return Some(whole());
        };
        if !glob.contains(':') {
            return matches_glob(glob.as_bytes(), name.as_bytes()).then(whole);
        }
        let whole = whole();
        matches_glob(glob.as_bytes(), whole.as_bytes()).then_some(whole)
    }

    /// Of `uprobe:LIB:FUNCTION` the function.
    fn functions(&self) -> Option<&str> {
        let (_, rest) = self.glob?.split_once(':')?;
        rest.rsplit_once(':').map(|(_, functions)| functions)
    }

    /// As the search for libraries understands it: a marker has a provider in between.
    fn library_of_markers(&self) -> Option<String> {
        let (_, rest) = self.glob?.split_once(':')?;
        let before = rest.rsplit_once(':')?.0;
        // usdt:LIB:* is all of a library's.
        let library = before
            .rsplit_once(':')
            .map_or(before, |(library, _)| library);
        Some(format!("usdt:{library}:*"))
    }

    /// Whether probes of this kind can match at all: reading them takes time.
    fn may_be(&self, kind: &str) -> bool {
        match self.glob.and_then(|glob| glob.split_once(':')) {
            Some((first, _)) => matches_glob(first.as_bytes(), kind.as_bytes()),
            None => true,
        }
    }
}

fn functions_of_libraries(wanted: &Wanted<'_>, out: &mut impl Write) -> Result<u64> {
    if !wanted.may_be("uprobe") {
        return Ok(0);
    }
    let mut count = 0;
    for path in library::installed(wanted.glob, &wanted.folders) {
        let shown = path.display().to_string();
        // Who names a file means all that can be hooked in it.
        let functions = match wanted.functions() {
            Some(_) => library::all_functions(&path)?,
            None => library::functions(&path)?,
        };
        for function in functions {
            // Files were found by the library's name, which may lack a version; the rest decides.
            let is_wanted = match wanted.functions() {
                Some(glob) => matches_glob(glob.as_bytes(), function.as_bytes()),
                None => {
                    (wanted.takes(&function, || format!("uprobe:{shown}:{function}"))).is_some()
                }
            };
            if is_wanted {
                writeln!(out, "uprobe:{shown}:{function}")?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// Markers (usdt), each once, however many places it has.
fn markers_of_libraries(wanted: &Wanted<'_>, arguments: bool, out: &mut impl Write) -> Result<u64> {
    if !wanted.may_be("usdt") {
        return Ok(0);
    }
    let mut count = 0;
    for path in library::installed(wanted.library_of_markers().as_deref(), &wanted.folders) {
        let shown = path.display().to_string();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // What cannot be read has no markers for us.
        let Ok(found) = File::open(&path).and_then(|file| markers::read(&file)) else {
            continue;
        };
        let mut titles = BTreeMap::new();
        for marker in &found.markers {
            titles.entry(marker.title()).or_insert(marker);
        }
        for (title, marker) in titles {
            let line = format!("usdt:{shown}:{title}");
            let by_path = wanted.takes(&marker.name, || line.clone());
            let by_name = || wanted.takes(&marker.name, || format!("usdt:{name}:{title}"));
            if by_path.or_else(by_name).is_none() {
                continue;
            }
            writeln!(out, "{line}")?;
            count += 1;
            if arguments {
                for (place, argument) in marker.arguments.iter().enumerate() {
                    writeln!(out, "    arg{place} {argument}")?;
                }
            }
        }
    }
    Ok(count)
}

fn functions_of_kernel(
    wanted: &Wanted<'_>,
    tracefs: Option<&Tracefs>,
    arguments: bool,
    out: &mut impl Write,
) -> Result<u64> {
    if !wanted.may_be("kprobe") {
        return Ok(0);
    }
    let Ok(functions) = Functions::of_this_kernel(tracefs.map(Tracefs::folder)) else {
        return Ok(0);
    };
    let mut btf = arguments.then(|| Btf::of_this_kernel().ok()).flatten();
    let mut count = 0;
    for function in functions.all() {
        let module = function.module.as_deref();
        if wanted.glob.is_none() && !module.is_some_and(|module| MODULES.contains(&module)) {
            continue;
        }
        let line = wanted.takes(&function.name, || match module {
            Some(module) => format!("kprobe:{module}:{}", function.name),
            None => format!("kprobe:{}", function.name),
        });
        let Some(line) = line else { continue };
        // Whoever looks for it shall see it, and why it cannot be had.
        let doubt = match function.traceable {
            Some(false) => "  (notrace: built without a place for probes)",
            _ => "",
        };
        writeln!(out, "{line}{doubt}")?;
        count += 1;
        let types = btf
            .as_mut()
            .and_then(|btf| btf.function(module, &function.name));
        if let Some(types) = types {
            for (place, (kind, name)) in types.parameters.iter().enumerate() {
                writeln!(out, "    arg{place} {kind} {name}")?;
            }
            writeln!(out, "    retval {}", types.result)?;
        }
    }
    Ok(count)
}

fn tracepoints(
    wanted: &Wanted<'_>,
    tracefs: Option<&Tracefs>,
    arguments: bool,
    out: &mut impl Write,
) -> Result<u64> {
    let Some(tracefs) = tracefs.filter(|_| wanted.may_be("tracepoint")) else {
        return Ok(0);
    };
    let mut count = 0;
    for (group, name) in tracefs.list()? {
        if wanted.glob.is_none() && !GROUPS.contains(&&*group) {
            continue;
        }
        let Some(line) = wanted.takes(&name, || format!("tracepoint:{group}:{name}")) else {
            continue;
        };
        let doubt = silence(&group).map_or(String::new(), |why| format!("  ({why})"));
        writeln!(out, "{line}{doubt}")?;
        count += 1;
        if arguments && let Ok(point) = tracefs.tracepoint(&group, &name) {
            for field in point.own_fields() {
                writeln!(out, "    {} {}", field.c_type, field.name)?;
            }
        }
    }
    Ok(count)
}
