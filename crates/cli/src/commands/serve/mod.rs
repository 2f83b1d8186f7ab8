//! `cutrace serve`: metrics and spans of a run as it happens. No trace is written.

mod collect;
mod encode;
mod labels;
mod otlp;
mod post;
mod protobuf;

use super::{
    http::{self, Limits, Request, Response},
    live::{Listener, Watch, Whose},
};
use crate::{arguments::Serve, say::say};
use anyhow::{Context, Result};
use capture::launch::{Exit, block_signals};
use collect::{Collector, Shared};
use otlp::Spans;
use prometheus_client::{encoding::text, registry::Registry};
use std::{
    collections::HashMap,
    net::TcpListener,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// A scraper asks once in seconds; anything slower than this is none.
const LIMITS: Limits = Limits {
    connections: 32,
    request_time: Duration::from_secs(2),
    answer_time: Duration::from_secs(10),
};
/// Prometheus still sees the last numbers of a process that has ended.
const AFTER_END: Duration = Duration::from_secs(300);
const LOOK_FOR_ENDED: Duration = Duration::from_secs(10);

pub fn run(mut options: Serve) -> Result<ExitCode> {
    options.record.quiet = true;
    let spans = (options.otlp.as_ref()).map(|otlp| Spans::new(otlp.one_of));
    let listener = (spans.as_ref()).map(|spans| Box::new(spans.listener()) as Box<dyn Listener>);
    let watch = Watch::new(Duration::ZERO, listener);
    if let Some(address) = options.metrics {
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot serve metrics on {address}"))?;
        let address = listener.local_addr()?;
        say!("cutrace: metrics are at http://{address}/metrics");
        if !address.ip().is_loopback() {
            say!("cutrace: anyone who can reach {address} can read kernel and process names");
        }
        let site = Site::new(&watch, options.most_names, spans.clone());
        start("metrics", move || {
            http::serve(&listener, LIMITS, move |request| site.answer(request));
        })?;
    }
    let sender = match (&options.otlp, spans) {
        (Some(otlp), Some(spans)) => {
            let sender = otlp::Sender::new(&otlp.url, spans, &watch)?;
            say!("cutrace: spans go to {}", sender.url());
            Some(sender.start()?)
        }
        _ => None,
    };
    let other = Arc::clone(&watch);
    start("ended", move || forget_ended(&other))?;
    let watched = watch.run(&mut options.record)?;
    if let Some(sender) = sender {
        sender.finish();
    }
    if watched.lost > 0 {
        say!("cutrace: {} events were dropped", watched.lost);
    }
    watched
        .notes
        .iter()
        .for_each(|note| say!("cutrace: {note}"));
    match options.record.run.is_command() {
        true => watched.exit.pass_on(),
        false => Exit::Code(0).pass_on(),
    }
}

/// Signals are for the thread that runs the command.
fn start(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let body = move || {
        block_signals();
        body();
    };
    thread::Builder::new().name(name.into()).spawn(body)?;
    Ok(())
}

struct Site {
    registry: Registry,
    collector: Arc<Collector>,
    /// One scrape after the other: what one needs in memory is bounded.
    turn: Mutex<()>,
}

impl Site {
    fn new(watch: &Arc<Watch>, most_names: usize, spans: Option<Spans>) -> Self {
        let mut registry = Registry::default();
        let collector = Arc::new(Collector::new(watch, most_names, spans));
        registry.register_collector(Box::new(Shared(Arc::clone(&collector))));
        Site {
            registry,
            collector,
            turn: Mutex::default(),
        }
    }

    fn answer(&self, request: &Request) -> Response {
        if request.method != "GET" {
            return Response::not_found();
        }
        let path = request.target.split('?').next().unwrap_or_default();
        match path {
            "/metrics" => self.metrics(&request.accept),
            "/" => Response::text("text/plain", b"cutrace serve: see /metrics\n".to_vec()),
            _ => Response::not_found(),
        }
    }

    /// Who wants native histograms names protobuf before text.
    fn metrics(&self, accept: &str) -> Response {
        const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if accept.trim_start().starts_with(protobuf::ASKED_FOR) {
            let families = encode::as_protobuf(&self.collector.numbers());
            return Response::text(protobuf::MEDIA_TYPE, protobuf::body(&families));
        }
        let mut text = String::new();
        match text::encode(&mut text, &self.registry) {
            Ok(()) => Response::text(OPEN_METRICS, text.into_bytes()),
            Err(_) => Response::error("500 Internal Server Error", "the metrics cannot be written"),
        }
    }
}

/// Processes come and go for days: those that have ended are forgotten after a while.
fn forget_ended(watch: &Watch) {
    let mut ended: HashMap<u32, Instant> = HashMap::new();
    while !watch.has_ended() {
        thread::sleep(LOOK_FOR_ENDED);
        let known: Vec<u32> = watch.state().live.processes().map(|(pid, _)| pid).collect();
        ended.retain(|pid, _| known.contains(pid));
        for pid in known {
            if Whose::is_running(pid) {
                ended.remove(&pid);
            } else if ended.entry(pid).or_insert_with(Instant::now).elapsed() > AFTER_END {
                watch.state().live.forget(pid);
            }
        }
    }
}
