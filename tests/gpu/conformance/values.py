"""Operand values: 256 of them to a column, edge cases first, the same on every run."""

import math
import struct

ROUNDS = 256


class Stream:
    """splitmix64: small, and the same on every Python."""

    def __init__(self, name):
        self.state = 0xC0FFEE
        for byte in name.encode():
            self.state = (self.state * 0x100000001B3 ^ byte) & (1 << 64) - 1

    def bits(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & (1 << 64) - 1
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
        z = (z ^ z >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
        return (z ^ z >> 31) & (1 << n) - 1

    def below(self, n):
        return self.bits(64) % n

    def pick(self, values):
        return values[self.below(len(values))]


def integer_edges(bits):
    top = 1 << bits
    edges = {0, 1, 2, 3, top - 1, top - 2, top >> 1, (top >> 1) - 1, (top >> 1) + 1}
    for shift in range(0, bits, 3):
        edges |= {1 << shift, (1 << shift) - 1, (1 << shift) + 1, top - (1 << shift)}
    edges |= {0x55555555_55555555 & top - 1, 0xAAAAAAAA_AAAAAAAA & top - 1}
    return sorted(e & top - 1 for e in edges)


def integers(bits):
    edges = integer_edges(bits)

    def one(stream, i, slot, earlier):
        if i < 96:
            return stream.pick(edges)
        if earlier and i % 16 == 7:
            return earlier[0]  # equal operands
        value = stream.bits(bits)
        if i % 4 == 3:
            value >>= stream.below(bits)  # small ones
        if i % 8 == 6:
            value = -(value >> stream.below(bits)) & (1 << bits) - 1
        return value

    return one


def float_edges(exponent, mantissa):
    one = (1 << exponent - 1) - 1 << mantissa
    infinity = (1 << exponent) - 1 << mantissa
    quiet = 1 << mantissa - 1
    ulp = 1
    half_integer = [1 << mantissa - 1, 3 << mantissa - 2]
    values = [0, 1, 2, (1 << mantissa) - 1, 1 << mantissa, (1 << mantissa) + 1, one, one + ulp, one - ulp,
              one + (1 << mantissa), one + half_integer[0], one + half_integer[1], one - (1 << mantissa),
              one + (1 << mantissa) + (1 << mantissa - 2), infinity, infinity - 1, infinity - 2,
              infinity | quiet, infinity | 1, infinity | quiet | 5, infinity | quiet - 1, infinity | quiet * 2 - 1,
              one + (5 << mantissa) + 3, one - (5 << mantissa) + 1, 2 << mantissa, 3 << mantissa, mantissa << mantissa,
              infinity - (1 << mantissa), one + (mantissa << mantissa), one + (mantissa << mantissa) + 1]
    sign = 1 << exponent + mantissa
    return values + [v | sign for v in values]


def floats(exponent, mantissa):
    edges = float_edges(exponent, mantissa)
    width = exponent + mantissa + 1
    bias = (1 << exponent - 1) - 1
    sign = 1 << width - 1

    def one(stream, i, slot, earlier):
        if i < 112:
            return stream.pick(edges)
        if i < 144:
            return stream.bits(width)
        if len(earlier) == 2 and i < 160 and i % 4:  # nearly the negative of their product
            product = -decode(earlier[0], exponent, mantissa) * decode(earlier[1], exponent, mantissa)
            return (encode(product, exponent, mantissa) + stream.below(2)) & (1 << width) - 1
        if earlier and i < 160:  # nearly the negative of the first: cancellation
            return ((earlier[0] ^ sign) + stream.below(3)) & (1 << width) - 1
        if i < 184:  # near the smallest normals: underflow when multiplied by about one
            around = 1 + stream.below(3) if slot % 2 == 0 else bias - 1 + stream.below(3)
            return stream.bits(1) << width - 1 | around << mantissa | stream.bits(mantissa)
        if i < 192:  # near the largest
            around = 2 * bias - stream.below(2) if slot % 2 == 0 else bias + stream.below(2)
            return stream.bits(1) << width - 1 | around << mantissa | stream.bits(mantissa)
        # moderate, close exponents; half of them with few mantissa bits, so that ties occur
        around = bias - 4 + stream.below(8)
        fraction = stream.bits(mantissa)
        if i % 2:
            fraction &= -1 << stream.below(mantissa)
        return stream.bits(1) << width - 1 | (around << mantissa) + (fraction & (1 << mantissa) - 1)

    return one


def packs(of, width, count):
    """Several narrow values to a register."""
    mask = (1 << width) - 1

    def one(stream, i, slot, earlier):
        value = of(stream, i, slot, [e & mask for e in earlier])
        for part in range(1, count):
            at = (i * 7 + 3 * part) % ROUNDS
            value |= of(stream, at, slot, [e >> width * part & mask for e in earlier]) << width * part
        return value

    return one


def pairs(of):
    """Two 16-bit values to a register."""
    return packs(of, 16, 2)


def decode(bits, exponent, mantissa):
    """A format's bits as a Python float; infinities and NaN as 0."""
    field, fraction = bits >> mantissa & (1 << exponent) - 1, bits & (1 << mantissa) - 1
    if field == (1 << exponent) - 1:
        return 0.0
    if field:
        fraction |= 1 << mantissa
    scale = max(field, 1) - ((1 << exponent - 1) - 1) - mantissa
    magnitude = math.ldexp(fraction, scale)
    return -magnitude if bits >> exponent + mantissa else magnitude


def encode(value, exponent, mantissa):
    """A Python float as bits, cut to the format."""
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    sign, field, fraction = bits >> 63, bits >> 52 & 0x7FF, bits & (1 << 52) - 1
    if field == 0:
        return sign << exponent + mantissa
    target = field - 1023 + (1 << exponent - 1) - 1
    significand = fraction | 1 << 52
    if target <= 0:
        significand >>= 1 - target
        target = 0
        return sign << exponent + mantissa | significand >> 52 - mantissa
    if target >= (1 << exponent) - 1:
        return sign << exponent + mantissa | (1 << exponent) - 1 << mantissa
    return sign << exponent + mantissa | target << mantissa | fraction >> 52 - mantissa


def whole_edges(exponent, mantissa):
    """Floats around the limits of integer types and around half integers."""
    general = floats(exponent, mantissa)

    def one(stream, i, slot, earlier):
        sign = -1.0 if stream.bits(1) else 1.0
        if i < 96:
            power = stream.pick([7, 8, 15, 16, 31, 32, 63, 64])
            bits = encode(sign * 2.0 ** power, exponent, mantissa)
            return (bits + stream.pick([-1, 0, 0, 1])) & (1 << exponent + mantissa + 1) - 1
        if i < 200:
            base = stream.below(1 << stream.pick([2, 3, 6, 8, 10]))
            return encode(sign * (base + stream.pick([0.0, 0.25, 0.5, 0.5, 0.75])), exponent, mantissa)
        return general(stream, (i * 5) % ROUNDS, slot, earlier)

    return one


def around(exponent, mantissa, small_exponent, small_mantissa):
    """Values of a wide format at and beside the rounding boundaries of a narrow one."""
    edges = float_edges(small_exponent, small_mantissa)
    width = exponent + mantissa + 1
    bias, small_bias = (1 << exponent - 1) - 1, (1 << small_exponent - 1) - 1
    drop = mantissa - small_mantissa

    def one(stream, i, slot, earlier):
        sign = stream.bits(1)
        field = stream.below((1 << small_exponent) + 6) - 4 - small_mantissa // 2
        if i % 8 == 0:
            field = stream.pick([-1, 0, 1, (1 << small_exponent) - 2, (1 << small_exponent) - 1])
        if i % 8 == 1:
            return stream.pick(float_edges(exponent, mantissa))
        fraction = stream.bits(small_mantissa)
        if i % 4 == 2:
            fraction = stream.pick([0, (1 << small_mantissa) - 1, 1])
        rest = stream.pick([0, 1, (1 << drop - 1) - 1, 1 << drop - 1, 1 << drop - 1, (1 << drop - 1) + 1, (1 << drop) - 1])
        if i % 16 == 5:
            rest = stream.bits(drop)
        if i % 8 == 3 and field <= 1:  # ties of the narrow format's subnormals
            fraction, rest = stream.bits(2) << max(small_mantissa - 2, 0) & (1 << small_mantissa) - 1, 0
        wide = max(0, min(field - small_bias + bias, 2 * bias))
        return sign << width - 1 | wide << mantissa | fraction << drop | rest

    return one


def angles(stream, i, slot, earlier):
    if i < 40:
        return stream.pick(float_edges(8, 23))
    magnitude = stream.pick([-12, -6, -3, -2, -1, 0, 1, 1, 2, 3])
    return stream.bits(1) << 31 | 127 + magnitude << 23 | stream.bits(23)


def small_counts(stream, i, slot, earlier):
    if i < 200:
        return stream.below(72)
    return stream.pick([0x7F, 0x80, 0xFF, 0x100, 0x101, 0x11F, 0x120, 0xFFFFFFFF, 0x80000000, stream.bits(32)])


POOLS = {
    "i16": integers(16), "i32": integers(32), "i64": integers(64),
    "i16x2": pairs(integers(16)),
    "f16": floats(5, 10), "bf16": floats(8, 7), "f32": floats(8, 23), "f64": floats(11, 52),
    "f16x2": pairs(floats(5, 10)), "bf16x2": pairs(floats(8, 7)),
    "f16w": whole_edges(5, 10), "bf16w": whole_edges(8, 7), "f32w": whole_edges(8, 23), "f64w": whole_edges(11, 52),
    "f32_f16": around(8, 23, 5, 10), "f32_bf16": around(8, 23, 8, 7), "f32_tf32": around(8, 23, 8, 10),
    "f32_e4m3": around(8, 23, 4, 3), "f32_e5m2": around(8, 23, 5, 2),
    "f64_f32": around(11, 52, 8, 23), "f64_f16": around(11, 52, 5, 10), "f64_bf16": around(11, 52, 8, 7),
    "f16_e4m3": around(5, 10, 4, 3), "f16_e5m2": around(5, 10, 5, 2),
    "f16x2_e4m3": pairs(around(5, 10, 4, 3)), "f16x2_e5m2": pairs(around(5, 10, 5, 2)),
    "angle": angles,
    "count": small_counts,
    "pred": lambda stream, i, slot, earlier: stream.bits(1),
    "lane": lambda stream, i, slot, earlier: stream.below(32),
    "key": lambda stream, i, slot, earlier: stream.below(4),
    "byte": lambda stream, i, slot, earlier: stream.bits(8) if i >= 64 else stream.pick([0, 1, 0x7F, 0x80, 0xFF]),
}


class Columns:
    """The columns that cases asked for, in order of asking: the input file."""

    def __init__(self):
        self.index = {}
        self.values = []

    def of(self, pool, slot):
        """The number of the column that holds source `slot` drawn from `pool`."""
        key = (pool, slot)
        if key not in self.index:
            before = [self.values[self.of(pool, s)] for s in range(min(slot, 2))]
            stream = Stream(f"{pool}.{slot}")
            self.index[key] = len(self.values)
            self.values.append([POOLS[pool](stream, i, slot, [c[i] for c in before]) for i in range(ROUNDS)])
        return self.index[key]
