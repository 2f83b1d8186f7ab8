//! `cutrace top` and `cutrace serve`: a run as it happens.

use super::{
    Look,
    record::{CallsLine, RecordOptions, SubjectLine, sample},
    shared::RunAsLine,
    times,
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

pub struct Top {
    pub record: RecordOptions,
    pub look: Look,
    pub interval: Duration,
    /// How much of the past can be saved.
    pub keep: Duration,
    /// Frames to print instead of a screen; 0 is until the end.
    pub batch: Option<u64>,
    /// Where the command's output goes while the screen is there.
    pub output: Option<PathBuf>,
}

pub struct Serve {
    pub record: RecordOptions,
    pub metrics: Option<SocketAddr>,
    /// Kernels, functions and ranges that have a label of their own.
    pub most_names: usize,
    pub otlp: Option<Otlp>,
}

pub struct Otlp {
    pub url: String,
    /// One of so many steps and ranges.
    pub one_of: u32,
}

/// A program that is watched.
#[derive(clap::Args)]
struct WatchedLine {
    #[command(flatten)]
    subject: SubjectLine,
    #[command(flatten)]
    calls: CallsLine,
    #[command(flatten)]
    run_as: RunAsLine,
}

#[derive(clap::Args)]
pub struct TopLine {
    #[command(flatten)]
    watched: WatchedLine,
    #[command(flatten)]
    screen: ScreenLine,
}

#[derive(clap::Args)]
#[command(next_help_heading = "The screen")]
struct ScreenLine {
    /// Seconds between two updates
    #[arg(short = 'i', long, value_name = "SECS", value_parser = times::seconds, default_value = "1")]
    interval: Duration,
    /// Seconds of the past to keep in memory: 'w' saves them as a trace. 0 keeps nothing
    #[arg(long, value_name = "SECS", value_parser = seconds_or_none, default_value = "30")]
    keep: Duration,
    /// Print N frames as plain text instead of a screen, then stop watching; 0 prints until the end
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// Print one frame as plain text: --batch 1
    #[arg(long, conflicts_with = "batch")]
    once: bool,
    /// The file for the command's output while the screen is shown; by default a temporary file, which is printed at the end
    #[arg(long, value_name = "FILE")]
    command_output: Option<PathBuf>,
    #[command(flatten)]
    look: Look,
}

#[derive(clap::Args)]
pub struct ServeLine {
    #[command(flatten)]
    watched: WatchedLine,
    #[command(flatten)]
    to: ServedLine,
}

#[derive(clap::Args)]
#[command(next_help_heading = "What to serve, and where")]
struct ServedLine {
    /// Serve metrics at this port or address: 9464, 0.0.0.0:9464. By default 127.0.0.1:9464, unless --otlp is given
    ///
    /// Prometheus scrapes http://ADDR/metrics; the format is OpenMetrics. A port alone is on 127.0.0.1.
    #[arg(long, value_name = "ADDR", value_parser = address)]
    metrics: Option<SocketAddr>,
    /// Kernels, functions and ranges that get a label of their own; the rest is 'other'
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    most_names: u16,
    /// Send spans of steps, NVTX ranges and errors to this OpenTelemetry collector (OTLP over HTTP): http://127.0.0.1:4318
    #[arg(long, value_name = "URL", value_parser = collector)]
    otlp: Option<String>,
    /// Send one in N steps and ranges, and every error: 1/100
    #[arg(long, value_name = "1/N", value_parser = sample, default_value = "1/100", requires = "otlp")]
    otlp_sample: u32,
}

impl WatchedLine {
    fn record(self) -> RecordOptions {
        let mut run = self.subject.run();
        let may_miss_libraries = self.calls.allow_missing_lib;
        self.calls.choose(&mut run);
        run.simulate = self.run_as.device.sim;
        RecordOptions {
            run,
            run_as: self.run_as.run_as,
            may_miss_libraries,
            ..RecordOptions::default()
        }
    }
}

impl TopLine {
    pub fn options(self) -> Top {
        let screen = self.screen;
        Top {
            record: self.watched.record(),
            look: screen.look,
            interval: screen.interval,
            keep: screen.keep,
            batch: screen.batch.or(screen.once.then_some(1)),
            output: screen.command_output,
        }
    }
}

impl ServeLine {
    pub fn options(self) -> Serve {
        let to = self.to;
        let one_of = to.otlp_sample;
        // Without a word about where: metrics, at the usual place.
        let usual = (to.otlp.is_none()).then_some(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
        Serve {
            record: self.watched.record(),
            metrics: to.metrics.or(usual),
            most_names: to.most_names.into(),
            otlp: to.otlp.map(|url| Otlp { url, one_of }),
        }
    }
}

/// OpenTelemetry's for such exporters.
const PORT: u16 = 9464;

/// A port, or an address with one.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
        return Ok((IpAddr::from(Ipv4Addr::LOCALHOST), port).into());
    }
    let text = text.replace("localhost", "127.0.0.1");
    text.parse().map_err(|_| {
        "expected a port or an address with a port: 9464, 127.0.0.1:9464, [::1]:9464".to_owned()
    })
}

fn collector(text: &str) -> Result<String, String> {
    match text.strip_prefix("http://") {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') => Ok(text.to_owned()),
        _ if text.starts_with("https://") => Err(
            "cutrace sends plain HTTP only; run a collector on this machine and let it encrypt"
                .into(),
        ),
        _ => Err("expected the address of a collector: http://127.0.0.1:4318".into()),
    }
}

fn seconds_or_none(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        _ => times::seconds(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_this_machine_unless_they_say_otherwise() {
        let loopback = |port| Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        for text in ["9464", ":9464", "127.0.0.1:9464", "localhost:9464"] {
            assert_eq!(address(text), loopback(9464), "{text}");
        }
        assert!(address("0.0.0.0:1").is_ok_and(|it| !it.ip().is_loopback()));
        for wrong in ["", "x", "127.0.0.1", "1.2.3.4:99999", "http://x:1"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn collectors_have_addresses() {
        assert!(collector("http://127.0.0.1:4318").is_ok());
        for wrong in ["127.0.0.1:4318", "http://", "https://x", "ftp://x"] {
            assert!(collector(wrong).is_err(), "{wrong}");
        }
    }
}
