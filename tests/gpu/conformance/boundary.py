"""The second set: results right at the edge of the normal range, where `.ftz` decides, and the
forms that the first set left out."""

import scalar
from scalar import COMBINES, FLOAT_TESTS, INT_TESTS, INTS, ROUNDINGS, Scalar
from values import POOLS, encode
from warp import Machine
import memory


def near_smallest(exponent, mantissa):
    """Pairs whose product lies within an ulp or two of the smallest normal number."""
    bias = (1 << exponent - 1) - 1
    sign = 1 << exponent + mantissa

    def one(stream, i, slot, earlier):
        if slot == 0:
            # Between one and two, times a power of two that leaves the other factor normal.
            return stream.bits(1) * sign | bias - stream.below(4) << mantissa | stream.bits(mantissa)
        if slot == 1:
            field = earlier[0] >> mantissa & (1 << exponent) - 1
            significand = earlier[0] & (1 << mantissa) - 1 | 1 << mantissa
            # 2^(2m+1) / a has m + 1 bits: the significand that brings the product to the edge, or
            # beside it.
            quotient = (1 << 2 * mantissa + 1) // significand + stream.pick([0, 0, 0, 1, 1, -1])
            target = bias - field
            if quotient >> mantissa + 1:
                quotient, target = 1 << mantissa, target + 1
            return stream.bits(1) * sign | target << mantissa | quotient & (1 << mantissa) - 1
        # Third: mostly nothing; else minus the smallest normal or twice it.
        return stream.pick([0, 0, sign, 1 << mantissa, sign | 1 << mantissa, sign | 2 << mantissa, 1])

    return one


def ratio_near_smallest(stream, i, slot, earlier):
    """a / b close to the smallest normal f32."""
    if slot == 0:
        return stream.bits(1) << 31 | 1 + stream.below(3) << 23 | stream.bits(23)
    field, fraction = earlier[0] >> 23 & 0xFF, earlier[0] & (1 << 23) - 1
    fraction = max(0, min((1 << 23) - 1, fraction + stream.below(5) - 2))
    return stream.bits(1) << 31 | field + 126 << 23 | fraction


def doubles_near_smallest(stream, i, slot, earlier):
    """f64 values around the smallest normal f32, in steps of 2^-27 and 2^-53 of it."""
    smallest = 1023 - 126 << 52
    step = stream.pick([1, 1 << 26, 1 << 25, 1 << 27, 1 << 28, 3 << 26])
    return stream.bits(1) << 63 | smallest - step * stream.below(6) + stream.below(2)


def special(exponent, mantissa):
    infinity = (1 << exponent) - 1 << mantissa
    sign = 1 << exponent + mantissa
    values = [infinity, infinity | sign, infinity - 1, infinity - 1 | sign, infinity | 1, infinity | sign | 7,
              infinity | 1 << mantissa - 1, 0, sign, 1, sign | 1, 1 << mantissa, (1 << mantissa) + 1 | sign,
              encode(1.0, exponent, mantissa)]
    return lambda stream, i, slot, earlier: stream.pick(values)


POOLS.update({
    "tiny16": near_smallest(5, 10), "tiny32": near_smallest(8, 23), "tinybf16": near_smallest(8, 7),
    "ratio32": ratio_near_smallest, "tiny64_32": doubles_near_smallest,
    "special32": special(8, 23), "special64": special(11, 52),
})


def scalars():
    found = []

    def add(name, width, srcs):
        found.append(Scalar(name, [width], srcs))

    for flush in ["", ".ftz"]:
        for rounding in ROUNDINGS:
            for sat in ["", ".sat"]:
                add(f"mul.{rounding}{flush}{sat}.f32", 32, [("tiny32", 32)] * 2)
                add(f"fma.{rounding}{flush}{sat}.f32", 32, [("tiny32", 32)] * 3)
            add(f"add.{rounding}{flush}.f32", 32, [("tiny32", 32)] * 2)
            add(f"div.{rounding}{flush}.f32", 32, [("ratio32", 32)] * 2)
            add(f"cvt.{rounding}{flush}.f32.f64", 32, [("tiny64_32", 64)])
        for sat in ["", ".sat"]:
            add(f"mul.rn{flush}{sat}.f16", 16, [("tiny16", 16)] * 2)
            add(f"fma.rn{flush}{sat}.f16", 16, [("tiny16", 16)] * 3)
    add("fma.rn.ftz.relu.f16", 16, [("tiny16", 16)] * 3)
    add("mul.rn.bf16", 16, [("tinybf16", 16)] * 2)
    add("fma.rn.bf16", 16, [("tinybf16", 16)] * 3)
    for op in ["vadd", "vsub", "vabsdiff", "vmin", "vmax"]:
        for d in ["u32", "s32"]:
            for a in ["u32", "s32"]:
                for b in ["u32", "s32"]:
                    for second in ["min", "max", "add"]:
                        add(f"{op}.{d}.{a}.{b}.{second}", 32, [("i32", 32)] * 3)
                        add(f"{op}.{d}.{a}.{b}.sat.{second}", 32, [("i32", 32)] * 3)
    for op in ["vshl", "vshr"]:
        for d in ["u32", "s32"]:
            for a in ["u32", "s32"]:
                for second in ["min", "max"]:
                    add(f"{op}.{d}.{a}.u32.clamp.{second}", 32, [("i32", 32), ("count", 32), ("i32", 32)])
    for a in ["u32", "s32"]:
        for b in ["u32", "s32"]:
            for second in ["min", "max"]:
                add(f"vset.{a}.{b}.ge.{second}", 32, [("i32", 32)] * 3)
    for d in ["u32", "s32"]:
        for a in ["u32", "s32"]:
            for b in ["u32", "s32"]:
                for shift in ["", ".shr7", ".shr15"]:
                    for sat in ["", ".sat"]:
                        add(f"vmad.{d}.{a}.{b}{sat}{shift}", 32, [("i32", 32)] * 3)
    for count in [2, 4]:
        for op in ["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"]:
            for d, a, b in [("u32", "u32", "u32"), ("s32", "s32", "s32"), ("s32", "u32", "s32"), ("u32", "s32", "u32")]:
                for extra in ["", ".sat", ".add"]:
                    add(f"{op}{count}.{d}.{a}.{b}{extra}", 32, [("i32", 32)] * 3)
        for a, b in [("u32", "u32"), ("s32", "s32"), ("u32", "s32")]:
            for test in ["eq", "ne", "lt", "le", "gt", "ge"]:
                for extra in ["", ".add"]:
                    add(f"vset{count}.{a}.{b}.{test}{extra}", 32, [("i32", 32)] * 3)
    known = {case.name for case in scalar.cases()} | {case.name for case in found}
    return found + [case for case in left_out() if case.name not in known]


def left_out():
    """Every set and cvt there is; the first set has a part of them."""
    found = []

    def add(name, target, *sources):
        srcs = [(scalar.pool(s), 1 if s == "pred" else max(16, scalar.width(s))) for s in sources]
        found.append(Scalar(".".join(w for w in name if w), [max(16, scalar.width(target))], srcs))

    whole = ["u32", "s32"]
    sources = [("", ty, INT_TESTS, whole + ["f32", "f16", "bf16"]) for ty in INTS]
    sources += [("", ty, ["eq", "ne"], whole + ["f32", "f16", "bf16"]) for ty in ["b16", "b32", "b64"]]
    sources += [("", ty, ["lo", "ls", "hi", "hs"], whole + ["f32", "f16", "bf16"]) for ty in ["u16", "u32", "u64"]]
    sources += [("", ty, FLOAT_TESTS, whole + ["f32", "f16", "bf16"]) for ty in ["f32", "f64"]]
    sources += [("ftz", "f32", FLOAT_TESTS, whole + ["f32", "f16"]), ("", "f16", FLOAT_TESTS, whole + ["u16", "s16", "f16", "bf16"]),
                ("ftz", "f16", FLOAT_TESTS, whole + ["u16", "s16", "f16"]), ("", "bf16", FLOAT_TESTS, whole + ["u16", "s16", "bf16"]),
                ("", "f16x2", FLOAT_TESTS, whole + ["f16x2"]), ("ftz", "f16x2", FLOAT_TESTS, whole + ["f16x2"]),
                ("", "bf16x2", FLOAT_TESTS, whole + ["bf16x2"])]
    for flush, ty, tests, targets in sources:
        for test in tests:
            for combine in COMBINES:
                for target in targets:
                    add(["set", test, combine, flush, target, ty], target, ty, ty, *(["pred"] if combine else []))
    eight = ["u8", "s8"] + INTS
    for integer in eight:
        wide = {"u8": "b32", "s8": "b32"}.get(integer, integer)
        for real in ["f16", "f32", "f64"]:
            for flush in ["", "ftz"] if real == "f32" else [""]:
                for sat in ["", "sat"]:
                    for rounding in ROUNDINGS:
                        add(["cvt", rounding, flush, sat, real, integer], real, integer)
                        add(["cvt", rounding + "i", flush, sat, integer, real], wide, real)
    for rounding in ROUNDINGS:
        for flush in ["", "ftz"]:
            add(["cvt", rounding, flush, "bf16", "f32"], "bf16", "f32")
    add(["cvt", "bf16", "bf16"], "bf16", "bf16")
    return found


def machines():
    found = []
    for bits, prefix in [(32, "%r"), (64, "%d")]:
        for pool in [f"special{bits}", "tiny32" if bits == 32 else "special64"]:
            for space in ["global", "shared"]:
                place = memory.OWN if space == "global" else memory.SHARED_OWN
                at = "%d20" if space == "global" else "%r40"
                clear = "\nmov.b64 %d21, 0;\nst.global.b64 [%d20], %d21;" if space == "global" else ""
                found.append(Machine(f"atom.{space}.add.f{bits}", [bits, bits], [(pool, bits)] * 2, f"""{place}
st.{space}.b{bits} [{at}], {prefix}0;
atom.{space}.add.f{bits} {prefix}10, [{at}], {prefix}1;
ld.{space}.b{bits} {prefix}11, [{at}];{clear}
bar.sync 0;""", memory.BOX if space == "shared" else ""))
    return found
