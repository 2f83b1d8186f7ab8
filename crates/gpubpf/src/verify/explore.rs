//! The walk over all paths.

use super::facts::{AccessedMemory, Facts, FrameUse};
use super::liveness::{self, Live};
use super::refused::{Reason, Refused};
use super::relevance::Relevance;
use super::state::State;
use super::value::{Pointer, Region, Value};
use super::{Output, Verified};
use crate::instruction::{Callee, Operation, Wide};
use crate::object::{Object, Program};

/// Instructions looked at before a program counts as too complex.
const MOST_STEPS: u64 = 1_000_000;
/// Functions that may be under way at once.
const DEEPEST: usize = 8;
/// States kept at one place before they are thinned out.
const KEPT_STATES: usize = 64;
/// States at one place that are told apart by numbers that do not matter.
const EXACT_STATES: usize = 3;
const SPARSE_STEPS: u32 = 256;

/// What breaks a rule: the reason and its words.
pub(super) type Trouble = (Reason, String);
pub(super) type Checked<T = ()> = Result<T, Trouble>;

/// Checks a program; what it refuses must not run.
pub fn verify<'a>(object: &'a Object, program: &'a Program) -> Result<Verified<'a>, Box<Refused>> {
    verify_within(object, program, MOST_STEPS)
}

/// As [`verify`]; but where nobody can tell how often loops go round, the program may run if it is
/// stopped after a number of rounds, as [`crate::translate`] then sees to ([`Verified::is_budgeted`]).
pub fn verify_or_budget<'a>(
    object: &'a Object,
    program: &'a Program,
) -> Result<Verified<'a>, Box<Refused>> {
    verify_or_budget_within(object, program, MOST_STEPS)
}

/// As [`verify_or_budget`], but gives up after looking at fewer instructions.
pub fn verify_or_budget_within<'a>(
    object: &'a Object,
    program: &'a Program,
    most_steps: u64,
) -> Result<Verified<'a>, Box<Refused>> {
    let is_about_loops =
        |refused: &Refused| matches!(refused.reason, Reason::UnboundedLoop | Reason::TooComplex);
    match verify_within(object, program, most_steps) {
        Err(first) if is_about_loops(&first) => look(Walk::new(object, program, true), most_steps)
            .map_err(|second| match is_about_loops(&second) {
                true => first,
                false => second,
            }),
        outcome => outcome,
    }
}

/// As [`verify`], but gives up (as too complex) after looking at fewer instructions.
pub fn verify_within<'a>(
    object: &'a Object,
    program: &'a Program,
    most_steps: u64,
) -> Result<Verified<'a>, Box<Refused>> {
    look(Walk::new(object, program, false), most_steps)
}

fn look<'a>(mut walk: Walk<'a>, most_steps: u64) -> Result<Verified<'a>, Box<Refused>> {
    let (object, program) = (walk.object, walk.program);
    walk.most_steps = most_steps.min(MOST_STEPS);
    let refuse = |at, (reason, text): Trouble| Box::new(Refused::new(program, at, reason, text));
    walk.check_shape()
        .map_err(|(at, trouble)| refuse(at, trouble))?;
    walk.run().map_err(|(at, trouble)| refuse(at, trouble))?;
    walk.check_ways_out()
        .map_err(|(at, trouble)| refuse(at, trouble))?;
    walk.check_atomics()
        .map_err(|(at, trouble)| refuse(at, trouble))?;
    walk.check_texts()
        .map_err(|(at, trouble)| refuse(at, trouble))?;
    walk.check_stack().map_err(|trouble| refuse(0, trouble))?;
    Ok(Verified {
        object,
        program,
        context_bytes: walk.context_bytes,
        is_budgeted: walk.is_budgeted && walk.goes_round(),
        longest_path: walk.nodes[0].longest,
        looked_at: walk.steps,
        texts: walk.texts,
        outputs: walk.outputs,
        facts: walk.facts,
    })
}

/// A state that was reached, to compare later ones with.
struct Node {
    state: State,
    parent: Option<usize>,
    /// Paths below that have not ended: while there are, this state is on the way to the present one.
    open: u32,
    /// Instructions since the parent.
    distance: u64,
    /// The most instructions from here to an end.
    longest: u64,
}

/// A path to walk.
pub(super) struct Path {
    pub state: State,
    pub at: usize,
    node: usize,
    distance: u64,
}

pub(super) struct Walk<'a> {
    pub object: &'a Object,
    pub program: &'a Program,
    pub facts: Facts,
    pub context_bytes: u32,
    pub texts: Vec<String>,
    pub outputs: Vec<Output>,
    /// Function by number: position → which one it is.
    function_of: Vec<usize>,
    /// Functions under way, as the present path's frames.
    pub lookups: u32,
    live: Vec<Live>,
    pub(super) relevance: Relevance,
    is_target: Vec<bool>,
    /// Jumps lead back to here: every loop comes by at such a place.
    pub(super) is_head: Vec<bool>,
    /// Loops are stopped when a thread runs, so their end need not be known.
    pub(super) is_budgeted: bool,
    nodes: Vec<Node>,
    seen: Vec<Vec<usize>>,
    steps: u64,
    most_steps: u64,
    paths: Vec<Path>,
}

/// What an instruction does to its path.
pub(super) enum Next {
    At(usize),
    /// Both ways; the second is walked later.
    Fork(usize, Box<State>, usize),
    End,
}

impl<'a> Walk<'a> {
    fn new(object: &'a Object, program: &'a Program, is_budgeted: bool) -> Walk<'a> {
        let code = &program.instructions;
        let mut function_of = vec![0; code.len()];
        for (number, function) in program.functions.iter().enumerate() {
            for place in &mut function_of[function.start..function.end] {
                *place = number;
            }
        }
        let mut is_target = vec![false; code.len()];
        let mut is_head = vec![false; code.len()];
        for (at, instruction) in code.iter().enumerate() {
            if let Some(target) = instruction.operation.target() {
                is_target[target] = true;
                is_head[target] |= target <= at;
            }
        }
        Walk {
            object,
            program,
            facts: Facts {
                reached: vec![false; code.len()],
                frames: vec![FrameUse::default(); program.functions.len()],
                ..Facts::default()
            },
            context_bytes: 0,
            texts: Vec::new(),
            outputs: Vec::new(),
            function_of,
            lookups: 0,
            live: liveness::registers(code),
            relevance: Relevance::new(code, &program.functions, !is_budgeted),
            is_target,
            is_head,
            is_budgeted,
            nodes: Vec::new(),
            seen: vec![Vec::new(); code.len()],
            steps: 0,
            most_steps: MOST_STEPS,
            paths: Vec::new(),
        }
    }

    /// Jumps stay inside their function, functions end, calls reach functions, maps exist.
    fn check_shape(&self) -> Result<(), (usize, Trouble)> {
        for function in &self.program.functions {
            if function.start == function.end {
                return Err((
                    function.start,
                    (Reason::BadJump, "an empty function".into()),
                ));
            }
            for at in function.start..function.end {
                let operation = &self.program.instructions[at].operation;
                let bad = |text: &str| Err((at, (Reason::BadJump, text.to_owned())));
                if let Some(target) = operation.target()
                    && !(function.start..function.end).contains(&target)
                {
                    return bad("a jump leaves the function");
                }
                if at + 1 == function.end && !operation.ends() {
                    return bad("the function ends without exit");
                }
                if let Operation::Call(Callee::Function(target)) = *operation
                    && !self.program.functions.iter().any(|f| f.start == target)
                {
                    return bad("a call to something that is not a function");
                }
                if let Operation::Constant {
                    value: Wide::Map(map) | Wide::MapValue { map, .. },
                    ..
                } = *operation
                    && map >= self.object.maps.len()
                {
                    return Err((at, (Reason::BadMap, format!("there is no map {map}"))));
                }
            }
        }
        if self.program.functions.is_empty() {
            return Err((0, (Reason::BadJump, "the program is empty".into())));
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), (usize, Trouble)> {
        let start = self.program.functions[0].start;
        self.nodes.push(Node {
            state: State::start(),
            parent: None,
            open: 1,
            distance: 0,
            longest: 0,
        });
        self.seen[start].push(0);
        let mut next = Some(Path {
            state: State::start(),
            at: start,
            node: 0,
            distance: 0,
        });
        let mut at_start = true;
        while let Some(mut path) = next {
            loop {
                let at = path.at;
                let skip = std::mem::take(&mut at_start);
                if self.is_target[at] && !skip && self.arrive(&mut path)? {
                    break;
                }
                self.steps += 1;
                if self.steps > self.most_steps {
                    let text = format!(
                        "after {} instructions there are still paths to examine: loops need a known, reasonably small \
                         bound",
                        self.most_steps
                    );
                    return Err((at, (Reason::TooComplex, text)));
                }
                path.distance += 1;
                self.facts.reached[at] = true;
                match self
                    .step(&mut path.state, at)
                    .map_err(|trouble| (at, trouble))?
                {
                    Next::At(target) => path.at = target,
                    Next::Fork(target, other, other_target) => {
                        self.nodes[path.node].open += 1;
                        self.paths.push(Path {
                            state: *other,
                            at: other_target,
                            node: path.node,
                            distance: path.distance,
                        });
                        path.at = target;
                    }
                    Next::End => {
                        self.end(path.node, path.distance);
                        break;
                    }
                }
            }
            next = self.paths.pop();
        }
        Ok(())
    }

    /// At a place where paths meet: true if what follows was looked at already.
    fn arrive(&mut self, path: &mut Path) -> Result<bool, (usize, Trouble)> {
        let at = path.at;
        let live = &self.live;
        path.state
            .forget(at, |place| live.get(place).copied().unwrap_or(0));
        if self.seen[at].len() >= EXACT_STATES {
            path.state.widen(at, &self.relevance);
        }
        self.generalise(path);
        let mut done = None;
        for &index in &self.seen[at] {
            let node = &self.nodes[index];
            // Of a loop that is stopped in the end, each round is as safe as the one that covers it.
            if node.open == 0 || self.is_budgeted {
                if node.state.covers(&path.state) {
                    done = Some(node.longest);
                    break;
                }
            } else if node.state.covers(&path.state) && path.state.covers(&node.state) {
                return Err(self.endless(at));
            }
        }
        if let Some(longest) = done {
            self.end(path.node, path.distance + longest);
            return Ok(true);
        }
        let many = self.seen[at].len() >= KEPT_STATES;
        if !many || path.distance >= u64::from(SPARSE_STEPS) {
            self.nodes.push(Node {
                state: path.state.clone(),
                parent: Some(path.node),
                open: 1,
                distance: path.distance,
                longest: 0,
            });
            path.node = self.nodes.len() - 1;
            path.distance = 0;
            if many {
                // The oldest of the later ones goes: comparing with all would take for ever.
                self.seen[at].remove(KEPT_STATES / 2);
            }
            self.seen[at].push(path.node);
        }
        Ok(false)
    }

    pub(super) fn states_at(&self, at: usize) -> &[usize] {
        &self.seen[at]
    }

    pub(super) fn last_state_at(&self, at: usize) -> Option<&State> {
        self.seen[at].last().map(|&node| &self.nodes[node].state)
    }

    fn end(&mut self, node: usize, distance: u64) {
        let (mut node, mut distance) = (node, distance);
        loop {
            let here = &mut self.nodes[node];
            here.longest = here.longest.max(distance);
            here.open -= 1;
            if here.open > 0 {
                return;
            }
            distance = here.distance + here.longest;
            match here.parent {
                Some(parent) => node = parent,
                None => return,
            }
        }
    }

    /// A loop came round with nothing changed: it waits for others, or for nothing.
    fn endless(&self, head: usize) -> (usize, Trouble) {
        let waits = self.facts.accesses.iter().find(|&(&at, access)| {
            if !self.relevance.share_a_loop(at, head) {
                return false;
            }
            let reads = matches!(
                self.program.instructions[at].operation,
                Operation::Load { .. } | Operation::Atomic { .. }
            );
            reads && matches!(access.place, AccessedMemory::Value { shared: true, .. })
        });
        if let Some((&at, _)) = waits {
            let text = "the loop waits for memory that another thread changes: lanes of a warp may wait for each other \
                        forever"
                .to_owned();
            return (at, (Reason::Spins, text));
        }
        let text = "the loop has no known bound".to_owned();
        (head, (Reason::UnboundedLoop, text))
    }

    fn step(&mut self, state: &mut State, at: usize) -> Checked<Next> {
        let operation = self.program.instructions[at].operation;
        match operation {
            Operation::Alu { .. }
            | Operation::MoveSigned { .. }
            | Operation::Negate { .. }
            | Operation::Swap { .. } => self.arithmetic(state, operation)?,
            Operation::Constant { dst, value } => state.set(dst, self.constant(value)?),
            Operation::Load { .. } | Operation::Store { .. } | Operation::Atomic { .. } => {
                self.access(state, at, operation)?;
            }
            Operation::Jump { target } => return Ok(Next::At(target)),
            Operation::Branch { .. } => return self.branch(state, at, operation),
            Operation::Call(Callee::Helper(number)) => self.helper(state, at, number)?,
            Operation::Call(Callee::Function(target)) => {
                if state.depth() + 1 >= DEEPEST {
                    let text = format!("calls are nested deeper than {DEEPEST}, or without end");
                    return Err((Reason::TooManyCalls, text));
                }
                // What the callee is given of this frame, it reaches by address.
                for register in 1..=5 {
                    if let Value::Pointer(Pointer {
                        region: Region::Stack { frame },
                        ..
                    }) = state.get(register)
                    {
                        self.mark_addressed(state, at, frame);
                    }
                }
                state.enter(at + 1);
                return Ok(Next::At(target));
            }
            Operation::Exit => return self.exit(state),
        }
        Ok(Next::At(at + 1))
    }

    fn exit(&self, state: &mut State) -> Checked<Next> {
        match state.get(0) {
            Value::Nothing => {
                let text = "r0 is returned but was never written".to_owned();
                return Err((Reason::UninitialisedRegister, text));
            }
            Value::Pointer(pointer) => {
                let own = Region::Stack {
                    frame: state.depth(),
                };
                if state.depth() == 0 || pointer.region == own {
                    let text = "an address is returned".to_owned();
                    return Err((Reason::PointerEscapes, text));
                }
            }
            Value::Number(_) => {}
        }
        if state.depth() == 0 {
            return Ok(Next::End);
        }
        Ok(Next::At(state.leave()))
    }

    fn constant(&self, value: Wide) -> Checked<Value> {
        Ok(match value {
            Wide::Number(value) => Value::Number(super::scalar::Scalar::known(value)),
            Wide::Map(map) => {
                let kind = self.object.maps[map].kind;
                if let crate::map::MapKind::HostOnly(number) = kind {
                    let name = &self.object.maps[map].name;
                    let text =
                        format!("map {name} has type {number}, which GPU programs cannot use");
                    return Err((Reason::BadMap, text));
                }
                Value::Pointer(Pointer::new(Region::Map(map), 0))
            }
            Wide::MapValue { map, offset } => {
                Value::Pointer(Pointer::new(Region::Value { map }, i64::from(offset)))
            }
        })
    }

    /// The function whose frame is at this depth of the path.
    fn function_of_frame(&self, state: &State, at: usize, frame: usize) -> usize {
        // The caller goes on right behind its call, so that place tells which function it is.
        match state.frames.get(frame + 1) {
            Some(callee) => self.function_of[callee.return_to.saturating_sub(1)],
            None => self.function_of[at],
        }
    }

    pub(super) fn mark_addressed(&mut self, state: &State, at: usize, frame: usize) {
        let function = self.function_of_frame(state, at, frame);
        self.facts.frames[function].addressed = true;
    }

    pub(super) fn note_frame_bytes(&mut self, state: &State, at: usize, frame: usize, low: i64) {
        let function = self.function_of_frame(state, at, frame);
        let bytes = &mut self.facts.frames[function].bytes;
        *bytes = (*bytes).max((-low).clamp(0, 512) as u32);
    }

    /// Atomics are made for one kind of memory.
    fn check_atomics(&self) -> Result<(), (usize, Trouble)> {
        for (&at, access) in &self.facts.accesses {
            let operation = &self.program.instructions[at].operation;
            if matches!(operation, Operation::Atomic { .. })
                && access.place == AccessedMemory::Mixed
            {
                let text = "an atomic on the stack on one path, on a map's value on another".into();
                return Err((at, (Reason::NoAddress, text)));
            }
        }
        Ok(())
    }

    /// The stacks of functions that call each other fit together.
    fn check_stack(&self) -> Checked {
        let functions = &self.program.functions;
        // Calls go to at most eight levels, as the walk has made sure.
        let mut total: Vec<u32> = self.facts.frames.iter().map(|frame| frame.bytes).collect();
        for _ in 0..DEEPEST {
            for (number, function) in functions.iter().enumerate() {
                let deepest = (function.start..function.end)
                    .filter(|&at| self.facts.reached[at])
                    .filter_map(|at| match self.program.instructions[at].operation {
                        Operation::Call(Callee::Function(target)) => {
                            Some(total[self.function_of[target]])
                        }
                        _ => None,
                    })
                    .max()
                    .unwrap_or(0);
                total[number] = self.facts.frames[number].bytes + deepest;
            }
        }
        if total[0] > 512 {
            let text = format!(
                "the stacks of the program and the functions it calls are {} bytes; the limit is 512",
                total[0]
            );
            return Err((Reason::StackTooLarge, text));
        }
        Ok(())
    }
}
