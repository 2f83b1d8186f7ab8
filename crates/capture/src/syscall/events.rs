//! What the tracer reported becomes events.

use super::frame::{Frame, SystemCall, Unseen};
use super::lasting::Lasting;
use super::session::Options;
use crate::ioctl::{self, Decoder, Payload, Request};
use crate::process_name::Names;
use crate::{Sink, SinkError};
use event::{Arg, Candidate, Category, Event, Extent, Name, Record, Value};
use std::collections::{BTreeSet, HashMap};

/// Calls under way that are remembered; threads that died in one are forgotten with it.
const MOST_OPEN: usize = 1 << 16;

pub struct Events<S> {
    pub sink: S,
    options: Options,
    decoder: Decoder,
    next_id: u64,
    open: HashMap<u32, Open>,
    lasting: Lasting,
    /// A second tracer goes on where the first was killed.
    pub taken_over: bool,
    pub totals: Totals,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Totals {
    pub ioctls: u64,
    pub calls: u64,
    /// Of the tracer's process.
    pub cpu: u64,
    pub stops: u64,
    pub unwritten: u64,
    pub failure: Option<SinkError>,
    /// Processes of which closing and unmapping is not seen.
    pub unseen: BTreeSet<u32>,
    /// The first one's reason.
    pub why_unseen: Option<Unseen>,
    /// What the processes are called.
    pub names: Names,
}

struct Open {
    event: Event,
    /// Of an ioctl.
    ioctl: Option<(Request, Payload)>,
    hidden: bool,
    /// Where its beginning waits.
    place: u64,
}

impl<S: Sink> Events<S> {
    pub fn new(options: Options, decoder: Decoder, sink: S) -> Self {
        let least = options.min_duration.as_nanos();
        Events {
            sink,
            lasting: Lasting::new(u64::try_from(least).unwrap_or(u64::MAX)),
            options,
            decoder,
            next_id: 1,
            open: HashMap::new(),
            taken_over: false,
            totals: Totals::default(),
        }
    }

    pub fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Begin {
                time,
                pid,
                tid,
                call,
            } => self.begin(time, pid, tid, call),
            Frame::End {
                time,
                tid,
                result,
                after,
            } => self.end(time, tid, result, &after),
            Frame::Gone { tid } => {
                self.open.remove(&tid);
            }
            Frame::Cost { cpu, stops } => (self.totals.cpu, self.totals.stops) = (cpu, stops),
            Frame::Unseen { pid, why } => {
                self.totals.unseen.insert(pid);
                self.totals.why_unseen.get_or_insert(why);
            }
            // The first one is the answer to an order.
            Frame::Attached(_) => {
                self.open.clear();
                self.taken_over = true;
            }
        }
    }

    /// No frame older than this moment will come.
    pub fn until(&mut self, ns: u64) {
        self.lasted(ns);
        let earliest = self.lasting.earliest().unwrap_or(u64::MAX);
        self.sink.until(earliest.min(ns));
    }

    /// No frame will come: what has not ended has lasted.
    pub fn finish(&mut self) {
        self.lasted(u64::MAX);
    }

    fn lasted(&mut self, now: u64) {
        if self.lasting.matters() {
            self.lasting.passed(now);
            self.write_waiting();
        }
    }

    fn begin(&mut self, time: u64, pid: u32, tid: u32, call: SystemCall) {
        let id = self.next_id;
        self.next_id += 1;
        let (mut event, ioctl) = match call {
            SystemCall::Ioctl { request, before } => {
                self.totals.ioctls += 1;
                let event = self.decoder.begun(id, time, &request, &before);
                (event, Some((request, before)))
            }
            SystemCall::Open { name, path, flags } => {
                let mut event = ioctl::plain(id, time, name, Category::Init);
                event.args = vec![Arg::new("path", path), Arg::new("flags", open_flags(flags))];
                (event, None)
            }
            SystemCall::Map {
                opened,
                fd,
                length,
                protection,
                offset,
            } => {
                let mut event = ioctl::plain(id, time, "mmap", Category::Memory);
                event.args = vec![
                    Arg::new("length", length),
                    Arg::new("protection", protection_text(protection)),
                    Arg::new("fd", fd),
                    Arg::new("path", opened.path),
                    Arg::new("offset", Value::Pointer(offset)),
                ];
                (event, None)
            }
            SystemCall::Close { opened, fd } => {
                let mut event = ioctl::plain(id, time, "close", Category::Other);
                event.args = vec![Arg::new("fd", fd), Arg::new("path", opened.path)];
                (event, None)
            }
            SystemCall::Unmap {
                opened,
                address,
                length,
            } => {
                let mut event = ioctl::plain(id, time, "munmap", Category::Memory);
                event.args = vec![
                    Arg::new("address", Value::Pointer(address)),
                    Arg::new("length", length),
                    Arg::new("path", opened.path),
                ];
                (event, None)
            }
        };
        (event.pid, event.tid) = (pid, tid);
        self.totals.names.see(pid);
        event.extent = Extent::Open;
        self.totals.calls += 1;
        let hidden = self.options.deadline.leaves_out(time) || !self.options.wants(&event);
        if self.open.len() >= MOST_OPEN {
            self.open.clear();
        }
        let mut record = Record::Event(event);
        let mut place = 0;
        if !hidden && self.lasting.matters() {
            place = self.lasting.begun(record.clone());
            self.lasted(time);
        } else if !hidden {
            self.write(&mut record);
        }
        let Record::Event(event) = record else { return };
        self.open.insert(
            tid,
            Open {
                event,
                ioctl,
                hidden,
                place,
            },
        );
    }

    fn end(&mut self, time: u64, tid: u32, result: i64, after: &Payload) {
        let Some(mut open) = self.open.remove(&tid) else {
            return;
        };
        let event = &mut open.event;
        let duration = time.saturating_sub(event.start);
        event.extent = Extent::Closed(duration);
        match &open.ioctl {
            Some((request, before)) => {
                self.decoder
                    .returned(event, request, (before, after), result);
            }
            None => {
                event.status = ioctl::status(result, false);
                if event.status.as_ref().is_some_and(|status| status.code == 0) {
                    event.outputs = match &*event.name {
                        "mmap" => vec![Arg::new("address", Value::Pointer(result as u64))],
                        "close" | "munmap" => Vec::new(),
                        _ => vec![Arg::new("fd", result)],
                    };
                }
            }
        }
        let mut record = Record::Event(open.event);
        if !open.hidden && self.lasting.matters() {
            self.lasting.ended(open.place, record, duration);
            self.lasted(time);
        } else if !open.hidden {
            self.write(&mut record);
        }
    }

    fn write_waiting(&mut self) {
        while let Some(mut record) = self.lasting.next() {
            self.write(&mut record);
        }
    }

    fn write(&mut self, record: &mut Record) {
        if self.totals.failure.is_some() {
            self.totals.unwritten += 1;
        } else if let Err(why) = self.sink.write(record) {
            self.totals.unwritten += 1;
            self.totals.failure = Some(why);
        }
    }
}

impl Options {
    fn wants(&self, event: &Event) -> bool {
        let Some(selection) = &self.filter else {
            return true;
        };
        selection.wants(&Candidate {
            name: event.name.as_bytes(),
            family: event.name.as_bytes(),
            category: event.category,
            layer: event.layer,
        })
    }
}

/// `O_RDWR|O_CLOEXEC`
fn open_flags(flags: u64) -> Name {
    let known = [
        (libc::O_CLOEXEC, "O_CLOEXEC"),
        (libc::O_NONBLOCK, "O_NONBLOCK"),
    ];
    let access = match flags as i32 & libc::O_ACCMODE {
        libc::O_RDONLY => "O_RDONLY",
        libc::O_WRONLY => "O_WRONLY",
        _ => "O_RDWR",
    };
    named(access, &known, flags)
}

/// `PROT_READ|PROT_WRITE`
fn protection_text(protection: u64) -> Name {
    let known = [
        (libc::PROT_READ, "PROT_READ"),
        (libc::PROT_WRITE, "PROT_WRITE"),
        (libc::PROT_EXEC, "PROT_EXEC"),
    ];
    if protection == 0 {
        return "PROT_NONE".into();
    }
    named("", &known, protection)
}

fn named(first: &str, known: &[(i32, &str)], bits: u64) -> Name {
    let set = known.iter().filter(|(bit, _)| bits as i32 & bit != 0);
    let names: Vec<&str> = std::iter::once(first)
        .filter(|first| !first.is_empty())
        .chain(set.map(|(_, name)| *name))
        .collect();
    names.join("|").into()
}
