//! A call that has begun and not ended. Its memory serves the next one: a flood of calls would otherwise ask for it, and
//! give it back, millions of times a second.

use crate::call::signature::{Signature, Words};
use event::{Category, Event, Extent, Layer, Record, What};
use std::sync::Arc;

/// Calls that are kept for others. Loops call fewer functions, as a rule.
const MOST_SPARE: usize = 32;
/// A payload longer than this is given back.
const MOST_PAYLOAD: usize = 1 << 10;

pub struct OpenCall {
    pub sequence: u64,
    /// Its event, as the sink wants it.
    pub record: Record,
    pub signature: Arc<Signature>,
    pub words: Words,
    /// All of it, once the call has returned.
    pub payload: Payload,
    pub hidden: bool,
    /// Where a launch returns to, where its kernel may have no other name.
    pub caller: Option<u64>,
    /// What calls below this one meant, for it to tell.
    pub below: Vec<What>,
    /// Handles of the driver's that calls below this one have launched.
    pub inner: Vec<u64>,
    /// It is no call but what the program or a framework calls a part of its work.
    pub range: Option<OpenRange>,
    /// The arguments are those of `words` and `payload`, and of nothing else.
    pub is_plain: bool,
    /// What the arguments say of the one kernel that they launch, once that was asked.
    pub launch: Option<LaunchArguments>,
}

/// A launch of one kernel, but for the kernel's name.
#[derive(Debug, Clone, Copy)]
pub struct LaunchArguments {
    pub handle: u64,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u64,
}

/// What a range is ended by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenRange {
    /// The innermost of an NVTX domain.
    Nvtx { domain: u64 },
    /// An operator, by what identifies it in its process while it runs.
    Operator { key: u64 },
}

/// Ranges have no place in the ring: no call ever has this sequence number.
const NO_SEQUENCE: u64 = u64::MAX;

impl OpenCall {
    fn new(signature: Arc<Signature>) -> Self {
        OpenCall {
            sequence: 0,
            record: Record::Event(nothing(&signature)),
            signature,
            words: Words::default(),
            payload: Payload::default(),
            hidden: false,
            caller: None,
            below: Vec::new(),
            inner: Vec::new(),
            range: None,
            is_plain: false,
            launch: None,
        }
    }

    pub fn event(&self) -> &Event {
        match &self.record {
            Record::Event(event) => event,
            _ => unreachable!("a call is an event"),
        }
    }

    pub fn event_mut(&mut self) -> &mut Event {
        match &mut self.record {
            Record::Event(event) => event,
            _ => unreachable!("a call is an event"),
        }
    }

    /// What it returned. What there is of an earlier call of the function stays if that returned the same.
    pub fn set_status(&mut self, result: u32) {
        let code = i64::from(result.cast_signed());
        let known = self.event().status.as_ref();
        if known.is_none_or(|known| known.code != code) {
            self.event_mut().status = self.signature.status(result);
        }
    }

    /// The record, for the caller to keep.
    pub fn take_record(&mut self) -> Record {
        self.is_plain = false;
        let nothing = Record::Event(nothing(&self.signature));
        std::mem::replace(&mut self.record, nothing)
    }
}

fn nothing(signature: &Signature) -> Event {
    Event::new(0, Layer::Driver, Category::Other, signature.name.clone(), 0)
}

/// What was read of a call besides its words.
#[derive(Debug, Default)]
pub struct Payload {
    bytes: Vec<u8>,
    is_known: bool,
}

impl Payload {
    /// False: it is the same.
    pub fn set(&mut self, bytes: Option<&[u8]>) -> bool {
        let is_same = match (self.get(), bytes) {
            (Some(known), Some(bytes)) => are_same(known, bytes),
            (known, bytes) => known.is_none() && bytes.is_none(),
        };
        if is_same {
            return false;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes.unwrap_or_default());
        self.is_known = bytes.is_some();
        true
    }

    /// None before the call has returned.
    pub fn get(&self) -> Option<&[u8]> {
        self.is_known.then_some(&*self.bytes)
    }
}

/// Word by word: bytes that have just been put together from words cannot be read in larger pieces before they have reached the
/// cache, which takes longer than all the rest of comparing them.
fn are_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (words, rest) = one.as_chunks();
    let (other_words, other_rest) = other.as_chunks();
    let number = |word: &[u8; 8]| u64::from_ne_bytes(*word);
    words
        .iter()
        .zip(other_words)
        .all(|(one, other)| number(one) == number(other))
        && rest.iter().zip(other_rest).all(|(one, other)| one == other)
}

/// Calls that have ended, for those that begin: one of the same function where there is one, whose arguments are often the
/// same.
#[derive(Default)]
pub struct SpareCalls(Vec<SpareCall>);

struct SpareCall {
    /// The address of its signature, which the call holds.
    function: usize,
    call: Box<OpenCall>,
}

fn address(signature: &Arc<Signature>) -> usize {
    Arc::as_ptr(signature).addr()
}

impl SpareCalls {
    /// A call of that function. Its event still has what an earlier call's had: true if that was of the same
    /// function, with plain arguments.
    pub fn take(&mut self, signature: Arc<Signature>) -> (Box<OpenCall>, bool) {
        if let Some(spare) = self.take_of(&signature) {
            return spare;
        }
        let is_full = self.0.len() >= MOST_SPARE;
        match is_full.then(|| self.0.pop()).flatten() {
            None => (Box::new(OpenCall::new(signature)), false),
            Some(SpareCall { mut call, .. }) => {
                call.signature = signature;
                call.event_mut().status = None;
                (call, false)
            }
        }
    }

    /// The same, if there is one of that function.
    #[inline]
    pub fn take_of(&mut self, signature: &Arc<Signature>) -> Option<(Box<OpenCall>, bool)> {
        let function = address(signature);
        let place = (self.0.iter()).rposition(|spare| spare.function == function)?;
        let call = self.0.swap_remove(place).call;
        let is_plain = call.is_plain;
        Some((call, is_plain))
    }

    /// A range that has begun, by the record that says so.
    pub fn range(
        &mut self,
        signature: Arc<Signature>,
        record: Record,
        range: OpenRange,
    ) -> Box<OpenCall> {
        let (mut call, _) = self.take(signature);
        call.sequence = NO_SEQUENCE;
        call.record = record;
        call.payload.set(None);
        call.is_plain = false;
        (call.hidden, call.caller) = (false, None);
        call.range = Some(range);
        call
    }

    pub fn put_back(&mut self, mut call: Box<OpenCall>) {
        if self.0.len() >= MOST_SPARE || call.payload.bytes.capacity() > MOST_PAYLOAD {
            return;
        }
        call.below.clear();
        call.inner.clear();
        if call.range.take().is_some() {
            call.event_mut().status = None;
        }
        let function = address(&call.signature);
        self.0.push(SpareCall { function, call });
    }
}

/// Makes an event another call's; its arguments and its status stay as they are.
pub fn renew(event: &mut Event, id: u64, signature: &Signature, start: u64) {
    event.id = id;
    event.kind = signature.layer.usual_kind();
    event.layer = signature.layer;
    event.category = signature.category;
    if !Arc::ptr_eq(&event.name, &signature.name) {
        event.name = signature.name.clone();
    }
    event.start = start;
    event.extent = Extent::Open;
    event.cpu = None;
    event.parent = None;
    event.depth = 0;
    event.correlation = None;
    event.ioctl = None;
    event.outputs.clear();
    event.stack.clear();
}
