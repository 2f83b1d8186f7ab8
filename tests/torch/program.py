"""A PyTorch program on the CPU, for run.

program.py                  runs it
program.py profile FILE     under torch.profiler: counts of operators by name go to FILE as JSON
program.py compare FILE     counts of operators in a trace (JSON lines on standard input) beside FILE

The part that is compared is inside a record_function called REGION. Behind it the program says of tensors on GPUs what PyTorch's
allocators say, by the function that cutrace listens to: the GPU is not needed for that.
"""
import collections
import ctypes
import json
import os
import sys

REGION = "cutrace region"
# c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, c10::Device)
USAGE = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
# Address, bytes, and the GPU.
TENSORS = [(0x7000000, 4 << 20, 0), (0x7000000, -(4 << 20), 0), (0x7100000, 512, 3)]


def train(torch):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
    loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2)

    def epoch():
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return epoch


def main(profile):
    import torch
    epoch = train(torch)
    epoch()

    def region():
        with torch.profiler.record_function(REGION):
            epoch()

    if not profile:
        region()
        report = ctypes.CDLL(os.path.join(torch.__path__[0], "lib", "libc10.so"))[USAGE]
        report.restype = None
        for address, size, gpu in TENSORS:
            # A Device is two bytes: 1 for CUDA, and the number.
            report(ctypes.c_void_p(address), ctypes.c_int64(size), ctypes.c_size_t(max(size, 0)),
                   ctypes.c_size_t(8 << 20), ctypes.c_uint16(1 | gpu << 8))
        print("done", torch.__version__)
        return
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        region()
    events = found.events()
    whole = [each for each in events if each.name == REGION][0].time_range
    counts = collections.Counter(each.name for each in events
                                 if whole.start <= each.time_range.start <= whole.end and each.name != REGION)
    with open(profile, "w") as file:
        json.dump(counts, file)


def compare(path):
    with open(path) as file:
        theirs = collections.Counter(json.load(file))
    began, ended, region, workers, tensors = {}, [], None, set(), []
    for line in sys.stdin:
        line = json.loads(line)
        if line.get("type") != "operator":
            continue
        if line["category"] == "memory":
            size = line["details"]["bytes"]
            tensors.append((int(line["details"]["ptr"], 16), -size if line["name"] == "free" else size, line["device"]))
            continue
        if line["phase"] == "B":
            began[line["op_id"]] = line["ts"]
            continue
        at = began.pop(line["op_id"])
        if line["name"] == REGION:
            region = (line["pid"], at, line["ts"])
        ended.append((line["pid"], at, line["name"]))
    if not region:
        return f"no {REGION}: {len(ended)} operators, {len(began)} open"
    pid, begin, end = region
    ours = collections.Counter(name for who, at, name in ended if who == pid and begin <= at <= end and name != REGION)
    workers = {who for who, _, _ in ended if who != pid}
    print(f"  operators: cutrace {sum(ours.values())}, torch.profiler {sum(theirs.values())}; {len(ours)} names; "
          f"{len(workers)} workers seen; {len(began)} never ended")
    differ = {name: (ours[name], theirs[name]) for name in ours | theirs if ours[name] != theirs[name]}
    for name, (mine, other) in differ.items():
        print(f"    {name}: cutrace {mine}, torch.profiler {other}")
    print(f"  memory of tensors: {len(tensors)} of {len(TENSORS)} reports{'' if tensors == TENSORS else ' differ: ' + str(tensors)}")
    return len(differ) + (not ours) + (tensors != TENSORS)


if __name__ == "__main__":
    if sys.argv[1:2] == ["compare"]:
        sys.exit(compare(sys.argv[2]))
    main(sys.argv[2] if sys.argv[1:2] == ["profile"] else None)
