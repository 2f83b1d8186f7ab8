// Where each thread ran: multiprocessor, warp and lane, and how many ran on each.
#include "probe.h"

struct place {
    u64 timestamp;
    u64 block_x, block_y, block_z;
    u64 thread_x, thread_y, thread_z;
    u64 sm, warp, lane;
};

struct {
    __uint(type, HASH);
    __uint(max_entries, 4096);
    __type(key, u32);
    __type(value, struct place);
} threads SEC(".maps");

struct {
    __uint(type, HASH);
    __uint(max_entries, 128 * 2);
    __type(key, u32);
    __type(value, u64);
} on_sm SEC(".maps");

struct {
    __uint(type, HASH);
    __uint(max_entries, 1024);
    __type(key, u32);
    __type(value, u64);
} on_warp SEC(".maps");

SEC("kprobe/_Z9vectorAddPKfS0_Pf")
int cuda__scheduled(void *ctx) {
    struct place place = {};
    place.timestamp = globaltimer();
    block_idx(&place.block_x, &place.block_y, &place.block_z);
    thread_idx(&place.thread_x, &place.thread_y, &place.thread_z);
    place.sm = sm_id();
    place.warp = warp_id();
    place.lane = lane_id();
    u32 number = (u32)thread_number(), sm = (u32)place.sm, warp = (u32)place.warp;
    map_update(&threads, &number, &place, ANY);
    COUNT(&on_sm, &sm, 1);
    COUNT(&on_warp, &warp, 1);
    return 0;
}
