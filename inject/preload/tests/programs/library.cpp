// Functions that are awkward to call through: libstress.so, hooked by the tests.
#include <cerrno>
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <execinfo.h>
#include <immintrin.h>
#include "library.h"

extern "C" {

long s_count(long a) { return a + 1; }

long s_eleven(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k;
}

long s_twenty(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k,
              long l, long m, long n, long o, long p, long q, long r, long s, long t) {
    return a ^ b ^ c ^ d ^ e ^ f ^ (g + h + i + j + k + l + m + n + o + p + q + r + s) ^ (t << 20);
}

double s_doubles(double a, double b, double c, double d, double e, double f, double g, double h, double on_stack, int n) {
    return (a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + on_stack * 9) * n;
}

float s_float(float a, float b) { return a * b; }

long double s_long_double(long double a) { return a * 2; }

int s_variadic(char *out, size_t size, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int written = vsnprintf(out, size, format, list);
    va_end(list);
    return written;
}

Big s_big(Big in, int k) {
    Big out;
    for (int i = 0; i < 5; i++) out.values[i] = in.values[i] * k;
    return out;
}

Pair s_pair(Pair in) { return {in.x * 2, in.y * 3}; }

Two s_two(Two in) { return {in.b, in.a}; }

int s_set_errno(int value) { errno = value; return 7; }

int s_get_errno(void) { return errno; }

void s_throw(int value) { throw value; }

void s_jump(jmp_buf *where, int value) { longjmp(*where, value); }

int s_nest(int depth, int (*down)(int)) { return depth == 0 ? 0 : 1 + down(depth - 1); }

int s_call(int (*what)(void)) { return what(); }

int s_backtrace(void **frames, int most) { return backtrace(frames, most); }

__attribute__((target("avx"))) void s_vectors(const double *in, double *out) {
    _mm256_storeu_pd(out, _mm256_mul_pd(_mm256_loadu_pd(in), _mm256_set1_pd(2)));
}
}
