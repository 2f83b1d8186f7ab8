// What programs for the GPU share: sections, map definitions, and helpers by their numbers.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed long long s64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, type) typeof(type) *name

enum {
    HASH = 1,
    ARRAY = 2,
    GPU_HASH = 1501,
    PER_THREAD_ARRAY = 1502,
    GPU_ARRAY = 1503,
    PER_THREAD_HOST_ARRAY = 1512,
    GPU_HOST_ARRAY = 1513,
    RING = 1527,
    PER_SM_ARRAY = 1600,
    PER_WARP_ARRAY = 1601,
};

enum { ANY = 0, NOEXIST = 1, EXIST = 2 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static long (*const trace_printk)(const char *format, u32 size, ...) = (void *)6;
static u64 (*const pid_tgid)(void) = (void *)14;
static long (*const perf_event_output)(void *ctx, void *map, u64 flags, const void *data, u64 size) = (void *)25;
static u64 (*const globaltimer)(void) = (void *)502;
static u64 (*const block_idx)(u64 *x, u64 *y, u64 *z) = (void *)503;
static u64 (*const block_dim)(u64 *x, u64 *y, u64 *z) = (void *)504;
static u64 (*const thread_idx)(u64 *x, u64 *y, u64 *z) = (void *)505;
static u64 (*const cuda_exit)(void) = (void *)507;
static u64 (*const grid_dim)(u64 *x, u64 *y, u64 *z) = (void *)508;
static u64 (*const sm_id)(void) = (void *)509;
static u64 (*const warp_id)(void) = (void *)510;
static u64 (*const lane_id)(void) = (void *)511;
static u64 (*const thread_number)(void) = (void *)602;

// One more at a key, which is there afterwards.
#define COUNT(map, key, amount) \
    do { \
        u64 zero_ = 0; \
        map_update(map, key, &zero_, NOEXIST); \
        u64 *count_ = map_lookup(map, key); \
        if (count_) __sync_fetch_and_add(count_, amount); \
    } while (0)

char LICENSE[] SEC("license") = "GPL";
