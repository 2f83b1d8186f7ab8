"""PyTorch's operators, for operators.sh.

operators.py program NAME [PROFILE]     runs gpt, decode, compiled or graph; with PROFILE under torch.profiler, its trace there
operators.py compare TRACE PROFILE      cutrace's operators and kernels (JSON lines on standard input if TRACE is -) beside torch.profiler's
operators.py origins                    whether each kernel of a graph is the one that its origin launched (JSON lines on standard input)
operators.py linear [profile]           eight Linear layers, forward only, timed for each line of standard input; under torch.profiler
operators.py cost CUTRACE ROUNDS LIMIT  that loop plain, traced and under torch.profiler, in turn; no new round after LIMIT seconds

The part that is compared is inside a record_function called REGION.
"""
import collections
import json
import statistics
import sys
import time

REGION = "cutrace region"
STEPS = 5


def gpt(torch):
    """A GPT of two layers: training with AdamW, bfloat16 by autocast."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            batch, length, width = x.shape
            q, k, v = self.qkv(self.first(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.second(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(512, 256)
            self.layers = nn.ModuleList(Block(256) for _ in range(2))
            self.head = nn.Linear(256, 512)

        def forward(self, tokens):
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 512, (8, 65), device="cuda")

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    return step


def decode(torch):
    """A decoding loop: one token at a time, with a cache of keys and values, and .item() for each."""
    width, heads, length = 256, 4, 64
    weights = [torch.randn(width, 3 * width, device="cuda") * 0.05 for _ in range(2)]
    head = torch.randn(width, 512, device="cuda") * 0.05
    table = torch.randn(512, width, device="cuda")

    @torch.no_grad()
    def step():
        cache = [(torch.zeros(1, heads, length, width // heads, device="cuda"),
                  torch.zeros(1, heads, length, width // heads, device="cuda")) for _ in weights]
        token = 1
        for place in range(8):
            x = table[token][None]
            for weight, (keys, values) in zip(weights, cache):
                q, k, v = (x @ weight).view(1, 3, heads, width // heads).unbind(1)
                keys[:, :, place], values[:, :, place] = k, v
                y = torch.nn.functional.scaled_dot_product_attention(q[:, :, None], keys[:, :, :place + 1], values[:, :, :place + 1])
                x = x + y.reshape(1, width)
            token = torch.softmax(x @ head, -1).argmax().item()
    return step


def compiled(torch):
    layers = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256)) for _ in range(4))).cuda()
    model = torch.compile(layers)
    x = torch.randn(32, 256, device="cuda")
    optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return step


def graph(torch):
    """A captured graph, replayed: its kernels are those of the operators that were captured."""
    layers = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256)).cuda()
    x = torch.randn(32, 256, device="cuda")
    side = torch.cuda.Stream()
    with torch.no_grad():
        with torch.cuda.stream(side):
            for _ in range(3):
                layers(x)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            layers(x)
    return captured.replay


def program(name, profile):
    import torch
    torch.manual_seed(1)
    step = {"gpt": gpt, "decode": decode, "compiled": compiled, "graph": graph}[name](torch)

    def region():
        with torch.profiler.record_function(REGION):
            for _ in range(STEPS):
                step()
            torch.cuda.synchronize()

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    if profile:
        from torch.profiler import ProfilerActivity, profile as profiler
        # The first time CUPTI is used it is slow, and may miss something.
        for each in range(2):
            with profiler(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
                region()
        found.export_chrome_trace(profile)
    else:
        region()
        region()
    print("done", name)


class Side:
    """Operators by name; for each piece of GPU work, in order of time, (kernel or not, innermost operator)."""

    def __init__(self):
        self.operators = collections.Counter()
        self.work = []


def of_profiler(path):
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    side = Side()
    region = [each for each in events if each.get("name") == REGION and each.get("cat") == "user_annotation"][-1]
    begin, end = region["ts"], region["ts"] + region["dur"]
    names = {}
    for each in events:
        if each.get("cat") == "cpu_op" and begin <= each["ts"] <= end:
            side.operators[each["name"]] += 1
        if each.get("cat") == "cpu_op" and "External id" in each.get("args", {}):
            names[each["args"]["External id"]] = each["name"]
    calls = {}
    for each in events:
        if each.get("cat") in ("cuda_runtime", "cuda_driver"):
            calls[each["args"].get("correlation")] = each
    work = []
    for each in events:
        if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            call = calls.get(each["args"].get("correlation"))
            at = call["ts"] if call else each["ts"]
            if begin <= at <= end:
                work.append((each["ts"], each["cat"] == "kernel", names.get(each["args"].get("External id"))))
    side.work = [(kernel, name) for _, kernel, name in sorted(work, key=lambda each: each[0])]
    return side


def of_cutrace(lines):
    side = Side()
    open_operators, ended, calls, work, parents, details, region = {}, [], {}, [], {}, {}, None
    for line in lines:
        line = json.loads(line)
        kind, phase = line.get("type"), line.get("phase")
        if phase == "B":
            parents[line["op_id"]] = (line.get("parent"), kind, line["name"], line.get("details", {}).get("scope"))
        if kind == "operator":
            if phase == "B":
                open_operators[line["op_id"]] = line["ts"]
            else:
                begin = open_operators.pop(line["op_id"], None)
                if line["name"] == REGION:
                    region = (begin, line["ts"])
                elif parents.get(line["op_id"], (None,) * 4)[3] != "user":
                    ended.append((begin, line["name"]))
        elif kind == "userspace" and phase == "B" and line.get("correlation") is not None:
            calls[(line["pid"], line["correlation"])] = (line["op_id"], line["ts"])
        elif kind == "gpu" and phase == "B":
            details[line["op_id"]] = line.get("details", {})
        elif kind == "gpu":
            # What is known at the beginning is said there.
            work.append({**line, "details": details.pop(line["op_id"], line.get("details", {}))})
    if region is None:
        return side
    begin, end = region
    for at, name in ended:
        if at is not None and begin <= at <= end:
            side.operators[name] += 1
    found = []
    for line in work:
        call = calls.get((line["pid"], line.get("correlation")))
        start = line["ts"] - line.get("duration_us", 0) / 1e3
        if not begin <= (call[1] if call else start) <= end:
            continue
        origin = line["details"].get("origin")
        name = origin.get("operator") if isinstance(origin, dict) else None
        span = call[0] if call and not name else None
        while span is not None and name is None:
            parent, kind, title, scope = parents.get(span, (None, None, None, None))
            if kind == "operator" and scope != "user":
                name = title
            span = parent
        found.append((start, line.get("category") == "kernel", name))
    side.work = [(kernel, name) for _, kernel, name in sorted(found, key=lambda each: each[0])]
    return side


def compare(trace, profile):
    with sys.stdin if trace == "-" else open(trace) as file:
        ours = of_cutrace(file)
    theirs = of_profiler(profile)
    wrong = 0
    differ = {name: (ours.operators[name], theirs.operators[name]) for name in ours.operators | theirs.operators
              if ours.operators[name] != theirs.operators[name]}
    print(f"operators: cutrace {sum(ours.operators.values())}, torch.profiler {sum(theirs.operators.values())}, "
          f"{len(ours.operators)} and {len(theirs.operators)} names, {len(differ)} names with other counts")
    for name, (mine, other) in sorted(differ.items(), key=lambda each: -abs(each[1][0] - each[1][1]))[:12]:
        print(f"  {name}: cutrace {mine}, torch.profiler {other}")
    wrong += bool(differ) or not ours.operators
    print(f"GPU work: cutrace {len(ours.work)}, torch.profiler {len(theirs.work)}")
    kernels = [[name for kernel, name in side.work if kernel] for side in (ours, theirs)]
    mine, other = map(collections.Counter, kernels)
    same = sum((mine & other).values())
    most = max(len(kernels[0]), len(kernels[1]), 1)
    in_order = sum(a == b for a, b in zip(*kernels))
    print(f"kernels: cutrace {len(kernels[0])}, torch.profiler {len(kernels[1])}; same operator {same} ({100 * same / most:.2f} %), "
          f"in the same order {in_order} ({100 * in_order / most:.2f} %)")
    for name, count in ((mine - other) + (other - mine)).most_common(8):
        print(f"  {name}: cutrace {mine[name]}, torch.profiler {other[name]}")
    wrong += same < 0.999 * most
    if "graph." in profile:
        # torch.profiler leads a graph's kernels to its launch; what was captured is known by construction.
        wrong = replayed(kernels[0])
    print("VERDICT", "same" if not wrong else "DIFFERENT")
    return wrong


def replayed(operators):
    """Linear, ReLU, Linear, STEPS times: each kernel's operator, and all replays alike."""
    each, rest = divmod(len(operators), STEPS)
    first = operators[:each]
    known = [name for name in first if name in ("aten::addmm", "aten::linear", "aten::relu", "aten::clamp_min")]
    print(f"replayed: {len(operators)} kernels, {each} in each of {STEPS} replays, captured by {first}")
    alike = all(operators[at:at + each] == first for at in range(0, len(operators), each or 1))
    return rest or not each or not alike or len(known) != each or first[0] == first[1]


def is_cut(captured, ran):
    """Long names are cut in their parameters."""
    return captured.endswith("(…)") and ran.startswith(captured[:-2])


def origins(lines):
    """A captured launch names its kernel, and so does the replayed work: both are the same, or the origin is wrong."""
    parents, kernels, work = {}, {}, []
    for line in lines:
        line = json.loads(line)
        if line.get("type") == "userspace" and line["phase"] == "B":
            parents[line["op_id"]] = line.get("parent")
        elif line.get("type") == "kernel":
            kernels[line["op_id"]] = line["kernel"]
        elif line.get("type") == "gpu" and line.get("phase") == "B" and "node" in line.get("details", {}):
            work.append((line["name"], line["category"], line["details"].get("origin")))
    right = other = added = missing = 0
    for name, category, origin in work:
        if not isinstance(origin, dict):
            missing += 1
            continue
        call = origin["op_id"]
        while call is not None and call not in kernels:
            call = parents.get(call)
        if call is None or category != "kernel":
            added += 1  # A copy, a memset, or a node that was added by hand: nothing to compare.
        elif kernels[call] == name or is_cut(kernels[call], name):
            right += 1
        else:
            other += 1
            if other < 4:
                print(f"  captured {kernels[call][:60]}, ran {name[:60]}")
    print(f"work of graphs: {len(work)}; the kernel that was captured {right}, another {other}, not kernels or added by hand {added}, without origin {missing}")
    wrong = bool(other or missing or not work)
    print("VERDICT origins", "DIFFERENT" if wrong else "same")
    return wrong


def linear(profiled):
    """Times of a loop of eight Linear layers, each time a line is read: starting PyTorch takes longer than what is measured."""
    import contextlib
    import torch
    from torch.profiler import ProfilerActivity, profile
    torch.manual_seed(1)
    has_gpu = torch.cuda.is_available()
    device = "cuda" if has_gpu else "cpu"
    layers = [torch.nn.Linear(256, 256).to(device) for _ in range(8)]
    x = torch.ones(32, 256, device=device)

    @torch.no_grad()
    def step():
        y = x
        for layer in layers:
            y = torch.relu(layer(y))
        return y

    def batches(number):
        times = []
        for _ in range(number):
            start = time.perf_counter()
            for _ in range(50):
                step()
            if has_gpu:
                torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / 50)
        return times

    def watched():
        if not profiled:
            return contextlib.nullcontext()
        return profile(activities=[ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * has_gpu)

    # The first time CUPTI is used it is slow.
    for _ in range(2):
        with watched():
            batches(2)
    print("ready", flush=True)
    for _ in sys.stdin:
        with watched():
            batches(1)
            times = batches(8)
        print(f"best_us {min(times) * 1e6:.1f} median_us {statistics.median(times) * 1e6:.1f}", flush=True)


def cost(cutrace, rounds, limit):
    """The loop plain, with calls recorded, with operators too, and under torch.profiler: one process each, which take turns."""
    import subprocess
    began = time.monotonic()
    run = [sys.executable, __file__, "linear"]
    record = [cutrace, "-q", "-o"]
    ways = {
        "plain": run,
        "calls": record + ["calls.arrows", "--method=preload,cupti", "--"] + run,
        "operators": record + ["operators.arrows", "--method=preload,torch,cupti", "--"] + run,
        "profiler": run + ["profile"],
    }
    running = {way: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
               for way, command in ways.items()}
    best = {way: [] for way in ways}
    try:
        for way, process in running.items():
            if process.stdout.readline().strip() != "ready":
                print(f"VERDICT cost: {way} did not start")
                return 1
        print(f"started after {time.monotonic() - began:.0f} s")
        for number in range(rounds):
            if time.monotonic() - began > limit:
                break
            # Each is first in turn.
            names = list(ways)
            turned = names[number % len(names):] + names[:number % len(names)]
            for way in turned:
                process = running[way]
                process.stdin.write("go\n")
                process.stdin.flush()
                words = process.stdout.readline().split()
                if len(words) != 4:
                    print(f"VERDICT cost: {way} ended in round {number + 1}")
                    return 1
                best[way].append(float(words[1]))
            print(number + 1, *(f"{way} {best[way][-1]:.1f}" for way in names), flush=True)
    finally:
        for process in running.values():
            process.stdin.close()
        for process in running.values():
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
    ratios = {}
    for way, times in best.items():
        ratios[way] = statistics.median(mine / plain for mine, plain in zip(times, best["plain"]))
        print(f"{way}: least {min(times):.1f} us, median {statistics.median(times):.1f} us, {ratios[way]:.2f} x plain in the median round")
    done = len(best["plain"])
    right = ratios["operators"] <= ratios["profiler"] and done >= 5
    print(f"VERDICT cost {'ok' if right else 'ABOVE torch.profiler' if done >= 5 else 'too few rounds'}: "
          f"{done} rounds, {time.monotonic() - began:.0f} s")
    return not right


if __name__ == "__main__":
    if sys.argv[1] == "program":
        program(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
    elif sys.argv[1] == "origins":
        sys.exit(origins(sys.stdin))
    elif sys.argv[1] == "compare":
        sys.exit(compare(sys.argv[2], sys.argv[3]))
    elif sys.argv[1] == "cost":
        sys.exit(cost(sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
    else:
        linear(len(sys.argv) > 2)
