"""Calls of CUDA from nested Python functions over deep native code: nested.py LIBDEEP [BATCHES]

Sixteen operators an iteration from eight layers, 36 calls each, as eight Linear layers of PyTorch make them. Prints the
fastest and the median batch in nanoseconds of this thread's processor time a call, the process's own processor time, and
how many calls there were.
"""
import ctypes
import resource
import statistics
import sys
import time

runtime = None
for name in ("libcudart.so.13", "libcudart.so.12"):
    try:
        runtime = ctypes.CDLL(name)
        break
    except OSError:
        pass
library = ctypes.PyDLL(sys.argv[1])
if runtime is None or library.deep_start(ctypes.c_void_p(runtime._handle)) != 0:
    sys.exit("no CUDA runtime")
operator = library.deep_operator
CALLS = 36


def linear(number):
    return operator(number)


def relu(number):
    return operator(number)


class Layer:
    def __call__(self, number):
        return self.call(number)

    def call(self, number):
        return self.forward(number)

    def forward(self, number):
        return linear(number)


layers = [Layer() for _ in range(8)]


def step():
    for number, layer in enumerate(layers):
        layer(number)
        relu(number)


def batch(iterations):
    start = time.thread_time_ns()
    for _ in range(iterations):
        step()
    return (time.thread_time_ns() - start) / (iterations * 16 * CALLS)


def main():
    batch(20)
    batches = [batch(50) for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 20)]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(f"best_ns {min(batches):.1f} median_ns {statistics.median(batches):.1f} "
          f"process_s {usage.ru_utime + usage.ru_stime:.2f} calls {(20 + 50 * len(batches)) * 16 * CALLS}")


main()
