//! A training loop with one planted fault at a time: the fault is the first finding, in module and line. `tests/gpu/planted.sh` does
//! the same with PyTorch on a GPU.

use analyse::{Analysis, Report, findings::Severity};
use event::{
    Arg, Category, Event, Extent, Frame, FrameKind, Layer, Meta, Record, Stack, Summary, Value,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const STEPS: u64 = 30;
const STEP: u64 = 10 * MS;

#[derive(Default)]
struct Program {
    records: Vec<Record>,
    next: u64,
}

fn line(number: u32) -> Stack {
    let frame = |file: &str, line| Frame {
        kind: FrameKind::Python,
        file: Some(file.into()),
        line: Some(line),
        ..Frame::default()
    };
    let library = "/usr/lib/python3.12/site-packages/torch/utils.py";
    [frame(library, 3), frame("/home/me/train.py", number)].into()
}

impl Program {
    fn event(&mut self, layer: Layer, category: Category, name: &str, start: u64) -> Event {
        self.next += 1;
        let mut event = Event::new(self.next, layer, category, name, start);
        (event.pid, event.tid, event.device) = (1, 1, Some(0));
        event
    }

    fn span(&mut self, mut event: Event, length: u64) {
        event.extent = Extent::Open;
        self.records.push(event.clone().into());
        event.extent = Extent::Closed(length);
        event.stack.clear();
        self.records.push(event.into());
    }

    fn operator(&mut self, name: &str, scope: &str, at: u64, length: u64, stack: Stack) {
        let mut event = self.event(Layer::Framework, Category::Other, name, at);
        event.args = vec![Arg::new("scope", scope)];
        event.stack = stack;
        self.span(event, length);
    }

    /// One that shares its number with others, forward and backward.
    fn sequenced(&mut self, name: &str, scope: &str, at: u64, length: u64, number: u64) {
        let mut event = self.event(Layer::Framework, Category::Other, name, at);
        event.args = vec![Arg::new("scope", scope), Arg::new("seq", number)];
        self.span(event, length);
    }

    /// A launch of 4 µs, and its kernel.
    fn kernel(&mut self, name: &str, at: u64, from: u64, length: u64) {
        let mut call = self.event(Layer::Driver, Category::Kernel, "cuLaunchKernel", at);
        let correlation = call.id;
        call.correlation = Some(correlation);
        self.span(call, 4 * US);
        let mut work = self.event(Layer::Gpu, Category::Kernel, name, from);
        work.correlation = Some(correlation);
        self.span(work, length);
    }

    fn tensor(&mut self, name: &str, at: u64, pointer: u64, bytes: u64, stack: Stack) {
        let mut event = self.event(Layer::Framework, Category::Memory, name, at);
        event.extent = Extent::Instant;
        event.args = vec![
            Arg::new("bytes", bytes),
            Arg::new("ptr", Value::Pointer(pointer)),
        ];
        event.stack = stack;
        self.records.push(event.into());
    }

    fn report(mut self) -> Report {
        // An end comes before a beginning of the same moment.
        self.records.sort_by_key(|record| match record {
            Record::Event(event) => (
                event.end().unwrap_or(event.start),
                event.extent == Extent::Open,
            ),
            other => (other.ts(), false),
        });
        let mut analysis = Analysis::new(&Meta::default());
        for record in &self.records {
            analysis.add(record);
        }
        let summary = Summary {
            end_ns: STEPS * STEP,
            exit: Some(0),
            ..Summary::default()
        };
        analysis.finish(Some(&summary))
    }
}

/// A matrix product of 9 ms fills the GPU; with a fault it is short, and the fault takes what is left.
fn train(fault: &str) -> Report {
    let mut program = Program::default();
    program.tensor("allocate", 1, 0x1000, 64 << 20, line(5));
    for step in 0..STEPS {
        let at = step * STEP + US;
        let busy = match fault {
            "none" | "leak" => 9_800 * US,
            _ => 3 * MS,
        };
        program.operator("aten::mm", "operator", at, 20 * US, Stack::default());
        program.kernel("sm90_gemm", at + 5 * US, at + 20 * US, busy);
        match fault {
            "item" => {
                program.operator("aten::item", "operator", at + MS, 5 * MS, Stack::default());
                let mut wait = program.event(
                    Layer::Runtime,
                    Category::Sync,
                    "cudaStreamSynchronize",
                    at + MS + US,
                );
                wait.stack = line(57);
                program.span(wait, 4_900 * US);
            }
            "norm" => {
                program.operator("nn.Module: Model", "user", at + MS, 6 * MS, line(30));
                for layer in 0..4 {
                    let from = at + MS + US + layer * 1_200 * US;
                    let name = format!("nn.Module: Model.layers.{layer}.norm");
                    program.operator(&name, "user", from, 1_100 * US, line(33));
                    for number in 0..20 {
                        let launch = from + US + number * 50 * US;
                        let name = "void at::native::vectorized_elementwise_kernel<4>";
                        program.kernel(name, launch, at + 4 * MS + launch % MS, 2 * US);
                    }
                }
            }
            "loader" => program.operator(
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                "user",
                at + 4 * MS,
                5 * MS,
                line(40),
            ),
            "leak" => {
                let name = "nn.Module: Model.layers.1.remember";
                program.operator(name, "user", at + MS, 100 * US, line(21));
                program.operator(
                    "aten::mul",
                    "operator",
                    at + MS + US,
                    90 * US,
                    Stack::default(),
                );
                let kept = 0x10_0000 + step;
                program.tensor("allocate", at + MS + 2 * US, kept, 4 << 20, line(22));
                // One that every step gives back.
                program.tensor("allocate", at + MS + 3 * US, 0x55, 8 << 20, line(23));
                program.tensor("free", at + 2 * MS, 0x55, 8 << 20, Stack::default());
            }
            _ => {}
        }
        let (kernels, length) = match fault {
            "optimizer" => (150, 4 * MS),
            _ => (2, 50 * US),
        };
        let from = at + 9_900 * US - length;
        let name = "Optimizer.step#AdamW.step";
        program.operator(name, "user", from, length, line(61));
        for number in 0..kernels {
            let launch = from + US + number * 20 * US;
            program.kernel("multi_tensor_apply_kernel", launch, launch + 5 * US, US);
        }
    }
    program.report()
}

#[test]
fn each_fault_comes_first_with_its_line() {
    for (fault, id, words) in [
        (
            "item",
            "item-in-loop",
            ".item() in train.py:57 waits for the GPU in each step",
        ),
        (
            "norm",
            "small-kernels-in-module",
            "Model.layers.*.norm in train.py:33: ",
        ),
        (
            "optimizer",
            "unfused-optimizer",
            "The optimizer's step in train.py:61 launches 150 kernels",
        ),
        (
            "loader",
            "slow-data-loading",
            "DataLoader in train.py:40: the GPU waits 50 % of each step for a batch",
        ),
        (
            "leak",
            "tensor-leak",
            "Model.layers.1.remember in train.py:22: 4 MiB of GPU memory stay allocated with each step",
        ),
    ] {
        let report = train(fault);
        let titles: Vec<_> = (report.findings.iter())
            .map(|finding| (&*finding.id, &finding.title))
            .collect();
        let first = report.findings.first().expect("a finding");
        assert_eq!(&*first.id, id, "{fault}: {titles:#?}");
        assert!(first.title.contains(words), "{fault}: {}", first.title);
        assert!(first.severity <= Severity::Medium, "{fault}");
        assert!(first.share <= 1.0 && !first.op_ids.is_empty());
    }
}

#[test]
fn a_loop_without_a_fault_has_no_such_finding() {
    let report = train("none");
    let serious: Vec<_> = (report.findings.iter())
        .filter(|finding| finding.severity <= Severity::Medium)
        .collect();
    assert!(serious.is_empty(), "{serious:#?}");
    assert_eq!(report.steps.steps.len() as u64, STEPS - 1);
    assert!(report.steps.steps[5].busy_ns > 9 * MS);
}

/// A GPU that is busy all the time, and a wait in each step of it.
fn busy(wait_name: &str, operator: Option<&str>) -> Report {
    let mut program = Program::default();
    for step in 0..STEPS {
        let at = step * STEP + US;
        program.kernel("sm90_gemm", at, at + 10 * US, 9_900 * US);
        if let Some(name) = operator {
            program.operator(name, "operator", at + 20 * US, 9_800 * US, Stack::default());
        }
        let mut wait = program.event(Layer::Runtime, Category::Sync, wait_name, at + 21 * US);
        wait.stack = line(57);
        program.span(wait, 9_700 * US);
        program.operator(
            "Optimizer.step#SGD.step",
            "user",
            at + 9_900 * US,
            5 * US,
            line(61),
        );
    }
    program.report()
}

#[test]
fn an_item_in_each_step_is_said_though_the_gpu_is_busy() {
    let report = busy("cudaStreamSynchronize", Some("aten::item"));
    assert_eq!(report.operators.waits.len(), 1);
    let first = report.findings.first().expect("a finding");
    assert_eq!(
        first.title,
        ".item() in train.py:57 synchronises in each step"
    );
    // It costs no more than the GPU has nothing to do.
    assert_eq!(first.severity, Severity::Low);
    assert!(first.share < 0.05, "{}", first.share);
}

#[test]
fn a_wait_of_the_programs_own_costs_nothing_while_the_gpu_works() {
    let report = busy("cudaDeviceSynchronize", None);
    assert_eq!(report.operators.waits.len(), 1);
    let found = report.findings.iter().find(|it| it.id == "item-in-loop");
    assert_eq!(found, None);
}

/// As on an H200: the host is too slow for all of the model, forward and backward, and the norms are an eighth of that.
fn slow_host(norm: bool) -> Report {
    let mut program = Program::default();
    let elementwise = "void at::native::vectorized_elementwise_kernel<4>";
    for step in 0..STEPS {
        let mut at = step * STEP + US;
        program.operator("nn.Module: Model", "user", at, 4_000 * US, line(30));
        for layer in 0..4 {
            let name = format!("nn.Module: Model.layers.{layer}.norm");
            program.operator(&name, "user", at + US, 100 * US, line(33));
            program.sequenced(
                "aten::mul",
                "operator",
                at + 2 * US,
                90 * US,
                step * 4 + layer,
            );
            for number in 0..if norm { 9 } else { 1 } {
                program.kernel(
                    elementwise,
                    at + 3 * US + number * 9 * US,
                    at + 20 * US + number * 9 * US,
                    US,
                );
            }
            program.operator(
                "aten::mm",
                "operator",
                at + 200 * US,
                700 * US,
                Stack::default(),
            );
            program.kernel("sm90_gemm", at + 300 * US, at + 320 * US, 30 * US);
            at += 1_000 * US;
        }
        for layer in 0..4 {
            program.sequenced("MulBackward0", "backward", at, 200 * US, step * 4 + layer);
            for number in 0..if norm { 15 } else { 2 } {
                program.kernel(
                    elementwise,
                    at + US + number * 10 * US,
                    at + 20 * US + number * 10 * US,
                    US,
                );
            }
            program.operator(
                "MmBackward0",
                "backward",
                at + 300 * US,
                900 * US,
                Stack::default(),
            );
            program.kernel("sm90_gemm", at + 400 * US, at + 420 * US, 60 * US);
            at += 1_300 * US;
        }
        program.operator("Optimizer.step#AdamW.step", "user", at, 50 * US, line(61));
        program.kernel("multi_tensor_apply_kernel", at + US, at + 20 * US, 30 * US);
    }
    program.report()
}

#[test]
fn a_module_comes_before_the_waiting_that_it_explains_a_part_of() {
    let report = slow_host(true);
    let titles: Vec<_> = report.findings.iter().map(|it| &it.title).collect();
    let first = report.findings.first().expect("a finding");
    assert_eq!(
        first.title,
        "Model.layers.*.norm in train.py:33: 12 % of each step in 96 small kernels: compile or fuse",
        "{titles:#?}"
    );
    assert!(
        report.findings.iter().any(|it| it.id == "host-bound"),
        "{titles:#?}"
    );
    let report = slow_host(false);
    let named = report
        .findings
        .iter()
        .find(|it| it.id == "small-kernels-in-module");
    assert_eq!(named, None);
}
