// The address of a function, handed to a helper.
#include "../probe.h"

static long (*const loop)(u32 rounds, void *function, void *ctx, u64 flags) = (void *)181;

static long body(u32 index, void *ctx) { return 0; }

SEC("kprobe/kernel")
int cuda__callback(void *ctx) { return loop(10, body, 0, 0); }
