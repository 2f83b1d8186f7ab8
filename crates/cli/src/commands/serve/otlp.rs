//! Spans for OpenTelemetry: steps, NVTX ranges and failed calls, as OTLP over HTTP. The run never waits for the
//! collector: spans wait in a bounded queue, and what does not fit is counted.

use super::post::Address;
use crate::{
    commands::live::{Listener, Watch, Whose},
    say::say,
};
use analyse::live::{Live, Notable};
use anyhow::Result;
use capture::launch::block_signals;
use event::{Event, Extent, Kind, Record};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span::SpanKind, status::StatusCode},
};
use prost::Message;
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Spans that wait to be sent.
const MOST_WAITING: usize = 8_192;
/// Spans of one request.
const MOST_AT_ONCE: usize = 1_024;
const SEND_EVERY: Duration = Duration::from_secs(1);
/// How often the sender looks whether the run is over.
const LOOK: Duration = Duration::from_millis(100);

/// A span before it is sent: times are CLOCK_MONOTONIC.
struct Waiting {
    name: String,
    start_ns: u64,
    end_ns: u64,
    pid: u32,
    tid: u32,
    what: &'static str,
    number: Option<u64>,
    /// What a failed call returned.
    error: Option<String>,
}

/// Spans on their way.
#[derive(Clone)]
pub struct Spans(Arc<Queue>);

struct Queue {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Asked for as soon as a process is seen: its spans may be sent when it is gone.
    whose: Mutex<Whose>,
    one_of: u32,
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Spans {
    /// `one_of`: how many steps and ranges there are for each that is sent.
    pub fn new(one_of: u32) -> Self {
        Spans(Arc::new(Queue {
            waiting: Mutex::default(),
            whose: Mutex::default(),
            one_of: one_of.max(1),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }))
    }

    pub fn listener(&self) -> SpanListener {
        SpanListener {
            spans: self.clone(),
            seen: HashSet::new(),
            steps: 0,
            ranges: 0,
        }
    }

    /// Sent, and dropped.
    pub fn counts(&self) -> (u64, u64) {
        let [sent, dropped] = [&self.0.sent, &self.0.dropped].map(|it| it.load(Ordering::Relaxed));
        (sent, dropped)
    }

    fn whose(&self) -> MutexGuard<'_, Whose> {
        self.0.whose.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, span: Waiting) {
        let mut waiting = self
            .0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match waiting.len() < MOST_WAITING {
            true => waiting.push_back(span),
            false => {
                self.0.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self
            .0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = waiting.len().min(MOST_AT_ONCE);
        waiting.drain(..count).collect()
    }
}

/// Chooses spans from the records of a run.
pub struct SpanListener {
    spans: Spans,
    /// Processes whose names are known.
    seen: HashSet<u32>,
    steps: u64,
    ranges: u64,
}

impl SpanListener {
    /// One of so many.
    fn is_chosen(count: &mut u64, one_of: u32) -> bool {
        *count += 1;
        *count % u64::from(one_of) == 1 || one_of == 1
    }
}

impl Listener for SpanListener {
    fn hear(&mut self, record: &Record, notable: Notable, _: &Live) {
        if let Record::Event(event) = record
            && self.seen.len() < MOST_WAITING
            && self.seen.insert(event.pid)
        {
            self.spans.whose().of(event.pid);
        }
        let one_of = self.spans.0.one_of;
        match (notable, record) {
            (
                Notable::Step {
                    pid,
                    tid,
                    iteration,
                },
                _,
            ) if Self::is_chosen(&mut self.steps, one_of) => {
                self.spans.push(Waiting {
                    name: "step".into(),
                    start_ns: iteration.start_ns,
                    end_ns: iteration.end_ns,
                    pid,
                    tid,
                    what: "step",
                    number: Some(iteration.number),
                    error: None,
                });
            }
            (Notable::Failed, Record::Event(event)) => {
                let status = event.status.as_ref();
                let result = status
                    .and_then(|status| status.name.as_deref())
                    .map(str::to_owned);
                let code = status.map_or(0, |status| status.code);
                let error = result.unwrap_or_else(|| format!("error {code}"));
                self.spans.push(of_event(event, "error", Some(error)));
            }
            (Notable::Nothing, Record::Event(event))
                if matches!(event.kind, Kind::Range | Kind::ProcessRange)
                    && matches!(event.extent, Extent::Closed(_))
                    && Self::is_chosen(&mut self.ranges, one_of) =>
            {
                self.spans.push(of_event(event, "range", None));
            }
            _ => {}
        }
    }
}

fn of_event(event: &Event, what: &'static str, error: Option<String>) -> Waiting {
    Waiting {
        name: event.name.to_string(),
        start_ns: event.start,
        end_ns: event.end().unwrap_or(event.start),
        pid: event.pid,
        tid: event.tid,
        what,
        number: None,
        error,
    }
}

/// Sends what waits, once a second.
pub struct Sender {
    address: Address,
    spans: Spans,
    watch: Arc<Watch>,
    /// Ids are random, and never the same.
    random: RandomState,
    made: u64,
    has_complained: bool,
}

/// A sender in its thread.
pub struct Sending {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Sending {
    /// The run is over: what waits is sent, or given up after seconds.
    pub fn finish(self) {
        self.over.store(true, Ordering::Release);
        let _ = self.thread.join();
    }
}

impl Sender {
    pub fn new(url: &str, spans: Spans, watch: &Arc<Watch>) -> Result<Self> {
        Ok(Sender {
            address: Address::parse(url)?,
            spans,
            watch: Arc::clone(watch),
            random: RandomState::new(),
            made: 0,
            has_complained: false,
        })
    }

    pub fn url(&self) -> String {
        self.address.url()
    }

    pub fn start(mut self) -> Result<Sending> {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let body = move || {
            block_signals();
            let mut waited = Duration::ZERO;
            loop {
                let is_last = is_over.load(Ordering::Acquire);
                if is_last || waited >= SEND_EVERY {
                    waited = Duration::ZERO;
                    while self.send_some() {}
                }
                if is_last {
                    return;
                }
                thread::sleep(LOOK);
                waited += LOOK;
            }
        };
        let thread = thread::Builder::new().name("otlp".into()).spawn(body)?;
        Ok(Sending { over, thread })
    }

    /// Whether there may be more to send.
    fn send_some(&mut self) -> bool {
        let spans = self.spans.take();
        if spans.is_empty() {
            return false;
        }
        let count = spans.len() as u64;
        let request = self.request(spans);
        let sent = self
            .address
            .post("application/x-protobuf", &request.encode_to_vec());
        let counter = match &sent {
            Ok(()) => &self.spans.0.sent,
            Err(_) => &self.spans.0.dropped,
        };
        counter.fetch_add(count, Ordering::Relaxed);
        if let Err(why) = sent {
            // A collector may come back: nobody wants to read this every second.
            if !self.has_complained {
                say!(
                    "cutrace: cannot send spans to {}: {why:#}",
                    self.address.url()
                );
            }
            self.has_complained = true;
            return false;
        }
        self.has_complained = false;
        count == MOST_AT_ONCE as u64
    }

    fn request(&mut self, spans: Vec<Waiting>) -> ExportTraceServiceRequest {
        let (start_ns, start_unix_ns, host) = {
            let state = self.watch.state();
            let meta = &state.meta;
            (
                meta.start_ns,
                meta.start_unix_ns.unwrap_or(0),
                meta.host.name.clone(),
            )
        };
        let unix = |ns: u64| start_unix_ns.wrapping_add(ns.wrapping_sub(start_ns));
        let mut by_process: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
        for one in spans {
            let mut attributes = vec![
                text("cutrace.kind", one.what),
                number("thread.id", one.tid.into()),
            ];
            attributes.extend(one.number.map(|it| number("cutrace.step", it as i64)));
            if let Some(error) = &one.error {
                attributes.push(text("cuda.function", &one.name));
                attributes.push(text("cuda.result", error));
            }
            let span = Span {
                trace_id: self.id(16),
                span_id: self.id(8),
                name: render::printable(&one.name),
                kind: SpanKind::Internal.into(),
                start_time_unix_nano: unix(one.start_ns),
                end_time_unix_nano: unix(one.end_ns),
                attributes,
                status: one.error.map(|message| Status {
                    message,
                    code: StatusCode::Error.into(),
                }),
                ..Span::default()
            };
            by_process.entry(one.pid).or_default().push(span);
        }
        let mut whose = self.spans.whose();
        let resource_spans = by_process.into_iter().map(|(pid, spans)| {
            let named = whose.of(pid);
            let mut attributes = vec![
                text("service.name", &named.name),
                number("process.pid", pid.into()),
                text("host.name", &host),
            ];
            for (name, value) in [
                ("container.id", &named.container.id),
                ("k8s.pod.uid", &named.container.pod),
            ] {
                attributes.extend((!value.is_empty()).then(|| text(name, value)));
            }
            ResourceSpans {
                resource: Some(Resource {
                    attributes,
                    ..Resource::default()
                }),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope {
                        name: "cutrace".into(),
                        version: version::VERSION.into(),
                        ..InstrumentationScope::default()
                    }),
                    spans,
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }
        });
        ExportTraceServiceRequest {
            resource_spans: resource_spans.collect(),
        }
    }

    fn id(&mut self, bytes: usize) -> Vec<u8> {
        let mut id = Vec::with_capacity(16);
        while id.len() < bytes {
            self.made += 1;
            id.extend_from_slice(&self.random.hash_one(self.made).to_be_bytes());
        }
        id
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(render::printable(value)))
}

fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Layer};

    fn range(id: u64) -> Record {
        let mut event = Event::new(id, Layer::Library, Category::Other, "epoch", id * 100);
        (event.kind, event.extent) = (Kind::Range, Extent::Closed(50));
        event.into()
    }

    #[test]
    fn one_range_in_n_is_sent_and_the_queue_is_bounded() {
        let (spans, live) = (Spans::new(10), Live::default());
        let mut listener = spans.listener();
        (0..100).for_each(|id| listener.hear(&range(id), Notable::Nothing, &live));
        let taken = spans.take();
        assert_eq!(taken.len(), 10);
        assert_eq!(
            (&*taken[1].name, taken[1].what, taken[1].start_ns),
            ("epoch", "range", 1_000)
        );
        let all = Spans::new(1);
        let mut listener = all.listener();
        (0..10_000).for_each(|id| listener.hear(&range(id), Notable::Nothing, &live));
        assert_eq!(all.counts(), (0, 10_000 - MOST_WAITING as u64));
        assert_eq!(all.take().len(), MOST_AT_ONCE);
    }
}
