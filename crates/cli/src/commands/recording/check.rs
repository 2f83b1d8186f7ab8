//! What is wrong with a run is said before its program starts, with the nearest right word.

use crate::{arguments::RecordOptions, embedded::library_folders};
use anyhow::{Result, bail};
use capture::{
    library,
    preload::Filter,
    sought,
    source::{Methods, Provides},
    trace_file::destination,
};
use event::{Category, Layer};
use names::misspelt;
use std::path::Path;

pub fn options(options: &RecordOptions) -> Result<()> {
    contradictions(options)?;
    let run = &options.run;
    for (option, spec) in [("-e ", &run.filter), ("--stack=", &run.stacks)] {
        if let Some(spec) = spec {
            selection(options, option, spec)?;
        }
    }
    if options.may_miss_libraries || run.is_everyone() {
        return Ok(());
    }
    for (name, _) in &run.libraries {
        sought::library(run, library_folders(run.simulate)?, name)?;
    }
    Ok(())
}

fn contradictions(options: &RecordOptions) -> Result<()> {
    let run = &options.run;
    if run.simulate && run.pid().is_some() {
        bail!("--sim and -p: softgpu serves programs from their start; type: cutrace --sim CMD");
    }
    if run.simulate && run.is_everyone() {
        bail!("--sim and -a: softgpu serves the command that it runs; type: cutrace --sim CMD");
    }
    live(options)?;
    let Methods::These(methods) = &run.methods else {
        return Ok(());
    };
    let names = || {
        let names: Vec<&str> = methods.iter().map(|one| one.about().name).collect();
        names.join(",")
    };
    let has = |provides: fn(&Provides) -> bool| {
        let mut methods = methods.iter();
        methods.any(|one| provides(&one.about().provides))
    };
    if run.waits && !has(|it| it.waits) {
        bail!(
            "--waits and --method={}: CUPTI records waits; add cupti: --method={},cupti",
            names(),
            names()
        );
    }
    let calls = has(|it| it.calls);
    let of_calls = [
        ("--stack", run.stacks.is_some()),
        ("--lib", !run.libraries.is_empty()),
        ("--sample", run.sample > 1),
        ("-e", run.filter.is_some() && !has(|it| it.requests)),
    ];
    for (option, given) in of_calls {
        if given && !calls {
            bail!(
                "{option} and --method={}: {option} is about API calls, which preload and ebpf record; \
                 type: --method=preload,{}",
                names(),
                names()
            );
        }
    }
    Ok(())
}

/// What is kept of a run, and where it goes.
fn live(options: &RecordOptions) -> Result<()> {
    let to_stream = |it: &Path| destination::is_stream(it);
    if options.flight.is_some() && options.output.as_deref().is_some_and(to_stream) {
        bail!(
            "--flight and -o -: snapshots are files; give the name they begin with: -o FILE.arrows"
        );
    }
    if options.flight.is_some() && options.run.window.is_some() {
        bail!(
            "--flight and --window: a window says beforehand what to record, --flight afterwards; choose one"
        );
    }
    Ok(())
}

/// Each item of a selection must mean something, and the whole of it, too.
fn selection(options: &RecordOptions, option: &str, spec: &str) -> Result<()> {
    // Names of other libraries' functions are nowhere listed.
    let run = &options.run;
    if !run.libraries.is_empty() {
        return Ok(());
    }
    let filter = Filter::parse(spec);
    // Nor are those of requests to the driver.
    let requests = match &run.methods {
        Methods::These(methods) => (methods.iter()).any(|one| one.about().provides.requests),
        methods => *methods == Methods::All,
    };
    let is_open = requests || !run.is_command();
    for item in filter.meaningless() {
        let is_word = (Category::ALL.iter().any(|one| one.as_str() == item))
            || (Layer::ALL.iter().any(|one| one.as_str() == item));
        let meant = nearest(item);
        if is_word || (is_open && meant.is_none()) || is_installed(item) {
            continue;
        }
        let advice = match meant {
            Some(meant) => format!("did you mean {meant}?"),
            None => {
                let words: Vec<&str> = Category::ALL.iter().map(|one| one.as_str()).collect();
                format!(
                    "categories are {}; `cutrace probes 'cu*'` lists functions",
                    words.join(", ")
                )
            }
        };
        bail!("{option}{item}: no category, layer or CUDA function has this name; {advice}");
    }
    let mut all = cuda::functions().iter().chain(cuda::older_functions());
    if !is_open && !spec.is_empty() && filter.meaningless().next().is_none() {
        let is_known = |item: &str| item.chars().any(char::is_alphanumeric);
        if is_known(spec) && !all.any(|one| filter.wants(one.name)) && !is_nvtx(spec) {
            bail!("{option}{spec}: this excludes everything it includes");
        }
    }
    Ok(())
}

fn is_nvtx(spec: &str) -> bool {
    spec.split(',').any(|item| item.trim().starts_with("nvtx"))
}

/// A driver that is newer than the tables has functions that are not in them.
fn is_installed(item: &str) -> bool {
    if !item.starts_with("cu") && !item.starts_with("__cuda") {
        return false;
    }
    (library::installed(None, &[]).iter())
        .filter_map(|path| library::functions(path).ok())
        .flatten()
        .any(|name| event::matches_glob(item.as_bytes(), name.as_bytes()))
}

/// The category, layer or function that a word was most likely meant to be.
fn nearest(item: &str) -> Option<String> {
    let functions = || {
        let all = cuda::functions().iter().chain(cuda::older_functions());
        all.map(|function| cuda::family(function.name))
    };
    if let Some(start) = item
        .strip_suffix('*')
        .filter(|start| !start.contains(['*', '?']))
    {
        let cut = |name: &'static str| name.get(..start.len()).unwrap_or(name);
        return misspelt(start, functions().map(cut)).map(|start| format!("{start}*"));
    }
    let words = (Category::ALL.iter().map(|one| one.as_str()))
        .chain(Layer::ALL.iter().map(|one| one.as_str()));
    misspelt(item, words)
        .or_else(|| misspelt(item, functions()))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_lead_to_words() {
        let meant = |item| nearest(item).unwrap_or_default();
        assert_eq!(meant("memroy"), "memory");
        assert_eq!(meant("dirver"), "driver");
        assert_eq!(meant("cuMemAloc"), "cuMemAlloc");
        assert_eq!(meant("cudaMallc"), "cudaMalloc");
        assert_eq!(meant("cuMemAloc*"), "cuMemAllo*");
        assert_eq!(nearest("bogus"), None);
        assert_eq!(nearest("zzz*"), None);
    }
}
