// A lock: lanes of a warp would wait for each other.
#include "../probe.h"

u32 lock;
u64 total;

SEC("kretprobe/kernel")
int cuda__locked(void *ctx) {
    while (__sync_val_compare_and_swap(&lock, 0, 1))
        ;
    total += 1;
    __sync_lock_test_and_set(&lock, 0);
    return 0;
}
