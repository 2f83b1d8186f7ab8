"""The third set: the arithmetic forms that the first two leave out, more operands for the approximate
instructions, all kinds of accesses, and what runs beside the threads. With it, every form that the
interpreter's arithmetic knows has an answer."""

import access
import asynchronous
import boundary
import scalar
from scalar import INT_TESTS, Scalar
from values import POOLS, integers, packs

SIGNS = ["u32", "s32"]


def spread(exponent, mantissa, near):
    """Mostly positive, `near` binary places around one: what a function's tables are made for."""
    bias = (1 << exponent - 1) - 1

    def one(stream, i, slot, earlier):
        field = bias - near + stream.below(2 * near + 1)
        sign = stream.below(4) == 0
        return sign << exponent + mantissa | field << mantissa | stream.bits(mantissa)

    return one


POOLS.update({
    "i8x4": packs(integers(8), 8, 4),
    "close16": spread(5, 10, 2), "closebf16": spread(8, 7, 2), "close32": spread(8, 23, 2), "close64": spread(11, 52, 2),
    "far16": spread(5, 10, 14), "farbf16": spread(8, 7, 120), "far32": spread(8, 23, 120), "far64": spread(11, 52, 1000),
    "middle32": spread(8, 23, 6),
})
POOLS.update({f"{near}{ty}x2": packs(POOLS[near + ty], 16, 2) for near in ["close", "far"] for ty in ["16", "bf16"]})


def scalars():
    found = []

    def add(name, *sources):
        found.append(Scalar(name, [32], list(sources)))

    i32 = ("i32", 32)
    for op in ["vshl", "vshr"]:
        for d in SIGNS:
            for a in SIGNS:
                for mode in ["clamp", "wrap"]:
                    for second in ["add", "min", "max"]:
                        add(f"{op}.{d}.{a}.u32.{mode}.{second}", i32, ("count", 32), i32)
                    add(f"{op}.{d}.{a}.u32.sat.{mode}.add", i32, ("count", 32), i32)
    for a in SIGNS:
        for b in SIGNS:
            for test in INT_TESTS:
                for second in ["add", "min", "max"]:
                    add(f"vset.{a}.{b}.{test}.{second}", i32, i32, i32)
    for count in [2, 4]:
        parts = ({2: "i16x2", 4: "i8x4"}[count], 32)
        for a in SIGNS:
            for b in SIGNS:
                for op in ["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"]:
                    for d in SIGNS:
                        for extra in ["", ".sat", ".add"]:
                            add(f"{op}{count}.{d}.{a}.{b}{extra}", parts, parts, i32)
                for test in INT_TESTS:
                    for extra in ["", ".add"]:
                        add(f"vset{count}.{a}.{b}.{test}{extra}", parts, parts, i32)
    known = {case.name for case in scalar.cases()} | {case.name for case in boundary.scalars()}
    return [case for case in found if case.name not in known] + approximate()


def approximate():
    """The approximate forms of the first set over operands of everyday sizes."""
    found = {}
    for case in scalar.cases():
        if case.tolerance == "exact" or case.name in found:
            continue
        kind = case.name.rsplit(".", 1)[1].replace("f16", "16").replace("b16", "bf16").removeprefix("f")
        pools = [near + kind for near in ["close", "far"]] + (["middle32"] if kind == "32" else [])
        found[case.name] = [Scalar(case.name, case.dsts, [(pool, w) for _, w in case.srcs], case.tolerance) for pool in pools]
    return [case for cases in found.values() for case in cases]


def machines():
    return access.cases() + asynchronous.cases()
