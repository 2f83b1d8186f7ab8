// What the test programs share: sections, map definitions, helpers by number.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef signed short s16;
typedef signed int s32;
typedef signed long long s64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, type) typeof(type) *name
#define noinline __attribute__((noinline))

enum { HASH = 1, ARRAY = 2, GPU_HASH = 1501, PER_THREAD = 1502, GPU_ARRAY = 1503, RING = 1527 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static long (*const trace_printk)(const char *format, u32 size, ...) = (void *)6;
static u64 (*const pid_tgid)(void) = (void *)14;
static long (*const perf_event_output)(void *ctx, void *map, u64 flags, const void *data, u64 size) = (void *)25;
static long (*const puts)(const char *text) = (void *)501;
static u64 (*const globaltimer)(void) = (void *)502;
static u64 (*const block_idx)(u64 *x, u64 *y, u64 *z) = (void *)503;
static u64 (*const block_dim)(u64 *x, u64 *y, u64 *z) = (void *)504;
static u64 (*const thread_idx)(u64 *x, u64 *y, u64 *z) = (void *)505;
static u64 (*const membar)(void) = (void *)506;
static u64 (*const cuda_exit)(void) = (void *)507;
static u64 (*const grid_dim)(u64 *x, u64 *y, u64 *z) = (void *)508;
static u64 (*const sm_id)(void) = (void *)509;
static u64 (*const warp_id)(void) = (void *)510;
static u64 (*const lane_id)(void) = (void *)511;

char LICENSE[] SEC("license") = "GPL";
