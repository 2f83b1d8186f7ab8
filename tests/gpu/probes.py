#!/usr/bin/env python3
"""Probes inside kernels on a real GPU: the examples with exact counts, what probes cost, and odd lives.

    tests/gpu/probes.py CUTRACE PROGRAMS OBJECTS [--sim] [--quick] [PART…]

PROGRAMS is what `make -C tests/programs` made, OBJECTS is examples/gpu. Prints tables and one line for each
check; exits 1 if one fails. Nothing here is looser than the tests on softgpu.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

CUTRACE, PROGRAMS, OBJECTS = (os.path.abspath(path) for path in sys.argv[1:4])
SIM = "--sim" in sys.argv
QUICK = "--quick" in sys.argv
LIBRARIES = os.environ.get("LIBRARIES", "/usr/local/cuda/lib64:/usr/local/nvidia/lib64")
if not SIM:
    os.environ["LD_LIBRARY_PATH"] = LIBRARIES
folder = tempfile.mkdtemp(dir=os.environ.get("TMPDIR"))
failed = 0


def check(name, found, expected):
    global failed
    right = found == expected
    failed += not right
    found, expected = (text if len(text) < 400 else text[:400] + "…" for text in (repr(found), repr(expected)))
    print(f"{'ok  ' if right else 'FAIL'} {name}: {found}" + ("" if right else f", not {expected}"), flush=True)


class Ran:
    def __init__(self, words, command, limit=120, pin=True):
        self.trace = os.path.join(folder, "trace.jsonl")
        self.pin = os.path.join(folder, "pin")
        shutil.rmtree(self.pin, ignore_errors=True)
        line = [CUTRACE, "gpu", *words, "--no-summary", "-o", self.trace, *(["--pin", self.pin] if pin else [])]
        line += ["--sim"] if SIM else []
        line += ["--", *command] if command else []
        began = time.time()
        try:
            done = subprocess.run(line, capture_output=True, text=True, timeout=limit)
            self.code, self.out, self.words = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            self.code, self.out, self.words = "TIMEOUT", str(late.stdout), str(late.stderr)
        self.seconds = time.time() - began
        if self.code != 0:
            print(f"     exit {self.code}: {' '.join(line)}\n{self.out}\n{self.words}")

    def maps(self):
        try:
            with open(os.path.join(self.pin, "maps.json")) as file:
                return json.load(file)["maps"]
        except OSError:
            return []

    def map(self, name):
        return [entry for one in self.maps() if one["name"] == name for entry in one["entries"]]

    def numbers(self, name):
        return [entry["values"][0] for entry in self.map(name)]

    def ring(self, name):
        rings = [one["ring"] for one in self.maps() if one["name"] == name]
        return rings[0] if rings else {"produced": -1, "lost": -1}

    def events(self):
        with open(self.trace) as file:
            for line in file:
                if '"type":"device"' in line:
                    yield json.loads(line)


def program(name):
    return os.path.join(PROGRAMS, name)


def example(name, *arguments):
    return Ran(["run", f"{OBJECTS}/objects/{name}.bpf.o"], [program("probed"), *map(str, arguments)])


def examples():
    print("\n== examples", flush=True)
    ran = example("kernel_trace", "vaddn", 32, 128, 5)
    places = [[event["details"][key] for key in ("block_x", "block_y", "block_z", "thread_x", "thread_y", "thread_z")]
              for event in ran.events()]
    check("kernel_trace: one event a launch, block and thread 0", places, [[0] * 6] * 5)
    ran = example("kernelretsnoop", "vadd", 1, 5, 3)
    check("kernelretsnoop: threads 0 to 4 a launch", sorted(event["details"]["thread_x"] for event in ran.events()),
          sorted([0, 1, 2, 3, 4] * 3))
    ran = example("threadhist", "vadd", 512, 1024, 3)
    values = (ran.map("runs") or [{"values": []}])[0]["values"]
    check("threadhist: 65536 of 524288 threads shown, all", (len(values), set(values)), (65536, {3}))
    check("threadhist: all counts", re.findall(r"0: ([\d,]+) values from (\d+) to (\d+), ([\d,]+) in all", ran.words),
          [("524,288", "3", "3", "1,572,864")])
    ran = example("atomizer", "vadd", 10, 1, 1)
    check("atomizer: C[1], C[7]", re.findall(r"c\[\d\] (\S+)", ran.out), ["0", "21"])
    check("atomizer: counters", (ran.numbers("left_early"), ran.numbers("went_on")), ([5], [5]))
    check("atomizer: lines", sorted(re.findall(r"block (\d) of 10 goes home", ran.words)), list("01234"))
    ran = example("host_map_test", "vadd", 1, 10, 4)
    total = lambda name: sum(value for entry in ran.map(name) for value in entry["values"])
    check("host_map_test: calls, threads", (total("call_count"), total("thread_ids")), (40, 45))
    check("host_map_test: timestamps", sum(int(value) > 0 for entry in ran.map("timestamps") for value in entry["values"]), 10)
    ran = Ran(["exec", f"{OBJECTS}/objects/directly_run.bpf.o", "--grid", "4", "--block", "256"], None)
    check("directly_run: C[i] = 3i", [(entry["key"], entry["values"][0]) for entry in ran.map("c")],
          [(i, 3 * i) for i in range(1, 1024)])
    product = [(i, sum((i // 32 * 32 + k) * 2 * (k * 32 + i % 32) for k in range(32)) & 0xFFFFFFFF) for i in range(1024)]
    check("directly_run: the product of 32 x 32 matrices",
          [(entry["key"], entry["values"][0]) for entry in ran.map("product")] == product, True)
    ran = example("cuda-counter", "vadd", 1, 10, 3)
    check("cuda-counter: calls; began; the program's own count",
          (ran.numbers("calls"), ran.map("began"), "threads 30\n" in ran.out), ([30], [], True))
    ran = example("cudagraph", "graph", 4, 64, 7)
    check("cudagraph: calls, C[1]", (ran.numbers("calls"), "c[1] 3\n" in ran.out), ([7], True))
    ran = example("mem_trace", "vaddn", 512, 256, 2)
    threads = 512 * 256 * 2
    check("mem_trace: loads, stores, bytes, all", ran.numbers("counts"), [2 * threads, threads, 12 * threads, 3 * threads])
    ran = example("gpu_shared_map", "vadd", 64, 256, 2)
    check("gpu_shared_map: array, hash", (ran.numbers("all"), ran.numbers("by_side")), ([32768], [32768, 32768]))
    ran = example("threadscheduling", "vadd", 4, 64, 1)
    check("threadscheduling: threads, on multiprocessors", (len(ran.map("threads")), sum(ran.numbers("on_sm"))), (256, 256))
    ran = example("launchtime", "time", 4, 64, 200)
    bins = {entry["key"]: entry["values"][0] for entry in ran.map("latency")}
    check("launchtime: 200 launches", sum(bins.values()), 200)
    print(f"     launchtime: bins from 1 us, doubling: {bins}")


def ready():
    print("\n== ready-made", flush=True)
    run = lambda verb, kernel, *arguments: Ran([verb, kernel], [program("probed"), *map(str, arguments)])
    check("count", run("count", "vectorAdd", "vaddn", 512, 256, 2).numbers("counts"), [262144, 8192, 1024, 262144])
    ran = run("trace", "vectorAdd", "vaddn", 512, 256, 2)
    check("trace: beginnings and ends", len(list(ran.events())), 2048)
    ran = run("hist", "vectorAdd", "vaddn", 512, 256, 2)
    check("hist: warps", (ran.numbers("total")[:1], sum(ran.numbers("durations"))), ([8192], 8192))
    print("     " + "\n     ".join(ran.words.splitlines()[-8:]))
    ran = run("mem", "vectorAdd(float const*, float const*, float*, int)", "vaddn", 512, 256, 1)
    check("mem: requests, threads, bytes, sectors",
          [entry["values"][0][:4] for entry in ran.map("accesses")], [[4096, 131072, 524288, 16384]] * 3)
    details = lambda ran: [event["details"] for event in ran.events() if event["name"] == "access"]
    check("mem: a, b, c by allocation, 4,096 lines of 32 threads each",
          [(one["memory"][0]["in"], one["memory"][0]["threads"], one["lines"], one["hot"][0]["threads"], one["untold"])
           for one in details(ran)], [("cudaMalloc", 131072, 4096, 32, 0)] * 3)
    ran = run("mem", "hotspots", "hot", 64, 128, 3)
    add, put, get, out = (details(ran) + [{}] * 4)[:4]
    check("mem, hot: a quarter of 24,576 threads at the allocation's first line",
          (add.get("threads"), add.get("lines"), add.get("untold"),
           [add.get("hot", [{}])[0].get(key) for key in ("threads", "offset", "size", "in")]),
          (24576, 257, 0, [6144, 0, (64 * 128 + 64) * 4, "cudaMalloc"]))
    check("mem, hot: strides of two words are two passes",
          [(one.get("space"), one.get("requests"), one.get("passes")) for one in (put, get)], [("shared", 768, 1536)] * 2)
    print("     " + "\n     ".join(ran.words.splitlines()[-14:]))
    ran = run("mem", "/scattered/", "scattered", 256, 256, 1)
    by_hand = {int(line[0]): line[1:] for line in
               (list(map(int, line.split()[1:])) for line in ran.out.splitlines() if line.startswith("scattered "))}
    for size, (threads, requests, sectors, passes, lines) in by_hand.items():
        same = {one["space"]: one for one in details(ran)
                if (one["kind"], one["size"], one["threads"]) == ("load", size, threads)}
        found = [[same.get(space, {}).get(key) for key in ("requests", unit, "lines")]
                 for space, unit in (("global", "sectors"), ("shared", "passes"))]
        check(f"mem: {size} bytes a thread, all over, as by hand", found, [[requests, sectors, lines], [requests, passes, lines]])
    check("mem: all over, sizes", list(by_hand), [4, 8, 16])
    ran = run("mem", "vectorAdd(float const*, float const*, float*)", "vadd", 64, 128, 1)
    count = (details(ran) or [{}])[0]
    check("mem: a variable", [count.get("hot", [{}])[0].get(key) for key in ("in", "threads")], ["threads_run", 8192])
    if not SIM:
        # More lines than the table has places: what found none is counted.
        ran = run("mem", "vectorAdd(float const*, float const*, float*, int)", "vaddn", 65536, 256, 1)
        check("mem: lines told and untold", [(one["untold"] > 0, one["lines"] * 32 + one["untold"]) for one in details(ran)],
              [(True, 65536 * 256)] * 3)
    ran = run("sched", "vectorAdd", "vaddn", 5280, 256, 1)
    check("sched: blocks", "5,280 blocks on" in ran.words, True)
    print("     " + "\n     ".join(line for line in ran.words.splitlines() if "blocks on" in line or "at once" in line))


def pinned():
    """A map that is read while the program runs: by examples/gpu/host/watch.c, and by hand."""
    print("\n== pinned", flush=True)
    pin = os.path.join(folder, "live")
    shutil.rmtree(pin, ignore_errors=True)
    watch = os.path.join(folder, "watch")
    root = os.path.dirname(os.path.dirname(OBJECTS))
    made = subprocess.run(["cc", "-I", f"{root}/crates/gpu-maps/include", f"{OBJECTS}/host/watch.c", "-o", watch])
    check("watch.c is compiled", made.returncode, 0)
    line = [CUTRACE, "gpu", "run", f"{OBJECTS}/objects/host_map_test.bpf.o", "--no-summary", "--threads", "1024",
            "-o", os.path.join(folder, "live.jsonl"), "--pin", pin, *(["--sim"] if SIM else []),
            "--", program("probed"), "wait", "1", "10", "4"]
    child = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    calls, until = None, time.time() + 60
    while calls != 40 and time.time() < until and child.poll() is None:
        time.sleep(0.02)
        try:
            with open(os.path.join(pin, "maps")) as index:
                maps = [words.split(" ", 10) for words in index.read().splitlines()[1:]]
            file = next(words[9] for words in maps if words[10] == "call_count" and words[8] == "live")
            with open(os.path.join(pin, file), "rb") as live:
                calls = sum(struct.unpack("<1024Q", live.read(8192)))
        except (OSError, StopIteration, struct.error):
            pass
    check("calls while the program waits", calls, 40)
    with open(os.path.join(folder, "watched"), "w+") as said:
        watcher = subprocess.Popen([watch, pin, "call_count"], stdout=said)
        try:
            child.communicate("\n", timeout=60)
            watcher.wait(timeout=60)
        except subprocess.TimeoutExpired:
            pass
        for one in (child, watcher):
            if one.poll() is None:
                one.kill()
        said.seek(0)
        check("watch.c at the end", said.read().splitlines()[-1:], ["call_count at the end: 80"])


def lives():
    print("\n== lives", flush=True)
    ran = example("threadhist", "vadd", 1024, 1024, 2)
    check("1,048,576 threads", re.findall(r"0: ([\d,]+) values from (\d+) to (\d+), ([\d,]+)", ran.words),
          [("1,048,576", "2", "2", "2,097,152")])
    ran = Ran(["count", "vectorAdd"], [program("probed"), "streams", "512", "256", "20"])
    check("two streams", ran.numbers("counts"), [2621440, 81920, 10240, 2621440])
    ran = Ran(["count", "*"], [program("two_contexts")])
    contexts = {one["context"] for one in ran.maps()}
    entered = sum(entry["values"][0] for entry in ran.map("counts") if entry["key"] == 0)
    left = sum(entry["values"][0] for entry in ran.map("counts") if entry["key"] == 3)
    check("two contexts: each has its maps, what enters leaves", (len(contexts) >= 2, entered == left > 0), (True, True))
    print(f"     {len(contexts)} contexts, {entered} threads")
    ran = Ran(["count", "*"], [program("driver_api")])
    counts = {entry["key"]: entry["values"][0] for entry in ran.map("counts")}
    check("modules loaded, unloaded, linked: what enters leaves",
          (ran.out.strip().splitlines()[-1:], counts.get(0, 0) == counts.get(3) and counts.get(0, 0) > 0),
          (["PASS driver_api"], True))
    ran = Ran(["count", "vectorAdd"], [program("probed"), "late", "2", "64", "1"], 60)
    check("exit during a kernel", ran.numbers("counts"), [128, 4, 2, 128])
    print(f"     took {ran.seconds:.1f} s; noted: {'still running' in ran.words}")
    ran = Ran(["count", "vectorSub"], [program("probed")])
    check("kernel not found", "no kernel vectorSub was loaded; there are: vectorAdd(" in ran.words, True)
    for name in ("reduction", "matmul_tiled", "coop_groups", "histogram", "graph", "streams_overlap", "threads8"):
        ran = Ran(["count", "*"], [program(name)])
        last = ran.out.strip().splitlines()[-1:]
        check(f"{name} with probes in all kernels", (ran.code, last, "ran without probes" in ran.words),
              (0, [f"PASS {name}"], False))


def ring():
    print("\n== ring", flush=True)
    for slots, blocks in ((0, 4096), (65536, 4096)):
        words = ["run", f"{OBJECTS}/cost/objects/ring_thread.bpf.o"] + (["--ring", str(slots)] if slots else [])
        ran = Ran(words, [program("probed"), "vaddn", str(blocks), "256", "1"])
        ring = ran.ring("events")
        times, threads = [], []
        for event in ran.events():
            times.append(int(event["details"]["timestamp"]))
            threads.append(event["details"]["thread"])
        wall = (max(times) - min(times)) / 1e9 if times else 0
        check(f"ring of {slots or 'its own'} slots: produced = read + lost, none twice, none torn",
              (ring["produced"], len(times) + ring["lost"], len(set(threads)) == len(threads),
               all(0 <= thread < blocks * 256 for thread in threads)),
              (blocks * 256, blocks * 256, True, True))
        if wall:
            print(f"     {len(times)} read, {ring['lost']} lost, {len(times) / wall / 1e6:.1f} M events/s read, "
                  f"{ring['produced'] / wall / 1e6:.1f} M/s produced over {wall * 1e3:.1f} ms of GPU time; "
                  f"{ran.seconds:.1f} s in all")


    # Seconds of launches, each with some records: what the reader takes for as long as they last.
    for blocks, launches in ((4, 200), (8, 200)) if SIM or QUICK else ((16, 60000), (32, 60000), (64, 60000)):
        ran = Ran(["run", f"{OBJECTS}/cost/objects/ring_sample.bpf.o"],
                  [program("probed"), "time", str(blocks), "256", str(launches)])
        ring = ran.ring("events")
        produced = blocks * 4 * launches
        read = sum(int(count.replace(",", "")) for count in re.findall(r"ring events: ([\d,]+) records read", ran.words))
        check(f"sustained, {blocks * 4} records a launch: produced = read + lost", (ring["produced"], read + ring["lost"]),
              (produced, produced))
        counted, written, first, last = {}, 0, None, None
        with open(ran.trace, "rb") as file:
            for line in file:
                if b'"type":"device"' in line:
                    written += 1
                    last = line
                    first = first or line
                    if blocks <= 16:
                        at = line.find(b'"thread":') + 9
                        thread = line[at:line.find(b"}", at)]
                        counted[thread] = counted.get(thread, 0) + 1
        check("   what was read is in the trace", written, read)
        if counted and not ring["lost"]:
            check("   all threads, all launches, none torn", (len(counted), set(counted.values())), (blocks * 4, {launches}))
        moment = lambda line: int(json.loads(line)["details"]["timestamp"]) / 1e9
        wall = moment(last) - moment(first)
        print(f"     {read} read, {ring['lost']} lost over {wall:.2f} s of GPU time: {read / wall / 1e6:.2f} M events/s; "
              f"{ran.seconds:.1f} s until the trace was written", flush=True)


VARIANTS = ("empty", "entry_exit_time", "per_thread", "counter", "counter_sm", "histogram", "ring_block", "ring_thread",
            "memory", "memory_shared")


def cost():
    print("\n== cost (minimum of launches in us, ratio to the minimum of all plain runs)", flush=True)
    launches, threads = ("3", "65536") if QUICK else ("60", str(4 << 20))
    command = [program("probe_cost"), launches, threads]
    plain, rows = {}, {}

    def take(into, name, text):
        for kernel, low, _ in re.findall(r"^(\w+) ([\d.]+) ([\d.]+)$", text, re.M):
            key = (name, kernel)
            into[key] = min(into.get(key, 1e9), float(low))

    needs = {}
    for _ in range(1 if QUICK else 2):
        line = [CUTRACE, "softgpu", "--", *command] if SIM else command
        take(plain, "plain", subprocess.run(line, capture_output=True, text=True).stdout)
        line = [CUTRACE, "record", "-q", "-o", os.path.join(folder, "r.jsonl"), *(["--sim"] if SIM else []), "--", *command]
        take(rows, "record, no probes", subprocess.run(line, capture_output=True, text=True).stdout)
        ran = Ran(["count", "noSuchKernel"], command, pin=False)
        take(rows, "gpu, kernel not probed", ran.out)
        for verb in ("count", "mem"):
            # Every access of a matrix product by hand: few launches.
            line = [command[0], "3", threads] if verb == "mem" else command
            ran = Ran([verb, "*"], line, pin=verb == "count")
            print(f"     gpu {verb}: {ran.seconds:.1f} s: {' '.join(ran.out.split())}", flush=True)
            unprobed = [line for line in ran.words.splitlines() if "ran without probes" in line]
            print("\n".join(f"     {line}" for line in unprobed), end="\n" if unprobed else "")
            if not unprobed:
                take(rows, f"gpu {verb}", ran.out)
            if verb == "count":
                needs[("gpu count", "exact")] = ran.numbers("counts")[:1]
        for name in VARIANTS:
            # Four million events a launch: few launches, and a ring that does not hold them all.
            many = name.startswith("ring")
            words = ["--ring", "65536"] if name == "ring_thread" else []
            line = [command[0], "3", threads] if many else command
            ran = Ran(["run", f"{OBJECTS}/cost/objects/{name}.bpf.o", *words], line, pin=many or name.startswith("memory") or name == "counter")
            print(f"     {name}: {ran.seconds:.1f} s: {' '.join(ran.out.split())}", flush=True)
            take(rows, name, ran.out)
            for kernel, text in re.findall(r"\n(?:void )?(\w+)(?:<[^\n]*>)?\([^\n]*\n ([^\n]*)", ran.words):
                needs.setdefault((name, kernel), text.strip())
            if name.startswith("memory") or name == "counter":
                counts = [entry["values"] for entry in ran.map("count")]
                needs[(name, "exact")] = sum(sum(values) for values in counts)
            if name.startswith("ring"):
                ring = ran.ring("events")
                needs[(name, "ring")] = f"produced {ring['produced']}, lost {ring['lost']}"
    # Threads of all launches, three to warm up.
    n = 128 if int(threads) < 1 << 20 else 1024
    entered = (int(launches) + 3) * (int(threads) + n * n + (n // 128) ** 2 * 256)
    check("counter: exact", needs.get(("counter", "exact")), entered)
    check("gpu count: exact", needs.get(("gpu count", "exact")), [entered])
    check("memory: both counts", needs.get(("memory", "exact")) == needs.get(("memory_shared", "exact")) != 0, True)
    kernels = [kernel for _, kernel in plain]
    print(f"{'':24}" + "".join(f"{kernel:>22}" for kernel in kernels))
    print(f"{'plain':24}" + "".join(f"{plain[('plain', kernel)]:>16.2f}      " for kernel in kernels))
    for name in dict.fromkeys(name for name, _ in rows):
        cells = ""
        for kernel in kernels:
            low = rows.get((name, kernel))
            cells += f"{low:>14.2f} {low / plain[('plain', kernel)]:>5.2f}x " if low else f"{'-':>22}"
        print(f"{name:24}{cells}")
    for (name, kernel), text in needs.items():
        print(f"     {name} {kernel}: {text}")


began = time.time()
PARTS = {part.__name__: part for part in (examples, ready, pinned, lives, ring, cost)}
for part in [PARTS[name] for name in sys.argv[4:] if name in PARTS] or PARTS.values():
    try:
        part()
    except Exception as error:  # One part must not cost the others their run.
        failed += 1
        print(f"FAIL {part.__name__}: {type(error).__name__}: {error}")
print(f"\n{failed} failed, {time.time() - began:.0f} s")
shutil.rmtree(folder, ignore_errors=True)
sys.exit(failed > 0)
