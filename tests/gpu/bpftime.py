#!/usr/bin/env python3
"""bpftime's own GPU programs under cutrace, each for a few seconds, with the counts that are known.

    tests/gpu/bpftime.py CUTRACE FOLDER [--sim] [--seconds N] [NAME…]

FOLDER has objects/NAME.bpf.o and programs/NAME (with PTX), compiled by hand from a copy of example/gpu. Most programs never end:
they are interrupted as by Ctrl-C. Prints a table and what
was wrong; exits 1 if a count is. --sim runs on softgpu.
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

words = sys.argv[1:]
SIM = "--sim" in words
SECONDS = float(words[words.index("--seconds") + 1]) if "--seconds" in words else 5.0
if "--seconds" in words:
    del words[words.index("--seconds"):words.index("--seconds") + 2]
words = [word for word in words if not word.startswith("--")]
CUTRACE, FOLDER = os.path.abspath(words[0]), os.path.abspath(words[1])
WANTED = words[2:]
folder = tempfile.mkdtemp(dir=os.environ.get("TMPDIR"))


class Ran:
    """One run: what it printed, what the trace and the maps have."""

    def __init__(self, verb, name, options=(), arguments=(), program=True):
        self.trace = os.path.join(folder, "trace.jsonl")
        self.pin = os.path.join(folder, "pin")
        shutil.rmtree(self.pin, ignore_errors=True)
        line = [CUTRACE, "gpu", verb, f"{FOLDER}/objects/{name}.bpf.o", *options]
        line += ["--no-summary", "-o", self.trace, "--pin", self.pin] + (["--sim"] if SIM else [])
        if program:
            line += ["--", f"{FOLDER}/programs/{name}", *arguments]
        self.line = line
        process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            self.out, self.words = process.communicate(timeout=SECONDS if program else 120)
        except subprocess.TimeoutExpired:
            # As a terminal does it: to the program, too.
            os.killpg(process.pid, signal.SIGINT)
            try:
                self.out, self.words = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                self.out, self.words = process.communicate()
                self.words += "\nit did not end by itself"
        self.lines = []
        try:
            with open(self.trace) as file:
                self.lines = [json.loads(text) for text in file if text.strip()]
        except (OSError, ValueError) as why:
            self.words += f"\n{why}"
        self.maps, self.files = {}, {}
        try:
            with open(os.path.join(self.pin, "maps.json")) as file:
                for one in json.load(file)["maps"]:
                    entries = [(entry["key"], entry["values"]) for entry in one["entries"]]
                    self.maps.setdefault(one["name"], []).extend(entries)
                    self.files[one["name"]] = os.path.join(self.pin, one["file"])
        except (OSError, ValueError) as why:
            self.words += f"\n{why}"

    def launches(self, kernel="vectorAdd"):
        found = (line for line in self.lines if line.get("type") == "kernel" and line.get("op") == "launch")
        return sum(kernel in line.get("kernel", "") for line in found)

    def calls(self, name):
        return sum(line.get("name") == name and line.get("phase") == "E" for line in self.lines)

    def events(self):
        return [line for line in self.lines if line.get("type") == "device"]

    def printed(self, text):
        """Lines of printk with this text."""
        return sum(text in line["details"].get("text", "") for line in self.events() if "details" in line)

    def values(self, name):
        """The first value of each key."""
        return {str(key): values[0] for key, values in self.maps.get(name, [])}

    def all_values(self, name, key=0):
        """One value for each thread, without those that are 0."""
        found = dict((str(key), values) for key, values in self.maps.get(name, []))
        return [int(value) for value in found.get(str(key), []) if int(value)]


    def raw_values(self, name):
        """All of a map's u64, as it lies in memory, without those that are 0."""
        try:
            with open(self.files[name], "rb") as file:
                data = file.read()
        except (OSError, KeyError):
            return []
        return [value for (value,) in struct.iter_unpack("<Q", data) if value]


class Wrong(Exception):
    pass


def expect(what, found, wanted):
    if found not in (wanted if isinstance(wanted, (list, range)) else [wanted]):
        raise Wrong(f"{what}: {found}, not {wanted}")


def some(launches):
    if launches < 1:
        raise Wrong("no launch was recorded")
    # The last one may have been on its way.
    return [launches, launches - 1] if launches > 1 else [launches]


def times(launches, each):
    return [count * each for count in some(launches)]


def is_running(ran):
    return "runs on the host" not in ran.words


def kernel_trace(ran):
    found = [event for event in ran.events() if event["name"] == "kernel_trace_event"]
    expect("records", len(found), some(ran.launches()))
    for event in found:
        fields = event["details"]
        expect("thread", [int(fields[f"{what}_{axis}"]) for what in ("block", "thread") for axis in "xyz"], [[0] * 6])
    return ran.launches(), f"{len(found)} records, all of block 0, thread 0"


def kernelretsnoop(ran):
    # Its struct is a local variable's: clang leaves it out of the types, so records are plain numbers.
    found = [event["details"]["words"] for event in ran.events() if "words" in event.get("details", {})]
    expect("records", len(found), times(ran.launches(), 5))
    for thread in range(5):
        own = sum(int(record[0]) == thread for record in found)
        expect(f"records of thread {thread}", own, some(ran.launches()))
    return ran.launches(), f"{len(found)} records, 5 a launch"


def per_thread(kernel, threads):
    def look(ran):
        values = ran.raw_values("call_count")
        expect("threads", len(values), threads)
        # A large kernel may be interrupted in its midst: then some threads have not left it.
        counts = sorted(set(values))
        expected = [[count] for count in some(ran.launches(kernel))] + [sorted(some(ran.launches(kernel)))]
        expect("counts", counts, expected)
        return ran.launches(kernel), f"{threads:,} threads, {' or '.join(map(str, counts))} each"

    return look


def atomizer(ran):
    # What it has not written when it is interrupted is lost.
    if ran.out:
        expect("C[1]", "C[1] = 0" in ran.out, True)
        expect("C[7]", "C[7] = 21" in ran.out, True)
    expect("blocks that went on", ran.printed("Enter "), times(ran.launches(), 5))
    expect("blocks that ended", ran.printed("Exited "), times(ran.launches(), 5))
    result = "C[1] = 0, C[7] = 21" if ran.out else "its output is lost"
    return ran.launches(), f"blocks 0 to 4 of 10 ended at once: {result}"


def host_map_test(ran):
    values = ran.all_values("perthread_counter", 0)
    expect("calls", sum(values), times(ran.launches(), 10))
    expect("threads", sum(ran.all_values("perthread_counter", 2)), 45)
    shared = [int(value) for value in ran.values("shared_counter").values()]
    expect("shared counts", sorted(set(shared)), [[count] for count in some(ran.launches())])
    expect("timestamps", len(ran.all_values("thread_timestamp")), 10)
    return ran.launches(), f"{sum(values)} calls of 10 threads, 10 timestamps"


def cuda_counter(ran):
    found = sum(int(value) for value in ran.values("call_count").values())
    most = max(times(ran.launches(), 10))
    # The program's own race: threads that all find no key each put a 1 there.
    expect("calls", found, range(min(times(ran.launches(), 10)) - 9, most + 1))
    return ran.launches(), f"{found} calls (10 a launch; the first 10 race for the key)"


def cudagraph(ran):
    launches = ran.calls("cudaGraphLaunch") + 1
    found = sum(int(value) for value in ran.values("call_count").values())
    expect("calls", found, some(launches))
    return launches, f"{found} calls, {launches - 1} of them by graphs"


def mem_trace(ran):
    found = int(ran.values("counter").get("0", 0))
    expect("accesses", found, times(ran.launches(), 40))
    return ran.launches(), f"{found} accesses, 4 for each of 10 threads"


def gpu_shared_map(ran):
    found = int(ran.values("counter").get("0", 0))
    # Read, add, write back: threads overwrite each other, as its source says.
    expect("counter", found, range(min(some(ran.launches())), max(times(ran.launches(), 10)) + 1))
    expect("lines", ran.printed("gpu_update_kprobe"), some(ran.launches()))
    return ran.launches(), f"counter {found} (10 threads a launch, which overwrite each other)"


def threadscheduling(ran):
    expect("threads", len(ran.maps.get("thread_mapping", [])), 256)
    found = sum(int(value) for value in ran.values("sm_histogram").values())
    all_threads = times(ran.launches(), 256)
    # As above, threads that find no key race for it, in the first launch.
    expect("threads by SM", found, range(min(all_threads) - 255, max(all_threads) + 1))
    sms = len(ran.maps.get("sm_histogram", []))
    return ran.launches(), f"256 threads on {sms} SMs, {len(ran.maps.get('warp_histogram', []))} warps"


def launchlate(ran):
    if "--no-host" in ran.line:
        expect("lines", ran.printed("no uprobe timestamp"), times(ran.launches(), 10))
        return ran.launches(), "host part left out: no rights for eBPF here"
    bins = {int(key): int(value) for key, value in ran.values("time_histogram").items()}
    expect("latencies", sum(bins.values()), times(ran.launches(), 10))
    expect("late ones", sum(count for key, count in bins.items() if key >= 7), 0)
    return ran.launches(), f"latencies by bin: {bins}"


def threadhist_shared(ran):
    found = ran.values("call_count")
    expect("threads", int(found.get("0", 0)), times(ran.launches(), 10))
    if "--no-host" in ran.line:
        return ran.launches(), "host part left out: no rights for eBPF here"
    expect("launches", int(found.get("1", 0)), some(ran.launches()))
    return ran.launches(), f"value(0)={found.get('0')}, value(1)={found.get('1')}"


def cutlass(ran):
    found = int(ran.values("cutlass_call_count").get("0", 0))
    expect("launches", found, 5)
    return found, "1 warm-up and 4 launches of CUTLASS's SIMT GEMM"


def directly_run(_):
    def values(name, numbers):
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(struct.pack(f"<{len(numbers)}I", *numbers))
        return f"{name}=@{path}"

    vec = ["--program", "cuda__vec_add", "--grid", "4", "--block", "256", "--set", "vec_N[0]=1024"]
    vec += ["--set", values("vec_A", range(1024)), "--set", values("vec_B", range(0, 2048, 2))]
    ran = Ran("exec", "directly_run_on_gpu", vec, program=False)
    sums = {int(key): int(value) for key, value in ran.values("vec_C").items()}
    if sums != {at: 3 * at for at in range(1, 1024)}:
        raise Wrong(f"vec_C: {len(sums)} values\n{ran.words}")
    gemm = ["--program", "cuda__gemm", "--grid", "4,4", "--block", "16,16", "--set", "gemm_dims[0]=32,32,32"]
    gemm += ["--set", "gemm_A[0..1024]=65536", "--set", "gemm_B[0..1024]=655"]
    ran = Ran("exec", "directly_run_on_gpu", gemm, program=False)
    products = [int(value) for value in ran.values("gemm_C").values()]
    expect("gemm_C", products, [[1373634560] * 1024])
    ran = Ran("exec", "directly_run_on_gpu", [*gemm, "--budget", "10"], program=False)
    stopped = [event["details"]["threads"] for event in ran.events() if event["name"] == "stopped"]
    expect("threads that a budget of 10 stops", [int(count) for count in stopped], [[1024]])
    return 3, "C[i] = 3i for 1,024; GEMM 1,024 × 1373634560; a budget of 10 rounds stops 1,024 threads"


HOST = ("launchlate", "launchlate-kernel-gpu-shared-map", "threadhist-gpu-kernel-shared-map")
OFFSET = ["--set", "clock_offset[0]=realtime-monotonic"]
PARTITIONS = ["--set", "partition_num_map[0]=2", "--set", "partition_index_map[0]=1"]
# name: (options, arguments of the program, what to look at)
ALL = {
    "kernel_trace": ([], [], kernel_trace),
    "kernelretsnoop": ([], [], kernelretsnoop),
    "threadhist": ([], [], per_thread("vectorAdd", 524288)),
    "threadhist-gpu-kernel-shared-map": ([], [], threadhist_shared),
    "launchlate": (OFFSET, [], launchlate),
    "launchlate-kernel-gpu-shared-map": (OFFSET, [], launchlate),
    "atomizer": (PARTITIONS, [], atomizer),
    "cuda-counter": ([], [], cuda_counter),
    "cudagraph": ([], [], cudagraph),
    "mem_trace": ([], [], mem_trace),
    "gpu_shared_map": ([], [], gpu_shared_map),
    "host_map_test": ([], [], host_map_test),
    "threadscheduling": ([], [], threadscheduling),
    "threadscheduling_dynamic_hook": ([], [], threadscheduling),
    "directly_run_on_gpu": ([], [], directly_run),
    "cutlass-counter": ([], ["--shape", "128x128x32", "--launches", "4", "--warmup", "1"], cutlass),
    "faiss-test": ([], [], per_thread("l2NormRowMajor", 512)),
    "llama-cpp-test": ([], [], per_thread("rms_norm_f32", 2048)),
    "pytorch-test": ([], [], per_thread("bitonicSortKVInPlace", 256)),
}

failed = 0
print(f"{'program':<34}{'result':<8}{'launches':>8}  shows")
for name, (options, arguments, look) in ALL.items():
    if WANTED and name not in WANTED:
        continue
    ran = None
    try:
        if look is not directly_run:
            ran = Ran("run", name, options, arguments)
            if name in HOST and not is_running(ran):
                ran = Ran("run", name, ["--no-host"], arguments)
        launches, shows = look(ran)
        print(f"{name:<34}{'ok':<8}{launches:>8}  {shows}", flush=True)
    except Wrong as why:
        failed += 1
        print(f"{name:<34}{'FAIL':<8}{'':>8}  {why}", flush=True)
        if ran:
            print("    " + ran.words.strip()[-1500:].replace("\n", "\n    "), flush=True)
shutil.rmtree(folder, ignore_errors=True)
print(f"{failed} failed" if failed else "all as expected")
sys.exit(1 if failed else 0)
