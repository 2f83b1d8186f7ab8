// What published programs do: no context for records, texts that a branch chooses, loops whose bound a
// map holds, sections named after stubs and long templates, a uprobe whose place the loader gives.
#include "probe.h"

struct event {
    u64 block, thread, time;
};

struct {
    __uint(type, RING);
    __uint(max_entries, 16);
    __type(key, u32);
    __type(value, struct event);
} events SEC(".maps");

struct number {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 4);
    __type(key, u32);
    __type(value, u64);
};
struct number limit SEC(".maps"), rounds SEC(".maps");

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} launches SEC(".maps");

SEC("kprobe/cuda__Z9vectorAddPKfS0_Pfi")
int cuda__record(void) {
    struct event event = {};
    u64 y, z;
    block_idx(&event.block, &y, &z);
    thread_idx(&event.thread, &y, &z);
    if (event.thread > 1) return 0;
    event.time = globaltimer();
    perf_event_output(0, &events, 0, &event, sizeof event);
    return 0;
}

// The text is on the stack, and which one it is only the thread knows.
SEC("kretprobe/_Z9vectorAddPKfS0_Pfi")
int cuda__say(void) {
    u64 x, y, z, block;
    block_idx(&block, &y, &z);
    thread_idx(&x, &y, &z);
    if (x > 2) return 0;
    char text[16];
    if (x == 0) {
        __builtin_memcpy(text, "first of %lu..\n", 16);
    } else if (x == 1) {
        __builtin_memcpy(text, "other of %lu..\n", 16);
    } else {
        __builtin_memcpy(text, "third of %lu..\n", 16);
    }
    trace_printk(text, sizeof text, block);
    return 0;
}

// Threads go round as often as a map says: with more than the budget, they are stopped.
SEC("kprobe/_Z9vectorAddPKfS0_Pfi")
int cuda__rounds(void) {
    u32 first = 0, second = 1;
    u64 x, y, z;
    thread_idx(&x, &y, &z);
    u64 *most = map_lookup(&limit, &first), *count = map_lookup(&rounds, &first);
    u64 *done = map_lookup(&rounds, &second);
    if (!most || !count || !done) return 0;
    u64 all = *most + (x & 1) * *most;
    for (u64 at = 0; at < all; at++) __sync_fetch_and_add(count, 1);
    __sync_fetch_and_add(done, 1);
    return 0;
}

static noinline u64 times(u64 count, u64 *sum) {
    u64 at = 0;
    while (at < count) {
        *(volatile u64 *)sum += at;
        at++;
    }
    return at;
}

// Loops in a function that is called in a loop use up one budget.
SEC("kprobe/_Z9vectorAddPKfS0_Pfi")
int cuda__calls(void) {
    u32 first = 0, third = 2;
    u64 sum = 0;
    u64 *most = map_lookup(&limit, &first), *count = map_lookup(&rounds, &third);
    if (!most || !count) return 0;
    u64 all = *most;
    for (u64 at = 0; at < all; at++) __sync_fetch_and_add(count, times(all, &sum));
    return 0;
}

// A kernel that is an instance of a template, with a name of more than 512 letters.
#define W8 "IiiiiiiE"
#define W64 W8 W8 W8 W8 W8 W8 W8 W8
SEC("kretprobe/_Z4longN1a" W64 W64 W64 W64 W64 W64 W64 W64 W64 "Ev")
int cuda__long_name(void) { return 0; }

SEC("uprobe")
int launched_by_cudaLaunchKernel(void *registers) {
    u32 key = 0;
    u64 *count = map_lookup(&launches, &key);
    if (count) __sync_fetch_and_add(count, 1);
    return 0;
}
