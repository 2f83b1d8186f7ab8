// What every test program shares: a line for each fact, a message and exit 1 on the first wrong
// thing, PASS at the end.
#pragma once
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

[[noreturn, gnu::format(printf, 3, 4)]] inline void fail(const char *file, int line, const char *format, ...) {
    // One write: several threads may fail at once.
    char message[4096];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    fflush(stdout);
    fprintf(stderr, "FAIL %s:%d: %s\n", file, line, message);
    // No clean-up: after a device error it may hang or hide the message.
    _Exit(1);
}

// Stops with a message made as by printf unless the condition holds.
#define EXPECT(condition, ...) \
    do { \
        if (!(condition)) fail(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

#ifdef __CUDACC__
#define EXPECT_ERROR(call, expected) \
    do { \
        cudaError_t status_ = (call); \
        EXPECT(status_ == (expected), "%s gave %s, not %s", #call, cudaGetErrorName(status_), #expected); \
    } while (0)
#define CUDA(call) EXPECT_ERROR(call, cudaSuccess)
#endif

[[gnu::format(printf, 1, 2)]] inline void fact(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    putchar('\n');
}

inline int pass(const char *name) {
    printf("PASS %s\n", name);
    return 0;
}

// The program's optional size argument.
inline long argument(int argc, char **argv, int index, long otherwise) {
    if (argc <= index) return otherwise;
    long value = strtol(argv[index], nullptr, 10);
    EXPECT(value > 0, "argument %d must be a positive number, not '%s'", index, argv[index]);
    return value;
}

// Small, fast and the same everywhere: inputs must not depend on the C library's rand().
struct Random {
    uint64_t state;
    explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u + 1) {}
    uint32_t next() {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t x = state ^ (state >> 33);
        return uint32_t((x * 0xff51afd7ed558ccdu) >> 32);
    }
    int below(int limit) { return int(next() % uint32_t(limit)); }
};
