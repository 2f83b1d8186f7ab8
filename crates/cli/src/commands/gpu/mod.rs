//! `cutrace gpu`: run a command with programs inside its kernels, and say what they found.

mod intervals;
mod launch;

use super::{input::contents, print, recording, style::stderr_style};
use crate::{
    arguments::{Gpu, Run, Size},
    embedded, say,
};
use anyhow::{Context, Result, bail};
use capture::{
    gpu_probe::{
        ProbeResults, check_room, leave_maps,
        programs::{self, Loaded, ObjectOptions, Probes},
    },
    launch::user,
    source::Subject,
};
use ptx::rewrite::Pattern;
use render::tables::{self, ProbeStyle};
use std::{fmt::Write as _, path::Path, process::ExitCode, sync::Arc};

pub fn run(options: Gpu) -> Result<ExitCode> {
    match options {
        Gpu::Ready {
            ready,
            kernels,
            run,
        } => with_probes(ready.probes(&kernels), run),
        Gpu::Run {
            object,
            kernels,
            no_host,
            options,
            run,
        } => {
            let mut loaded = load(&object, kernels.as_ref(), &options)?;
            if loaded.probes.orders.plan.probes.is_empty() {
                bail!(
                    "{}: its programs are kernels themselves: cutrace gpu exec runs them",
                    object.display()
                );
            }
            if no_host {
                loaded.probes.host = None;
            }
            with_probes(loaded.probes, run)
        }
        Gpu::Check { object, budget } => check(&object, budget),
        Gpu::Exec {
            object,
            programs,
            grid,
            block,
            options,
            run,
        } => exec(&object, &programs, [grid, block], &options, run),
        Gpu::Launch {
            text,
            grid,
            block,
            kernels,
        } => launch::run(&text, grid, block, &kernels),
    }
}

/// More than any BPF object has.
const MOST_BYTES: u64 = 64 << 20;

fn read(object: &Path) -> Result<Vec<u8>> {
    contents(object, MOST_BYTES)
}

fn load(object: &Path, kernels: Option<&Pattern>, options: &ObjectOptions) -> Result<Loaded> {
    programs::load(&read(object)?, kernels, options).with_context(|| object.display().to_string())
}

fn check(object: &Path, budget: u64) -> Result<ExitCode> {
    let bytes = read(object)?;
    let (parsed, notes) = programs::parse(&bytes).with_context(|| object.display().to_string())?;
    let mut options = gpubpf::TranslateOptions::default();
    options.budget.rounds = budget;
    let checked = gpubpf::check(&parsed, &options);
    let mut text = checked.to_string();
    for note in notes {
        let _ = writeln!(text, "\nNote: {note}");
    }
    print(text.as_bytes())?;
    Ok(ExitCode::from(u8::from(!checked.is_accepted())))
}

fn exec(
    object: &Path,
    programs: &[String],
    [grid, block]: [Size; 2],
    object_options: &ObjectOptions,
    mut options: Run,
) -> Result<ExitCode> {
    let mut loaded = load(object, None, object_options)?;
    if loaded.direct.is_empty() {
        bail!(
            "{}: no program in a section kprobe/__directly_run",
            object.display()
        );
    }
    let is_there = |name: &&String| loaded.direct.iter().any(|program| program.name == **name);
    if let Some(name) = programs.iter().find(|name| !is_there(name)) {
        let names: Vec<&str> = loaded.direct.iter().map(|it| it.name.as_str()).collect();
        bail!(
            "{}: no program {name} in a section kprobe/__directly_run; there are {}",
            object.display(),
            names.join(", ")
        );
    }
    loaded
        .direct
        .retain(|program| programs.is_empty() || programs.contains(&program.name));
    // Each program becomes a kernel of its own.
    let orders = &mut loaded.probes.orders;
    orders.has_own_modules = true;
    let mut text = format!(
        ".version 6.3\n.target sm_70\n.address_size 64\n{}\n",
        orders.plan.prelude
    );
    for program in &loaded.direct {
        let _ = write!(
            text,
            ".visible .entry {} ()\n{{\n\t.reg .b64 %result, %none;\n\tmov.u64 %none, 0;\n\tcall (%result), {}, (%none);\n\tret;\n}}\n",
            program.name, program.function
        );
    }
    let file = embedded::scratch("exec.ptx")?;
    std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    let program = std::env::current_exe()?.into();
    let words = ["gpu", "launch"].map(Into::into).into_iter();
    let arguments = words
        .chain([
            file.clone().into(),
            grid.to_string().into(),
            block.to_string().into(),
        ])
        .chain(
            loaded
                .direct
                .iter()
                .map(|program| program.name.clone().into()),
        )
        .collect();
    options.record.run.subject = Subject::Command { program, arguments };
    let done = with_probes(loaded.probes, options);
    let _ = std::fs::remove_file(&file);
    done
}

fn with_probes(mut probes: Probes, mut options: Run) -> Result<ExitCode> {
    probes.orders.threads = options.threads;
    probes.orders.records = options.records;
    probes.orders.every = options.every;
    // Another user could not write there.
    let own = user::of_command(options.record.run_as)?.is_none();
    probes.orders.cache = embedded::cache_folder("gpu-ptx").ok().filter(|_| own);
    probes.pin = options.pin.clone();
    check_room(&probes.orders, options.record.run.simulate)?;
    probes.show = Some(Box::new(intervals::show));
    let probes = Arc::new(probes);
    options.record.run.probes = Some(probes.clone());
    let mut recorded = recording::record(&mut options.record)?;
    // The answer comes first: it is what was asked for.
    if let Some(found) = recorded.said.results::<ProbeResults>() {
        let how = ProbeStyle {
            // With a summary, they are among its notes.
            with_notes: !options.record.is_summed_up(),
            full_names: options.full_names,
            verbose: options.record.run.verbose,
            simulated: options.record.run.simulate,
            style: stderr_style(),
        };
        say::text(&tables::probes(&found.report(&probes), &how));
        if let Some(folder) = &options.pin {
            leave_maps(folder, &probes, &found.dumps)?;
        }
    }
    recording::say(&options.record, &recorded);
    recorded.exit.pass_on()
}
