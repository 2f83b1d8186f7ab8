//! Which context and device are current in a thread, and which of them streams belong to.

use super::ProcessState;
use crate::call::role::ContextStep;
use ahash::AHashMap;
use event::{Event, Value};

const MOST_CONTEXTS: usize = 1 << 16;
const MOST_STREAMS: usize = 1 << 20;
const MOST_PUSHED: usize = 256;

/// The default streams: of everybody, as passed; the same by name; the thread's own.
const SPECIAL_STREAMS: u64 = 2;

/// Of one process.
#[derive(Debug, Default)]
pub struct Contexts {
    /// Contexts and the devices they are on.
    devices: AHashMap<u64, u32>,
    /// The contexts that the runtime uses.
    primary: AHashMap<u32, u64>,
    /// Streams and the contexts, or else devices, they were made in.
    streams: AHashMap<u64, (Option<u64>, Option<u32>)>,
}

impl Contexts {
    fn put(&mut self, context: Option<u64>, device: Option<u32>) {
        if let (Some(context), Some(device)) = (context, device)
            && self.devices.len() < MOST_CONTEXTS
        {
            self.devices.insert(context, device);
        }
    }

    /// Where a stream is, if it is one that was seen to be made.
    pub fn of_stream(&self, stream: u64) -> Option<(Option<u64>, Option<u32>)> {
        if stream <= SPECIAL_STREAMS {
            return None;
        }
        self.streams.get(&stream).copied()
    }
}

/// Of one thread.
#[derive(Debug, Default)]
pub struct ThreadState {
    current: Vec<u64>,
    device: Option<u32>,
}

impl ThreadState {
    pub fn context(&self) -> Option<u64> {
        self.current.last().copied().filter(|context| *context != 0)
    }

    pub fn device(&self, process: &ProcessState) -> Option<u32> {
        let of_context = self
            .context()
            .and_then(|context| process.contexts.devices.get(&context));
        of_context.copied().or(self.device)
    }

    /// A call that succeeded changed, or returned, what is current.
    pub fn step(&mut self, step: ContextStep, call: &Event, process: &mut ProcessState) {
        let number = |name: &str| call.arg(name).and_then(Value::as_u64);
        let device = |name: &str| number(name).and_then(|device| u32::try_from(device).ok());
        let contexts = &mut process.contexts;
        match step {
            ContextStep::Create => {
                contexts.put(number("pctx"), device("dev"));
                self.push(number("pctx"));
            }
            ContextStep::Retain => {
                contexts.put(number("pctx"), device("dev"));
                if let (Some(context), Some(device)) = (number("pctx"), device("dev")) {
                    contexts.primary.insert(device, context);
                }
            }
            ContextStep::Push => self.push(number("ctx")),
            ContextStep::Set => self.replace(number("ctx")),
            ContextStep::Get => self.replace(number("pctx")),
            ContextStep::Pop => {
                self.current.pop();
            }
            ContextStep::Destroy => {
                if let Some(context) = number("ctx") {
                    contexts.devices.remove(&context);
                    contexts.streams.retain(|_, of| of.0 != Some(context));
                    if self.current.last() == Some(&context) {
                        self.current.pop();
                    }
                }
            }
            ContextStep::Reset => {
                if let Some(context) = device("dev").and_then(|dev| contexts.primary.get(&dev)) {
                    let context = *context;
                    contexts.streams.retain(|_, of| of.0 != Some(context));
                }
            }
            ContextStep::GetDevice => {
                let device = device("device");
                if call.arg("ctx").is_none() {
                    contexts.put(self.context(), device);
                    self.device = device.or(self.device);
                } else {
                    contexts.put(number("ctx"), device);
                }
            }
            ContextStep::SetDevice => {
                let Some(device) = device("device") else {
                    return;
                };
                self.device = Some(device);
                // The runtime now uses the device's primary context; the calls inside of this one
                // may have told so already.
                let current = self.context();
                let there = current.and_then(|context| contexts.devices.get(&context));
                if there != Some(&device) {
                    self.current.pop();
                    self.push(contexts.primary.get(&device).copied());
                }
            }
            ContextStep::StreamCreate => {
                let names = ["phStream", "pStream"];
                let stream = names.iter().find_map(|name| number(name));
                let here = (self.context(), self.device(process));
                let streams = &mut process.contexts.streams;
                if let Some(stream) = stream
                    && streams.len() < MOST_STREAMS
                {
                    streams.insert(stream, here);
                }
            }
            ContextStep::StreamDestroy => {
                if let Some(stream) = call.stream {
                    contexts.streams.remove(&stream);
                }
            }
            ContextStep::StreamContext => {
                if let (Some(stream), Some(context)) = (call.stream, number("pctx")) {
                    let device = contexts.devices.get(&context).copied();
                    if stream > SPECIAL_STREAMS && contexts.streams.len() < MOST_STREAMS {
                        contexts.streams.insert(stream, (Some(context), device));
                    }
                }
            }
        }
    }

    fn push(&mut self, context: Option<u64>) {
        if let Some(context) = context
            && self.current.len() < MOST_PUSHED
        {
            self.current.push(context);
        }
    }

    fn replace(&mut self, context: Option<u64>) {
        self.current.pop();
        self.push(context);
    }
}
