// A map defined in the old way.
#include "../probe.h"

struct bpf_map_def {
    u32 type, key_size, value_size, max_entries, map_flags;
};

struct bpf_map_def SEC("maps") counts = {GPU_ARRAY, 4, 8, 1, 0};

SEC("kprobe/kernel")
int cuda__legacy(void *ctx) {
    u32 key = 0;
    u64 *value = map_lookup(&counts, &key);
    return value ? *value : 0;
}
