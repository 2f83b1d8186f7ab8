//! Numbers from the environment, and how long something takes.

use std::{
    env, fs,
    time::{Duration, Instant},
};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

pub fn number(name: &str, default: u64) -> u64 {
    env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Processor time, and wall-clock time.
#[derive(Clone, Copy)]
pub struct Time {
    pub cpu: Duration,
    pub wall: Duration,
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.3} ({:.3})",
            self.cpu.as_secs_f64(),
            self.wall.as_secs_f64()
        )
    }
}

/// What this process has run, by the scheduler's own account.
fn cpu_time() -> Result<Duration> {
    let account = fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds = account.split(' ').next().unwrap_or_default().parse()?;
    Ok(Duration::from_nanos(nanoseconds))
}

pub fn timed(run: impl FnOnce() -> Result<()>) -> Result<Time> {
    let (cpu, wall) = (cpu_time()?, Instant::now());
    run()?;
    Ok(Time {
        wall: wall.elapsed(),
        cpu: cpu_time()? - cpu,
    })
}
