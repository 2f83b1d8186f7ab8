"""Traces whose answers are known, for the tests of lakes: JSON lines as cutrace writes them."""
import json

EPOCH = 1_790_000_000_000_000_000


class Trace:
    """One rank's recording of a run. Times are in nanoseconds."""

    def __init__(self, run, host, rank=0, world=1, start_s=0, pid=100, boot=None):
        self.meta = {
            "type": "meta", "version": 1, "cutrace": "0.2.0", "command": ["./train", "--run", run], "pid": pid, "start_ns": 1_000_000,
            "start_unix_ns": EPOCH + start_s * 1_000_000_000,
            "host": {"name": host, "os": "Linux", "kernel": "6.1", "arch": "x86_64", "cpus": 2, "boot_id": boot or f"{host}-boot"},
            "identity": {"run": run, "rank": rank, "world_size": world},
            "driver": None, "cuda": None, "gpus": [{"index": 0, "name": "H200", "uuid": f"GPU-{host}-{rank}", "memory": None, "simulated": False}],
            "backends": [{"name": "preload", "hooks": {"attached": 1, "total": 1}}], "hooks": {"attached": 1, "total": 1}, "clocks": [],
        }
        self.pid, self.lines, self.ops, self.end = pid, [], 0, 0

    def _line(self, at, **more):
        self.lines.append((at, {"ts": at / 1e6, "pid": self.pid, **more}))
        self.end = max(self.end, at)

    def span(self, at, duration, type, layer, name, category, tid=None, **more):
        self.ops += 1
        common = {"tid": self.pid if tid is None else tid, "type": type, "layer": layer, "name": name, "category": category, "op_id": self.ops, "depth": 0}
        details = more.pop("details", None)
        self._line(at, **common, phase="B", **more, **({"details": details} if details else {}))
        self._line(at + duration, **common, phase="E", duration_us=duration / 1e3, **more)
        return self.ops

    def call(self, at, duration, name, category="other"):
        return self.span(at, duration, "userspace", "driver", name, category, status=0, result="CUDA_SUCCESS")

    def kernel(self, at, duration, name, device=0):
        return self.span(at, duration, "gpu", "gpu", name, "kernel", tid=0, device=device, context="0x1000", stream="0x0")

    def copy(self, at, duration, bytes, device=0):
        return self.span(at, duration, "gpu", "gpu", "memcpy H2D", "transfer", tid=0, device=device, context="0x1000", stream="0x0",
                         details={"bytes": bytes})

    def range(self, at, duration, name):
        return self.span(at, duration, "range", "library", name, "other")

    def memory(self, at, op, ptr, size, name):
        self.ops += 1
        self._line(at, tid=self.pid, type="memory", layer="driver", op=op, size=size, ptr=hex(ptr), space="device", name=name, op_id=self.ops, device=0)

    def sample(self, at, device=0, **details):
        self.ops += 1
        self._line(at, tid=0, type="counter", layer="gpu", name="nvml", category="other", op_id=self.ops, depth=0, device=device, details=details)

    def write(self, path):
        # A span's end before the beginning of the next at the same moment.
        lines = sorted(self.lines, key=lambda one: (one[0], one[1].get("phase") != "E"))
        with open(path, "w") as file:
            print(json.dumps(self.meta), file=file)
            for number, (_, line) in enumerate(lines, 1):
                print(json.dumps({"event_id": number, **line}), file=file)
            summary = {"type": "summary", "end_ns": self.meta["start_ns"] + self.end, "events": len(lines), "counts": {}, "open": 0, "lost": 0,
                       "exit": 0, "overhead": None, "clocks": []}
            print(json.dumps(summary), file=file)
        return path


def job(folder, run, start_s, hosts=("a", "b", "c"), gemm=lambda host, i: 100_000 + i % 7 * 500, steps=60, idle=0, sampled=None):
    """A run with a rank a host: each step a copy, two kernels, four calls and a range. Returns the traces' paths."""
    paths = []
    for rank, host in enumerate(hosts):
        trace = Trace(run, host, rank, len(hosts), start_s + rank, pid=100 + rank)
        at = 1_000
        trace.memory(at, "alloc", 0x7000_0000, 4096, "cuMemAlloc_v2")
        trace.memory(at + 10, "alloc", 0x7100_0000, 1 << 20, "cuMemAlloc_v2")
        for i in range(steps):
            begin = at
            trace.call(at, 4_000 + i % 5 * 100, "cuMemcpyHtoDAsync_v2", "transfer")
            trace.call(at + 5_000, 3_000 + i % 3 * 10, "cuLaunchKernel", "kernel")
            trace.copy(at + 5_000, 20_000, 1 << 20)
            time = gemm(host, i)
            trace.kernel(at + 26_000, time, "void gemm<float>(float*, int)")
            trace.kernel(at + 26_000 + time, 10_000 + i % 4 * 100, "relu(float*)")
            at += 26_000 + time + 12_000 + idle
            trace.call(at - 1_000, 900, "cuStreamSynchronize", "sync")
            length = at - begin + (3_000_000 if i == steps // 2 and rank == 1 else 0)
            trace.range(begin, length, "step")
            at = begin + length + 100
            if sampled and i % 2 == 0:
                trace.sample(at, **sampled(host, i))
        trace.memory(at, "free", 0x7000_0000, 4096, "cuMemFree_v2")
        trace.call(at + 10, 500, "cuCtxSynchronize", "sync")
        paths.append(trace.write(folder / f"{run}-{host}.jsonl"))
    return paths
