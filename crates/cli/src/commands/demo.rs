//! `cutrace demo`: the tour. A small program is recorded on the software device, with a bottleneck,
//! an idle gap and a leak in it, and everything that looks at a trace looks at it.

use super::{
    export,
    input::Input,
    recording::{self, Recorded},
    style::style,
};
use crate::{
    arguments::{Demo, Look, RecordOptions},
    embedded,
};
use anyhow::{Context, Result, bail};
use capture::{
    launch::Exit,
    source::{RunOptions, Subject},
};
use render::{Style, tables, timeline::Options};
use std::{
    env,
    fs::{self, DirBuilder},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::ExitCode,
};
use trace::Parts;

pub fn run(options: Demo) -> Result<ExitCode> {
    let folder = match options.folder {
        Some(folder) => made(&folder).map(|()| folder),
        None => usual_folder(),
    }?;
    say(&if options.gpu {
        "recording a very small language model on this machine's GPU".to_owned()
    } else {
        format!(
            "recording a very small language model on softgpu, cutrace's software CUDA device.{}",
            if has_gpu() {
                " To use the GPU of this machine: cutrace demo --gpu."
            } else {
                " No GPU is used."
            }
        )
    });
    let recorded = recording::record(&mut options_of(&folder, options.gpu)?)?;
    if recorded.exit != Exit::Code(0) {
        if options.gpu {
            say("the program could not use the GPU; without --gpu it runs on softgpu");
        }
        recorded.exit.pass_on();
    }
    show(&recorded)?;
    let (perfetto, html) = (folder.join("trace.pftrace"), folder.join("report.html"));
    export::write_perfetto(vec![recorded.path.clone()], &perfetto)?;
    export::write_html(vec![recorded.path.clone()], &html)?;
    next(&recorded.path, &perfetto, &html)?;
    Ok(ExitCode::SUCCESS)
}

fn options_of(folder: &Path, gpu: bool) -> Result<RecordOptions> {
    let run = RunOptions {
        subject: Subject::Command {
            program: embedded::demo_program()?.into_os_string(),
            arguments: Vec::new(),
        },
        // Where memory comes from: that is how a leak is found.
        stacks: Some("memory".into()),
        simulate: !gpu,
        ..RunOptions::default()
    };
    Ok(RecordOptions {
        run,
        output: Some(folder.join("trace.jsonl")),
        ..RecordOptions::default()
    })
}

/// The summary, the timeline, the findings.
fn show(recorded: &Recorded) -> Result<()> {
    let style = style(&Look::default());
    let mut out = io::stdout().lock();
    let summary = render::summary_text(&recorded.summary, &style);
    write!(out, "\n{summary}\n=== TIMELINE ===\n\n")?;
    out.write_all(&timeline(&recorded.path, style)?)?;
    let findings = tables::findings(&recorded.summary.report, &style);
    // Its own heading would be the second.
    let (_, findings) = findings.split_once('\n').unwrap_or(("", &findings));
    write!(out, "\n=== FINDINGS ===\n{findings}")?;
    out.flush()?;
    Ok(())
}

fn timeline(trace: &Path, style: Style) -> Result<Vec<u8>> {
    let input = Input::open(vec![trace.to_owned()], Parts::NONE)?;
    let mut text = Vec::new();
    let options = Options {
        style,
        ..Options::default()
    };
    let mut timeline = render::Timeline::new(&mut text, input.meta(), options);
    input.show(&mut timeline)?;
    drop(timeline);
    Ok(text)
}

fn next(trace: &Path, perfetto: &Path, html: &Path) -> Result<()> {
    let (trace, perfetto, html) = (trace.display(), perfetto.display(), html.display());
    let mut out = io::stdout().lock();
    write!(
        out,
        "\n=== WHAT TO TRY NEXT ===\n
  {html}
      the report, in any browser; or: cutrace view {trace}
  {perfetto}
      opens in Perfetto's viewer (ui.perfetto.dev, which keeps it in the browser)
  cutrace replay {trace} | less
      every call with its arguments, as strace prints them
  cutrace report memory {trace}
      who allocated what, and who never freed it
  cutrace ./your-program
      the same for your own program\n"
    )?;
    out.flush()?;
    Ok(())
}

/// Beside other traces, or where temporary files go if nothing can be written here.
fn usual_folder() -> Result<PathBuf> {
    let here = PathBuf::from("traces/demo");
    if made(&here).is_ok() {
        return Ok(here);
    }
    let elsewhere = env::temp_dir().join(format!("cutrace-demo-{}", std::process::id()));
    made(&elsewhere)?;
    Ok(elsewhere)
}

/// A folder that can be written to.
fn made(folder: &Path) -> Result<()> {
    let words = || {
        format!(
            "cannot write to {}; choose another with -o",
            folder.display()
        )
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(words)?;
    let probe = folder.join(format!(".{}.part", std::process::id()));
    if let Err(why) = fs::write(&probe, "") {
        bail!("{}: {why}", words());
    }
    fs::remove_file(&probe).with_context(words)
}

fn has_gpu() -> bool {
    Path::new("/proc/driver/nvidia/version").exists()
}

fn say(words: &str) {
    crate::say::say!("cutrace demo: {words}");
}
