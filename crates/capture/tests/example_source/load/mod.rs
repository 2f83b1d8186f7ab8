//! An example of a source: how many threads want a processor, from /proc/loadavg. docs/ADDING-A-SOURCE.md walks
//! through it.

use capture::{
    Deadline, Sink, SinkError,
    clock::monotonic,
    source::{
        About, Finding, Joining, Observations, Obstacle, Outcome, Outlet, Part, Results,
        RunOptions, Running, Source, SourceError, Unavailable,
    },
};
use event::{Arg, Backend, Category, Event, Kind, Layer, Record};
use std::{
    fs, io,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

const FILE: &str = "/proc/loadavg";
const PERIOD: Duration = Duration::from_millis(10);

pub struct Load;

pub static LOAD: Load = Load;

static ABOUT: About = About {
    name: "load",
    help: "how many threads want a processor",
    shows: "the machine's load, a hundred times a second",
    needs: "/proc",
    ..About::EMPTY
};

impl Source for Load {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn available(&self, run: &RunOptions) -> Result<(), Unavailable> {
        run.tells_nobody_apart()?;
        let why_not =
            |why| Unavailable::because(format!("{FILE}: {why}")).advising("mount /proc here");
        read().map(drop).map_err(why_not)
    }

    fn findings(&self) -> Vec<Finding> {
        let found = match read() {
            Ok(_) => Ok("the machine's load (--method load)".to_owned()),
            Err(why) => Err(Obstacle::from_error(why)),
        };
        vec![Finding::new(Part::Kernel, "load", found)]
    }

    fn start(
        &self,
        _run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        let (stop, stopped) = channel();
        let mut sampling = Sampling {
            outlet: joining.outlet,
            deadline: joining.deadline.clone(),
            samples: 0,
            most: 0,
            unwritten: 0,
            failure: None,
        };
        let body = move || {
            sampling.run(&stopped);
            sampling
        };
        let thread = thread::Builder::new().name("load".into()).spawn(body)?;
        Ok(Box::new(Watching { stop, thread }))
    }
}

/// Threads that run or want to.
fn read() -> io::Result<u64> {
    let text = fs::read_to_string(FILE)?;
    let running = text.split_whitespace().nth(3);
    let running = running.and_then(|part| part.split('/').next()?.parse().ok());
    running.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// What only this source finds.
pub struct Most(pub u64);

impl Results for Most {}

struct Watching {
    /// Dropped to stop.
    stop: Sender<()>,
    thread: JoinHandle<Sampling>,
}

impl Running for Watching {
    fn finish(self: Box<Self>) -> Option<Outcome> {
        drop(self.stop);
        let sampling = self.thread.join();
        let sampling = sampling.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Some(Outcome {
            observed: Observations {
                notes: vec![format!("the load was {} at most", sampling.most)],
                details: format!("cutrace: {} samples of the load\n", sampling.samples),
                unwritten: sampling.unwritten,
                failure: sampling.failure,
                ..Observations::default()
            },
            results: Some(Box::new(Most(sampling.most))),
            ..Outcome::new(sampling.outlet)
        })
    }
}

struct Sampling {
    outlet: Outlet,
    deadline: Deadline,
    samples: u64,
    most: u64,
    unwritten: u64,
    failure: Option<SinkError>,
}

impl Sampling {
    fn run(&mut self, stopped: &Receiver<()>) {
        let backend = Backend {
            name: ABOUT.name.into(),
            ..Backend::default()
        };
        self.failure = self.outlet.begin(backend).err();
        loop {
            self.sample();
            if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
    }

    fn sample(&mut self) {
        let now = monotonic();
        if let Ok(running) = read()
            && !self.deadline.leaves_out(now)
        {
            self.samples += 1;
            self.most = self.most.max(running);
            let mut event = Event::new(self.samples, Layer::Os, Category::Other, "load", now);
            event.kind = Kind::Counter;
            event.args = vec![Arg::new("running", running)];
            if self.failure.is_some() {
                self.unwritten += 1;
            } else if let Err(why) = self.outlet.give(Record::Event(event)) {
                self.unwritten += 1;
                self.failure = Some(why);
            }
        }
        // Others wait for what this one might still say.
        self.outlet.until(now);
    }
}
