//! What to read of a function's calls: `cuda::capture`'s plan as steps for the BPF programs, and the
//! way back from what they wrote to the payload that the plan describes.

use super::layout::{
    BODIES, COUNT_BEHIND, CopyStep, MOST_STEPS, MOST_WORDS, NESTED_STRIDE, SPEC_NO_RETURN,
    SPEC_ONE_OUTPUT, STEP_ARRAY, STEP_GATHERED, STEP_MEMORY, STEP_NESTED, STEP_RESULT_TEXT,
    STEP_SUM, STEP_TEXT, STEP_TEXT_BEHIND, Spec, VARYING_MOST, VARYING_ROOM, WORD_STACK,
};
use cuda::capture::{Count, Item, Plan, REGISTER_WORDS, When};

/// Words that a body can begin with.
const WORDS: [usize; 4] = [3, 6, 12, 16];

/// A function's description, and where its parts go.
#[derive(Debug, Clone)]
pub struct Description {
    pub spec: Spec,
    pieces: Vec<PayloadPart>,
    bytes: usize,
    /// Nothing more is known at the return than at the beginning.
    pub complete_at_entry: bool,
    /// Its return is not seen.
    pub entry_only: bool,
}

/// One piece of a payload.
#[derive(Debug, Clone, Copy)]
struct PayloadPart {
    from: From,
    /// Place in the payload.
    to: usize,
    bytes: usize,
}

#[derive(Debug, Clone, Copy)]
enum From {
    Word(usize),
    Result,
    Entry(usize, Form),
    Return(usize, Form),
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Fixed,
    Varying,
    /// Elements of which that many bytes are kept.
    Nested(usize),
}

impl Description {
    /// `words` is how many words of arguments the function has.
    pub fn new(plan: &Plan, words: usize) -> Self {
        let wanted = WORDS.into_iter().find(|count| *count >= words);
        let words = wanted.unwrap_or(MOST_WORDS);
        let mut draft = Draft {
            entry: Half::new(words * 8),
            exit: Half::new(0),
            pieces: Vec::new(),
        };
        for (to, item) in plan.placed() {
            draft.add(to, item);
        }
        let mut spec = Spec {
            words: words as u8,
            enter_class: draft.entry.class(),
            return_class: draft.exit.class(),
            enter_steps: draft.entry.steps.len() as u8,
            return_steps: draft.exit.steps.len() as u8,
            kept: draft.exit.kept(),
            flags: draft.exit.output(),
            ..Spec::default()
        };
        let steps = draft.entry.steps.iter().chain(&draft.exit.steps);
        for (place, step) in spec.steps.iter_mut().zip(steps) {
            *place = *step;
        }
        let late = |piece: &PayloadPart| matches!(piece.from, From::Result | From::Return(..));
        Description {
            spec,
            complete_at_entry: !draft.pieces.iter().any(late),
            pieces: draft.pieces,
            bytes: plan.bytes(),
            entry_only: false,
        }
    }

    /// Only beginnings are reported, and nothing is kept for a return.
    pub fn without_return(&mut self) {
        self.spec.flags &= !SPEC_ONE_OUTPUT;
        self.spec.flags |= SPEC_NO_RETURN;
        self.spec.return_steps = 0;
        self.spec.kept = 0;
        self.entry_only = true;
        self.complete_at_entry = true;
    }

    /// Puts what a call's beginning brought into a payload.
    pub fn enter(&self, body: &[u8], payload: &mut Vec<u8>) {
        payload.resize(self.bytes, 0);
        for piece in &self.pieces {
            match piece.from {
                From::Word(index) => copy(body, index * 8, payload, piece),
                From::Entry(at, form) => piece.put(body, at, form, payload),
                From::Result | From::Return(..) => {}
            }
        }
    }

    /// Adds what its return brought.
    pub fn leave(&self, body: &[u8], result: u64, payload: &mut [u8]) {
        for piece in &self.pieces {
            match piece.from {
                From::Return(at, form) => piece.put(body, at, form, payload),
                From::Result => copy(&result.to_le_bytes(), 0, payload, piece),
                From::Word(_) | From::Entry(..) => {}
            }
        }
    }

    /// Bytes of the payload.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl PayloadPart {
    fn put(&self, body: &[u8], at: usize, form: Form, payload: &mut [u8]) {
        let said = || {
            let bytes = body
                .get(at..at + 8)
                .and_then(|said| said.first_chunk::<8>());
            bytes
                .map_or(0, |said| u64::from_le_bytes(*said) as usize)
                .min(VARYING_MOST)
        };
        match form {
            Form::Fixed => copy(body, at, payload, self),
            Form::Varying => {
                let bytes = said().min(self.bytes);
                copy(body, at + 8, payload, &PayloadPart { bytes, ..*self });
            }
            Form::Nested(kept) => {
                let most = self.bytes.checked_div(kept).unwrap_or(0);
                for element in 0..(said() / NESTED_STRIDE).min(most) {
                    let part = PayloadPart {
                        to: self.to + element * kept,
                        bytes: kept.min(NESTED_STRIDE),
                        ..*self
                    };
                    copy(body, at + 8 + element * NESTED_STRIDE, payload, &part);
                }
            }
        }
    }
}

/// Nothing, where either side is too short: bodies come from the ring.
fn copy(from: &[u8], at: usize, payload: &mut [u8], piece: &PayloadPart) {
    let from = from.get(at..at + piece.bytes);
    let to = payload.get_mut(piece.to..piece.to + piece.bytes);
    if let (Some(from), Some(to)) = (from, to) {
        to.copy_from_slice(from);
    }
}

struct Draft {
    entry: Half,
    exit: Half,
    pieces: Vec<PayloadPart>,
}

/// What is read at one of the two moments.
struct Half {
    steps: Vec<CopyStep>,
    used: usize,
}

impl Half {
    fn new(used: usize) -> Self {
        Half {
            steps: Vec::new(),
            used,
        }
    }

    fn class(&self) -> u8 {
        let class = BODIES.iter().position(|bytes| *bytes >= self.used);
        class.unwrap_or(BODIES.len() - 1) as u8
    }

    /// 1 + the word that all steps go by: kernels that keep something of a call keep one.
    fn kept(&self) -> u8 {
        let first = self.steps.first().map_or(WORD_STACK, |step| step.word);
        let by_first = |step: &CopyStep| {
            let alone = matches!(step.op, STEP_MEMORY | STEP_TEXT | STEP_TEXT_BEHIND);
            alone && step.word == first
        };
        let same = usize::from(first) < MOST_WORDS && self.steps.iter().all(by_first);
        if same { first + 1 } else { 0 }
    }

    /// What most calls with outputs have is read without a loop.
    fn output(&self) -> u8 {
        match self.steps[..] {
            [step] if step.op == STEP_MEMORY && matches!(step.length, 4 | 8) && self.kept() > 0 => {
                SPEC_ONE_OUTPUT
            }
            _ => 0,
        }
    }

    fn has_room(&self, steps: usize, bytes: usize) -> bool {
        self.steps.len() + steps <= MOST_STEPS / 2 && self.used + bytes <= BODIES[BODIES.len() - 1]
    }
}

impl Draft {
    fn half(&mut self, at: When) -> &mut Half {
        match at {
            When::Enter => &mut self.entry,
            When::Exit => &mut self.exit,
        }
    }

    fn add(&mut self, to: usize, item: Item) {
        let piece = |from| PayloadPart {
            from,
            to,
            bytes: item.bytes(),
        };
        match item {
            Item::Arg { index } if usize::from(index) < MOST_WORDS => {
                self.pieces.push(piece(From::Word(index.into())));
            }
            // Above the return address.
            Item::Arg { index } => {
                let offset = 8 * (usize::from(index) - REGISTER_WORDS + 1);
                self.memory(to, WORD_STACK, offset, 8, When::Enter);
            }
            Item::Vector { .. } => {}
            Item::Memory {
                arg,
                offset,
                bytes,
                at,
            } => self.memory(to, arg, offset.into(), bytes.into(), at),
            Item::Returned => self.pieces.push(piece(From::Result)),
            Item::Text { arg, at, .. } => self.varying(&piece, at, step(STEP_TEXT, arg)),
            Item::TextBehind { arg, .. } => {
                self.varying(&piece, When::Exit, step(STEP_TEXT_BEHIND, arg));
            }
            Item::ReturnedText { .. } => {
                self.varying(&piece, When::Exit, step(STEP_RESULT_TEXT, 0));
            }
            Item::Array {
                arg,
                stride,
                bytes,
                count,
                at,
            } => {
                let one = CopyStep {
                    stride,
                    length: bytes,
                    ..counted(STEP_ARRAY, arg, count)
                };
                self.varying(&piece, at, one);
            }
            Item::Sum { arg, count } => {
                self.varying(&piece, When::Enter, counted(STEP_SUM, arg, count));
            }
            Item::Gathered { arg, count, .. } => {
                self.varying(&piece, When::Exit, counted(STEP_GATHERED, arg, count));
            }
            Item::Nested {
                arg,
                pointer,
                count,
                count_bytes,
                stride,
                kept,
                ..
            } => {
                let one = CopyStep {
                    offset: pointer,
                    count_offset: count,
                    count_bytes,
                    stride,
                    kept,
                    ..step(STEP_NESTED, arg)
                };
                if let Some(at) = self.place(When::Enter, one) {
                    let from = From::Entry(at, Form::Nested(kept.into()));
                    self.pieces.push(piece(from));
                }
            }
        }
    }

    /// In powers of two: that is what the programs can copy.
    fn memory(&mut self, to: usize, word: u8, offset: usize, bytes: usize, at: When) {
        let parts = bytes / 128 + (bytes % 128).count_ones() as usize;
        let half = self.half(at);
        if !half.has_room(parts, bytes) {
            return;
        }
        let mut done = 0;
        while done < bytes {
            let length = (1 << (bytes - done).ilog2()).min(128);
            let half = self.half(at);
            let place = half.used;
            half.steps.push(CopyStep {
                offset: (offset + done) as u16,
                length: length as u16,
                at: place as u16,
                ..step(STEP_MEMORY, word)
            });
            half.used += length;
            self.pieces.push(PayloadPart {
                from: match at {
                    When::Enter => From::Entry(place, Form::Fixed),
                    When::Exit => From::Return(place, Form::Fixed),
                },
                to: to + done,
                bytes: length,
            });
            done += length;
        }
    }

    fn varying(&mut self, piece: &dyn Fn(From) -> PayloadPart, at: When, step: CopyStep) {
        if let Some(place) = self.place(at, step) {
            self.pieces.push(piece(match at {
                When::Enter => From::Entry(place, Form::Varying),
                When::Exit => From::Return(place, Form::Varying),
            }));
        }
    }

    /// Room for a piece whose length varies, if there is any left.
    fn place(&mut self, at: When, step: CopyStep) -> Option<usize> {
        let half = self.half(at);
        let place = half.used.next_multiple_of(8);
        if !half.has_room(1, VARYING_ROOM + 8) {
            return None;
        }
        half.steps.push(CopyStep {
            at: place as u16,
            ..step
        });
        half.used = place + VARYING_ROOM;
        Some(place)
    }
}

fn step(op: u8, word: u8) -> CopyStep {
    CopyStep {
        op,
        word,
        ..CopyStep::default()
    }
}

fn counted(op: u8, word: u8, count: Count) -> CopyStep {
    CopyStep {
        count_word: count.word,
        count_bytes: count.bytes | if count.behind { COUNT_BEHIND } else { 0 },
        ..step(op, word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda::capture::{argument_words, plan};

    fn described(name: &str) -> (Plan, Description) {
        let plan = plan(name, None).without_vectors();
        let words = argument_words(name, None);
        (plan, Description::new(&plan, words))
    }

    #[test]
    fn plain_calls_take_the_shortest_records() {
        let (_, init) = described("cuInit");
        assert_eq!((init.spec.words, init.spec.enter_class), (3, 0));
        assert!(init.complete_at_entry && init.spec.return_steps == 0);
        let (_, launch) = described("cuLaunchKernel");
        assert_eq!((launch.spec.words, launch.spec.enter_class), (12, 2));
        assert!(launch.complete_at_entry);
        let (_, alloc) = described("cuMemAlloc_v2");
        assert_eq!((alloc.spec.return_steps, alloc.spec.return_class), (1, 0));
        assert_eq!(alloc.spec.steps[0].length, 8);
        assert_eq!((alloc.spec.kept, alloc.spec.flags), (1, SPEC_ONE_OUTPUT));
        let (_, count) = described("cuDeviceGetCount");
        assert_eq!((count.spec.kept, count.spec.flags), (1, SPEC_ONE_OUTPUT));
        // Two outputs go by two words.
        let (_, info) = described("cuMemGetInfo_v2");
        assert_eq!((info.spec.return_steps, info.spec.kept), (2, 0));
        assert_eq!((init.spec.kept, init.spec.flags), (0, 0));
    }

    #[test]
    fn payloads_are_put_together_as_the_plan_says() {
        let (plan, get) = described("cuModuleGetFunction");
        let mut body = vec![0u8; 448];
        for (index, word) in [0x7ffc_u64, 0x10, 0x500].iter().enumerate() {
            body[index * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        body[24..32].copy_from_slice(&7u64.to_le_bytes());
        body[32..39].copy_from_slice(b"vecAdd\0");
        // What an earlier record left there is not part of the text.
        body[39..60].fill(b'x');
        let mut payload = Vec::new();
        get.enter(&body, &mut payload);
        get.leave(&0x99u64.to_le_bytes(), 0, &mut payload);
        assert_eq!(payload.len(), plan.bytes());
        assert_eq!(payload[..8], 0x99u64.to_le_bytes());
        assert_eq!(&payload[8..15], b"vecAdd\0");
        assert!(payload[15..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn every_function_fits_or_is_cut_and_takes_any_record() {
        let mut cut = Vec::new();
        for function in cuda::functions().iter().chain(cuda::older_functions()) {
            let (plan, description) = described(function.name);
            let spec = &description.spec;
            let steps = usize::from(spec.enter_steps) + usize::from(spec.return_steps);
            assert!(steps <= MOST_STEPS, "{}", function.name);
            let covered: usize = description.pieces.iter().map(|piece| piece.bytes).sum();
            if covered != plan.bytes() {
                cut.push(function.name);
            }
            for (place, step) in spec.steps[..steps].iter().enumerate() {
                let class = if place < spec.enter_steps.into() {
                    spec.enter_class
                } else {
                    spec.return_class
                };
                let room = if step.op == STEP_MEMORY {
                    step.length.into()
                } else {
                    VARYING_ROOM
                };
                let end = usize::from(step.at) + room;
                assert!(end <= BODIES[usize::from(class)], "{}", function.name);
            }
            for length in [0, 7, 40, 300, 1024] {
                let mut payload = Vec::new();
                description.enter(&vec![0xff; length], &mut payload);
                description.leave(&vec![0xff; length], u64::MAX, &mut payload);
            }
        }
        // Everything that preload captures of a call is captured here too.
        assert_eq!(cut, Vec::<&str>::new());
    }
}
