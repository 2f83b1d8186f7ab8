//! A hook as the kernel's programs understand it, and the way back from what they wrote.

use crate::ebpf::layout::{
    AGGREGATE_COUNT, AGGREGATE_HISTOGRAM, BODIES, COMPARE_EQUAL, COMPARE_GREATER,
    COMPARE_GREATER_OR_EQUAL, COMPARE_LESS, COMPARE_LESS_OR_EQUAL, COMPARE_MASK, COMPARE_UNEQUAL,
    Condition as Compiled, CopyStep, MEASURE_BODY, MEASURE_DURATION, MEASURE_RESULT, MEASURE_WORD,
    MOST_CONDITIONS, MOST_STEPS, SPEC_AT_RETURN, SPEC_EVERYWHERE, SPEC_INSTANT, SPEC_STACK,
    STEP_MEMORY, STEP_POINT_TEXT, STEP_TEXT, STEP_TEXT_BEHIND, Spec, VARYING_MOST, VARYING_ROOM,
};
use crate::hooks::{
    Aggregate, Argument, Compare, Condition, CopiedAt, Format, Hook, Measure, ValueOrigin,
};
use crate::kernel::Tracepoint;
use event::{Arg, Name, Value};

/// Words that a body can begin with.
const WORDS: [usize; 3] = [3, 6, 12];
/// Of the classes of bodies, those that these programs write.
const CLASSES: [usize; 2] = [2, 5];

/// What is copied of a hook's calls.
#[derive(Debug, Clone)]
pub struct Shape {
    pub spec: Spec,
    pieces: Vec<CopiedValue>,
}

#[derive(Debug, Clone)]
struct CopiedValue {
    name: Name,
    format: Format,
    from: From,
    /// The argument that it is, or that it is read by.
    word: Option<u8>,
    hidden: bool,
}

#[derive(Debug, Clone, Copy)]
enum From {
    /// At a place of the beginning's body.
    Entry(usize),
    EntryText(usize),
    Return(usize),
    ReturnText(usize),
    Result,
    /// Why a thread left the processor, in place of a result.
    State,
}

/// Why a hook cannot be put this way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    #[error("the tracepoint has no field {0}; it has {1}")]
    NoField(String, String),
    #[error("field {0} is {1} bytes long: only numbers and strings can be read")]
    OddField(String, u16),
    #[error("its arguments do not fit into one record")]
    TooMuch,
    #[error("its condition uses '{0}', which this kind of probe does not provide")]
    NotThere(String),
}

impl Shape {
    /// Of threads that leave the processor: why comes in place of a result.
    pub fn of_switches() -> Self {
        let spec = Spec {
            flags: SPEC_INSTANT,
            ..Spec::default()
        };
        let state = CopiedValue {
            name: "state".into(),
            format: Format::Text,
            from: From::State,
            word: None,
            hidden: false,
        };
        Shape {
            spec,
            pieces: vec![state],
        }
    }

    /// For a function, seen at its beginning and perhaps its return; `only_return` otherwise.
    pub fn of_function(hook: &Hook, only_return: bool) -> Result<Self, ShapeError> {
        let most = (hook.arguments.iter())
            .filter_map(|argument| match argument.source {
                ValueOrigin::Argument(number) => Some(usize::from(number) + 1),
                _ => None,
            })
            .max();
        let words = WORDS.into_iter().find(|words| *words >= most.unwrap_or(0));
        let mut draft = Draft::new(words.unwrap_or(12));
        for argument in &hook.arguments {
            let word = match argument.source {
                ValueOrigin::Argument(number) => number,
                ValueOrigin::Returned if only_return => 0,
                // A number that is returned comes in the record's head.
                _ => {
                    draft.piece(argument, From::Result);
                    continue;
                }
            };
            draft.argument(argument, word, only_return)?;
        }
        let flags = match (hook.time, only_return) {
            (_, true) => SPEC_AT_RETURN,
            (true, false) => 0,
            (false, false) => SPEC_INSTANT,
        };
        draft.finish(hook, flags)
    }

    /// The words of a call that something is read of or by.
    pub fn words_read(&self) -> Vec<usize> {
        let words = self.pieces.iter().filter_map(|piece| piece.word);
        let mut words: Vec<usize> = words.map(usize::from).collect();
        words.sort_unstable();
        words.dedup();
        words
    }

    /// A word is not available here: what would be read by it is not shown.
    pub fn leave_out(&mut self, word: usize) {
        let pieces = self.pieces.iter_mut();
        let by_it = pieces.filter(|piece| piece.word.map(usize::from) == Some(word));
        by_it.for_each(|piece| piece.hidden = true);
    }

    /// For a tracepoint.
    pub fn of_tracepoint(hook: &Hook, point: &Tracepoint) -> Result<Self, ShapeError> {
        let mut draft = Draft::new(3);
        for argument in &hook.arguments {
            let ValueOrigin::Field(name) = &argument.source else {
                // Conditions count arguments: none may be missing before theirs.
                if hook.condition.is_some() {
                    return Err(ShapeError::NotThere(argument.name.clone()));
                }
                continue;
            };
            let Some(field) = point.field(name) else {
                let names: Vec<&str> = point.own_fields().map(|f| f.name.as_str()).collect();
                return Err(ShapeError::NoField(name.clone(), names.join(", ")));
            };
            let step = CopyStep {
                offset: field.offset,
                length: field.size,
                ..CopyStep::default()
            };
            let op = match (argument.format, field.is_varying_text(), field.is_text()) {
                (Format::Text, true, _) => STEP_POINT_TEXT,
                (Format::Text, _, true) => STEP_TEXT,
                (Format::Text, ..) => STEP_TEXT_BEHIND,
                _ if [1, 2, 4, 8].contains(&field.size) => STEP_MEMORY,
                _ => return Err(ShapeError::OddField(name.clone(), field.size)),
            };
            let step = CopyStep { op, ..step };
            // The field's own width counts, not what the file says about it.
            let bits = (field.size * 8) as u8;
            let argument = Argument {
                format: match argument.format {
                    Format::Unsigned(_) => Format::Unsigned(bits),
                    Format::Signed(_) => Format::Signed(bits),
                    other => other,
                },
                ..argument.clone()
            };
            draft.step(&argument, step, false)?;
        }
        draft.finish(hook, SPEC_INSTANT)
    }

    /// What a beginning's (or an instant's) body says.
    pub fn arguments(&self, body: &[u8], result: u64) -> Vec<Arg> {
        let instant = self.spec.flags & (SPEC_INSTANT | SPEC_AT_RETURN) != 0;
        self.read(|from| match from {
            From::Entry(at) => Some(CapturedValue::Number(bytes(body, at))),
            From::EntryText(at) => Some(CapturedValue::Text(text(body, at))),
            From::Result if instant => Some(CapturedValue::Number(result)),
            From::State => Some(CapturedValue::Text(state(result).as_bytes())),
            _ => None,
        })
    }

    /// What a return brings.
    pub fn outputs(&self, body: &[u8], result: u64) -> Vec<Arg> {
        self.read(|from| match from {
            From::Return(at) if !body.is_empty() => Some(CapturedValue::Number(bytes(body, at))),
            From::ReturnText(at) if !body.is_empty() => Some(CapturedValue::Text(text(body, at))),
            From::Result => Some(CapturedValue::Number(result)),
            _ => None,
        })
    }

    fn read<'a>(&self, find: impl Fn(From) -> Option<CapturedValue<'a>>) -> Vec<Arg> {
        let pieces = self.pieces.iter().filter(|piece| !piece.hidden);
        let found = pieces.filter_map(|piece| {
            let value = match find(piece.from)? {
                CapturedValue::Number(number) => shown(number, piece.format),
                CapturedValue::Text(text) => Value::from(&*String::from_utf8_lossy(text)),
            };
            Some(Arg::new(piece.name.clone(), value))
        });
        found.collect()
    }
}

/// A thread's state when it left the processor.
fn state(number: u64) -> &'static str {
    match number & 0xff {
        0 => "preempted",
        1 => "sleeping",
        2 => "uninterruptible",
        _ => "other",
    }
}

enum CapturedValue<'a> {
    Number(u64),
    Text(&'a [u8]),
}

fn shown(number: u64, format: Format) -> Value {
    match format {
        Format::Pointer | Format::Text => Value::Pointer(number),
        Format::Unsigned(bits) => Value::from(number & (u64::MAX >> (64 - u32::from(bits)))),
        Format::Signed(bits) => {
            let unused = 64 - u32::from(bits);
            Value::from(((number << unused) as i64) >> unused)
        }
    }
}

/// Bodies come from the ring: nothing, where they are too short.
fn bytes(body: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    let rest = body.get(at..).unwrap_or_default();
    let length = rest.len().min(8);
    word[..length].copy_from_slice(&rest[..length]);
    u64::from_le_bytes(word)
}

fn text(body: &[u8], at: usize) -> &[u8] {
    let said = (bytes(body, at) as usize).min(VARYING_MOST);
    let text = body.get(at + 8..at + 8 + said).unwrap_or_default();
    let end = text.iter().position(|byte| *byte == 0);
    &text[..end.unwrap_or(text.len())]
}

struct Draft {
    words: usize,
    entry: Half,
    exit: Half,
    pieces: Vec<CopiedValue>,
    /// Where each of the hook's arguments is in the beginning's body.
    places: Vec<Option<usize>>,
}

struct Half {
    steps: Vec<CopyStep>,
    used: usize,
}

impl Draft {
    fn new(words: usize) -> Self {
        let half = |used| Half {
            steps: Vec::new(),
            used,
        };
        Draft {
            words,
            entry: half(words * 8),
            exit: half(0),
            pieces: Vec::new(),
            places: Vec::new(),
        }
    }

    fn piece(&mut self, argument: &Argument, from: From) {
        self.places.push(match from {
            From::Entry(at) | From::EntryText(at) => Some(at),
            From::Return(_) | From::ReturnText(_) | From::Result | From::State => None,
        });
        self.pieces.push(CopiedValue {
            name: argument.name.as_str().into(),
            format: argument.format,
            from,
            word: match argument.source {
                ValueOrigin::Argument(word) => Some(word),
                ValueOrigin::Returned | ValueOrigin::Field(_) => None,
            },
            hidden: argument.hidden,
        });
    }

    fn argument(&mut self, argument: &Argument, word: u8, late: bool) -> Result<(), ShapeError> {
        let at_return = argument.place == CopiedAt::Return && !late;
        let op = match (argument.format, argument.pointed) {
            (Format::Text, None) => STEP_TEXT,
            (Format::Text, Some(_)) => STEP_TEXT_BEHIND,
            (_, Some(_)) => STEP_MEMORY,
            (_, None) => {
                self.piece(argument, From::Entry(usize::from(word) * 8));
                return Ok(());
            }
        };
        let step = CopyStep {
            op,
            word,
            offset: argument.pointed.unwrap_or(0),
            length: argument.format.size().into(),
            ..CopyStep::default()
        };
        self.step(argument, step, at_return)
    }

    fn step(&mut self, argument: &Argument, step: CopyStep, late: bool) -> Result<(), ShapeError> {
        let half = if late {
            &mut self.exit
        } else {
            &mut self.entry
        };
        let varies = step.op != STEP_MEMORY;
        let at = half.used.next_multiple_of(8);
        half.used = at + if varies { VARYING_ROOM } else { 8 };
        half.steps.push(CopyStep {
            at: at as u16,
            ..step
        });
        let from = match (late, varies) {
            (false, false) => From::Entry(at),
            (false, true) => From::EntryText(at),
            (true, false) => From::Return(at),
            (true, true) => From::ReturnText(at),
        };
        self.piece(argument, from);
        Ok(())
    }

    fn finish(self, hook: &Hook, flags: u8) -> Result<Shape, ShapeError> {
        let class = |used: usize| {
            let fits = CLASSES.into_iter().find(|class| BODIES[*class] >= used);
            fits.map(|class| class as u8).ok_or(ShapeError::TooMuch)
        };
        let mut spec = Spec {
            words: self.words as u8,
            enter_class: class(self.entry.used)?,
            return_class: class(self.exit.used)?,
            enter_steps: self.entry.steps.len() as u8,
            return_steps: self.exit.steps.len() as u8,
            flags: flags
                | if hook.everywhere { SPEC_EVERYWHERE } else { 0 }
                | if hook.stack { SPEC_STACK } else { 0 },
            ..Spec::default()
        };
        if self.entry.steps.len() + self.exit.steps.len() > MOST_STEPS {
            return Err(ShapeError::TooMuch);
        }
        let steps = self.entry.steps.iter().chain(&self.exit.steps);
        for (place, step) in spec.steps.iter_mut().zip(steps) {
            *place = *step;
        }
        if let Some(condition) = &hook.condition {
            let compiled = compiled(condition, &self.places, &self.pieces)?;
            if compiled.len() > MOST_CONDITIONS {
                return Err(ShapeError::TooMuch);
            }
            spec.conditions = compiled.len() as u8;
            for (place, one) in spec.when.iter_mut().zip(compiled) {
                *place = one;
            }
        }
        if let Some(aggregate) = &hook.aggregate {
            self.aggregate(aggregate, hook, &mut spec)?;
        }
        Ok(Shape {
            spec,
            pieces: self.pieces,
        })
    }

    /// Has the kernel's programs compute instead of recording.
    fn aggregate(
        &self,
        aggregate: &Aggregate,
        hook: &Hook,
        spec: &mut Spec,
    ) -> Result<(), ShapeError> {
        let at_return = hook.probes.iter().all(|probe| probe.way.is_return());
        spec.width = 8;
        let measure = match aggregate {
            Aggregate::Count => {
                spec.aggregate = AGGREGATE_COUNT;
                if at_return {
                    spec.measure = MEASURE_RESULT;
                }
                return Ok(());
            }
            Aggregate::Histogram(measure) => measure,
        };
        spec.aggregate = AGGREGATE_HISTOGRAM;
        let Measure::Argument(place) = measure else {
            spec.measure = MEASURE_DURATION;
            return Ok(());
        };
        let piece = (self.pieces.get(*place))
            .ok_or_else(|| ShapeError::NotThere(aggregate.title(&hook.arguments)))?;
        spec.width = piece.format.size();
        spec.is_signed = piece.format.is_signed().into();
        (spec.measure, spec.measured) = match (piece.from, piece.word) {
            (From::Result, _) => (MEASURE_RESULT, 0),
            // A number that is returned lies where the first argument would.
            (From::Entry(_), None) if at_return => (MEASURE_RESULT, 0),
            (From::Entry(at), Some(word)) if at == usize::from(word) * 8 => {
                (MEASURE_WORD, word.into())
            }
            (From::Entry(at), _) => (MEASURE_BODY, at as u16),
            _ => return Err(ShapeError::NotThere(piece.name.to_string())),
        };
        Ok(())
    }
}

fn compiled(
    condition: &Condition,
    places: &[Option<usize>],
    pieces: &[CopiedValue],
) -> Result<Vec<Compiled>, ShapeError> {
    let mut found = Vec::new();
    for alternative in &condition.alternatives {
        for (place, term) in alternative.iter().enumerate() {
            if term.mask != u64::MAX {
                found.push(Compiled {
                    compare: COMPARE_MASK,
                    value: term.mask,
                    ..Compiled::default()
                });
            }
            let text = matches!(pieces[term.argument].format, Format::Text);
            let place_of_it = places[term.argument]
                .ok_or_else(|| ShapeError::NotThere(pieces[term.argument].name.to_string()))?;
            let start = place_of_it + if text { 8 } else { 0 };
            found.push(Compiled {
                at: (start + term.offset) as u16,
                width: pieces[term.argument].format.size(),
                compare: match term.compare {
                    Compare::Equal => COMPARE_EQUAL,
                    Compare::Different => COMPARE_UNEQUAL,
                    Compare::Less => COMPARE_LESS,
                    Compare::LessOrEqual => COMPARE_LESS_OR_EQUAL,
                    Compare::Greater => COMPARE_GREATER,
                    Compare::GreaterOrEqual => COMPARE_GREATER_OR_EQUAL,
                },
                is_signed: term.signed.into(),
                last: (place + 1 == alternative.len()).into(),
                reserved: [0; 2],
                value: term.value,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Hooks;

    fn hook(text: &str) -> Hook {
        let text = format!("[[hook]]\n{text}\n");
        let hooks = Hooks::parse(&text).unwrap_or_else(|error| panic!("{}", error.show("it")));
        hooks.hooks[0].clone()
    }

    #[test]
    fn words_pieces_and_conditions() {
        let hook = hook(
            r#"probe = "kprobe:f"
time = true
args = { size = "arg1:u32", name = "arg2:str", dev = "*arg0+16:i16", out = "*arg3:ptr@return", r = "retval:i32" }
when = "size > 4096 || (dev & 3) == 1""#,
        );
        let shape = Shape::of_function(&hook, false).unwrap();
        let spec = &shape.spec;
        assert_eq!((spec.words, spec.enter_steps, spec.return_steps), (6, 2, 1));
        assert_eq!((spec.enter_class, spec.return_class, spec.flags), (5, 2, 0));
        assert_eq!(spec.conditions, 3);
        assert_eq!(
            (spec.when[0].at, spec.when[0].width, spec.when[0].last),
            (8, 4, 1)
        );
        assert_eq!(
            (spec.when[1].compare, spec.when[1].value),
            (COMPARE_MASK, 3)
        );
        assert_eq!(
            (spec.when[2].at, spec.when[2].width, spec.when[2].last),
            (304, 2, 1)
        );

        let mut body = vec![0u8; 1024];
        body[8..16].copy_from_slice(&0xffff_ffff_0000_2000u64.to_le_bytes());
        body[48..56].copy_from_slice(&5u64.to_le_bytes());
        body[56..61].copy_from_slice(b"abcd\0");
        body[304..306].copy_from_slice(&(-2i16).to_le_bytes());
        let shown = shape.arguments(&body, 0);
        let expected = [
            Arg::new("size", 0x2000u64),
            Arg::new("name", "abcd"),
            Arg::new("dev", -2i64),
        ];
        assert_eq!(shown, expected);
        let outputs = shape.outputs(&0x77u64.to_le_bytes(), 0xffff_fff0);
        assert_eq!(
            outputs,
            [Arg::new("out", Value::Pointer(0x77)), Arg::new("r", -16i64)]
        );
        // Whatever the ring brings is no more than a wrong value.
        for length in 0..64 {
            let _ = (
                shape.arguments(&body[..length], 0),
                shape.outputs(&body[..length], 0),
            );
        }
    }

    #[test]
    fn tracepoints_have_fields() {
        let point = Tracepoint::parse(
            "ID: 7\n field:int irq;\toffset:8;\tsize:4;\tsigned:1;\n field:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n",
        )
        .unwrap();
        let written = hook(
            "probe = \"tracepoint:irq:irq_handler_entry\"\nargs = { irq = \"irq\", name = \"name:str\" }\nwhen = 'name == \"nvidia\"'",
        );
        let shape = Shape::of_tracepoint(&written, &point).unwrap();
        assert_eq!(shape.spec.steps[0].length, 4);
        assert_eq!(shape.spec.steps[1].op, STEP_POINT_TEXT);
        let when = &shape.spec.when[..2];
        assert_eq!(when[0].value, 0x00ff_ffff_ffff_ffff);
        assert_eq!(when[1].value.to_le_bytes(), *b"nvidia\0\0");
        assert_eq!(
            usize::from(when[1].at),
            usize::from(shape.spec.steps[1].at) + 8
        );
        let wrong = hook("probe = \"tracepoint:irq:x\"\nargs = { a = \"nothing\" }");
        let error = Shape::of_tracepoint(&wrong, &point).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the tracepoint has no field nothing; it has irq, name"
        );
    }

    #[test]
    fn a_condition_on_what_a_probe_does_not_bring_is_refused() {
        let point = hook(
            r#"probe = "tracepoint:irq:irq_handler_entry"
args = { name = "name:str" }
when = 'name == "nvidia*"'"#,
        );
        let refused = Shape::of_function(&point, false).map(|_| ());
        assert!(
            matches!(&refused, Err(ShapeError::NotThere(name)) if name == "name"),
            "{refused:?}"
        );
    }

    #[test]
    fn a_return_alone_has_its_result() {
        let hook = hook("probe = \"kretprobe:f\"\nargs = { r = \"retval:i32\" }\nwhen = \"r < 0\"");
        let shape = Shape::of_function(&hook, true).unwrap();
        assert_eq!(shape.spec.flags, SPEC_AT_RETURN);
        assert_eq!(
            (shape.spec.when[0].at, shape.spec.when[0].is_signed),
            (0, 1)
        );
        let body = (-5i64).to_le_bytes();
        assert_eq!(shape.arguments(&body, 0), [Arg::new("r", -5i64)]);
    }
}
