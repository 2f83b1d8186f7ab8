//! What the help and the manual page of a verb have besides its options: the group it is listed in, examples, what its exit
//! status means, where to read on. A verb without a page fails a test.

use std::fmt::Write as _;

/// Of one verb.
pub struct Page {
    /// The words after `cutrace`; none for the program itself.
    pub verb: &'static str,
    pub examples: &'static [Example],
    pub exit: ExitStatus,
    /// Verbs that people look for next.
    pub see: &'static [&'static str],
}

/// A line to type, and what it does.
pub struct Example(pub &'static str, pub &'static str);

/// What a verb's exit status means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It runs a command.
    Commands,
    /// It succeeds or fails.
    Plain,
    Special(&'static str),
}

impl ExitStatus {
    pub fn words(self) -> &'static str {
        match self {
            ExitStatus::Commands => {
                "The exit status is the command's own, or 128 plus the number of the signal that killed it; 127 if there is \
                 no such command, 126 if it cannot be executed, 125 if cutrace itself failed."
            }
            ExitStatus::Plain => {
                "The exit status is 0, or 2 if the command line is wrong or the input cannot be read."
            }
            ExitStatus::Special(words) => words,
        }
    }
}

/// Verbs as `cutrace --help` and cutrace(1) group them.
pub const GROUPS: [(&str, &[&str]); 6] = [
    ("Record", &["record", "snap", "demo", "softgpu"]),
    ("Watch", &["top", "serve"]),
    (
        "Look at a trace",
        &[
            "report", "timeline", "replay", "view", "cat", "export", "query", "mcp",
        ],
    ),
    ("Compare", &["diff", "lake"]),
    ("Look inside GPU kernels", &["gpu"]),
    (
        "More",
        &["doctor", "probes", "hooks", "ioctl", "completions", "man"],
    ),
];

#[rustfmt::skip]
pub const PAGES: &[Page] = &[
    Page {
        verb: "",
        examples: &[
            Example("cutrace demo", "take the tour; no GPU needed"),
            Example("cutrace ./app", "record a program; the trace goes to traces/"),
            Example("cutrace --sim ./app", "the same on softgpu, without a GPU"),
            Example("cutrace report findings", "what to change, by the newest trace"),
            Example("cutrace view", "the newest trace in the browser"),
            Example("cutrace cat | jq .name", "the newest trace as JSON lines"),
            Example("cutrace doctor", "what can be recorded on this machine"),
            Example("cutrace -- cat FILE", "record a program that is called like a verb"),
        ],
        exit: ExitStatus::Special(
            "A verb that runs a command exits as the command does (see cutrace record --help); the others exit with 0, or 2 \
             if something is wrong.",
        ),
        see: &["record", "report", "view", "doctor"],
    },
    Page {
        verb: "record",
        examples: &[
            Example("cutrace ./app --an-option-of-its-own", "record a program"),
            Example("cutrace --method=preload,syscall ./app", "API calls, and the ioctls inside them"),
            Example("cutrace -e 'memory,cuLaunch*' ./app", "only these calls"),
            Example("cutrace --stack=memory ./app", "where memory is allocated"),
            Example("cutrace -o - ./app", "print every call as it happens"),
            Example("sudo cutrace -p $(pgrep -n python) -d 10", "attach to a process for 10 s"),
            Example("cutrace --window 100..110 ./app", "only steps 100 to 109 of its loop"),
            Example("cutrace --flight 30s ./app", "its last 30 s, if it fails or on SIGUSR1"),
            Example("sudo cutrace --kernel ./app", "the kernel driver too"),
            Example(
                "sudo cutrace --hook 'uprobe:libcuda.so:cuMem*=hist(duration)' ./app",
                "a histogram for each function",
            ),
        ],
        exit: ExitStatus::Commands,
        see: &["report", "view", "hooks", "doctor"],
    },
    Page {
        verb: "snap",
        examples: &[
            Example("cutrace snap 4711", "a snapshot of cutrace --flight 4711, or of its program"),
            Example("cutrace snap --recover traces/trace_20261117_120000.flight", "what a killed recorder has left"),
        ],
        exit: ExitStatus::Special(
            "The exit status is 0, 1 if there is no such recorder or it wrote nothing, 2 if the command line is wrong.",
        ),
        see: &["record", "report", "view"],
    },
    Page {
        verb: "top",
        examples: &[
            Example("cutrace top python train.py", "watch a program"),
            Example("sudo cutrace top -p $(pgrep -n python)", "watch one that runs already"),
            Example("sudo cutrace top -a", "watch everyone on this machine"),
            Example("cutrace top --batch 10 ./app", "ten frames as plain text, one a second"),
        ],
        exit: ExitStatus::Commands,
        see: &["record", "serve", "report"],
    },
    Page {
        verb: "serve",
        examples: &[
            Example("cutrace serve python train.py", "metrics at http://127.0.0.1:9464/metrics"),
            Example("sudo cutrace serve -a --metrics 0.0.0.0:9464", "of all programs, for a Prometheus elsewhere"),
            Example(
                "cutrace serve --otlp http://127.0.0.1:4318 --otlp-sample 1/10 ./app",
                "every tenth step as a span",
            ),
        ],
        exit: ExitStatus::Commands,
        see: &["top", "record"],
    },
    Page {
        verb: "demo",
        examples: &[
            Example("cutrace demo", "take the tour; no GPU needed"),
            Example("cutrace demo --gpu", "on this machine's GPU"),
            Example("cutrace demo -o /tmp/demo", "with the files in another folder"),
        ],
        exit: ExitStatus::Special("The exit status is 0, or 125 if the tour cannot be recorded."),
        see: &["record", "report", "view"],
    },
    Page {
        verb: "softgpu",
        examples: &[
            Example("cutrace softgpu -- ./app", "run a CUDA program without a GPU"),
            Example("cutrace softgpu --list", "driver functions that are missing"),
            Example("cutrace softgpu --unpack lib", "use the libraries without cutrace"),
        ],
        exit: ExitStatus::Commands,
        see: &["record", "demo"],
    },
    Page {
        verb: "report",
        examples: &[
            Example("cutrace report", "summarise the newest trace in traces/"),
            Example("cutrace report findings a.jsonl", "what to change, most expensive first"),
            Example("cutrace report memory --json a.jsonl | jq .memory", "numbers for a script"),
            Example("ssh host cat a.jsonl | cutrace report -", "a trace from standard input"),
        ],
        exit: ExitStatus::Plain,
        see: &["timeline", "view", "diff"],
    },
    Page {
        verb: "timeline",
        examples: &[
            Example("cutrace timeline", "the newest trace in traces/"),
            Example("cutrace timeline --from 10ms --to 20ms a.jsonl", "10 ms of it"),
            Example("cutrace timeline --around 853", "around event 853, by the number reports print"),
        ],
        exit: ExitStatus::Plain,
        see: &["replay", "view"],
    },
    Page {
        verb: "replay",
        examples: &[
            Example("cutrace replay a.jsonl | less -S", "every call"),
            Example("cutrace replay -e memory --from 1.5s a.jsonl", "allocations after the first 1.5 s"),
        ],
        exit: ExitStatus::Plain,
        see: &["timeline", "cat"],
    },
    Page {
        verb: "cat",
        examples: &[
            Example("cutrace cat | jq 'select(.type == \"lost\")'", "what the newest trace has lost"),
            Example("cutrace cat a.arrows > a.jsonl", "an Arrow trace as JSON lines"),
            Example("cutrace -- cat FILE", "record the program cat instead"),
        ],
        exit: ExitStatus::Plain,
        see: &["replay", "export"],
    },
    Page {
        verb: "export",
        examples: &[
            Example("cutrace export -o report.html", "the newest trace as a page"),
            Example("cutrace export a.jsonl b.jsonl -o both.pftrace", "two traces as one, for Perfetto"),
            Example(
                "cutrace export new.jsonl --baseline old.jsonl -o changed.svg",
                "a flame graph of what changed",
            ),
            Example("cutrace export a.jsonl -f csv | column -t -s,", "a table"),
        ],
        exit: ExitStatus::Plain,
        see: &["view", "cat"],
    },
    Page {
        verb: "view",
        examples: &[
            Example("cutrace view", "the newest trace in traces/"),
            Example("cutrace view --no-open --port 8080 a.jsonl", "print the address, start no browser"),
        ],
        exit: ExitStatus::Plain,
        see: &["report", "export"],
    },
    Page {
        verb: "diff",
        examples: &[
            Example("cutrace diff before.jsonl after.jsonl", "what changed"),
            Example(
                "cutrace diff a.jsonl b.jsonl --fail-on 'total>+5%' --fail-on 'cuMemAlloc_v2.count>100'",
                "fail a CI job",
            ),
        ],
        exit: ExitStatus::Special(
            "The exit status is 0; 1 if a condition of --fail-on holds; 2 if the command line is wrong or a trace cannot be read.",
        ),
        see: &["report"],
    },
    Page {
        verb: "query",
        examples: &[
            Example("cutrace query @top", "functions by time, of the newest trace"),
            Example("cutrace query 'select name, count(*) from kernels group by name' a.arrows", "SQL of your own"),
            Example("cutrace query --print=csv @idle-by-host /data/lake", "of all traces in a lake"),
            Example("cutrace query --spark spark://head:7077 @top /data/lake", "the same on a Spark cluster"),
            Example("cutrace query @top s3://bucket/lake/run=exp7", "of one run in an object store"),
            Example("cutrace query --named", "the named queries"),
            Example("cutrace query", "DuckDB's prompt, with the views"),
        ],
        exit: ExitStatus::Plain,
        see: &["lake", "report", "export"],
    },
    Page {
        verb: "mcp",
        examples: &[Example("cutrace mcp", "what an assistant starts")],
        exit: ExitStatus::Plain,
        see: &["report", "query"],
    },
    Page {
        verb: "lake",
        examples: &[
            Example("cutrace lake add /data/lake traces/*.arrows", "put traces into a lake"),
            Example("cutrace query @regressions /data/lake", "ask all of them"),
        ],
        exit: ExitStatus::Plain,
        see: &["query", "export"],
    },
    Page {
        verb: "lake add",
        examples: &[
            Example("cutrace lake add /data/lake a.arrows b.jsonl", "two traces"),
            Example("cutrace lake add /data/lake traces/run_exp7", "the traces of a run's ranks"),
            Example("cutrace lake add s3://bucket/lake traces/run_exp7", "into an object store"),
        ],
        exit: ExitStatus::Special("The exit status is 0, or 2 if a trace could not be added; the others were."),
        see: &["query", "lake check"],
    },
    Page {
        verb: "lake report",
        examples: &[
            Example("cutrace lake report /data/lake", "the newest run beside the one before it"),
            Example("cutrace lake report /data/lake --base monday --new tuesday", "two runs by name"),
            Example("cutrace lake report /data/lake --fail-on 'slower.count>0'", "for CI"),
        ],
        exit: ExitStatus::Special(
            "The exit status is 0, 1 if a condition of --fail-on holds, 2 if the command line is wrong or the lake cannot be read.",
        ),
        see: &["diff", "query", "lake add"],
    },
    Page {
        verb: "lake list",
        examples: &[Example("cutrace lake list /data/lake", "what is in it")],
        exit: ExitStatus::Plain,
        see: &["lake add", "query"],
    },
    Page {
        verb: "lake check",
        examples: &[Example("cutrace lake check /data/lake", "after a crash, a full disk, a copy")],
        exit: ExitStatus::Special("The exit status is 0; 1 if a file is missing or broken; 2 if there is no lake."),
        see: &["lake add"],
    },
    Page {
        verb: "lake compact",
        examples: &[Example("cutrace lake compact /data/lake", "after many small traces were added")],
        exit: ExitStatus::Plain,
        see: &["lake check", "lake expire"],
    },
    Page {
        verb: "lake expire",
        examples: &[
            Example("cutrace lake expire /data/lake --days 90", "keep three months"),
            Example("cutrace lake expire /data/lake --runs 'exp7-*'", "remove some runs"),
        ],
        exit: ExitStatus::Plain,
        see: &["lake check"],
    },
    Page {
        verb: "ioctl",
        examples: &[
            Example("cutrace ioctl 0xc020462a --driver 580", "an RM_CONTROL, as driver 580 has it"),
            Example("cutrace ioctl 34", "UVM_FREE"),
        ],
        exit: ExitStatus::Plain,
        see: &["replay", "record"],
    },
    Page {
        verb: "probes",
        examples: &[
            Example("cutrace probes 'cuMem*'", "functions by name"),
            Example("sudo cutrace probes --arguments 'tracepoint:irq:*'", "tracepoints and what they record"),
        ],
        exit: ExitStatus::Special("The exit status is 0; 1 if nothing matches; 2 if the command line is wrong."),
        see: &["hooks", "record"],
    },
    Page {
        verb: "hooks",
        examples: &[
            Example("cutrace hooks check my-hooks.toml", "say what each hook matches here"),
            Example("sudo cutrace --hooks my-hooks.toml ./app", "record with them"),
        ],
        exit: ExitStatus::Plain,
        see: &["probes", "record"],
    },
    Page {
        verb: "hooks check",
        examples: &[
            Example("cutrace hooks check my-hooks.toml", "say what each hook matches here"),
            Example("cutrace hooks check --sim my-hooks.toml", "for a program under --sim"),
        ],
        exit: ExitStatus::Plain,
        see: &["probes", "record"],
    },
    Page {
        verb: "doctor",
        examples: &[
            Example("cutrace doctor", "what can be recorded here"),
            Example("sudo cutrace doctor", "what can be recorded here as root"),
        ],
        exit: ExitStatus::Plain,
        see: &["record", "probes"],
    },
    Page {
        verb: "gpu",
        examples: &[
            Example("cutrace gpu count 'matmul*' -- ./app", "threads, warps and blocks of these kernels"),
            Example("cutrace gpu mem matmul --sim -- ./app", "memory accesses, on softgpu"),
            Example("cutrace gpu check prog.bpf.o", "verify a BPF object"),
            Example("cutrace gpu run prog.bpf.o -- ./app", "run its programs inside kernels"),
        ],
        exit: ExitStatus::Commands,
        see: &["record", "report"],
    },
    Page {
        verb: "gpu run",
        examples: &[
            Example("cutrace gpu run prog.bpf.o -- ./app", "programs go where their sections say"),
            Example("cutrace gpu run prog.bpf.o --match 'matmul*' -- ./app", "into these kernels instead"),
            Example("cutrace gpu run prog.bpf.o --every 1s --sim -- ./app", "maps every second, on softgpu"),
        ],
        exit: ExitStatus::Commands,
        see: &["gpu check", "gpu exec", "gpu count"],
    },
    Page {
        verb: "gpu check",
        examples: &[Example("cutrace gpu check prog.bpf.o", "verify an object, show its PTX")],
        exit: ExitStatus::Special(
            "The exit status is 0; 1 if a program was refused; 2 if the command line is wrong; 125 if the object cannot be read.",
        ),
        see: &["gpu run"],
    },
    Page {
        verb: "gpu exec",
        examples: &[
            Example("cutrace gpu exec prog.bpf.o", "one block of 256 threads"),
            Example("cutrace gpu exec prog.bpf.o --grid 16 --block 32,32 --sim", "more of them, on softgpu"),
        ],
        exit: ExitStatus::Special("The exit status is 0, or 125 if the programs cannot be run."),
        see: &["gpu run", "gpu check"],
    },
    Page {
        verb: "gpu trace",
        examples: &[
            Example("cutrace gpu trace 'matmul*' -- ./app", "when each block ran, and where"),
            Example("cutrace gpu trace 'matmul*' --per-thread --sim -- ./app", "each thread, on softgpu"),
        ],
        exit: ExitStatus::Commands,
        see: &["gpu sched", "timeline"],
    },
    Page {
        verb: "gpu count",
        examples: &[
            Example("cutrace gpu count 'matmul*' -- ./app", "threads, warps and blocks"),
            Example("cutrace gpu count '*' --sim -- ./app", "of all kernels, on softgpu"),
        ],
        exit: ExitStatus::Commands,
        see: &["gpu hist", "gpu mem"],
    },
    Page {
        verb: "gpu hist",
        examples: &[Example("cutrace gpu hist 'matmul*' -- ./app", "durations of warps and blocks")],
        exit: ExitStatus::Commands,
        see: &["gpu trace", "gpu sched"],
    },
    Page {
        verb: "gpu mem",
        examples: &[
            Example("cutrace gpu mem 'matmul*' -- ./app", "memory accesses by source line"),
            Example("cutrace gpu mem --sample 1/16 'matmul*' -- ./app", "one in 16, quicker"),
        ],
        exit: ExitStatus::Commands,
        see: &["gpu count", "gpu run"],
    },
    Page {
        verb: "gpu sched",
        examples: &[Example("cutrace gpu sched 'matmul*' -- ./app", "blocks by multiprocessor and time")],
        exit: ExitStatus::Commands,
        see: &["gpu trace", "gpu hist"],
    },
    Page {
        verb: "completions",
        examples: &[
            Example(
                "cutrace completions bash > ~/.local/share/bash-completion/completions/cutrace",
                "for bash",
            ),
            Example("cutrace completions --into completions", "for all shells, a file each"),
        ],
        exit: ExitStatus::Plain,
        see: &["man"],
    },
    Page {
        verb: "man",
        examples: &[
            Example("cutrace man record", "read a page, where output is a terminal"),
            Example("cutrace man gpu run > cutrace-gpu-run.1", "write a page"),
            Example("cutrace man --into man/man1", "write all pages"),
        ],
        exit: ExitStatus::Plain,
        see: &["completions"],
    },
];

impl Page {
    pub fn of(verb: &str) -> Option<&'static Page> {
        PAGES.iter().find(|page| page.verb == verb)
    }

    /// What ends `--help`.
    pub fn help(&self) -> String {
        let mut text = String::from("Examples:\n");
        let widest = self.examples.iter().map(|Example(line, _)| line.len());
        let column = widest.filter(|width| *width <= WIDEST).max().unwrap_or(0);
        for Example(line, says) in self.examples {
            if line.len() <= column {
                let _ = writeln!(text, "  {line:<column$}   {says}");
            } else {
                let _ = writeln!(text, "  {line}\n  {:<column$}   {says}", "");
            }
        }
        if self.exit != ExitStatus::Plain {
            let _ = write!(text, "\n{}", self.exit.words());
        }
        text.trim_end().to_owned()
    }
}

/// Longer examples have what they do on the next line.
const WIDEST: usize = 56;
