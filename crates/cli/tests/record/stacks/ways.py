# One place that calls cuMemFree, reached in many ways: the address says which lines are on the way, from the inside.
# Functions, generators that go on where they were, and recursion, all with frames where others have been.
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")


def free(lines):
    way = sum([line * 100**place for place, line in enumerate(lines)])
    return cuda.cuMemFree_v2(ctypes.c_uint64(way))


def left(lines):
    return free([14] + lines)


def right(lines):
    return free([18] + lines)


def both(lines, which):
    if which % 2:
        return left([23] + lines)
    return right([24] + lines)


def generate(which):
    while True:
        both([29], which)
        yield
        both([31], which + 1)
        yield


def deep(lines, depth):
    if depth == 0:
        return left([37] + lines)
    return deep([38] + lines, depth - 1)


cuda.cuInit(0)
context = ctypes.c_void_p()
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
for number in range(60):
    both([45], number)
    both([46], number // 2)
    deep([47], number % 3)
    if number % 5 == 0:
        generators = [generate(number), generate(number + 1)]
    for generator in generators:
        next(generator)
