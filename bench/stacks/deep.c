// CUDA calls from below many frames, as a framework's operators make them: deep_operator() goes down 24 functions and
// makes 36 calls from 36 places, two thirds of them questions for the current device, as PyTorch's are. Functions are found
// by dlsym, so that any CUDA runtime will do. For bench/stacks/run.
#define _GNU_SOURCE
#include <dlfcn.h>

static int (*get_device)(int *);
static int (*last_error)(void);

int deep_start(void *runtime) {
    get_device = (int (*)(int *))dlsym(runtime, "cudaGetDevice");
    last_error = (int (*)(void))dlsym(runtime, "cudaGetLastError");
    return get_device && last_error ? 0 : -1;
}

#define ASK get_device(&device); sum += device;
#define SIX ASK ASK sum += last_error(); ASK ASK sum += last_error();

// Different sizes of frames, with saved registers and without.
__attribute__((noinline)) static int bottom(int operator) {
    volatile char room[48];
    int device = 0, sum = operator;
    room[operator & 31] = 1;
    SIX SIX SIX SIX SIX SIX
    return sum + room[0];
}

#define LEVEL(name, next, bytes)                                     \
    __attribute__((noinline)) static int name(int operator) {        \
        volatile char room[bytes];                                   \
        room[operator & 7] = 2;                                      \
        int found = next(operator + 1);                              \
        return found + room[operator & 7];                           \
    }
LEVEL(level_23, bottom, 24)
LEVEL(level_22, level_23, 200)
LEVEL(level_21, level_22, 56)
LEVEL(level_20, level_21, 120)
LEVEL(level_19, level_20, 24)
LEVEL(level_18, level_19, 88)
LEVEL(level_17, level_18, 312)
LEVEL(level_16, level_17, 24)
LEVEL(level_15, level_16, 56)
LEVEL(level_14, level_15, 24)
LEVEL(level_13, level_14, 152)
LEVEL(level_12, level_13, 24)
LEVEL(level_11, level_12, 88)
LEVEL(level_10, level_11, 24)
LEVEL(level_9, level_10, 56)
LEVEL(level_8, level_9, 24)
LEVEL(level_7, level_8, 280)
LEVEL(level_6, level_7, 24)
LEVEL(level_5, level_6, 56)
LEVEL(level_4, level_5, 24)
LEVEL(level_3, level_4, 88)
LEVEL(level_2, level_3, 24)
LEVEL(level_1, level_2, 56)
LEVEL(level_0, level_1, 24)

int deep_operator(int operator) { return level_0(operator); }
