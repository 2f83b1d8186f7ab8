// fp16 and bf16: conversions over the whole range, arithmetic, comparisons, minima and maxima with
// NaN, pairs. The reference rounds on the host by arithmetic of its own.
#include "check.h"
#include <cmath>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector>

// --- reference ------------------------------------------------------------------------------------

// A 16-bit format by its number of mantissa bits and exponent bias.
struct Format {
    const char *name;
    int mantissa, bias;
    int exponents() const { return (1 << (15 - mantissa)) - 1; }

    double decode(uint16_t bits) const {
        int exponent = bits >> mantissa & exponents(), fraction = bits & ((1 << mantissa) - 1);
        double sign = bits >> 15 ? -1 : 1;
        if (exponent == exponents()) return fraction ? NAN : sign * INFINITY;
        if (exponent == 0) return sign * ldexp(fraction, 1 - bias - mantissa);
        return sign * ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
    }

    // Nearest, ties to even; the value must be exact in double.
    uint16_t encode(double value) const {
        uint16_t sign = std::signbit(value) ? 0x8000 : 0;
        if (std::isnan(value)) return 0x7fff;
        double size = fabs(value);
        int exponent = size ? std::max(ilogb(size), 1 - bias) : 1 - bias;
        if (std::isinf(size) || exponent > bias) return sign | exponents() << mantissa;
        double steps = nearbyint(ldexp(size, mantissa - exponent));
        // Rounding up may carry into the exponent, which the addition does by itself.
        return sign + (exponent + bias - 1) * (1 << mantissa) + int(steps);
    }

    bool nan(uint16_t bits) const { return std::isnan(decode(bits)); }
    bool same(uint16_t a, uint16_t b) const { return a == b || (nan(a) && nan(b)); }
};

constexpr Format HALF = {"fp16", 10, 15}, BFLOAT = {"bf16", 7, 127};

// --- device ---------------------------------------------------------------------------------------

struct Out {
    uint16_t add, sub, mul, fma, div, neg, abs, min, max, minNan, maxNan, sqrt;
    uint16_t pairLow, pairHigh;
    int compare, rounded;
};

template <typename T> __device__ uint16_t bits(T value) {
    uint16_t out;
    memcpy(&out, &value, sizeof out);
    return out;
}
template <typename T> __device__ T from(uint16_t bits) {
    T out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

template <typename T, typename T2> __global__ void arithmetic(const uint16_t *in, Out *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T a = from<T>(in[3 * i]), b = from<T>(in[3 * i + 1]), c = from<T>(in[3 * i + 2]);
    Out &o = out[i];
    // The _rn forms may not be fused into one operation with one rounding.
    o.add = bits(__hadd_rn(a, b));
    o.sub = bits(__hsub_rn(a, b));
    o.mul = bits(__hmul_rn(a, b));
    o.fma = bits(__hfma(a, b, c));
    o.div = bits(__hdiv(a, b));
    o.neg = bits(__hneg(a));
    o.abs = bits(__habs(a));
    o.min = bits(__hmin(a, b));
    o.max = bits(__hmax(a, b));
    o.minNan = bits(__hmin_nan(a, b));
    o.maxNan = bits(__hmax_nan(a, b));
    o.sqrt = bits(hsqrt(__habs(a)));
    T2 pair = __hfma2(T2{a, b}, T2{b, c}, T2{c, a});
    o.pairLow = bits(pair.x);
    o.pairHigh = bits(pair.y);
    o.compare = __heq(a, b) | __hne(a, b) << 1 | __hlt(a, b) << 2 | __hle(a, b) << 3 | __hgt(a, b) << 4 |
                __hge(a, b) << 5 | __hisnan(a) << 6 | __hltu(a, b) << 7 | __hgeu(a, b) << 8;
    o.rounded = int(bits(hfloor(a))) | int(bits(hceil(a))) << 16;
}

struct Converted {
    float toFloat;
    uint16_t back, down, up, zero;
    int integer;
};

__global__ void convertHalf(Converted *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __half h = from<__half>(uint16_t(i));
    float f = __half2float(h);
    // A third of a step away from the half: the four roundings differ.
    float off = __hisnan(h) || __hisinf(h) ? f : f * 1.0002f;
    out[i] = {f, bits(__float2half_rn(f)), bits(__float2half_rd(off)), bits(__float2half_ru(off)),
              bits(__float2half_rz(off)), __half2int_rn(h)};
}

__global__ void convertBfloat(Converted *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __nv_bfloat16 h = from<__nv_bfloat16>(uint16_t(i));
    float f = __bfloat162float(h);
    float off = __hisnan(h) || __hisinf(h) ? f : f * 1.002f;
    out[i] = {f, bits(__float2bfloat16_rn(f)), bits(__float2bfloat16_rd(off)), bits(__float2bfloat16_ru(off)),
              bits(__float2bfloat16_rz(off)), __bfloat162int_rz(h)};
}

// --- comparison -----------------------------------------------------------------------------------

static double least(double a, double b) { return std::isnan(a) ? b : std::isnan(b) ? a : a < b || (a == b && std::signbit(a)) ? a : b; }

static void checkArithmetic(const Format &format, void (*kernel)(const uint16_t *, Out *, int)) {
    constexpr int N = 20000;
    std::vector<uint16_t> in(3 * N);
    std::vector<Out> out(N);
    Random random(format.mantissa);
    const uint16_t infinity = uint16_t(format.exponents() << format.mantissa);
    const uint16_t special[] = {0, 0x8000, 1, 0x8001, infinity, uint16_t(infinity | 0x8000), 0x7fff, uint16_t(infinity - 1)};
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 3; k++) {
            uint16_t &value = in[3 * i + k];
            int kind = random.below(16);
            // Mostly within 2^-7..2^8, where every exact result fits a double; the third operand always.
            if (kind == 0 && k < 2) value = special[random.below(8)];
            else if (kind < 3 && k < 2) value = uint16_t(random.next());
            else value = uint16_t(random.below(2) << 15 | (format.bias - 7 + random.below(15)) << format.mantissa |
                                  random.below(1 << format.mantissa));
        }
    uint16_t *deviceIn;
    Out *deviceOut;
    CUDA(cudaMalloc(&deviceIn, in.size() * sizeof in[0]));
    CUDA(cudaMalloc(&deviceOut, N * sizeof(Out)));
    CUDA(cudaMemcpy(deviceIn, in.data(), in.size() * sizeof in[0], cudaMemcpyHostToDevice));
    kernel<<<(N + 127) / 128, 128>>>(deviceIn, deviceOut, N);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(out.data(), deviceOut, N * sizeof(Out), cudaMemcpyDeviceToHost));
    CUDA(cudaFree(deviceIn));
    CUDA(cudaFree(deviceOut));

    for (int i = 0; i < N; i++) {
        const Out &o = out[i];
        uint16_t ab = in[3 * i], bb = in[3 * i + 1], cb = in[3 * i + 2];
        double a = format.decode(ab), b = format.decode(bb), c = format.decode(cb);
        // Does the host's double hold a result exactly, so that rounding once more is rounding once?
        auto near = [](double x) { return x == 0 || !std::isfinite(x) || (fabs(x) >= 0x1p-7 && fabs(x) < 0x1p8); };
        auto expect = [&](const char *what, uint16_t seen, double exact) {
            uint16_t expected = format.encode(exact);
            EXPECT(format.same(seen, expected), "%s %s of %04x %04x %04x: %04x, not %04x", format.name, what, ab, bb, cb,
                   seen, expected);
        };
        auto within = [&](const char *what, uint16_t seen, double exact, int steps) {
            uint16_t expected = format.encode(exact);
            int apart = abs(int(seen) - int(expected));
            EXPECT(format.same(seen, expected) || apart <= steps, "%s %s of %04x %04x: %04x, not %04x", format.name, what,
                   ab, bb, seen, expected);
        };
        if ((near(a) && near(b)) || format.mantissa == 10) {
            expect("a + b", o.add, a + b);
            expect("a - b", o.sub, a - b);
        }
        if (near(a) && near(b)) {
            expect("a b + c", o.fma, a * b + c);
            expect("pair low", o.pairLow, a * b + c);
            expect("pair high", o.pairHigh, b * c + a);
        }
        expect("a b", o.mul, a * b);
        if (near(a) && near(b) && b != 0) within("a / b", o.div, a / b, 1);
        if (near(a)) within("sqrt", o.sqrt, sqrt(fabs(a)), 1);
        if (!format.nan(ab)) {
            EXPECT(o.neg == (ab ^ 0x8000), "%s -%04x: %04x", format.name, ab, o.neg);
            EXPECT(o.abs == (ab & 0x7fff), "%s |%04x|: %04x", format.name, ab, o.abs);
            EXPECT(format.same(o.rounded & 0xffff, format.encode(floor(a))), "%s floor %04x: %04x", format.name, ab,
                   o.rounded & 0xffff);
            EXPECT(format.same(o.rounded >> 16 & 0xffff, format.encode(ceil(a))), "%s ceil %04x: %04x", format.name, ab,
                   o.rounded >> 16 & 0xffff);
        }
        expect("minimum", o.min, least(a, b));
        expect("maximum", o.max, -least(-a, -b));
        bool nan = std::isnan(a) || std::isnan(b);
        expect("minimum or NaN", o.minNan, nan ? NAN : least(a, b));
        expect("maximum or NaN", o.maxNan, nan ? NAN : -least(-a, -b));
        int compare = (a == b) | (!nan && a != b) << 1 | (a < b) << 2 | (a <= b) << 3 | (a > b) << 4 | (a >= b) << 5 |
                      std::isnan(a) << 6 | !(a >= b) << 7 | !(a < b) << 8;
        EXPECT(o.compare == compare, "%s comparisons of %04x %04x: %x, not %x", format.name, ab, bb, o.compare, compare);
    }
    fact("%s arithmetic, minima, comparisons, pairs right for %d cases", format.name, N);
}

static void checkConversions(const Format &format, float nudge, void (*kernel)(Converted *)) {
    constexpr int ALL = 1 << 16;
    std::vector<Converted> out(ALL);
    Converted *device;
    CUDA(cudaMalloc(&device, ALL * sizeof(Converted)));
    kernel<<<ALL / 256, 256>>>(device);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(out.data(), device, ALL * sizeof(Converted), cudaMemcpyDeviceToHost));
    CUDA(cudaFree(device));
    for (int i = 0; i < ALL; i++) {
        uint16_t bits = uint16_t(i);
        const Converted &o = out[i];
        double exact = format.decode(bits);
        EXPECT(format.nan(bits) ? std::isnan(o.toFloat) : double(o.toFloat) == exact, "%s %04x to float: %g, not %g",
               format.name, bits, o.toFloat, exact);
        EXPECT(format.same(o.back, bits), "%s %04x to float and back: %04x", format.name, bits, o.back);
        if (!std::isfinite(exact)) continue;
        // Towards zero is bits itself or its neighbour; the direction of the rest follows the sign.
        double off = float(exact) * nudge;
        uint16_t zero = bits;
        while (fabs(format.decode(zero)) > fabs(off)) zero--;
        while (fabs(format.decode(zero + 1)) <= fabs(off)) zero++;
        bool inexact = format.decode(zero) != off;
        uint16_t away = uint16_t(zero + inexact), down = off < 0 ? away : zero, up = off < 0 ? zero : away;
        EXPECT(o.zero == zero && o.down == down && o.up == up, "%s rounding %a: %04x %04x %04x, not %04x %04x %04x",
               format.name, off, o.zero, o.down, o.up, zero, down, up);
        if (fabs(exact) < 2e9) {
            int integer = format.mantissa == 10 ? int(nearbyint(exact)) : int(exact);
            EXPECT(o.integer == integer, "%s %04x to int: %d, not %d", format.name, bits, o.integer, integer);
        }
    }
    fact("%s conversions right for all 65536 values", format.name);
}

int main() {
    checkConversions(HALF, 1.0002f, convertHalf);
    checkConversions(BFLOAT, 1.002f, convertBfloat);
    checkArithmetic(HALF, arithmetic<__half, __half2>);
    checkArithmetic(BFLOAT, arithmetic<__nv_bfloat16, __nv_bfloat162>);
    return pass("half_math");
}
