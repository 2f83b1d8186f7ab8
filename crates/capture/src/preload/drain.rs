//! Reads one thread's ring: which calls began, which ended, in the order of the thread's time.
//!
//! A call's slot is closed in place, so the slots from the oldest open call on stay unreleased
//! while later ones are read ahead.
//!
//! What the reader makes of a slot is decided by one look at it, in this order: the commit word, the
//! exit time, everything else. The injected code never waits for it and takes no part in it.
//!
//! - Not committed: nothing is read past it, for a signal handler may have interrupted the call that is to
//!   fill it. One that jumps out of its handler never does: if later slots stay committed for a while, or
//!   nobody is left who could fill it, it is passed over. No call was made then.
//! - Exit 0: the call is open. Its beginning is handed on, and its slot is looked at again until its
//!   end is there, or a later call shows that its frame is gone. A program that is killed leaves it so.
//! - An exit, and the next slot is committed and begins no earlier: what a call encloses comes right
//!   after it and begins before its exit, so it encloses nothing. It is handed on as one step
//!   ([`Step::Whole`]) and never looked at again. That is nearly every call of a program that calls
//!   without end, where reading must not take longer than calling.
//! - An exit otherwise (the next call is inside of it, or has not come yet; there is a payload or a
//!   stack): a beginning, and an end in its place.

use super::clock;
use super::ring::{Ring, SlotWords};
use super::shedding::{SHED_GATES, Shed};
use crate::call::item::{Batch, Item, PayloadRange, Step, Within};
use crate::clock::monotonic;
use cuda::capture::MAX_PAYLOAD_SLOTS;
use event::note::{MOST_PAYLOADS, Note};
use event::ring::{FLAG_NOTE, FLAG_PAYLOADS, FLAG_UNWOUND, FLAG_WITHIN, payload_within};

use std::time::{Duration, Instant};

/// The ring holds what no producer writes; nothing more can be read from it.
#[derive(Debug, PartialEq, Eq)]
pub struct Corrupt;

/// Frames farther apart than this are on different stacks (signal stacks, coroutines), where
/// the order of addresses says nothing about nesting.
const STACK: u32 = 64 << 20;
/// Open calls looked at for each new one. Real nesting is a few deep.
const LOOKED_AT: usize = 64;
/// Steps handed on at once.
const PORTION: usize = 48 << 10;
/// Room in the ring is given back in portions, so that its thread need not wait until all of it has
/// been read.
const SLOTS_BACK: u64 = 8 << 10;
/// How long a signal handler may take that interrupts a call before its slot is committed.
const GAP_PATIENCE: Duration = Duration::from_millis(100);

pub struct Reader {
    ring: Ring,
    /// Everything before has been read.
    cursor: u64,
    /// Calls that have begun and not ended, outermost first.
    open: Vec<OpenCall>,
    /// Notes whose calls have not come yet.
    callers: Vec<Caller>,
    dropped: u64,
    /// What was shed, and how long its thread was busy for us, when that was last asked.
    shed: Shed,
    spent: u64,
    /// Time never goes back in a thread.
    latest: u64,
    /// A slot that is not committed, and since when it has held up others.
    gap: Option<(u64, Instant)>,
    /// Nobody will fill gaps any more.
    over: bool,
}

/// Where a call that is about to come was called from.
struct Caller {
    function: u16,
    stack_pointer: u32,
    stack: u32,
}

/// A signal handler may come between a note and its call, and another between its own.
const MOST_CALLERS: usize = 16;

struct OpenCall {
    sequence: u64,
    enter: u64,
    stack_pointer: u32,
    payloads: u8,
    flags: u16,
    /// 0: it had not returned when its beginning was read. If it had, its payload has been handed on.
    exit: u64,
}

impl Reader {
    pub fn new(ring: Ring) -> Self {
        Reader {
            ring,
            cursor: 0,
            open: Vec::new(),
            callers: Vec::new(),
            dropped: 0,
            shed: Shed::default(),
            spent: 0,
            latest: 0,
            gap: None,
            over: false,
        }
    }

    /// The ring's thread has ended: what it has not published by now it never will.
    pub fn finish(&mut self) {
        self.cursor = self.cursor.max(self.ring.head());
        self.open.clear();
        self.callers.clear();
        self.ring.release(self.cursor);
    }

    /// Another thread has the ring, and goes on where the last one ended.
    pub fn renew(&mut self, ring: Ring) {
        self.ring = ring;
        self.latest = 0;
        (self.gap, self.over) = (None, false);
    }

    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// What is there is all: the ring's thread is gone, or this is the last look.
    pub fn set_over(&mut self) {
        self.over = true;
    }

    /// Passes over slots that nobody is going to fill. False: they may be filled yet.
    fn pass_over(&mut self, head: u64) -> bool {
        // What the jump has left may be payload that lacks its call.
        let now = clock::timestamp().max(monotonic());
        let mut later = self.cursor + 1..head;
        let next = later.find(|sequence| {
            let slot = self.ring.committed(*sequence);
            slot.is_some_and(|slot| is_call(&slot, self.latest, now))
        });
        let Some(next) = next else {
            return false;
        };
        let since = match self.gap {
            Some((sequence, since)) if sequence == self.cursor => since,
            _ => Instant::now(),
        };
        self.gap = Some((self.cursor, since));
        if !self.over && since.elapsed() < GAP_PATIENCE {
            return false;
        }
        self.gap = None;
        self.cursor = next;
        true
    }

    /// What has been shed so far.
    pub fn shed(&self) -> Shed {
        Shed(SHED_GATES.map(|gate| self.ring.shed(gate)))
    }

    /// What was shed since the last time, and the ticks that the thread has spent.
    pub fn take_shed(&mut self) -> (Shed, u64) {
        let (now, spent) = (self.shed(), self.ring.spent());
        // A call that fails is counted until it has returned. What the program has spoilt is not believed.
        let more = std::array::from_fn(|place| now.0[place].saturating_sub(self.shed.0[place]));
        for (most, now) in self.shed.0.iter_mut().zip(now.0) {
            *most = (*most).max(now);
        }
        let ticks = spent.saturating_sub(std::mem::replace(&mut self.spent, spent));
        (Shed(more), ticks)
    }

    /// There is nothing to read.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.backlog() == 0 && self.ring.dropped() == self.dropped
    }

    /// Slots that are in use: how near the ring is to being full.
    pub fn backlog(&self) -> u64 {
        self.head().saturating_sub(self.cursor)
    }

    /// The next slot to be written, and the next to be read.
    pub fn head(&self) -> u64 {
        self.ring.head()
    }

    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// How many steps the next batch may come to.
    pub fn steps(&self) -> usize {
        // A beginning and an end for each slot, and ends of calls that are open.
        let slots = self.backlog().saturating_mul(2);
        let most = slots.saturating_add(self.open.len() as u64 + 1);
        usize::try_from(most).map_or(PORTION, |most| most.min(PORTION))
    }

    /// Appends what has happened since the last time and frees the slots of ended calls. True:
    /// there is more, for another batch.
    pub fn drain(&mut self, out: &mut Batch) -> Result<bool, Corrupt> {
        let drained = match self.read_slots(out, PORTION) {
            Ok(false) => self.settle(out).map(|()| false),
            more => more,
        };
        self.ring.release(self.tail());
        let dropped = self.ring.dropped();
        if dropped > self.dropped {
            let count = dropped - self.dropped;
            self.dropped = dropped;
            self.push(out, self.latest, self.cursor, Step::Lost { count });
        }
        drained
    }

    /// The slots from here on are still needed.
    fn tail(&self) -> u64 {
        self.open.first().map_or(self.cursor, |call| call.sequence)
    }

    /// True: it stopped because there were enough steps.
    fn read_slots(&mut self, out: &mut Batch, enough: usize) -> Result<bool, Corrupt> {
        let head = self.ring.head();
        let tail = self.tail();
        if head < self.cursor || head - tail > self.ring.capacity() {
            return Err(Corrupt);
        }
        let mut given_back = tail;
        // The slot at the cursor, where it has been looked at already.
        let mut known = None;
        while self.cursor < head {
            if out.items.len() >= enough {
                return Ok(true);
            }
            if self.cursor - given_back >= SLOTS_BACK {
                given_back = self.cursor;
                self.ring.release(self.tail());
            }
            let slot = known.take().or_else(|| self.ring.committed(self.cursor));
            let Some(slot) = slot else {
                if self.pass_over(head) {
                    continue;
                }
                return Ok(false);
            };
            let flags = (slot[2] >> 16) as u16;
            if flags & !FLAG_WITHIN == 0 && self.callers.is_empty() && self.cursor + 1 < head {
                known = self.ring.committed(self.cursor + 1);
                if known.is_some_and(|next| is_whole(&slot, &next)) {
                    self.whole(out, &slot, flags);
                    self.cursor += 1;
                    continue;
                }
            }
            let is_note = flags & FLAG_NOTE != 0;
            let most = if is_note {
                MOST_PAYLOADS
            } else {
                MAX_PAYLOAD_SLOTS
            };
            let payloads = flags & FLAG_PAYLOADS;
            if usize::from(payloads) > most || u64::from(payloads) >= head - self.cursor {
                return Err(Corrupt);
            }
            let payloads = payloads as u8;
            let filled = |number| {
                self.ring
                    .committed(self.cursor + u64::from(number))
                    .is_some()
            };
            if !(1..=payloads).all(filled) {
                return Ok(false);
            }
            if is_note {
                self.note(out, &slot, payloads);
            } else {
                self.begin(out, &slot, payloads);
            }
            self.cursor += 1 + u64::from(payloads);
        }
        Ok(false)
    }

    /// A call that has returned, and had before the next one began.
    fn whole(&mut self, out: &mut Batch, slot: &SlotWords, flags: u16) {
        let [enter, exit, label, outcome, args @ ..] = *slot;
        if !self.open.is_empty() {
            self.end_before(out, enter, (label >> 32) as u32);
        }
        let step = Step::Whole {
            exit,
            function: label as u16,
            result: outcome as u32,
            args,
            within: Within::from_flags(flags),
        };
        self.push(out, enter, self.cursor, step);
        self.latest = self.latest.max(exit);
    }

    fn note(&mut self, out: &mut Batch, slot: &SlotWords, payloads: u8) {
        let Some(note) = Note::from_words(slot[4], slot[5]) else {
            return;
        };
        if let Note::Known { stack } | Note::Stack { stack, .. } = note {
            if self.callers.len() >= MOST_CALLERS {
                self.callers.remove(0);
            }
            self.callers.push(Caller {
                function: slot[2] as u16,
                stack_pointer: (slot[2] >> 32) as u32,
                stack,
            });
        }
        if payloads > 0 {
            let start = out.bytes.len();
            self.ring.payload(self.cursor, payloads, &mut out.bytes);
            let payload = PayloadRange::since(start, &out.bytes).at_most(note.bytes());
            self.push(out, slot[0], self.cursor, Step::Note { note, payload });
        }
    }

    /// Where the call comes from, by the note that was left for it.
    fn stack_of(&mut self, function: u16, stack_pointer: u32) -> u32 {
        let place = self.callers.iter().rposition(|caller| {
            caller.stack_pointer == stack_pointer && caller.function == function
        });
        let Some(place) = place else {
            return 0;
        };
        let stack = self.callers[place].stack;
        // What came after it was in signal handlers that have returned.
        self.callers.truncate(place);
        stack
    }

    fn begin(&mut self, out: &mut Batch, slot: &SlotWords, payloads: u8) {
        let sequence = self.cursor;
        let enter = slot[0];
        let flags = (slot[2] >> 16) as u16;
        let stack_pointer = (slot[2] >> 32) as u32;
        self.end_before(out, enter, stack_pointer);
        let exit = slot[1];
        let complete = (exit != 0).then(|| Within::from_flags(flags));
        let start = out.bytes.len();
        self.ring.payload(sequence, payloads, &mut out.bytes);
        let step = Step::Begin {
            function: u32::from(slot[2] as u16),
            args: [slot[4], slot[5], slot[6], slot[7]],
            payload: PayloadRange::since(start, &out.bytes),
            complete,
            stack: self.stack_of(slot[2] as u16, stack_pointer),
        };
        self.push(out, enter, sequence, step);
        if flags & FLAG_UNWOUND != 0 && exit == 0 {
            self.push(out, enter, sequence, Step::Unwound { enter });
            return;
        }
        self.open.push(OpenCall {
            sequence,
            enter,
            stack_pointer,
            payloads,
            flags,
            exit,
        });
    }

    /// A call began at `enter`: those that had returned by then have ended, and those whose frames
    /// must be gone were unwound.
    fn end_before(&mut self, out: &mut Batch, enter: u64, stack_pointer: u32) {
        self.end_returned(out, |exit| exit <= enter);
        while let Some(top) = self.open.last() {
            let gone = stack_pointer.wrapping_sub(top.stack_pointer) < STACK;
            if self.exit(top) != 0 || !gone {
                break;
            }
            let (sequence, began) = (top.sequence, top.enter);
            self.open.pop();
            self.push(out, enter, sequence, Step::Unwound { enter: began });
        }
    }

    /// Ends the calls that have returned. What they called may have come after the slots were
    /// read: once a return is seen, everything before it is there, and is read first.
    fn settle(&mut self, out: &mut Batch) -> Result<(), Corrupt> {
        let looked_at = self.open.iter().rev().take(LOOKED_AT);
        let exits = looked_at.map(|call| self.exit(call));
        let seen = exits.max().unwrap_or(0);
        if seen != 0 {
            self.read_slots(out, usize::MAX)?;
            self.end_returned(out, |exit| exit <= seen);
        }
        Ok(())
    }

    /// When it returned, by now; 0: it has not.
    fn exit(&self, call: &OpenCall) -> u64 {
        match call.exit {
            0 => self.ring.exit(call.sequence),
            exit => exit,
        }
    }

    /// Ends the outermost call that has returned in time, and with it all that it enclosed.
    fn end_returned(&mut self, out: &mut Batch, in_time: impl Fn(u64) -> bool) {
        let from = self.open.len().saturating_sub(LOOKED_AT);
        let returned = (from..self.open.len()).find(|place| {
            let exit = self.exit(&self.open[*place]);
            exit != 0 && in_time(exit)
        });
        let Some(outermost) = returned else {
            return;
        };
        while self.open.len() > outermost {
            let Some(call) = self.open.pop() else {
                return;
            };
            // Read after the outer call's exit: an inner one that is open now never returned.
            match self.exit(&call) {
                0 => {
                    // No later than what it was in returned.
                    let around = self.open[outermost..].iter().rev();
                    let mut exits = around.map(|call| self.exit(call));
                    let gone = exits.find(|exit| *exit != 0).unwrap_or(self.latest);
                    let step = Step::Unwound { enter: call.enter };
                    self.push(out, gone, call.sequence, step);
                }
                exit => {
                    let start = out.bytes.len();
                    if call.exit == 0 {
                        self.ring
                            .payload(call.sequence, call.payloads, &mut out.bytes);
                        let within = payload_within(call.flags);
                        self.ring.words(call.sequence, within, &mut out.bytes);
                    }
                    let step = Step::End {
                        enter: call.enter,
                        result: self.ring.result(call.sequence),
                        payload: PayloadRange::since(start, &out.bytes),
                    };
                    self.push(out, exit, call.sequence, step);
                }
            }
        }
    }

    fn push(&mut self, out: &mut Batch, time: u64, sequence: u64, step: Step) {
        self.latest = self.latest.max(time);
        out.items.push(Item {
            time: self.latest,
            sequence,
            step,
        });
    }
}

/// The call has returned, and had when the next one began: what it called, if anything, would be next.
fn is_whole(call: &SlotWords, next: &SlotWords) -> bool {
    call[1] != 0 && call[1] <= next[0]
}

/// Whether a slot can be a call's, or a note's, that was made between two moments.
fn is_call(slot: &SlotWords, earliest: u64, latest: u64) -> bool {
    let [enter, exit, label, ..] = *slot;
    let flags = (label >> 16) as u16;
    let known = FLAG_PAYLOADS | FLAG_UNWOUND | FLAG_WITHIN | FLAG_NOTE;
    (earliest..=latest).contains(&enter)
        && (exit == 0 || (enter..=latest).contains(&exit))
        && flags & !known == 0
        && usize::from(flags & FLAG_PAYLOADS) <= MAX_PAYLOAD_SLOTS.max(MOST_PAYLOADS)
}
