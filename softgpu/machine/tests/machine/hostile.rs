//! Damaged kernels: whatever a changed PTX text does, it is refused, faults or ends; nothing
//! panics, and the host's memory outside the device's stays as it was.

use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use softgpu_machine::program::Program;

use crate::support::{Arg, COMPILED, Device};

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Words that change what an instruction does.
const WORDS: [&str; 24] = [
    "%r1",
    "%rd1",
    "%f1",
    "%p1",
    "0",
    "-1",
    "4294967295",
    "0x7FFFFFFFFFFFFFFF",
    ".global",
    ".shared",
    ".local",
    ".param",
    ".u8",
    ".s16",
    ".b64",
    ".v4",
    "ret;",
    "bra",
    "@%p1",
    "{",
    "}",
    "[%rd1]",
    ".sync",
    "%tid.x",
];

fn damage(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for _ in 0..=random.below(4) {
        let at = random.below(lines.len());
        let other = random.below(lines.len());
        match random.below(6) {
            0 => {
                lines.remove(at);
            }
            1 => {
                let copy = lines[other].clone();
                lines.insert(at, copy);
            }
            2 => lines.swap(at, other),
            3 => {
                // Another operand of the same text in the place of one here.
                let words: Vec<String> = lines[other]
                    .split([' ', '\t', ',', ';'])
                    .map(str::to_string)
                    .collect();
                let word = words[random.below(words.len())].clone();
                replace_word(&mut lines[at], &word, random);
            }
            4 => {
                let word = WORDS[random.below(WORDS.len())];
                replace_word(&mut lines[at], word, random);
            }
            _ => {
                let number = random.below(1 << 20).to_string();
                let digits = |c: char| c.is_ascii_digit();
                if let Some(start) = lines[at].find(digits) {
                    let end = lines[at][start..]
                        .find(|c: char| !c.is_ascii_digit())
                        .map_or(lines[at].len(), |length| start + length);
                    lines[at].replace_range(start..end, &number);
                }
            }
        }
    }
    lines.join("\n")
}

fn replace_word(line: &mut String, by: &str, random: &mut Random) {
    let spans: Vec<(usize, usize)> = line
        .split_inclusive([' ', '\t', ',', ';'])
        .scan(0, |at, piece| {
            let start = *at;
            *at += piece.len();
            Some((start, *at))
        })
        .collect();
    if !spans.is_empty() {
        let (start, end) = spans[random.below(spans.len())];
        let keep = usize::from(end - start > 1);
        line.replace_range(start..end - keep, by);
    }
}

#[test]
fn damaged_kernels_do_no_harm() {
    let rounds = std::env::var("ROUNDS").map_or(300, |rounds| rounds.parse().unwrap());
    let seed = std::env::var("SEED").map_or(0x9E37_79B9_7F4A_7C15, |seed| seed.parse().unwrap());
    let mut random = Random(seed);
    let (mut built, mut ran) = (0, 0);
    let texts = [COMPILED, include_str!("../ptx/library_90.ptx")];
    for round in 0..rounds {
        let text = damage(texts[round % 2], &mut random);
        let Ok(program) = Program::build(&text) else {
            continue;
        };
        built += 1;
        let mut device = Device::new();
        let loaded = device.place(program);
        let data = device.upload(&[1u32; 1024]);
        let kernels = loaded.program().kernels();
        let choice = random.below(kernels.len());
        let Some(kernel) = kernels.get(choice) else {
            continue;
        };
        let args: Vec<Arg> = kernel
            .params
            .iter()
            .filter_map(|param| match param.size {
                8 => Some(Arg::Pointer(data)),
                4 => Some(Arg::Int(random.below(600) as i32)),
                _ => None,
            })
            .collect();
        if args.len() != kernel.params.len() {
            continue;
        }
        let name = kernel.name.clone();
        let (done, finished) = mpsc::channel::<()>();
        let cancelled = &device.cancelled;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let limit = Duration::from_millis(50);
                if finished.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                    cancelled.store(true, Ordering::Relaxed);
                }
            });
            let shape = [1 + random.below(3) as u32, 1 + random.below(96) as u32];
            let cooperative = random.below(4) == 0;
            let result = device.launch_with(&loaded, &name, shape[0], shape[1], &args, |launch| {
                launch.cooperative = cooperative;
                launch.dynamic_shared = 64;
            });
            drop(done);
            if let Err(fault) = result {
                let is_ours = fault.detail.contains("the interpreter itself");
                assert!(!is_ours, "round {round}, kernel {name}:\n{text}");
            }
        });
        ran += 1;
    }
    assert!(built > rounds / 10, "only {built} of {rounds} still built");
    assert!(ran > built / 2, "only {ran} of {built} ran");
}
