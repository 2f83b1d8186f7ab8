//! Decoding apart from reading: a file is cut into units, units are decoded into batches of
//! records, here or in threads of their own, and the batches come back in the file's order.

use crate::{Error, Result, batch::Batch};
use std::{
    sync::mpsc::{Receiver, SyncSender, channel, sync_channel},
    thread,
};

/// Cuts a file into units that can be decoded apart from each other.
pub trait Cut: Send + 'static {
    type Unit: Default + Send + 'static;

    /// The next unit, made of an old one's buffers; None at the end.
    fn next(&mut self, spare: Self::Unit) -> Result<Option<Self::Unit>>;
}

/// Decodes units.
pub trait Decode: Send + Sized + 'static {
    type Unit;

    /// Take up a unit. Returns the one before it, for its buffers.
    fn start(&mut self, unit: Self::Unit) -> Self::Unit;

    /// Decode more of the unit into an empty batch; false if that was the last of it.
    fn fill(&mut self, batch: &mut Batch) -> bool;

    /// Another decoder for the same file.
    fn another(&self) -> Self;
}

/// Batches in the order of the file.
pub trait Batches: Send {
    /// The next batch, made of an old one's buffers; None at the end.
    fn next(&mut self, spare: Batch) -> Result<Option<Batch>>;

    /// The same from threads that run ahead.
    fn ahead(self: Box<Self>, workers: usize) -> Box<dyn Batches>;
}

/// Everything in the caller's thread.
pub struct Inline<C: Cut, D> {
    cut: C,
    decode: D,
    /// The decoder has a unit that is not finished.
    busy: bool,
    spare: C::Unit,
}

impl<C: Cut, D: Decode<Unit = C::Unit>> Inline<C, D> {
    /// `busy`: the decoder has taken up a unit already.
    pub fn new(cut: C, decode: D, busy: bool) -> Self {
        Inline {
            cut,
            decode,
            busy,
            spare: C::Unit::default(),
        }
    }
}

impl<C: Cut, D: Decode<Unit = C::Unit>> Batches for Inline<C, D> {
    fn next(&mut self, mut batch: Batch) -> Result<Option<Batch>> {
        if !self.busy {
            let Some(unit) = self.cut.next(std::mem::take(&mut self.spare))? else {
                return Ok(None);
            };
            self.spare = self.decode.start(unit);
        }
        batch.clear();
        self.busy = self.decode.fill(&mut batch);
        Ok(Some(batch))
    }

    fn ahead(self: Box<Self>, workers: usize) -> Box<dyn Batches> {
        Box::new(Ahead::start(self.cut, self.decode, workers.max(1)))
    }
}

/// Units or batches that may wait between two threads.
const WAITING: usize = 2;

/// Batches from threads: one cuts, the others decode one unit each in turn.
pub struct Ahead {
    workers: Vec<Worker>,
    /// Whose batch is next.
    turn: usize,
    /// Whose the batch is that was handed out last.
    handed_out: usize,
}

struct Worker {
    batches: Receiver<Decoded>,
    /// Batches go back to the thread that filled them: it is cheapest for it to empty them.
    spare: std::sync::mpsc::Sender<Batch>,
}

/// What a worker hands over.
enum Decoded {
    /// A batch, and whether its unit has more.
    Batch(Batch, bool),
    Failed(Error),
}

impl Ahead {
    fn start<C: Cut, D: Decode<Unit = C::Unit>>(cut: C, decode: D, count: usize) -> Self {
        let (spare_units, spare) = channel();
        let mut inputs = Vec::new();
        let mut workers = Vec::new();
        let mut decoders: Vec<D> = (1..count).map(|_| decode.another()).collect();
        decoders.insert(0, decode);
        for (place, decode) in decoders.into_iter().enumerate() {
            let (input, units) = sync_channel(WAITING);
            let (output, batches) = sync_channel(WAITING);
            let (spare, spare_batches) = channel();
            let spare_units = spare_units.clone();
            // The first has what is left of the unit with the trace's head.
            let busy = place == 0;
            thread::spawn(move || {
                work(decode, busy, &units, &output, &spare_batches, &spare_units)
            });
            inputs.push(input);
            workers.push(Worker { batches, spare });
        }
        thread::spawn(move || read(cut, &inputs, &spare));
        Ahead {
            workers,
            turn: 0,
            handed_out: 0,
        }
    }
}

impl Batches for Ahead {
    fn next(&mut self, spare: Batch) -> Result<Option<Batch>> {
        // The thread may have ended: then nobody needs the batch.
        let _ = self.workers[self.handed_out].spare.send(spare);
        match self.workers[self.turn].batches.recv() {
            Ok(Decoded::Batch(batch, more)) => {
                self.handed_out = self.turn;
                if !more {
                    self.turn = (self.turn + 1) % self.workers.len();
                }
                Ok(Some(batch))
            }
            Ok(Decoded::Failed(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn ahead(self: Box<Self>, _: usize) -> Box<dyn Batches> {
        self
    }
}

/// The thread that cuts. It ends with the file, or when nobody wants units any more.
fn read<C: Cut>(mut cut: C, workers: &[SyncSender<Result<C::Unit>>], spare: &Receiver<C::Unit>) {
    // The first worker begins with what it has.
    for worker in workers.iter().cycle().skip(1) {
        let old = spare.try_recv().unwrap_or_default();
        let unit = match cut.next(old) {
            Ok(None) => return,
            Ok(Some(unit)) => Ok(unit),
            Err(error) => Err(error),
        };
        let failed = unit.is_err();
        if worker.send(unit).is_err() || failed {
            return;
        }
    }
}

/// A thread that decodes.
fn work<D: Decode>(
    mut decode: D,
    mut busy: bool,
    units: &Receiver<Result<D::Unit>>,
    output: &SyncSender<Decoded>,
    spare: &Receiver<Batch>,
    spare_units: &std::sync::mpsc::Sender<D::Unit>,
) {
    loop {
        if !busy {
            match units.recv() {
                Ok(Ok(unit)) => {
                    let _ = spare_units.send(decode.start(unit));
                }
                Ok(Err(error)) => {
                    let _ = output.send(Decoded::Failed(error));
                    return;
                }
                Err(_) => return,
            }
        }
        let mut batch = spare.try_recv().unwrap_or_default();
        batch.clear();
        busy = decode.fill(&mut batch);
        if output.send(Decoded::Batch(batch, busy)).is_err() {
            return;
        }
    }
}
