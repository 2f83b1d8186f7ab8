//! A program that copies, launches and waits in a loop, as a stream of records: enough events
//! to measure with, in constant memory.

use event::{
    Arg, Category, Direction, Event, Extent, Ioctl, Kind, Launch, Layer, Meaning, Memory, MemoryOp,
    MemorySpace, Meta, Name, Record, Status, Transfer, Value, What,
};

pub const START: u64 = 5_000_000_000_000;

/// Events that one turn of the loop makes: 8 spans and 3 meanings.
pub const EVENTS_A_TURN: u64 = 11;
/// Records of one turn: a span is two.
pub const RECORDS_A_TURN: u64 = 19;

pub fn meta() -> Meta {
    let mut meta = Meta {
        cutrace: "benchmark".into(),
        command: vec!["./train".into(), "--epochs".into(), "3".into()],
        start_ns: START,
        start_unix_ns: Some(1_763_172_000_000_000_000),
        ..Meta::default()
    };
    meta.hooks = event::Hooks {
        attached: 700,
        total: 712,
    };
    meta
}

/// Hand the records of so many turns of the loop to `sink`.
pub fn run<E>(turns: u64, mut sink: impl FnMut(&Record) -> Result<(), E>) -> Result<(), E> {
    let mut turn = Turn::new();
    for number in 0..turns {
        turn.play(number, &mut sink)?;
    }
    Ok(())
}

/// The records of one turn, made once and given new times and ids each time.
struct Turn {
    /// Each with its place in time within the turn, and its id's.
    records: Vec<(u64, u64, Record)>,
}

const TURN_NS: u64 = 60_000;
const IDS: u64 = 8;

impl Turn {
    fn new() -> Self {
        let mut records = Vec::new();
        let pointer = |name: &str, address| Arg {
            name: name.into(),
            value: Value::Pointer(address),
        };
        let stream = || pointer("hStream", 0x55d0_c0de_1230);

        let copy_args = vec![
            pointer("dst", 0x7f32_0000_0000),
            pointer("src", 0x5581_2345_6780),
            Arg::new("count", 1_048_576u64),
            Arg::new("kind", "cudaMemcpyHostToDevice"),
            stream(),
        ];
        let copy = span(
            &mut records,
            (0, 9_000),
            0,
            None,
            Layer::Runtime,
            Category::Transfer,
            "cudaMemcpyAsync",
            copy_args,
            vec![],
        );
        let inner_args = vec![
            pointer("dstDevice", 0x7f32_0000_0000),
            pointer("srcHost", 0x5581_2345_6780),
            Arg::new("ByteCount", 1_048_576u64),
            stream(),
        ];
        let inner = span(
            &mut records,
            (400, 8_000),
            1,
            Some(0),
            Layer::Driver,
            Category::Transfer,
            "cuMemcpyHtoDAsync_v2",
            inner_args,
            vec![],
        );
        let transfer = Transfer {
            direction: Direction::HostToDevice,
            size: 1_048_576,
            duration: Some(8_000),
            src: Some(0x5581_2345_6780),
            dst: Some(0x7f32_0000_0000),
        };
        mean(&mut records, &inner, What::Transfer(transfer));
        drop(copy);

        let launch_args = vec![
            pointer("func", 0x5581_0000_1000),
            Arg::new("gridDim", vec![4_096u32, 1, 1]),
            Arg::new("blockDim", vec![256u32, 1, 1]),
            Arg::new("sharedMem", 0u64),
            stream(),
        ];
        span(
            &mut records,
            (10_000, 5_000),
            2,
            None,
            Layer::Runtime,
            Category::Kernel,
            "cudaLaunchKernel",
            launch_args,
            vec![],
        );
        let inner_args = vec![
            pointer("f", 0x55d0_0000_2000),
            Arg::new("gridDimX", 4_096u64),
            Arg::new("blockDimX", 256u64),
            Arg::new("sharedMemBytes", 0u64),
            stream(),
        ];
        let inner = span(
            &mut records,
            (10_500, 4_000),
            3,
            Some(2),
            Layer::Driver,
            Category::Kernel,
            "cuLaunchKernel",
            inner_args,
            vec![],
        );
        let launch = Launch {
            kernel: "vectorAdd(float const*, float const*, float*, int)".into(),
            grid: [4_096, 1, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        mean(&mut records, &inner, What::Launch(launch));

        let alloc_args = vec![Arg::new("bytesize", 4_000_000u64)];
        let outputs = vec![pointer("dptr", 0x7f32_0010_0000)];
        let alloc = span(
            &mut records,
            (16_000, 20_000),
            4,
            None,
            Layer::Driver,
            Category::Memory,
            "cuMemAlloc_v2",
            alloc_args,
            outputs,
        );
        let ioctl = Event {
            kind: Kind::Ioctl,
            ..span(
                &mut records,
                (17_000, 2_500),
                5,
                Some(4),
                Layer::Syscall,
                Category::Memory,
                "ioctl",
                vec![Arg::new("fd", 5u64), Arg::new("path", "/dev/nvidiactl")],
                vec![],
            )
        };
        for (_, id, record) in &mut records {
            if *id == 5
                && let Record::Event(event) = record
            {
                event.kind = ioctl.kind;
                let decoded = vec![
                    Arg::new("dir", "RW"),
                    Arg::new("type", "F"),
                    Arg::new("nr", 43u64),
                    Arg::new("size", 48u64),
                    Arg::new("name", "NV_ESC_RM_ALLOC"),
                ];
                event.ioctl = Some(Box::new(Ioctl {
                    cmd: 0xc030_462b,
                    decoded,
                }));
            }
        }
        let memory = Memory {
            op: MemoryOp::Alloc,
            size: Some(4_000_000),
            ptr: 0x7f32_0010_0000,
            space: Some(MemorySpace::Device),
        };
        mean(&mut records, &alloc, What::Memory(memory));

        span(
            &mut records,
            (37_000, 15_000),
            6,
            None,
            Layer::Driver,
            Category::Sync,
            "cuStreamSynchronize",
            vec![stream()],
            vec![],
        );
        span(
            &mut records,
            (53_000, 200),
            7,
            None,
            Layer::Driver,
            Category::Query,
            "cuCtxGetCurrent",
            vec![],
            vec![pointer("pctx", 0x55d0_c0de_0000)],
        );
        records.sort_by_key(|(time, _, _)| *time);
        assert_eq!(records.len() as u64, RECORDS_A_TURN);
        Turn { records }
    }

    fn play<E>(
        &mut self,
        number: u64,
        sink: &mut impl FnMut(&Record) -> Result<(), E>,
    ) -> Result<(), E> {
        // Real durations differ from call to call.
        let jitter = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        let start = START + number * TURN_NS + jitter;
        for (time, id, record) in &mut self.records {
            let new_id = number * IDS + *id + 1;
            match record {
                Record::Event(event) => {
                    event.parent = event
                        .parent
                        .map(|parent| number * IDS + (parent - 1) % IDS + 1);
                    event.start = start + *time - event.duration().unwrap_or(0);
                    (event.id, event.correlation) = (new_id, Some(new_id));
                }
                Record::Meaning(meaning) => (meaning.ts, meaning.op) = (start + *time, new_id),
                Record::Lost(lost) => lost.ts = start + *time,
            }
            sink(record)?;
        }
        Ok(())
    }
}

#[allow(clippy::too_many_arguments)] // A literal, in effect.
fn span(
    records: &mut Vec<(u64, u64, Record)>,
    (at, duration): (u64, u64),
    id: u64,
    parent: Option<u64>,
    layer: Layer,
    category: Category,
    name: &str,
    args: Vec<Arg>,
    outputs: Vec<Arg>,
) -> Event {
    let mut event = Event::new(id, layer, category, name, at);
    (event.pid, event.tid, event.cpu, event.device) = (4_242, 4_243, Some(3), Some(0));
    (event.context, event.stream) = (Some(0x55d0_c0de_0000), Some(0x55d0_c0de_1230));
    event.parent = parent.map(|parent| parent + 1);
    event.depth = u32::from(parent.is_some());
    event.args = args;
    event.extent = Extent::Open;
    records.push((at, id, event.clone().into()));
    event.extent = Extent::Closed(duration);
    event.status = Some(Status {
        code: 0,
        name: Some(Name::from("CUDA_SUCCESS")),
    });
    event.outputs = outputs;
    records.push((at + duration, id, event.clone().into()));
    event
}

fn mean(records: &mut Vec<(u64, u64, Record)>, call: &Event, what: What) {
    let meaning = Meaning::of(call, what);
    records.push((meaning.ts, call.id, meaning.into()));
}
