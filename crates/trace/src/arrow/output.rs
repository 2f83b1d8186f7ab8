//! Where batches are packed and written: here while there are few, in a thread of its own when there are more, so that who
//! records does not wait for it.

use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use std::{
    io::{self, BufWriter, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

pub type Stream<W> = StreamWriter<BufWriter<W>>;

/// Batches that are written here: a short trace is not worth a thread.
const FEW: usize = 2;
/// Batches that wait for the thread, at most.
const MOST_WAITING: usize = 1;

pub struct Output<W: Write> {
    place: Place<W>,
    written: usize,
    /// Of batches that have been handed on and not been written, as large as they may be.
    pending: Arc<AtomicU64>,
}

enum Place<W: Write> {
    Here(Box<Stream<W>>),
    Thread {
        orders: SyncSender<Order>,
        thread: JoinHandle<Result<Box<Stream<W>>>>,
    },
    /// Writing has failed, and the error was returned.
    Nowhere,
}

enum Order {
    Write {
        batch: RecordBatch,
        most_bytes: u64,
    },
    /// Whether all of the above has been written.
    Report(SyncSender<()>),
}

impl<W: Write> Output<W> {
    pub fn new(stream: Stream<W>) -> Self {
        Output {
            place: Place::Here(Box::new(stream)),
            written: 0,
            pending: Arc::default(),
        }
    }

    /// What batches that have been handed on may still add to the file.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
    }
}

impl<W: Write + Send + 'static> Output<W> {
    /// Writes a batch, which takes so many bytes at most, by and by. After an error nothing is written any more.
    pub fn write(&mut self, batch: RecordBatch, most_bytes: u64) -> Result<()> {
        self.written += 1;
        if self.written > FEW {
            self.place = match std::mem::replace(&mut self.place, Place::Nowhere) {
                Place::Here(stream) => in_thread(stream, self.pending.clone())?,
                place => place,
            };
        }
        match &mut self.place {
            Place::Here(stream) => {
                let written = write(stream, &batch);
                if written.is_err() {
                    self.place = Place::Nowhere;
                }
                written
            }
            Place::Thread { orders, .. } => {
                self.pending.fetch_add(most_bytes, Ordering::AcqRel);
                match orders.send(Order::Write { batch, most_bytes }) {
                    Ok(()) => Ok(()),
                    Err(_) => self.stream().map(|_| ()),
                }
            }
            Place::Nowhere => Err(gone()),
        }
    }

    /// Waits until all batches have been written.
    pub fn flush(&mut self) -> Result<()> {
        let orders = match &self.place {
            Place::Here(_) => return Ok(()),
            Place::Thread { orders, .. } => orders,
            Place::Nowhere => return Err(gone()),
        };
        let (report, reported) = sync_channel(1);
        let asked = orders.send(Order::Report(report)).is_ok();
        match asked && reported.recv().is_ok() {
            true => Ok(()),
            false => self.stream().map(|_| ()),
        }
    }

    /// The stream, with all batches in it.
    pub fn stream(&mut self) -> Result<&mut Stream<W>> {
        self.place = match std::mem::replace(&mut self.place, Place::Nowhere) {
            Place::Thread { orders, thread } => {
                drop(orders);
                let stream = thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                Place::Here(stream?)
            }
            place => place,
        };
        match &mut self.place {
            Place::Here(stream) => Ok(stream),
            _ => Err(gone()),
        }
    }
}

fn in_thread<W: Write + Send + 'static>(
    mut stream: Box<Stream<W>>,
    pending: Arc<AtomicU64>,
) -> Result<Place<W>> {
    let (orders, taken) = sync_channel(MOST_WAITING);
    let body = move || {
        for order in taken {
            match order {
                Order::Write { batch, most_bytes } => {
                    write(&mut stream, &batch)?;
                    pending.fetch_sub(most_bytes, Ordering::AcqRel);
                }
                Order::Report(report) => {
                    // Who does not wait for it need not be told.
                    let _ = report.send(());
                }
            }
        }
        Ok(stream)
    };
    let thread = thread::Builder::new()
        .name("cutrace-pack".into())
        .spawn(body)?;
    Ok(Place::Thread { orders, thread })
}

/// Whole batches only: what a reader sees of a trace that is being written can be read.
fn write<W: Write>(stream: &mut Stream<W>, batch: &RecordBatch) -> Result<()> {
    stream.write(batch)?;
    Ok(stream.flush()?)
}

fn gone() -> Error {
    io::Error::other("nothing more can be written: an earlier batch could not be").into()
}

impl<W: Write> Drop for Output<W> {
    /// What was handed on is written.
    fn drop(&mut self) {
        if let Place::Thread { orders, thread } = std::mem::replace(&mut self.place, Place::Nowhere)
        {
            drop(orders);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, Reader, Writer};
    use event::{Category, Event, Layer, Meta, Record};
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    /// A file on a disk with so much room.
    #[derive(Clone)]
    struct Disk {
        bytes: Arc<Mutex<Vec<u8>>>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut file = self.bytes.lock().expect("nobody panics");
            if file.len() + bytes.len() > self.room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            file.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn writer(room: usize) -> (Writer, Arc<Mutex<Vec<u8>>>) {
        let bytes = Arc::default();
        let disk = Disk {
            bytes: Arc::clone(&bytes),
            room,
        };
        let writer = Writer::new(disk, Format::Arrow, &Meta::default());
        (writer.expect("room for the head"), bytes)
    }

    fn event(id: u64) -> Record {
        Event::new(id, Layer::Driver, Category::Query, "cuCtxGetId", id).into()
    }

    fn events(bytes: &Mutex<Vec<u8>>) -> usize {
        let bytes = bytes.lock().expect("nobody panics").clone();
        let reader = Reader::new(io::Cursor::new(bytes), Some(Format::Arrow));
        reader.expect("a trace").count()
    }

    #[test]
    fn what_was_flushed_is_in_the_file() {
        let (mut writer, bytes) = writer(usize::MAX);
        for id in 1..=300_000 {
            writer.write(&event(id)).expect("written");
            if [1, 2, 70_000, 250_000].contains(&id) {
                writer.flush().expect("flushed");
                assert_eq!(writer.pending(), 0);
                assert_eq!(events(&bytes) as u64, id);
            }
        }
        // One that was not finished leaves everything, too.
        drop(writer);
        assert_eq!(events(&bytes), 300_000);
    }

    #[test]
    fn a_full_disk_is_an_error_once_and_ends_the_trace() {
        let (mut writer, bytes) = writer(400 << 10);
        let failed = (1..=3_000_000).find_map(|id| writer.write(&event(id)).err());
        let failed = failed.expect("there was no room for so many").to_string();
        assert!(failed.contains("no storage space"), "{failed}");
        let again = writer.flush().and_then(|()| writer.finish().map(|_| ()));
        assert!(again.is_err());
        assert!(events(&bytes) > 60_000, "what came before is there");
    }
}
