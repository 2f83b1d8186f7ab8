//! Examples that end the help of a verb: what people type most, and what the exit status says.

pub const LINE: &str = "\
Examples:
  cutrace demo              the tour; no GPU needed
  cutrace ./app             trace a program; its trace is put into traces/
  cutrace --sim ./app       the same on softgpu, without a GPU
  cutrace report findings   what is worth changing, by the newest trace
  cutrace view              the newest trace in the browser
  cutrace cat | jq .name    the newest trace as JSON lines
  cutrace doctor            what works on this machine, and what to do about the rest

To trace a program whose name is a verb, put -- before it: cutrace -- cat FILE";

pub const RECORD: &str = "\
Examples:
  cutrace ./app --an-option-of-its-own
  cutrace --method=preload,syscall ./app   an API call, and the ioctls inside it
  cutrace -e 'memory,cuLaunch*' ./app      only these calls
  cutrace --stack=memory ./app             where memory is allocated
  cutrace -o - ./app                       every call on the terminal, as it happens
  sudo cutrace --hook 'uprobe:libcuda.so:cuMem*=hist(duration)' ./app
  sudo cutrace -p $(pgrep -n python) -d 10

The exit status is the command's own, or 128 and the signal that killed it; 127 where there is no such
command, 126 where it cannot be executed, 125 where cutrace itself failed.";

pub const SOFTGPU: &str = "\
Example:
  cutrace softgpu -- ./app";

pub const REPORT: &str = "\
Examples:
  cutrace report                           the newest trace in traces/
  cutrace report findings a.jsonl
  cutrace report memory --json a.jsonl | jq .memory
  ssh host cat a.jsonl | cutrace report -";

pub const CAT: &str = "\
Examples:
  cutrace cat | jq 'select(.type == \"lost\")'   the newest trace in traces/
  cutrace cat a.arrows > a.jsonl
  cutrace -- cat FILE                           traces the program cat instead";

pub const TIMELINE: &str = "\
Examples:
  cutrace timeline --from 10ms --to 20ms a.jsonl
  cutrace timeline --around 853            event 853, as the other reports number them";

pub const REPLAY: &str = "\
Examples:
  cutrace replay a.jsonl | less -S
  cutrace replay -e memory --from 1.5s a.jsonl";

pub const EXPORT: &str = "\
Examples:
  cutrace export -o report.html                       the newest trace in traces/
  cutrace export a.jsonl b.jsonl -o both.pftrace
  cutrace export new.jsonl --baseline old.jsonl -o changed.svg
  cutrace export a.jsonl -f csv | column -t -s,";

pub const DIFF: &str = "\
Examples:
  cutrace diff before.jsonl after.jsonl
  cutrace diff before.jsonl after.jsonl --fail-on 'total>+5%' --fail-on 'cuMemAlloc_v2.count>100'

The exit status is 0, 1 where a condition of --fail-on holds, 2 where a trace cannot be read.";

pub const IOCTL: &str = "\
Examples:
  cutrace ioctl 0xc020462a --driver 580
  cutrace ioctl 34                         UVM_FREE";

pub const PROBES: &str = "\
Examples:
  cutrace probes 'cuMem*'
  sudo cutrace probes -a 'tracepoint:irq:*'";

pub const HOOKS: &str = "\
Examples:
  cutrace hooks check my-hooks.toml
  sudo cutrace --hooks my-hooks.toml ./app";

pub const GPU: &str = "\
Examples:
  cutrace gpu count 'matmul*' -- ./app     threads, warps and blocks of these kernels
  cutrace gpu mem matmul --sim -- ./app    the same kind of thing on softgpu, without a GPU
  cutrace gpu check prog.bpf.o
  cutrace gpu run prog.bpf.o -- ./app";

pub const READY: &str = "\
The command stands behind KERNEL and the options: cutrace gpu count 'matmul*' --sim -- ./app";

pub const COMPLETIONS: &str = "\
Example:
  cutrace completions bash > ~/.local/share/bash-completion/completions/cutrace";

pub const MANUAL: &str = "\
Example:
  cutrace man | man -l -";
