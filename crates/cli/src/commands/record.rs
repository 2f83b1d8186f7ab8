//! `cutrace record`: run a command and write down what it and its children do.

use super::{
    recording::{self, Recorded, add_softgpu, of_run, record, words},
    style::stderr_style,
};
use crate::{
    arguments::RecordOptions,
    embedded,
    say::{self, say},
};
use anyhow::Result;
use capture::{
    cupti::CuptiError,
    launch::{Exit, LaunchError, user},
    preload::PreloadError,
    source::{self, Methods, RunError, SourceError},
    trace_file::DestinationError,
};
use std::process::ExitCode;

pub fn run(mut options: RecordOptions) -> Result<ExitCode> {
    let recorded = match record(&mut options) {
        Err(why) if is_no_place(&why) && by_itself(&options) => {
            say!(
                "cutrace: {}\ncutrace: running the program without tracing it",
                crate::in_words(&why)
            );
            return untraced(&mut options);
        }
        recorded => recorded?,
    };
    recording::say(&options, &recorded);
    if options.is_summed_up() && recorded.is_written {
        let next = words::next(
            &options,
            &recorded.summary,
            &recorded.path,
            stderr_style().unicode,
        );
        say::painted(&next.unwrap_or_default());
    }
    strict(&options, &recorded).pass_on()
}

/// How cutrace ends: as the program, unless the trace had to be whole and is not.
fn strict(options: &RecordOptions, recorded: &Recorded) -> Exit {
    if !options.strict || recorded.lost == 0 || recorded.exit != Exit::Code(0) {
        return recorded.exit;
    }
    say!("cutrace: --strict: {} events were lost", recorded.lost);
    Exit::Code(LaunchError::OWN_FAILURE.into())
}

/// Nobody asked for a certain way to trace, which would be missed.
fn by_itself(options: &RecordOptions) -> bool {
    matches!(options.run.methods, Methods::Auto | Methods::All) && options.run.is_command()
}

/// Nothing is wrong but that there is nowhere to keep what is recorded, or what records it.
fn is_no_place(error: &anyhow::Error) -> bool {
    let no_folder = |error: &PreloadError| {
        matches!(
            error,
            PreloadError::NoFolder(_) | PreloadError::Options { .. }
        )
    };
    let of_source = |error: &SourceError| {
        error.cause::<PreloadError>().is_some_and(no_folder)
            || matches!(error.cause(), Some(CuptiError::Folder(why)) if no_folder(why))
    };
    error.chain().any(|cause| {
        cause.is::<embedded::NoPlace>()
            || matches!(cause.downcast_ref(), Some(DestinationError::Nowhere { .. }))
            || matches!(cause.downcast_ref(), Some(RunError::Source(why)) if of_source(why))
    })
}

/// The command as it is, with its own end.
fn untraced(options: &mut RecordOptions) -> Result<ExitCode> {
    options.run.user = user::of_command(options.run_as)?;
    add_softgpu(options)?;
    source::untraced(&options.run).map_err(of_run)?.pass_on()
}
