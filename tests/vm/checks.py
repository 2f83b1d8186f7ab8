"""What must hold inside the virtual machine: checks.py SERIES|locked|driver CUTRACE PROGRAMS REPOSITORY.

Each check runs cutrace as a user would, and compares what it says and what it wrote. A check that
fails says what was expected; all are run.
"""

import json
import os
import subprocess
import sys
import time

SERIES, CUTRACE, PROGRAMS, REPOSITORY = sys.argv[1:5]
ROUNDS = 4
FAILED = []


def run(*words, expect=0, user=None):
    """Standard output and error of cutrace; its status must be what is expected."""
    command = [CUTRACE, *words]
    if user is not None:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/tmp")
    if done.returncode != expect:
        raise AssertionError(
            f"{' '.join(words)}: status {done.returncode}, not {expect}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout, done.stderr


def record(*options, expect=0):
    """A run of the test program: its events by id as they were at their ends, and what was said."""
    trace = "/tmp/trace.jsonl"
    if os.path.exists(trace):
        os.remove(trace)
    _, said = run("record", "-v", "-o", trace, *options, "--", f"{PROGRAMS}/requests", str(ROUNDS), expect=expect)
    if not os.path.exists(trace):
        return {}, said, []
    with open(trace) as file:
        lines = [json.loads(line) for line in file]
    return read(trace), said, lines


def read(trace):
    """The events of a trace by their ids, as they were at their ends."""
    events = {}
    with open(trace) as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        if "layer" in line and "op_id" in line and line.get("type") not in ("memory", "transfer"):
            # What was known at the beginning still holds at the end.
            known = events.setdefault(line["op_id"], {})
            line["details"] = {**known.get("details", {}), **line.get("details", {})}
            known.update(line)
    return events


def above(events, event):
    """The spans around an event, the nearest first."""
    path = []
    while event.get("parent") is not None:
        event = events[event["parent"]]
        path.append(event)
    return path


def named(events, name):
    return [event for event in events.values() if event["name"] == name]


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: {found!r}, not {expected!r}")


def contains(text, part):
    if part not in text:
        raise AssertionError(f"{part!r} is not in:\n{text}")


def check(function):
    """Runs a check and tells how it went."""
    try:
        function()
        print(f"ok      {function.__doc__}", flush=True)
    except Exception as error:  # noqa: BLE001 - whatever it is, the others are still to be run
        FAILED.append(function.__name__)
        print(f"FAILED  {function.__doc__}\n{error!r}\n{error}", flush=True)


def one_tree():
    """API call, request and functions of the driver are one tree; every call is there, once"""
    events, said, lines = record("--kernel")
    means = "kprobe_multi" if SERIES == "6.12" else "kprobe"
    contains(said, f"nvidia:nvidia_unlocked_ioctl ({means})")
    contains(said, "rm_ioctl is notrace")
    contains(said, "kchannelConstruct_IMPL is notrace")
    contains(said, "nv_free_pages is nv_free_pages.isra.0 here")
    contains(said, "nvidia_isr_msix: fallback")
    for name, count in [
        ("cuInit", 1),
        ("cuMemAlloc_v2", ROUNDS),
        ("os_alloc_mem", ROUNDS),
        ("nv_alloc_pages", ROUNDS),
        ("os_free_mem", ROUNDS),
        ("nv_free_pages", ROUNDS),
        ("nvidia_unlocked_ioctl", 2 * ROUNDS),
        ("uvm_unlocked_ioctl_entry", ROUNDS + 1),
        ("uvm_api_migrate", ROUNDS),
        ("uvm_vm_fault_entry", 2),
        ("nvidia_open", 2),
        ("nvidia_close", 2),
        ("nvidia_isr", 1),
        ("nvidia_isr_kthread_bh", 1),
        ("nv_post_event", 1),
        ("nv_report_error", 1),
        ("nvidia_dev_xid", 1),
        # Once a migration, and once for the interrupt's second half.
        ("nv_kthread_q_schedule_q_item", ROUNDS + 1),
    ]:
        equal(len(named(events, name)), count, name)
    equal(sum(event["type"] == "ioctl" for event in events.values()), 3 * ROUNDS + 1, "requests")
    for leaf in named(events, "os_alloc_mem"):
        path = above(events, leaf)
        equal([e["layer"] for e in path], ["kernel", "syscall", "driver"], "layers above os_alloc_mem")
        equal([path[0]["name"], path[2]["name"]], ["nvidia_unlocked_ioctl", "cuMemAlloc_v2"], "above os_alloc_mem")
        equal(leaf["correlation"], path[2]["op_id"], "what os_alloc_mem belongs to")
        equal(leaf["details"]["size"], 48, "size")
        equal(leaf["result"], "NV_OK", "status")
    xid = named(events, "nvidia_dev_xid")[0]
    equal([xid["details"]["error_code"], xid["details"]["msg"]], [13, "Graphics Exception: stand-in"], "Xid")
    equal([named(events, "nvidia_isr")[0]["type"], xid["layer"]], ["interrupt", "kernel"], "kinds")
    slept = [event for event in named(events, "off-cpu") if event["details"].get("state") == "sleeping"]
    # The clock of its sleep may run before it is off the processor.
    if not any(event["duration_us"] > 10000 for event in slept):
        raise AssertionError(f"the program slept 50 ms: {slept}")
    equal(lines[-1]["lost"], 0, "lost")


HOOKS = """
# The same function by several hooks, some of its calls only.
[[hook]]
name  = "allocations"
probe = ["fentry:nvidia:nvidia_unlocked_ioctl"]
time  = true
args  = { cmd = "arg1:u32", result = "retval:i64" }
when  = "(cmd & 0xff) == 0x2b"

[[hook]]
name  = "others"
probe = ["kprobe:nvidia:nvidia_unlocked_ioctl"]
time  = true
args  = { cmd = "arg1:u32" }
when  = "!((cmd & 0xff) == 0x2b) && cmd != 0"

[[hook]]
name  = "queue item"
probe = ["kprobe:nv_schedule_work", "kprobe:nvidia:nv_ioctl", "kprobe:nvidia:nv_kthread_q_schedule_q_item"]
type  = "scheduler"
process = "any"

[[hook]]
name  = "got memory"
probe = "kretprobe:nvidia:os_alloc_mem"
args  = { status = "retval:u32" }
when  = "status == 0"

[[hook]]
name  = "no memory"
probe = "kretprobe:nvidia:os_alloc_mem"
args  = { status = "retval:u32" }
when  = "status != 0"

[[hook]]
name  = "file"
probe = "fentry:vmlinux:do_filp_open"
args  = { name = "*arg1:str" }
when  = 'name == "/dev/nvidia*"'

[[hook]]
name  = "where from"
probe = "kprobe:nvidia:nv_alloc_pages"
stack = true
args  = { tenth = "arg9:ptr", count = "arg1:u32" }

[[hook]]
name  = "error"
probe = "tracepoint:nvidia:nvidia_dev_xid"
args  = { code = "error_code", msg = "msg:str" }
when  = "code == 13"

[[hook]]
name  = "another error"
probe = "tracepoint:nvidia:nvidia_dev_xid"
args  = { code = "error_code" }
when  = "code > 13"

[[hook]]
name  = "free"
probe = "uprobe:LIBRARY:cuMemFree*"
time  = true
args  = { result = "retval:i32" }

[[hook]]
name  = "nothing"
probe = ["kprobe:nvidia:nvidia_ioctl", "kprobe:nvidia:rm_ioctl", "tracepoint:nvidia:no_such"]
"""


def hooks_file():
    """A hooks file: alternatives, conditions in the kernel, returns, texts, stacks, one function twice"""
    with open("/tmp/hooks.toml", "w") as file:
        file.write(HOOKS.replace("LIBRARY", f"{PROGRAMS}/libcuda.so.1"))
    said, _ = run("hooks", "check", "/tmp/hooks.toml")
    contains(said, "takes kprobe:nvidia:nv_kthread_q_schedule_q_item: a function of nvidia")
    contains(said, "no function nv_schedule_work: no driver has had it")
    contains(said, "no function nvidia_ioctl: the compiler inlines it into nvidia_unlocked_ioctl")
    contains(said, "11 hooks, no mistakes")
    events, said, _ = record("--hooks", "/tmp/hooks.toml")
    fentry = "fentry" if SERIES == "6.12" else "kprobe"
    contains(said, f"nvidia:nvidia_unlocked_ioctl ({fentry})")
    contains(said, "vmlinux:do_filp_open (fentry)")
    contains(said, f" function of {PROGRAMS}/libcuda.so.1 ({'uprobe multi' if SERIES == '6.12' else 'uprobe'})")
    contains(said, "not hooked: nothing: no function nvidia_ioctl")
    for name, count in [
        ("allocations", ROUNDS),
        ("others", ROUNDS),
        ("queue item", 1),
        ("got memory", ROUNDS),
        ("no memory", 0),
        ("file", 4),
        ("where from", ROUNDS),
        ("free", ROUNDS),
        ("error", 1),
        ("another error", 0),
    ]:
        equal(len(named(events, name)), count, name)
    for event in named(events, "allocations"):
        equal([event["details"]["cmd"] & 0xff, event["details"]["result"], event["phase"]], [0x2b, 0, "E"], "request")
    files = sorted(event["details"]["name"] for event in named(events, "file"))
    equal(files, ["/dev/nvidia-uvm"] * 2 + ["/dev/nvidiactl"] * 2, "files")
    for event in named(events, "where from"):
        symbols = [frame.get("sym") for frame in event["stack"]]
        for symbol in ["nv_alloc_pages", "nvidia_unlocked_ioctl"]:
            if symbol not in symbols:
                raise AssertionError(f"no {symbol} in {symbols}")
        # The program's own frames follow: as many as its frame pointers lead to, at least one.
        if int(event["stack"][-1]["addr"], 16) >> 63:
            raise AssertionError(f"no frame of the program in {event['stack']}")
        equal(event["details"]["count"], 16, "the second argument")
        if int(event["details"]["tenth"], 16) >> 63 != 1:
            raise AssertionError(f"the tenth argument is a pointer of the kernel: {event['details']}")


def counted():
    """--hook: counts and histograms of functions of the kernel, by name and by glob, each call once"""
    probes = [
        "kprobe:nvidia:os_alloc_mem=hist(duration)",
        "kprobe:nvidia:os_alloc_mem=hist(arg1)",
        "kretprobe:nvidia:os_alloc_mem=hist(retval:u32)",
        "fentry:nvidia:nvidia_unlocked_ioctl=hist(duration)",
        "kprobe:nvidia:nv*=count",
        "kprobe:nvidia:os_*_mem=count",
    ]
    options = [word for probe in probes for word in ("--hook", probe)]
    events, said, lines = record("--method=kernel", *options)
    equal(len(events), 0, "events of what is only counted")
    found = {(one["of"], one["key"]): one for one in lines[-1]["aggregates"]}
    for (of, key), count in {
        ("duration_ns", "kprobe:nvidia:os_alloc_mem"): ROUNDS,
        ("arg1", "kprobe:nvidia:os_alloc_mem"): ROUNDS,
        ("retval", "kretprobe:nvidia:os_alloc_mem"): ROUNDS,
        ("duration_ns", "fentry:nvidia:nvidia_unlocked_ioctl"): 2 * ROUNDS,
        ("count", "kprobe:nvidia:nvidia_unlocked_ioctl"): 2 * ROUNDS,
        ("count", "kprobe:nvidia:nv_alloc_pages"): ROUNDS,
        ("count", "kprobe:nvidia:os_alloc_mem"): ROUNDS,
        ("count", "kprobe:nvidia:os_free_mem"): ROUNDS,
    }.items():
        if (of, key) not in found:
            raise AssertionError(f"no {of} of {key} in {list(found)}\n{said}")
        equal(found[of, key]["count"], count, f"{of} of {key}")
    size = found["arg1", "kprobe:nvidia:os_alloc_mem"]
    equal(size["histogram"], [{"from": 32, "to": 64, "count": ROUNDS}], "sizes of 48 bytes")
    equal(size["total"], 48 * ROUNDS, "bytes in all")
    status = found["retval", "kretprobe:nvidia:os_alloc_mem"]
    equal(status["histogram"], [{"from": 0, "to": 1, "count": ROUNDS}], "NV_OK")
    contains(said, "@duration_ns[kprobe:nvidia:os_alloc_mem]:")
    contains(said, "[32, 64) ")


def by_ebpf():
    """Calls and requests by eBPF alone: this kernel's way of attaching is said, every call is there"""
    events, said, lines = record("--method=ebpf")
    way = "uprobe multi" if SERIES == "6.12" else "uprobe"
    contains(said, f"({way})")
    for name, count in [("cuInit", 1), ("cuMemAlloc_v2", ROUNDS), ("cuMemFree_v2", ROUNDS)]:
        equal(len(named(events, name)), count, name)
    equal(sum(event["type"] == "ioctl" for event in events.values()), 3 * ROUNDS + 1, "requests")
    equal(lines[-1]["lost"], 0, "lost")
    by_ptrace, _, _ = record("--method=syscall")
    requests = lambda those: [e["decoded"]["name"] for e in sorted(
        (e for e in those.values() if e["type"] == "ioctl"), key=lambda e: e["op_id"])]
    equal(sorted(requests(events)), sorted(requests(by_ptrace)), "requests by ebpf and by syscall")


MARKERS = """
[[hook]]
probe = "usdt:PROGRAM:demo:heard"
args  = { round = "arg0:i32" }

[[hook]]
probe = "usdt:PROGRAM:demo:plain"
args  = { round = "arg0:i32", sum = "arg7:u32", element = "arg5:i32", text = "arg8:str" }
when  = "round < 0"
"""


def markers():
    """Markers of a program: each once, with its arguments, and the program knows that somebody listens"""
    with open("/tmp/markers.toml", "w") as file:
        file.write(MARKERS.replace("PROGRAM", f"{PROGRAMS}/markers"))
    trace = "/tmp/markers.jsonl"
    out, said = run("record", "-v", "--method=kernel", "--hooks", "/tmp/markers.toml", "-o", trace, "--",
                    f"{PROGRAMS}/markers", str(ROUNDS))
    equal(out.splitlines()[0], str(ROUNDS), "times the program was heard")
    is_multi = SERIES == "6.12" and "CUTRACE_PRETEND_KERNEL" not in os.environ
    contains(said, f"1 marker of {PROGRAMS}/markers ({'uprobe multi' if is_multi else 'uprobe'})")
    events = read(trace)
    equal([event["details"] for event in named(events, "demo:heard")], [{"round": i} for i in range(ROUNDS)], "heard")
    equal([event["details"] for event in named(events, "demo:plain")],
          [{"round": -i, "sum": 70 + i, "element": 100 * (i + 2) - 500, "text": f"round {i}"}
           for i in range(1, ROUNDS)], "plain")
    done = subprocess.run([f"{PROGRAMS}/markers", str(ROUNDS)], capture_output=True, text=True)
    equal(done.stdout, "0\n", "times it was heard when nobody listened")


def as_oldest():
    """As 5.15 would: with everything newer masked, the same functions, requests and markers, one by one"""
    os.environ["CUTRACE_PRETEND_KERNEL"] = "5.15"
    try:
        said, _ = run("doctor")
        for line in ["kprobe_multi   no", "fentry         no", "uprobe_multi   no", "session        no",
                     "kprobe         yes", "uprobe         yes"]:
            contains(said, line)
        events, said, lines = record("--method=ebpf", "--kernel=ioctl,memory")
        contains(said, "nvidia:nvidia_unlocked_ioctl (kprobe)")
        for name, count in [("nvidia_unlocked_ioctl", 2 * ROUNDS), ("os_alloc_mem", ROUNDS), ("os_free_mem", ROUNDS)]:
            equal(len(named(events, name)), count, name)
        equal(sum(event["type"] == "ioctl" for event in events.values()), 3 * ROUNDS + 1, "requests")
        equal(lines[-1]["lost"], 0, "lost")
        # Those of the first moments may be missing, which is said then.
        seen = [len(named(events, name)) for name in ["cuMemAlloc_v2", "cuMemFree_v2"]]
        if seen != [ROUNDS, ROUNDS]:
            contains(said, "calls may be missing")
        print(f"        calls seen: {seen} of {ROUNDS} each", flush=True)
        markers()
    finally:
        del os.environ["CUTRACE_PRETEND_KERNEL"]


def without_btf():
    """Without the kernel's types everything is there as before, by kprobes; doctor says what is missing"""
    subprocess.run(["mount", "-t", "tmpfs", "none", "/sys/kernel/btf"], check=True)
    try:
        said, _ = run("doctor")
        contains(said, "BTF            no")
        events, said, _ = record("--kernel=ioctl,memory", "--method=ebpf")
        for name, count in [
            ("cuMemAlloc_v2", ROUNDS),
            ("nvidia_unlocked_ioctl", 2 * ROUNDS),
            ("os_alloc_mem", ROUNDS),
        ]:
            equal(len(named(events, name)), count, name)
    finally:
        subprocess.run(["umount", "/sys/kernel/btf"], check=True)


def everyone():
    """-a sees what the driver does for programs that cutrace did not start"""
    trace = "/tmp/all.jsonl"
    watch = subprocess.Popen([CUTRACE, "-a", "--kernel=ioctl,memory", "--no-summary", "-d", "60", "-o", trace],
                             stderr=subprocess.PIPE, text=True)
    hooked(True, "nothing was hooked")
    time.sleep(2)
    started = [subprocess.Popen([f"{PROGRAMS}/requests", str(ROUNDS)], stdout=subprocess.DEVNULL) for _ in range(2)]
    for one in started:
        one.wait()
    time.sleep(1)
    watch.send_signal(2)
    said = watch.communicate()[1]
    events = read(trace)
    for one in started:
        own = [event for event in named(events, "nvidia_unlocked_ioctl") if event["pid"] == one.pid]
        if len(own) != 2 * ROUNDS:
            raise AssertionError(f"{len(own)} of {2 * ROUNDS} requests of {one.pid}\n{said}")


def silent():
    """Tracepoints that NVIDIA's driver never fires say so"""
    _, said, _ = record("--kernel=other_drivers")
    contains(said, "never fired: ")


def hooked(expected, what):
    """Waits until functions of the driver are hooked, or are not."""
    for _ in range(120):
        with open("/sys/kernel/tracing/enabled_functions") as file:
            found = [line for line in file if "[nvidia" in line]
        if bool(found) == expected:
            return
        time.sleep(0.5)
    raise AssertionError(f"{what} after a minute: {found}")


def left_alone():
    """Nothing is left attached, whether a run ends by itself or is killed"""
    hooked(False, "still hooked")
    trace = subprocess.Popen([CUTRACE, "--kernel", "-o", "/tmp/killed.jsonl", "--", "sleep", "60"],
                             stderr=subprocess.DEVNULL)
    hooked(True, "nothing was hooked")
    trace.kill()
    trace.wait()
    hooked(False, "still hooked")


def required():
    """A hook that is required and not there ends the run before it begins"""
    with open("/tmp/required.toml", "w") as file:
        file.write('[[hook]]\nname = "it"\nprobe = "kprobe:nvidia:rm_ioctl"\nrequired = true\n')
    _, said, lines = record("--hooks", "/tmp/required.toml", expect=125)
    contains(said, "it is required and cannot be hooked: rm_ioctl is notrace")
    equal(lines, [], "lines of a trace")


def wrong_file():
    """A wrong hooks file is reported with line and column; a probe that matches nothing, with the reason"""
    with open("/tmp/wrong.toml", "w") as file:
        file.write('[[hook]]\nprobe = "kprobe:f"\nwhen = "size > 1"\n')
    _, said, _ = record("--hooks", "/tmp/wrong.toml", expect=125)
    contains(said, "/tmp/wrong.toml:3:9: 'size' is not among the hook's args")
    with open("/tmp/nothing.toml", "w") as file:
        file.write('[[hook]]\nprobe = "kprobe:nvidia:no_such*"\n')
    _, said, _ = record("--hooks", "/tmp/nothing.toml", expect=125)
    contains(said, "no function matches no_such*")


def listed():
    """probes lists functions of modules, says what is notrace, and knows arguments where there is BTF"""
    said, _ = run("probes", "-v", "kprobe:nvidia:*")
    contains(said, "kprobe:nvidia:nvidia_unlocked_ioctl\n")
    contains(said, "kprobe:nvidia:rm_ioctl  (notrace")
    contains(said, "kprobe:nvidia:nv_free_pages.isra.0\n")
    if SERIES == "6.12":
        contains(said, "kprobe:nvidia:nvidia_open\n    arg0 struct inode * inode\n    arg1 struct file * file\n    retval int\n")
    said, _ = run("probes", "-v", "tracepoint:nvidia:*")
    contains(said, "tracepoint:nvidia:nvidia_dev_xid\n    __data_loc char[] dev\n    u32 error_code\n")
    said, _ = run("probes", "nv*sched*")
    contains(said, "kprobe:nvidia:nv_kthread_q_schedule_q_item\nkprobe:nvidia_uvm:nv_kthread_q_schedule_q_item\n")


def recipes():
    """What docs/COMING-FROM.md says of the driver's functions is what is printed"""
    done = subprocess.run([sys.executable, f"{REPOSITORY}/tests/recipes/run", "--kprobes", PROGRAMS, CUTRACE],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)


def nobody():
    """Without root it is said what is needed"""
    os.chmod("/tmp", 0o777)
    _, said = run("record", "--kernel", "-o", "/tmp/nobody.jsonl", "--", "true", expect=125, user=65534)
    contains(said, "use sudo cutrace")


def doctor():
    """doctor says what this kernel can do"""
    said, _ = run("doctor")
    for line in {
        "6.12": ["kprobe_multi   yes", "fentry         yes", "uprobe_multi   yes", "session        no"],
        "6.1": ["kprobe_multi   no", "fentry         yes", "uprobe_multi   no", "session        no"],
    }[SERIES] + ["kprobe         yes", "BTF            yes", "tracefs        yes", "580.95.05"]:
        contains(said, line)


def locked_down():
    """A locked-down kernel is named as the reason, and the program is not begun"""
    said, _ = run("doctor")
    contains(said, "lockdown")
    contains(said, "confidentiality")
    done = subprocess.run([CUTRACE, "--kernel", "-o", "/tmp/x.jsonl", "--", "echo", "begun"],
                          capture_output=True, text=True, cwd="/tmp")
    equal([done.returncode, done.stdout], [125, ""], done.stderr)
    contains(done.stderr, "locked down")


def real_driver():
    """NVIDIA's own driver and libcuda: cuInit, its requests and the driver's functions are one tree"""
    trace = "/tmp/trace.jsonl"
    out, said = run("record", "-v", "--kernel", "-o", trace, "--", f"{PROGRAMS}/init")
    # There is no GPU: 999 or 100, after some requests.
    contains(out, "cuInit: ")
    if out == "cuInit: 0\n":
        raise AssertionError("cuInit succeeded without a GPU")
    events = read(trace)
    requests = [event for event in events.values() if event["type"] == "ioctl"]
    functions = named(events, "nvidia_unlocked_ioctl") + named(events, "uvm_unlocked_ioctl_entry")
    if len(requests) < 5 or len(functions) != len(requests):
        raise AssertionError(f"{len(requests)} requests, {len(functions)} in the driver\n{said}")
    for request in requests:
        if "unknown" in json.dumps(request.get("decoded", {})) or not request.get("decoded", {}).get("name"):
            raise AssertionError(f"a request that is not known: {request}")
    (call,) = named(events, "cuInit")
    inside = 0
    for function in functions:
        path = above(events, function)
        equal(path[0]["type"], "ioctl", "above a function of the driver")
        if path[-1]["name"] == "cuInit":
            equal([e["layer"] for e in path], ["syscall", "driver"], "layers above a function of the driver")
            equal(function["correlation"], call["op_id"], "what it belongs to")
            inside += 1
    if not inside:
        raise AssertionError("no request came out of cuInit")
    contains(said, "rm_ioctl is notrace")
    contains(said, "nvidia:nvidia_unlocked_ioctl (kprobe_multi)")
    # The same requests, whoever watches.
    names = lambda those: sorted(e["decoded"]["name"] for e in those.values() if e["type"] == "ioctl")
    seen = {}
    for method in ["ebpf", "syscall"]:
        run("record", "-q", f"--method={method}", "-o", trace, "--", f"{PROGRAMS}/init")
        seen[method] = names(read(trace))
    equal(seen["ebpf"], seen["syscall"], "requests by ebpf and by syscall")
    equal(len(seen["ebpf"]), len(requests), "requests with --kernel and without")
    print(f"        {len(seen['ebpf'])} requests by ebpf and by syscall, {len(set(seen['ebpf']))} names", flush=True)
    hooked_names = sorted({event["name"] for event in events.values() if event["layer"] == "kernel"})
    print(f"        {out.strip()}; {len(requests)} requests, {inside} inside cuInit; functions seen: "
          f"{', '.join(hooked_names)}", flush=True)


def not_hooked():
    """Functions of NVIDIA's own driver that are not hooked are named, each with the reason"""
    said, _ = run("hooks", "check", f"{REPOSITORY}/crates/capture/src/hooks/driver.toml")
    contains(said, "not   kprobe:nvidia:nvidia_ioctl: no function nvidia_ioctl: the compiler inlines it")
    contains(said, "kprobe:nvidia:rm_isr: rm_isr is notrace")
    taken = sum(line.startswith("  takes") for line in said.splitlines())
    print(f"        {taken} hooks of driver.toml taken here", flush=True)
    said, _ = run("probes", "-v", "kprobe:nvidia:os_alloc_mem")
    contains(said, "arg1 NvU64 size")


if SERIES == "locked":
    check(locked_down)
elif SERIES == "driver":
    check(real_driver)
    check(not_hooked)
else:
    checks = [one_tree, hooks_file, counted, by_ebpf, markers, as_oldest, without_btf, everyone, silent, listed, recipes, doctor,
              required, wrong_file, nobody, left_alone]
    for one in checks:
        check(one)
sys.exit(1 if FAILED else 0)
