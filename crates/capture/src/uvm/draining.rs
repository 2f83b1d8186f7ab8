//! The thread that empties the driver's queues, and does nothing else: writing the trace may have to
//! wait, and a queue that is full drops what comes.

use super::queue::Queue;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long it sleeps where little happens. A queue of a million entries takes longer to fill.
const ROUND: Duration = Duration::from_millis(5);
const SOON: Duration = Duration::from_micros(500);
/// Entries handed over that nobody has taken yet, at most: 300 MB. What more there is stays in the queues.
const MOST_WAITING: usize = 1 << 22;
/// Entries that are handed over together, at most.
const BATCH: usize = 1 << 16;

/// From the draining thread.
pub enum Drained {
    /// Entries of a process, one after the other.
    Entries {
        pid: u32,
        bytes: Vec<u8>,
        count: usize,
    },
    /// Its queue is empty and is not looked at any more.
    Ended { pid: u32 },
}

enum QueueChange {
    Add {
        pid: u32,
        queue: Arc<Queue>,
    },
    /// Takes what is left, and forgets the queue.
    Remove {
        pid: u32,
    },
}

pub struct Draining {
    orders: Option<Sender<QueueChange>>,
    pub drained: Receiver<Drained>,
    waiting: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Draining {
    pub fn start() -> io::Result<Self> {
        let (orders, received) = channel();
        let (sender, drained) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let drain = Drain {
            queues: Vec::new(),
            sender,
            waiting: waiting.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("cutrace-uvm-queue".into())
            .spawn(move || {
                crate::launch::block_signals();
                // A program that has all processors busy must not keep it from its turn.
                crate::preload::be_prompt();
                drain.run(&received);
            })?;
        Ok(Draining {
            orders: Some(orders),
            drained,
            waiting,
            thread: Some(thread),
        })
    }

    pub fn add(&self, pid: u32, queue: Arc<Queue>) {
        self.order(QueueChange::Add { pid, queue });
    }

    /// [`Drained::Ended`] follows its last entries.
    pub fn remove(&self, pid: u32) {
        self.order(QueueChange::Remove { pid });
    }

    fn order(&self, order: QueueChange) {
        if let (Some(orders), Some(thread)) = (&self.orders, &self.thread) {
            let _ = orders.send(order);
            thread.thread().unpark();
        }
    }

    /// So many of the entries that were handed over have been dealt with.
    pub fn taken(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::AcqRel);
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

struct Drain {
    queues: Vec<(u32, Arc<Queue>)>,
    sender: Sender<Drained>,
    waiting: Arc<AtomicUsize>,
}

impl Drain {
    /// Until nobody gives orders any more.
    fn run(mut self, orders: &Receiver<QueueChange>) {
        loop {
            loop {
                match orders.try_recv() {
                    Ok(QueueChange::Add { pid, queue }) => self.queues.push((pid, queue)),
                    Ok(QueueChange::Remove { pid }) => self.remove(pid),
                    Err(std::sync::mpsc::TryRecvError::Empty) => break,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
                }
            }
            let most = (self.queues.iter())
                .map(|(pid, queue)| self.hand_over(*pid, queue, false))
                .max();
            // Woken for orders.
            match most {
                Some(taken) if taken >= BATCH / 2 => {}
                Some(taken) if taken >= BATCH / 16 => std::thread::park_timeout(SOON),
                Some(_) => std::thread::park_timeout(ROUND),
                None => std::thread::park(),
            }
        }
    }

    fn hand_over(&self, pid: u32, queue: &Queue, all: bool) -> usize {
        if !all && self.waiting.load(Ordering::Acquire) > MOST_WAITING {
            return 0;
        }
        let mut bytes = Vec::new();
        let count = queue.drain(&mut bytes, BATCH);
        if count > 0 {
            self.waiting.fetch_add(count, Ordering::AcqRel);
            let _ = self.sender.send(Drained::Entries { pid, bytes, count });
        }
        count
    }

    fn remove(&mut self, pid: u32) {
        if let Some(place) = self.queues.iter().position(|(known, _)| *known == pid) {
            let (_, queue) = self.queues.swap_remove(place);
            while self.hand_over(pid, &queue, true) > 0 {}
        }
        let _ = self.sender.send(Drained::Ended { pid });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uvm::entry::Layout;

    /// The one who takes them sleeps meanwhile: ten queues' worth of entries come, and none is dropped.
    #[test]
    fn nothing_is_dropped_while_nobody_takes() {
        let queue = Arc::new(Queue::new(Layout::Second, 1 << 14).expect("memory"));
        let draining = Draining::start().expect("started");
        draining.add(7, queue.clone());
        let count: u32 = 10 << 14;
        for number in 0..count {
            queue.put(1 + (number % 14) as u8);
            let begun = std::time::Instant::now();
            while number.is_multiple_of(1 << 12) && !queue.is_empty() {
                assert!(begun.elapsed() < Duration::from_secs(30), "nobody drains");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        draining.remove(7);
        let mut kinds = Vec::new();
        loop {
            match draining.drained.recv().expect("told") {
                Drained::Entries { pid, bytes, count } => {
                    assert_eq!((pid, bytes.len()), (7, count * 72));
                    kinds.extend(bytes.chunks(72).map(|entry| entry[0]));
                    draining.taken(count);
                }
                Drained::Ended { pid } => {
                    assert_eq!(pid, 7);
                    break;
                }
            }
        }
        let expected = (0..count).map(|number| 1 + (number % 14) as u8);
        assert!(
            kinds.iter().copied().eq(expected),
            "{} entries",
            kinds.len()
        );
        assert_eq!(queue.dropped(), 0);
        draining.remove(8);
        assert!(matches!(
            draining.drained.recv(),
            Ok(Drained::Ended { pid: 8 })
        ));
    }
}
