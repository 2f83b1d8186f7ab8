//! Which build this is: the version, the commit, its day, the machine it is for.

#[cfg(test)]
mod day;

/// `0.2.0`
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The day of the commit, as YYYY-MM-DD, or 'unknown'.
pub const DATE: &str = env!("CUTRACE_BUILD_DATE");

/// `0.2.0 (1a2b3c4d5e, 2026-11-17, x86_64-unknown-linux-gnu)`; what is not known is 'unknown'.
pub const BUILD: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("CUTRACE_BUILD_COMMIT"),
    ", ",
    env!("CUTRACE_BUILD_DATE"),
    ", ",
    env!("CUTRACE_BUILD_TARGET"),
    ")"
);
