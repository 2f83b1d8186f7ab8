//! What of a run is recorded, and what that may cost: `--window`, `--flight`, `--trigger`, `--budget`; and `cutrace snap`.

use super::{sizes, times, usage};
use capture::{
    live::{FlightOptions, Trigger, WindowOptions},
    source::RunOptions,
};
use std::{path::PathBuf, time::Duration};

/// Of a program's last seconds, unless somebody says how much.
const MOST_BYTES: u64 = 1_000_000_000;

#[derive(clap::Args)]
#[command(next_help_heading = "Record only what matters")]
pub struct LiveLine {
    /// Record only a part of the run: steps 100..110; after=30s,for=5s; range=forward; profiler
    ///
    /// 100..110 are steps 100 to 109 of the program's loop, counted from 0: cutrace finds the loop by the kernels that it
    /// launches again and again. '100..110,range=step' counts NVTX ranges of that name (a glob) in place of steps.
    /// 'range=forward' records whatever is in such a range, 'profiler' from cudaProfilerStart to cudaProfilerStop.
    /// Outside of the window, hooks cost a few nanoseconds. Reports call that time 'not watched'.
    #[arg(long, value_name = "WINDOW", value_parser = window)]
    window: Option<WindowOptions>,
    /// Keep the last seconds and write them when something happens: 30s; 30s,2GB bounds what they take on disk (1GB)
    ///
    /// A snapshot is written on SIGUSR1 or 'cutrace snap PID', and by --trigger; it is named after its reason. SIGUSR1 does not
    /// reach the program then. If cutrace itself is killed, 'cutrace snap --recover' makes a trace of what it has left.
    #[arg(long, value_name = "TIME[,SIZE]", value_parser = flight)]
    flight: Option<(Duration, u64)>,
    /// With --flight, when to write a snapshot: error, exit, slow=N, stuck=TIME (default: error,exit)
    ///
    /// error: a call returns an error that programs do not get over, such as out of memory or an illegal address, or the driver
    /// reports an Xid (with --kernel). exit: the program ends by a signal or with another status than 0. slow=3: a step takes
    /// more than 3 times the median. stuck=30s: a call has not returned for 30 s, or an NCCL kernel took as long.
    #[arg(long, value_name = "LIST", requires = "flight", value_parser = trigger)]
    trigger: Option<Trigger>,
    /// What recording may cost the program's busiest thread: 2%. What costs more is counted, not recorded
    ///
    /// Queries are left out first, then stacks, then copies of up to 64 KiB, then kernel launches; errors, waits, allocations
    /// and frees never. GPU times are not recorded with --budget, unless --method asks for them: they cost more than hooks. With
    /// GPU times, with --flight and with a window of steps, all launches are recorded.
    #[arg(long, value_name = "PERCENT", value_parser = budget)]
    budget: Option<f64>,
}

impl LiveLine {
    /// Fills in what sources need to know.
    pub fn choose(self, run: &mut RunOptions) -> Option<FlightOptions> {
        run.counts_steps =
            self.flight.is_some() || matches!(self.window, Some(WindowOptions::Steps { .. }));
        run.window = self.window;
        run.budget = self.budget;
        let (length, most) = self.flight?;
        Some(FlightOptions {
            length,
            most,
            trigger: self.trigger.unwrap_or(Trigger::USUAL),
            say: None,
        })
    }
}

/// What to make a trace of.
pub enum Snap {
    /// What this recorder has, or the one that records this program.
    Now { pid: u32 },
    /// What a killed one has left here.
    Recover { folder: PathBuf },
}

#[derive(clap::Args)]
pub struct SnapLine {
    /// The process id of 'cutrace --flight', or of the program it records
    #[arg(
        value_name = "PID",
        required_unless_present = "recover",
        conflicts_with = "recover"
    )]
    pid: Option<u32>,
    /// Make a trace of what a killed recorder has left in this folder
    #[arg(long, value_name = "FOLDER")]
    recover: Option<PathBuf>,
}

impl SnapLine {
    pub fn options(self) -> Snap {
        match (self.pid, self.recover) {
            (_, Some(folder)) => Snap::Recover { folder },
            (Some(pid), None) => Snap::Now { pid },
            (None, None) => usage("whose snapshot? cutrace snap PID"),
        }
    }
}

fn window(text: &str) -> Result<WindowOptions, String> {
    let wrong = || {
        "expected 100..110, 100..110,range=NAME, range=NAME, profiler or after=30s,for=5s"
            .to_owned()
    };
    if text == "profiler" {
        return Ok(WindowOptions::Profiler);
    }
    let (mut steps, mut name, mut after, mut length) = (None, None, None, None);
    for part in text.split(',') {
        let nanoseconds = |text| times::with_unit(text).map(|time| time.as_nanos() as u64);
        match part.split_once('=') {
            Some(("range", range)) if !range.is_empty() => name = Some(range.to_owned()),
            Some(("after", time)) => after = Some(nanoseconds(time)?),
            Some(("for", time)) => length = Some(nanoseconds(time)?),
            None => {
                let (from, until) = part.split_once("..").ok_or_else(wrong)?;
                let from = from.parse().map_err(|_| wrong())?;
                let until = match until.is_empty() {
                    true => u64::MAX,
                    false => until.parse().map_err(|_| wrong())?,
                };
                if from >= until {
                    return Err("the first step must be before the last: 100..110".into());
                }
                steps = Some((from, until));
            }
            _ => return Err(wrong()),
        }
    }
    match (steps, name, after, length) {
        (Some((from, until)), None, None, None) => Ok(WindowOptions::Steps { from, until }),
        (Some((from, until)), Some(name), None, None) => {
            Ok(WindowOptions::Ranges { name, from, until })
        }
        (None, Some(name), None, None) => Ok(WindowOptions::Range { name }),
        (None, None, None, None) | (Some(_), ..) | (_, Some(_), ..) => Err(wrong()),
        (None, None, after, length) => Ok(WindowOptions::Time {
            after: after.unwrap_or(0),
            length,
        }),
    }
}

fn flight(text: &str) -> Result<(Duration, u64), String> {
    let (time, size) = match text.split_once(',') {
        Some((time, size)) => (time, sizes::at_least_1mb(size)?),
        None => (text, MOST_BYTES),
    };
    let length = times::with_unit(time)?;
    match length < Duration::from_millis(100) {
        true => Err("expected a time of at least 100ms, such as 30s".into()),
        false => Ok((length, size)),
    }
}

fn trigger(text: &str) -> Result<Trigger, String> {
    let mut trigger = Trigger::default();
    for part in text.split(',') {
        match part.split_once('=').unwrap_or((part, "")) {
            ("error", "") => trigger.error = true,
            ("exit", "") => trigger.exit = true,
            ("slow", times) => {
                let times: f64 = times
                    .parse()
                    .map_err(|_| "expected how many times slower: slow=3")?;
                if !times.is_finite() || times <= 1.0 {
                    return Err("slow=N: N must be more than 1".into());
                }
                trigger.slow = Some(times);
            }
            ("stuck", time) => trigger.stuck = Some(times::with_unit(time)?.as_nanos() as u64),
            _ => {
                return Err(format!(
                    "unknown trigger '{part}' (choose from error, exit, slow=3, stuck=30s)"
                ));
            }
        }
    }
    Ok(trigger)
}

fn budget(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("expected a percentage, such as 2%".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_typed_in_five_ways() {
        let steps = WindowOptions::Steps {
            from: 100,
            until: 110,
        };
        assert_eq!(window("100..110"), Ok(steps));
        let ranges = WindowOptions::Ranges {
            name: "step".into(),
            from: 2,
            until: u64::MAX,
        };
        assert_eq!(window("2..,range=step"), Ok(ranges));
        assert_eq!(
            window("range=fwd*"),
            Ok(WindowOptions::Range {
                name: "fwd*".into()
            })
        );
        assert_eq!(window("profiler"), Ok(WindowOptions::Profiler));
        let time = WindowOptions::Time {
            after: 1_500_000_000,
            length: Some(5_000_000_000),
        };
        assert_eq!(window("after=1.5s,for=5s"), Ok(time));
        for wrong in [
            "",
            "5",
            "5..5",
            "x..9",
            "range=",
            "after=3",
            "after=1s,range=x",
            "1..2,for=1s",
        ] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_kept_has_bounds() {
        assert_eq!(flight("30s"), Ok((Duration::from_secs(30), MOST_BYTES)));
        assert_eq!(flight("2s,50MB"), Ok((Duration::from_secs(2), 50_000_000)));
        for wrong in ["30", "1ms", "30s,10kB", "30s,"] {
            assert!(flight(wrong).is_err(), "{wrong}");
        }
        assert_eq!((budget("2%"), budget("0.5")), (Ok(0.02), Ok(0.005)));
        assert!(budget("0").is_err() && budget("101%").is_err());
    }

    #[test]
    fn triggers_are_a_list() {
        let some = trigger("error,slow=2.5,stuck=10s").expect("valid");
        assert!(some.error && !some.exit);
        assert_eq!((some.slow, some.stuck), (Some(2.5), Some(10_000_000_000)));
        for wrong in ["", "errors", "slow", "slow=1", "stuck=5"] {
            assert!(trigger(wrong).is_err(), "{wrong}");
        }
    }
}
