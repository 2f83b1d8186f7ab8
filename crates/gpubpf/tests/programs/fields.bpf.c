// A record with every kind of field.
#include "probe.h"

enum color { RED = -1, GREEN = 0, BLUE = 7 };
typedef unsigned long long nanoseconds;

struct inner {
    s16 x;
    u16 y;
};

struct record {
    u32 flags : 3;
    s32 level : 5;
    enum color color;
    struct inner pairs[2];
    union {
        u32 whole;
        u8 parts[4];
    };
    _Bool set;
    char letter;
    char text[6];
    nanoseconds time;
    void *address;
};

struct {
    __uint(type, RING);
    __uint(max_entries, 4);
    __type(key, u32);
    __type(value, struct record);
} records SEC(".maps");

SEC("kprobe/any")
int cuda__record(void *ctx) {
    struct record record = {};
    record.flags = 5;
    record.time = globaltimer();
    perf_event_output(ctx, &records, 0, &record, sizeof record);
    return 0;
}
